"""`evenkeel heat`: builds the tables behind the heat map, without Spark."""

from __future__ import annotations

import argparse
import json
import sys
import time


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of the command."""
    heat = commands.add_parser("heat", help="build the tables behind the heat map, up to the newest cycle")
    heat.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
    heat.add_argument("--cluster", metavar="NAME", help="only this cluster (default: all on record)")
    heat.add_argument("--json", action="store_true", help="one JSON object per cluster on standard output")
    heat.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Build missing or outdated columns, and report the amount per cluster."""
    from evenkeel.cli.output import QUIET_S, ProgressLine, course_text
    from evenkeel.heat import as_json, as_text, build

    line, begun = ProgressLine(sys.stderr, quiet=QUIET_S), time.monotonic()

    def progress(cluster: str, done: int, of: int) -> None:
        line.show(f"{cluster}: {course_text(done, of, done / max(of, 1), time.monotonic() - begun)}")

    try:
        built = build(given.lake, given.cluster, progress)
    finally:
        line.end()
    print("\n".join(map(json.dumps, as_json(built)) if given.json else as_text(built, given.lake)))
    return 0
