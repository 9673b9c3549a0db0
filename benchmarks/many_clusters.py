"""Many clusters in one run: what each of the seven tasks costs for N of them, and how that goes with N.

`python -m benchmarks many_clusters [--clusters 20 40 200] [--topics 1000] [--bundles 64] [--brokers 3] [--cycles 2]`.
Every cluster has generated snapshots of its own, one for each cycle; writing them is not measured. For each N a lake of
its own takes the cycles one after the other: the first has no cycle before it, the others take over from theirs. `open`
is what comes before the tasks: the clusters' listings and predecessors. `cpu` is processor seconds of this process, the
server and its workers. `growth` is the time for a cluster against that of the first N: 1 is linear, more is worse. One
cycle of a cluster warms the server up. Goals: 200 clusters in 300 s at most (others in their share, 60 s at least), and
no growth of a whole run above 1.25.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import cpu_seconds, description, peak_memory
from benchmarks.synthetic_snapshot import FINISHED_AT, Shape, write_document
from evenkeel.ingest.open_run import CycleRequest, open_cycles
from evenkeel.pipeline import DECIDING, publish
from evenkeel.spark.server import Engine, engine_for
from evenkeel.spark.session import close, connect
from evenkeel.times import utc_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.handover import Handover

EVERY = timedelta(minutes=1)
MOST_SECONDS, LEAST_GOAL_SECONDS, AT_CLUSTERS = 300.0, 60.0, 200
MOST_GROWTH = 1.25


@dataclass(slots=True)
class RunCost:
    """What one run over `clusters` took: (seconds, CPU seconds) by task in order, and memory at most in MB."""

    clusters: int
    tasks: dict[str, tuple[float, float]] = field(default_factory=dict)
    megabytes: float = 0.0

    @property
    def whole(self) -> tuple[float, float]:
        """Seconds and CPU seconds of all tasks."""
        return sum(wall for wall, _ in self.tasks.values()), sum(cpu for _, cpu in self.tasks.values())


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a table per number of clusters and cycle; the exit code counts the goals that were missed."""
    given = _options(arguments)
    print(description(), flush=True)
    counts: list[int] = sorted(set(given.clusters))
    shape = Shape(given.topics, given.bundles, given.brokers)
    missed = 0
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as name, engine_for(Path(name) / "engine") as engine:
        folder = Path(name)
        _write(folder, max(counts), given.cycles, shape)
        spark = connect(engine.url, "many-clusters")
        try:
            _run(spark, engine, folder, "warm", 1, 0)
            first: dict[int, RunCost] = {}
            for count in counts:
                for cycle in range(given.cycles):
                    cost = _run(spark, engine, folder, f"lake-{count}", count, cycle)
                    missed += _told(cost, first.setdefault(cycle, cost), cycle)
        finally:
            close(spark)
    print(f"    goals: {'met' if not missed else f'{missed} missed'}", flush=True)
    return missed


def _write(folder: Path, clusters: int, cycles: int, shape: Shape) -> None:
    """The snapshots of so many clusters, each with its own topics' figures and owners."""
    began = time.monotonic()
    for number in range(clusters):
        recording = folder / "recordings" / _name(number)
        recording.mkdir(parents=True)
        for cycle in range(cycles):
            own = Shape(shape.topics, shape.bundles, shape.brokers, seed=number + 1, moment=cycle + 1)
            write_document(recording / f"{cycle:04d}.json.gz", own, n=cycle, finished_at=FINISHED_AT + cycle * EVERY)
    print(
        f"    {clusters} clusters of {shape.brokers} brokers, {shape.bundles} bundles, {shape.topics} topics, "
        f"{cycles} snapshots each: written in {time.monotonic() - began:.0f} s",
        flush=True,
    )


def _name(number: int) -> str:
    return f"cluster-{number:04d}"


def _run(spark: SparkSession, engine: Engine, folder: Path, lake: str, clusters: int, cycle: int) -> RunCost:
    """One run of the seven tasks over the first so many clusters."""
    configuration = folder / f"clusters-{clusters}.toml"
    tables = (f'[clusters.{_name(n)}]\nrecording = "recordings/{_name(n)}"\n' for n in range(clusters))
    configuration.write_text("".join(tables), encoding="utf-8")
    at = utc_text(FINISHED_AT + cycle * EVERY)
    request = CycleRequest(
        str(folder / lake), configuration=str(configuration), at=at, run_id=f"{lake}-{cycle}", dag_id="benchmark"
    )
    cost = RunCost(clusters)

    def measured(task: str, work: Callable[[], Handover]) -> Handover:
        before, began = cpu_seconds(engine.pid), time.monotonic()
        handover = work()
        cost.tasks[task] = time.monotonic() - began, cpu_seconds(engine.pid) - before
        return handover

    with peak_memory(engine.pid) as peak:
        handover = measured("open", lambda: open_cycles(spark, request))
        for task in (*DECIDING, publish):
            handover = measured(task.__name__, lambda task=task, given=handover: task(spark, given))
    cost.megabytes = peak.megabytes
    left_out = [cycle for cycle in handover.cycles if cycle.status != "open"]
    if len(handover.cycles) != clusters or left_out:
        raise RuntimeError(f"of {clusters} clusters some were not decided: {left_out[:3]}")
    return cost


def _told(cost: RunCost, first: RunCost, cycle: int) -> int:
    """Prints what a run took beside the first of its kind; how many goals it missed."""
    print(f"    {cost.clusters} clusters, cycle {cycle + 1}: {cost.megabytes:,.0f} MB at most")
    rows = {**cost.tasks, "whole": cost.whole}
    before = {**first.tasks, "whole": first.whole}
    for task, (wall, cpu) in rows.items():
        of_wall, of_cpu = (_growth(cost, first, now, then) for now, then in zip((wall, cpu), before[task], strict=True))
        print(
            f"      {task:<12}{wall:7.1f} s {cpu:7.1f} cpu {1000 * wall / cost.clusters:8.0f} ms a cluster "
            f"growth {of_wall:.2f} ({of_cpu:.2f} of cpu)",
            flush=True,
        )
    wall = cost.whole[0]
    goal = max(MOST_SECONDS * cost.clusters / AT_CLUSTERS, LEAST_GOAL_SECONDS)
    return (wall > goal) + (_growth(cost, first, wall, first.whole[0]) > MOST_GROWTH)


def _growth(cost: RunCost, first: RunCost, now: float, then: float) -> float:
    """Time for a cluster, against the first run's."""
    return (now / cost.clusters) / (then / first.clusters) if then else 1.0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks many_clusters", description=__doc__)
    parser.add_argument("--clusters", type=int, nargs="+", default=[20, 40, 200])
    for name, default in (("topics", 1_000), ("bundles", 64), ("brokers", 3), ("cycles", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args(list(arguments))
