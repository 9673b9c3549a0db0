"""What else is asked of a year of cycles: seconds and memory, each question a process of its own.

`python -m benchmarks year`, with the options of `explain` and on the same lake. `verify` looks at the year's chain and
reads the manifests of the range; the lake's rows are templates, which no manifest digests. Goals: at most 10 s and 2
GB, 20 s for `verify`; with a transparency log over the year at most 60 s for `verify`, 5 s and 1 GB for a proof.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.year_of_cycles import CLUSTER, END, year_for
from evenkeel.transparency import LOG_FOLDER, LOG_KEY
from evenkeel.transparency.keys import SignerKey

MOST_SECONDS, MOST_SECONDS_TO_VERIFY, MOST_BYTES = 10.0, 20.0, 2e9
MOST_SECONDS_TO_PROVE, MOST_BYTES_TO_PROVE, MOST_SECONDS_WITH_LOG = 5.0, 1e9, 60.0
_SIGNER = SignerKey("benchmark.example/log", bytes(range(32)))
_CHECK = Path(__file__).resolve().parents[1] / "tools" / "check_proof.py"
_CLI = ("-m", "evenkeel.cli")
_LISTED = """
import sys
from evenkeel.lake.record import newest_cycles
from evenkeel.report.page import LISTED, MOST_LISTED, render_listing
found = newest_cycles(sys.argv[1], MOST_LISTED, columns=LISTED)
page = render_listing(found.cycles, lake=sys.argv[1], has_older=found.has_older)
print(f"{len(found.cycles)} cycles on {len(page):,} characters, {'with' if found.has_older else 'without'} older ones")
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
        }
        chained: dict[str, Sequence[str]] = {
            "verify, the chain and an hour": [*_CLI, *_verify(lake, f"{_day(1)}T03", f"{_day(1)}T03")],
            "verify, the chain and a day": [*_CLI, *_verify(lake, _day(1), _day(1))],
        }
        missed = [_timed(name, command) for name, command in asked.items()]
        missed += [_timed(name, command, MOST_SECONDS_TO_VERIFY) for name, command in chained.items()]
        return max(*missed, *_with_log(lake, f"{folder}/proof", f"{long_ago}T03:17"))


def _with_log(lake: str, proof: str, cycle: str) -> list[int]:
    """The questions to a transparency log over the year, which is begun first."""
    shutil.rmtree(Path(lake, LOG_FOLDER), ignore_errors=True)
    os.environ[LOG_KEY] = _SIGNER.secret().reveal()
    key = _SIGNER.verifier.text
    _timed("begin the transparency log", [*_CLI, "log", "begin", "--lake", lake], 1e9, 1e12)
    proving = [*_CLI, "prove", CLUSTER, cycle, "--lake", lake, "--out", proof]
    verifying = [*_CLI, *_verify(lake, _day(1), _day(1)), "--log-key", key, "--checkpoint", proof]
    return [
        _timed("prove a cycle, weeks ago", proving, MOST_SECONDS_TO_PROVE, MOST_BYTES_TO_PROVE),
        _timed("check the proof", [str(_CHECK), proof, "--log-key", key], MOST_SECONDS_TO_PROVE, MOST_BYTES_TO_PROVE),
        _timed("verify, the chain and a day, against its checkpoint", verifying, MOST_SECONDS_WITH_LOG, MOST_BYTES),
    ]


def _verify(lake: str, since: str, until: str) -> list[str]:
    return ["verify", "--lake", lake, "--cluster", CLUSTER, "--depth", "chain", "--from", since, "--to", until]


def _day(before_the_end: int) -> str:
    return (END - timedelta(days=before_the_end)).date().isoformat()


def _timed(
    name: str, arguments: Sequence[str], most_seconds: float = MOST_SECONDS, most_bytes: float = MOST_BYTES
) -> int:
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
    return int(took > most_seconds or most > most_bytes)
