"""How long does a snapshot of a large cluster take, and how much memory? Real HTTP on loopback, simulated brokers.

`python -m benchmarks collect [--brokers 100] [--topics 100000] [--namespaces 100] [--bundles 16] [--runs 3]`. The
brokers are a process of their own, with about a kilobyte of figures a topic; what counts are the seconds and the peak
memory of `evenkeel collect`, with the start of the interpreter. The goal is 60 s and 1 GB.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.apart import apart, until_closed
from benchmarks.machine import description
from evenkeel.spark.code import source_root
from tests.pulsar.admin.books import Size, sized
from tests.pulsar.admin.simulated import SimulatedCluster

MOST_SECONDS = 60.0
MOST_MEGABYTES = 1_000.0


def serve(size: Size, brokers: int, end: Connection) -> None:
    """The brokers, until the other end is closed."""
    with SimulatedCluster(sized(size), brokers) as cluster:
        end.send(cluster.url)
        until_closed(end)


def collected(url: str, folder: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of one `evenkeel collect`."""
    command = [sys.executable, "-m", "evenkeel.cli", "collect", "--admin", url, "--to", str(folder)]
    begin = time.monotonic()
    run = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(source_root())})
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode != 0:
        raise SystemExit(f"evenkeel collect ended with {run.returncode}")
    return time.monotonic() - begin, usage.ru_maxrss / 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints every run; 1 where the goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks collect", description=__doc__)
    for name, default in (("brokers", 100), ("topics", 100_000), ("namespaces", 100), ("bundles", 16), ("runs", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args(arguments)
    size = Size(given.topics, given.namespaces, given.bundles)
    print(description(), flush=True)
    with (
        apart(serve, size, given.brokers) as url,
        tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder,
    ):
        collected(url, Path(folder))  # the brokers' answers are made when first asked for
        runs = [collected(url, Path(folder)) for _ in range(given.runs)]
        landed = sum(part.stat().st_size for part in (Path(folder) / "0001").iterdir()) / 1e6
    seconds, megabytes = (list(figures) for figures in zip(*runs, strict=True))
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    print(f"    {low:.1f} / {middle:.1f} / {high:.1f} s (min, median, max)  {max(megabytes):.0f} MB at most")
    print(f"    {given.brokers} brokers, {given.topics} topics, {given.namespaces} namespaces; {landed:.1f} MB landed")
    return 0 if middle <= MOST_SECONDS and max(megabytes) <= MOST_MEGABYTES else 1


if __name__ == "__main__":
    sys.exit(main())
