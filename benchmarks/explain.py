"""`evenkeel explain` on a year of cycles: seconds for each kind of question, each in a process of its own.

`python -m benchmarks explain [--days 365] [--seconds 60] [--brokers 6] [--bundles 24] [--loose-days 1] [--lake DIR]`.
Of the loose days every cycle is a file of its own. A lake that is there already is not written again. Goal: every
question about a moment in at most 5 s.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from benchmarks.year_of_cycles import CLUSTER, END, Year, year_for

MOST_SECONDS = 5.0


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per question; 0 if the goal was met by all that are about a moment."""
    with year_for("python -m benchmarks explain", arguments) as year:
        return _ask(year.root, year)


def _ask(root: Path, year: Year) -> int:
    bundle, broker = year.bundles[0], year.brokers[1]
    lately, long_ago = _at(1, "03:17"), _at(25, "03:17")
    acted_only = _at(min(year.shape.days - 1, 200), "03:17")
    moments = {
        "a bundle, newest cycle": [bundle],
        "a bundle, last date": [bundle, "--at", lately],
        "a bundle, weeks ago": [bundle, "--at", long_ago],
        "a bundle, loads expired": [bundle, "--at", acted_only],
        "a topic": ["persistent://acme/load/orders", "--at", long_ago],
        "a broker": [broker, "--at", long_ago],
        "an unknown bundle": ["acme/load/0x00000000_0x00000001", "--at", long_ago],
        "before the first cycle": [bundle, "--at", "2020-01-01"],
    }
    ranges = {
        "a bundle, one hour": [bundle, "--from", _at(1, "03:00"), "--to", _at(1, "04:00")],
        "a bundle, one day": [bundle, "--from", _at(8, "00:00"), "--to", _at(8, "23:59")],
        "a bundle, one week": [bundle, "--from", _at(15, "00:00"), "--to", _at(9, "23:59")],
    }
    slowest = max(_timed(root, name, question) for name, question in moments.items())
    for name, question in ranges.items():
        _timed(root, name, question)
    return 0 if slowest <= MOST_SECONDS else 1


def _at(days: int, clock: str) -> str:
    return f"{(END - timedelta(days=days)).date().isoformat()}T{clock}"


def _timed(root: Path, name: str, question: Sequence[str]) -> float:
    command = [sys.executable, "-m", "evenkeel.cli", "explain", "--lake", str(root), "--cluster", CLUSTER, *question]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.monotonic() - started
    said = (done.stdout or done.stderr).splitlines()
    print(f"  {name}: {took:.2f} s, {len(said)} lines: {said[0][:110] if said else ''}", flush=True)
    return took
