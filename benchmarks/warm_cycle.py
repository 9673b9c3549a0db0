"""`evenkeel rebalance` over a recorded snapshot with the server running: whole commands, and the tasks within.

`python -m benchmarks warm_cycle [--recording DIR] [--runs 7]`. Goal: at most 10 s, the median of whole commands, each a
process of its own that imports all it needs.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import description
from evenkeel.engine.server import engine_for
from evenkeel.sources.recordings import Recording

MOST_SECONDS = 10.0
RECORDING = Path(__file__).parent.parent / "demo" / "recordings" / "own-threshold"
_TASK = re.compile(r"  (\w+)\s+([\d.]+) s$")


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per command and a median per task; 0 if the goal was met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks warm_cycle")
    parser.add_argument("--recording", type=Path, default=RECORDING)
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args(list(arguments))
    print(description(), flush=True)
    snapshots = Recording(given.recording).snapshots
    whole: list[float] = []
    tasks: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder, engine_for(Path(folder) / "engine") as engine:
        for run in range(given.runs + 2):
            at = snapshots[run % len(snapshots)].cycle_at
            seconds, parts = _command(engine.url, Path(folder) / "lake", given.recording, at)
            warm = run >= 2
            print(f"    {'warm' if warm else 'cold'} {seconds:6.2f} s  {parts}", flush=True)
            if warm:
                whole.append(seconds)
                for name, value in parts.items():
                    tasks.setdefault(name, []).append(value)
    for name, values in tasks.items():
        print(f"    {name:<12}{statistics.median(values):6.2f} s median")
    median = statistics.median(whole)
    print(f"    whole command: {min(whole):.2f} / {median:.2f} / {max(whole):.2f} s (min, median, max)")
    return 0 if median <= MOST_SECONDS else 1


def _command(url: str, lake: Path, recording: Path, at: str) -> tuple[float, dict[str, float]]:
    command = [sys.executable, "-m", "evenkeel.cli", "rebalance", "--recording", str(recording), "--lake", str(lake)]
    begin = time.perf_counter()
    done = subprocess.run(
        [*command, "--at", at], env={**os.environ, "EVENKEEL_SPARK": url}, capture_output=True, text=True, check=True
    )
    seconds = time.perf_counter() - begin
    return seconds, {m.group(1): float(m.group(2)) for line in done.stderr.splitlines() if (m := _TASK.search(line))}
