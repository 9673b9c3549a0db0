"""`python -m tests.tutorial`: fills in anew what the steps of the tutorials print, or of the one that is named.

`python -m tests.tutorial recording` writes the recording that it starts from anew; mind to fill in the page after that.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.tutorial.page import BrokenPage, filled, steps_of
from tests.tutorial.run import PAGES, RECORDING, run_all
from tests.tutorial.snapshots import write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tutorial", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=("pages", "recording"), default="pages")
    parser.add_argument("--page", choices=[page.stem for page in PAGES])
    given = parser.parse_args()
    if given.what == "recording":
        print(f"{len(write(RECORDING))} snapshots in {RECORDING}")
        return 0
    return max(_fill_in(page) for page in PAGES if given.page in (None, page.stem))


def _fill_in(page: Path) -> int:
    from evenkeel.spark.server import engine_for

    text = page.read_text(encoding="utf-8")
    steps = steps_of(text)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home, engine_for(home) as engine:
        came = run_all(steps, Path(folder), engine.url)
    broken = [one for one in came if isinstance(one, BrokenPage)]
    for trouble in broken:
        print(trouble, file=sys.stderr)
    printed = [(step, one) for step, one in zip(steps, came, strict=True) if not isinstance(one, BrokenPage)]
    page.write_text(filled(text, printed), encoding="utf-8")
    print(f"{len(printed)} of {len(steps)} steps filled in; look at the page with git diff")
    return int(bool(broken))


if __name__ == "__main__":
    raise SystemExit(main())
