"""One whole cycle over a large cluster: seconds per task, memory of all processes, and growth with the topics.

`python -m benchmarks million_topics [--topics 100000 1000000] [--bundles 10000] [--brokers 100]`. Snapshots are
generated, seeded. Goals: at a million topics in 10,000 bundles on 100 brokers one cycle takes at most 180 s and 6 GB,
and from the first size to the last no task grows faster than the topics do. The server is warmed by a cycle of the
first size that is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import description, peak_memory
from benchmarks.synthetic_snapshot import Shape, write_snapshot
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.pipeline import run_cycle
from evenkeel.spark.command import ServerSettings
from evenkeel.spark.server import engine_for
from evenkeel.spark.session import close, connect

MOST_SECONDS = 180.0
MOST_MEGABYTES = 6 * 1024
MEMORY = "3g"


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a table; 0 if the goals were met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks million_topics")
    parser.add_argument("--topics", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--bundles", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=100)
    given = parser.parse_args(list(arguments))
    print(description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder:
        home = Path(folder)
        snapshots = {n: _snapshot(home, n, given.bundles, given.brokers) for n in given.topics}
        with engine_for(home / "engine", settings=ServerSettings(memory=MEMORY)) as engine:
            _cycle(engine.url, home / "warm", snapshots[given.topics[0]])
            measured = {}
            for n, recording in snapshots.items():
                with peak_memory(engine.pid) as peak:
                    seconds = _cycle(engine.url, home / f"lake-{n}", recording)
                measured[n] = (seconds, peak.megabytes)
                _show(n, *measured[n])
    return _judge(measured)


def _snapshot(home: Path, topics: int, bundles: int, brokers: int) -> Path:
    begin = time.perf_counter()
    recording = home / f"recording-{topics}"
    write_snapshot(recording / "0000", Shape(topics=topics, bundles=bundles, brokers=brokers))
    print(f"generated {topics:,} topics in {time.perf_counter() - begin:.0f} s", flush=True)
    return recording


def _cycle(url: str, lake: Path, recording: Path) -> dict[str, float]:
    seconds: dict[str, float] = {}
    spark = connect(url, "benchmark")
    try:
        begin = time.perf_counter()
        run_cycle(spark, CycleRequest(lake=str(lake), source=f"recording:{recording}"), seconds.__setitem__)
        seconds["whole cycle"] = time.perf_counter() - begin
    finally:
        close(spark)
    return seconds


def _show(topics: int, seconds: dict[str, float], megabytes: float) -> None:
    print(f"{topics:>10,} topics, all processes at most {megabytes:,.0f} MB")
    for name, value in seconds.items():
        print(f"    {name:<12}{value:8.1f} s", flush=True)


def _judge(measured: dict[int, tuple[dict[str, float], float]]) -> int:
    (few, (small, _)), (many, (large, megabytes)) = min(measured.items()), max(measured.items())
    faults = []
    if large["whole cycle"] > MOST_SECONDS:
        faults.append(f"the cycle took {large['whole cycle']:.0f} s, the goal is {MOST_SECONDS:.0f} s")
    if megabytes > MOST_MEGABYTES:
        faults.append(f"{megabytes:,.0f} MB were used, the goal is {MOST_MEGABYTES:,} MB")
    for name in large:
        growth = large[name] / small[name] if small[name] else 0.0
        print(f"    {name:<12} grew {growth:5.1f}-fold while topics grew {many / few:.0f}-fold")
        if growth > many / few:
            faults.append(f"{name} grew faster than linearly")
    for fault in faults:
        print(f"missed: {fault}")
    return 1 if faults else 0
