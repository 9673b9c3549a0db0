"""Does the Connect server grow? Its memory, with its Python workers, after 50 and after 200 small cycles.

`python -m benchmarks server_memory [--cycles N] [--appends]`. A cycle is a whole one over a recorded snapshot, in a
session of its own, as Airflow's tasks have; with `--appends` it is seven small appends, which takes minutes instead of
half an hour. The server is level when the last figure is within 5 % of that after 50.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import description, resident_megabytes
from benchmarks.repeated import RECORDING
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.pipeline import run_cycle
from evenkeel.sources.recordings import Recording
from evenkeel.spark.server import engine_for
from evenkeel.spark.session import close, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Cycle = Callable[["SparkSession", Path, int], None]
TABLES = 7
ROWS = 200
LOOKS_AT = (1, 10, 20, 50, 100, 150, 200)
LEVEL_FROM = 50
LEVEL_WITHIN = 0.05


def whole_cycle(spark: SparkSession, lake: Path, number: int) -> None:
    """A cycle over the next recorded snapshot; each pass over the recording is a lake of its own."""
    snapshots = Recording(RECORDING).snapshots
    lap, place = divmod(number - 1, len(snapshots))
    at = snapshots[place].cycle_at
    request = CycleRequest(lake=f"{lake}-{lap}", source=f"recording:{RECORDING}", at=at, run_id=f"cycle {number}")
    run_cycle(spark, request, lambda _task, _seconds: None)


def append_cycle(spark: SparkSession, lake: Path, number: int) -> None:
    """What a cycle does to the server at least: seven small appends."""
    from pyspark.sql import functions as F

    rows = spark.range(ROWS).select("id", F.lit("cluster").alias("cluster"), F.lit(number).alias("cycle"))
    for table in range(TABLES):
        writer = rows.coalesce(1).write.format("delta").mode("append").partitionBy("cluster")
        writer.option("delta.checkpointInterval", "100").save(str(lake / f"table_{table}"))


def measure(cycle: Cycle, cycles: int, home: Path) -> dict[int, tuple[float, float]]:
    """Resident megabytes of the server and seconds per cycle so far, by number of cycles."""
    seen: dict[int, tuple[float, float]] = {}
    with engine_for(home) as engine:
        started = time.monotonic()
        for number in range(1, cycles + 1):
            spark = connect(engine.url, f"cycle {number}")
            cycle(spark, home / "lake", number)
            close(spark)
            if number in LOOKS_AT or number == cycles:
                seconds = (time.monotonic() - started) / number
                seen[number] = (resident_megabytes(engine.pid), seconds)
                print(
                    f"after {number:4d} cycles: {seen[number][0]:6.0f} MB resident, {seconds:.2f} s a cycle", flush=True
                )
    return seen


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the course; 1 where the server grew between cycle 50 and the last."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks server_memory", description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--appends", action="store_true", help="seven appends instead of whole cycles")
    given = parser.parse_args(arguments)
    cycle = append_cycle if given.appends else whole_cycle
    print(description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as home:
        seen = measure(cycle, given.cycles, Path(home))
    if LEVEL_FROM not in seen or max(seen) == LEVEL_FROM:
        return 0
    growth = seen[max(seen)][0] / seen[LEVEL_FROM][0] - 1
    print(f"cycle {LEVEL_FROM} to {max(seen)}: {growth:+.1%} ({'level' if growth <= LEVEL_WITHIN else 'it grows'})")
    return 0 if growth <= LEVEL_WITHIN else 1
