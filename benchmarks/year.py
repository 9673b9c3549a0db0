"""What else is asked of a year of cycles: seconds and memory, each question a process of its own.

`python -m benchmarks year`, with the options of `explain` and on the same lake. `verify` looks at the year's chain and
reads the manifests of the range; the lake's rows are templates, which no manifest digests. Goals: at most 10 s, 20 s
for `verify`, and 2 GB.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from tempfile import TemporaryDirectory

from benchmarks.year_of_cycles import CLUSTER, END, year_for

MOST_SECONDS, MOST_SECONDS_TO_VERIFY, MOST_BYTES = 10.0, 20.0, 2e9
_CLI = ("-m", "evenkeel.cli")
_LISTED = """
import sys
from evenkeel.record.read import newest_cycles
from evenkeel.record.report.page import LISTED, MOST_LISTED, render_listing
found = newest_cycles(sys.argv[1], MOST_LISTED, columns=LISTED)
page = render_listing(found.cycles, lake=sys.argv[1], older=found.older)
print(f"{len(found.cycles)} cycles on {len(page):,} characters, {found.older:,} older ones")
"""


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per question; 0 if the goals were met."""
    with year_for("python -m benchmarks year", arguments) as year, TemporaryDirectory() as folder:
        lake, page = str(year.root), f"{folder}/page.html"
        long_ago, plan = _day(25), "0" * 12
        asked: dict[str, Sequence[str]] = {
            "report of the newest cycle": [*_CLI, "report", "--lake", lake, "--out", page],
            "report, weeks ago": [*_CLI, "report", "--lake", lake, "--out", page, "--cycle", f"{long_ago}T03:17"],
            "list of the newest cycles": ["-c", _LISTED, lake],
            "approve a plan that is not there": [*_CLI, "approve", plan, "--lake", lake],
            "verify, the chain and an hour": [*_CLI, *_verify(lake, f"{_day(1)}T03", f"{_day(1)}T03")],
            "verify, the chain and a day": [*_CLI, *_verify(lake, _day(1), _day(1))],
        }
        return max([_timed(name, command) for name, command in asked.items()])


def _verify(lake: str, since: str, until: str) -> list[str]:
    return ["verify", "--lake", lake, "--cluster", CLUSTER, "--depth", "chain", "--from", since, "--to", until]


def _day(before_the_end: int) -> str:
    return (END - timedelta(days=before_the_end)).date().isoformat()


def _timed(name: str, arguments: Sequence[str]) -> int:
    """1 if a goal was missed."""
    reading, writing = os.pipe()
    started = time.monotonic()
    streams = [(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_DUP2, writing, 2), (os.POSIX_SPAWN_CLOSE, reading)]
    child = os.posix_spawn(sys.executable, [sys.executable, *arguments], os.environ, file_actions=streams)
    os.close(writing)
    with open(reading, encoding="utf-8", errors="replace") as output:
        said = output.read().splitlines()
    _, _, used = os.wait4(child, 0)  # of this very process, which `subprocess` does not tell
    took, most = time.monotonic() - started, used.ru_maxrss * 1024
    print(
        f"  {name}: {took:.1f} s, {most / 1e6:,.0f} MB, {len(said)} lines: {said[0][:90] if said else ''}", flush=True
    )
    return int(took > MOST_SECONDS or most > MOST_BYTES)
