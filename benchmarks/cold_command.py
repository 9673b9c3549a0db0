"""One command that finds no server running: `evenkeel rebalance --all` over a few snapshots, from its start to its end.

`python -m benchmarks cold_command [--snapshots 24] [--topics 500] [--bundles 160] [--brokers 5] [--times 2]
[--recording DIR]`. Each time in a home and a lake of its own; the figures hold the start and the end of the Spark
server, and processor time of all processes. Goal, for 24 snapshots of 5 brokers: at most 45 s.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.history import landed
from benchmarks.machine import description
from benchmarks.synthetic_snapshot import Shape

MOST_SECONDS = 45.0


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line each time; 0 if the goal was met by all."""
    given = _options(arguments)
    print(description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as name:
        folder = Path(name)
        shape = Shape(given.topics, given.bundles, given.brokers)
        recording = given.recording or landed(folder / "recording", given.snapshots, shape)
        took = [_command(folder / str(number), recording) for number in range(given.times)]
    return int(max(took) > MOST_SECONDS)


def _command(folder: Path, recording: Path) -> float:
    folder.mkdir()
    command = [sys.executable, "-m", "evenkeel.cli", "rebalance", "--recording", str(recording)]
    environment = {name: value for name, value in os.environ.items() if name != "EVENKEEL_SPARK"}
    before, began = _cpu_of_children(), time.monotonic()
    subprocess.run(
        [*command, "--lake", str(folder / "lake"), "--all", "--json"],
        env={**environment, "EVENKEEL_HOME": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    seconds = time.monotonic() - began
    print(f"    {seconds:.1f} s, {_cpu_of_children() - before:.0f} CPU s", flush=True)
    return seconds


def _cpu_of_children() -> float:
    """Of children that have ended, with those that they have waited for: the server is among them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cold_command", description=__doc__)
    for name, default in (("snapshots", 24), ("topics", 500), ("bundles", 160), ("brokers", 5), ("times", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--recording", type=Path)
    return parser.parse_args(list(arguments))
