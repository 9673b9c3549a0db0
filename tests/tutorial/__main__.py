"""`python -m tests.tutorial`: fills in anew what the steps of `docs/tutorial/incident.md` print.

`python -m tests.tutorial recording` writes the recording that it starts from anew; mind to fill in the page after that.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.tutorial.page import BrokenPage, filled, steps_of
from tests.tutorial.run import PAGE, RECORDING, run_all
from tests.tutorial.snapshots import write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tutorial", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=("page", "recording"), default="page")
    if parser.parse_args().what == "recording":
        print(f"{len(write(RECORDING))} snapshots in {RECORDING}")
        return 0
    return _fill_in()


def _fill_in() -> int:
    from evenkeel.spark.server import engine_for

    text = PAGE.read_text(encoding="utf-8")
    steps = steps_of(text)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home, engine_for(home) as engine:
        came = run_all(steps, Path(folder), engine.url)
    broken = [one for one in came if isinstance(one, BrokenPage)]
    for trouble in broken:
        print(trouble, file=sys.stderr)
    printed = [(step, one) for step, one in zip(steps, came, strict=True) if not isinstance(one, BrokenPage)]
    PAGE.write_text(filled(text, printed), encoding="utf-8")
    print(f"{len(printed)} of {len(steps)} steps filled in; look at the page with git diff")
    return int(bool(broken))


if __name__ == "__main__":
    raise SystemExit(main())
