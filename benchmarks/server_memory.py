"""Does the Connect server grow? Its memory after 50 and after 200 small cycles.

`python -m benchmarks server_memory [--cycles N] [--cycle package.module:function]`. A cycle is a function
`(spark, lake, number) -> None`, called with a session of its own each time, as Airflow's tasks are; without one, each
cycle appends a few rows to seven tables. The server is level when the last figure is within 5 % of that after 50.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from evenkeel.engine.server import engine_for
from evenkeel.engine.session import close, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Cycle = Callable[["SparkSession", Path, int], None]
TABLES = 7
ROWS = 200
LOOKS_AT = (1, 10, 20, 50, 100, 150, 200)
LEVEL_FROM = 50
LEVEL_WITHIN = 0.05


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
        server = psutil.Process(engine.pid)
        started = time.monotonic()
        for number in range(1, cycles + 1):
            spark = connect(engine.url, f"cycle {number}")
            cycle(spark, home / "lake", number)
            close(spark)
            if number in LOOKS_AT or number == cycles:
                seconds = (time.monotonic() - started) / number
                seen[number] = (server.memory_info().rss / 2**20, seconds)
                print(
                    f"after {number:4d} cycles: {seen[number][0]:6.0f} MB resident, {seconds:.2f} s a cycle", flush=True
                )
    return seen


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the course; 1 where the server grew between cycle 50 and the last."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks server_memory", description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--cycle", help="package.module:function to call instead of the appends")
    given = parser.parse_args(arguments)
    cycle = _by_path(given.cycle) if given.cycle else append_cycle
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as home:
        seen = measure(cycle, given.cycles, Path(home))
    if LEVEL_FROM not in seen or max(seen) == LEVEL_FROM:
        return 0
    growth = seen[max(seen)][0] / seen[LEVEL_FROM][0] - 1
    print(f"cycle {LEVEL_FROM} to {max(seen)}: {growth:+.1%} ({'level' if growth <= LEVEL_WITHIN else 'it grows'})")
    return 0 if growth <= LEVEL_WITHIN else 1


def _by_path(path: str) -> Cycle:
    module, _, name = path.partition(":")
    cycle: Cycle = getattr(import_module(module), name)
    return cycle
