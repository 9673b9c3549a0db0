"""`make soak`: hundreds of cycles under Airflow's scheduler, with kills, restarts and upkeep in between.

    python -m devtools.soak [--cycles 300] [--every 100] [--folder build/soak] [--fresh]

For every cycle a cluster is recorded again, and a run of the DAG decides it. Of each hundred cycles (`--every`), one
has a killed task, the Spark server is restarted before one, and upkeep follows the last. A further run continues with
the same lake, the same Airflow and the next number. Every cycle is a line of `cycles.jsonl`. The summary at the end
covers all runs, and states if seconds and memory are level; the exit code is 1 for any fault.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from devtools.soak.figures import faults, read_cycles, summary
from devtools.soak.soaking import LINES, Soak
from evenkeel.airflow.order import AirflowError
from evenkeel.errors import EngineError
from evenkeel.spark.code import source_root


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, and print the summary."""
    parser = argparse.ArgumentParser(prog="python -m devtools.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=300, metavar="N", help="of this run (default: 300; 0: only say)")
    parser.add_argument("--every", type=int, default=100, metavar="N", help="a kill, a restart and upkeep in so many")
    parser.add_argument("--folder", type=Path, default=source_root().parent / "build" / "soak", metavar="DIR")
    parser.add_argument("--fresh", action="store_true", help="begin again: remove the results of earlier runs")
    given = parser.parse_args(arguments)
    if given.cycles < 0 or given.every < 3:
        parser.error("--cycles is 0 or more, --every 3 or more")
    if given.fresh:
        shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True, exist_ok=True)
    try:
        if given.cycles:
            Soak(given.folder, given.every).run(given.cycles)
    except KeyboardInterrupt:
        print("\nended early; run it again to go on", file=sys.stderr)
    except (AirflowError, EngineError) as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2
    seen = read_cycles(given.folder / LINES)
    print("\n".join(summary(seen)))
    wrong = faults(seen)
    print("\n".join(f"NOT as it should be: {fault}" for fault in wrong) or "all as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
