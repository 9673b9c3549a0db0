"""One whole cycle over a large cluster: seconds, processor time and memory of each task, and growth with the topics.

`python -m benchmarks million_topics [--topics 100000 1000000] [--bundles 10000] [--brokers 100] [--memory 3g]
[--planner]`. Snapshots are generated, seeded. Goals: at a million topics in 10,000 bundles on 100 brokers one cycle
takes at most 180 s and 6 GB, at ten million (`--topics 1000000 10000000 --bundles 100000 --brokers 1000`) 8 min and
12 GB; and from the first size to the last no task grows faster than the topics do. The server is warmed by a cycle of
the first size that is not counted. `--memory` is the server's heap; `--planner` sets `evenkeelPlanner = on`.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.machine import Cost, cpu_seconds, description, peak_memory
from benchmarks.synthetic_snapshot import Shape, write_snapshot
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.pipeline import run_cycle
from evenkeel.spark.command import ServerSettings
from evenkeel.spark.server import Engine, engine_for
from evenkeel.spark.session import close, connect

GOALS = {1_000_000: (180.0, 6 * 1024), 10_000_000: (480.0, 12 * 1024)}
"""Up to so many topics: seconds and MB of a cycle. Of more topics nothing is asked."""
WHOLE = "whole cycle"

Costs = Mapping[str, Cost]
"""What each task took."""


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a table; 0 if the goals were met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks million_topics")
    parser.add_argument("--topics", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--bundles", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--memory", default="3g")
    parser.add_argument("--planner", action="store_true", help="with evenkeelPlanner = on")
    given = parser.parse_args(list(arguments))
    print(description(), flush=True)
    measured: dict[int, Costs] = {}
    settings = {"evenkeelPlanner": "on"} if given.planner else {}
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder:
        home = Path(folder)
        with engine_for(home / "engine", settings=ServerSettings(memory=given.memory)) as engine:
            for place, n in enumerate(given.topics):
                recording = _snapshot(home, n, given.bundles, given.brokers)
                if place == 0:
                    _cycle(engine, home / "warm", recording, settings)
                measured[n] = _cycle(engine, home / f"lake-{n}", recording, settings)
                _show(n, measured[n])
                shutil.rmtree(recording)  # ten million topics have some gigabytes
    faults = faults_of(measured)
    for fault in faults:
        print(f"missed: {fault}")
    return 1 if faults else 0


def _snapshot(home: Path, topics: int, bundles: int, brokers: int) -> Path:
    begin = time.perf_counter()
    recording = home / f"recording-{topics}"
    write_snapshot(recording / "0000.jsonl.gz", Shape(topics=topics, bundles=bundles, brokers=brokers))
    print(f"generated {topics:,} topics in {time.perf_counter() - begin:.0f} s", flush=True)
    return recording


def _cycle(engine: Engine, lake: Path, recording: Path, settings: Mapping[str, str]) -> dict[str, Cost]:
    costs: dict[str, Cost] = {}
    spark = connect(engine.url, "benchmark")
    try:
        with peak_memory(engine.pid) as peak:
            begin, cpu_begin = time.perf_counter(), cpu_seconds(engine.pid)
            cpu_before = cpu_begin

            def task_done(task: str, seconds: float) -> None:
                nonlocal cpu_before
                cpu = cpu_seconds(engine.pid)
                costs[task] = Cost(seconds, cpu - cpu_before, peak.megabytes)
                cpu_before, peak.megabytes = cpu, 0.0

            request = CycleRequest(lake=str(lake), source=f"recording:{recording}", overrides=dict(settings))
            run_cycle(spark, request, task_done)
            seconds, cpu = time.perf_counter() - begin, cpu_seconds(engine.pid) - cpu_begin
            costs[WHOLE] = Cost(seconds, cpu, max(cost.megabytes for cost in costs.values()))
    finally:
        close(spark)
    return costs


def _show(topics: int, costs: Costs) -> None:
    print(f"{topics:>10,} topics")
    for name, cost in costs.items():
        print(f"    {name:<12}{cost.seconds:8.1f} s {cost.cpu:9.1f} CPU s {cost.megabytes:9,.0f} MB", flush=True)


def faults_of(measured: Mapping[int, Costs]) -> list[str]:
    """Which goals were missed, a sentence each; prints the growth of every task from the fewest topics to the most."""
    few, many = min(measured), max(measured)
    most_seconds, most_megabytes = next((goal for size, goal in sorted(GOALS.items()) if many <= size), (None, None))
    faults, whole = [], measured[many][WHOLE]
    if most_seconds is not None and whole.seconds > most_seconds:
        faults.append(f"the cycle took {whole.seconds:.0f} s, the goal is {most_seconds:.0f} s")
    if most_megabytes is not None and whole.megabytes > most_megabytes:
        faults.append(f"{whole.megabytes:,.0f} MB were used, the goal is {most_megabytes:,} MB")
    for name, large in measured[many].items():
        small = measured[few][name]
        growth, of_cpu = _growth(small.seconds, large.seconds), _growth(small.cpu, large.cpu)
        print(f"    {name:<12} {growth:5.1f}-fold, {of_cpu:5.1f}-fold in CPU s, with {many / few:.0f} times the topics")
        if growth > many / few:
            faults.append(f"{name} grew faster than linearly")
    return faults


def _growth(small: float, large: float) -> float:
    return large / small if small else 0.0
