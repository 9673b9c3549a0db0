"""How fast is the record proved? Cycles a second of `evenkeel verify`, over cycles of 3 brokers with 1,000 bundles.

`python -m benchmarks verify [--cycles 300] [--bundles 1000] [--topics 3000]`. The server runs already, and the first
round, in which Java compiles, is not counted. The tables are compacted, as a day's are once upkeep has run. The goal is
50 cycles a second from the loads of bundles on.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import description
from benchmarks.synthetic_snapshot import Shape, write_snapshot
from evenkeel.audit.read import read_attempts
from evenkeel.audit.verify import BUNDLES, TOPICS, verify
from evenkeel.engine.server import engine_for
from evenkeel.engine.session import close, connect
from evenkeel.tasks.begin import CycleRequest
from evenkeel.tasks.pipeline import run_cycle
from tests.audit.long_record import lengthen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOAL = 50.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints cycles a second for each depth; 1 where the goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks verify", description=__doc__)
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--bundles", type=int, default=1_000)
    parser.add_argument("--topics", type=int, default=3_000)
    given = parser.parse_args(arguments)
    print(description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as name, engine_for(name) as engine:
        folder = Path(name)
        spark = connect(engine.url, "benchmark")
        recording, lake = folder / "recording" / "0000", folder / "lake"
        write_snapshot(recording, Shape(given.topics, given.bundles, brokers=3))
        run_cycle(spark, CycleRequest(str(lake), f"recording:{recording.parent}"), lambda task, seconds: None)
        lengthen(spark, lake, given.cycles)
        close(spark)  # its queries are interpreted, as a cycle's are; those of `verify` are compiled
        spark = connect(engine.url, "verify")
        for name in sorted({write.table for attempt in read_attempts(lake) for write in attempt.writes}):
            spark.sql(f"OPTIMIZE delta.`{lake / name}`").collect()  # as upkeep leaves every day but the last
        found = {depth: _rate(spark, lake, depth, given.cycles) for depth in (BUNDLES, TOPICS)}
        close(spark)
    return 0 if found[BUNDLES] >= GOAL else 1


def _rate(spark: SparkSession, lake: Path, depth: str, cycles: int) -> float:
    @contextmanager
    def session() -> Iterator[SparkSession]:
        yield spark

    rate = 0.0
    for counts in (False, True):
        begin = time.perf_counter()
        report = verify(str(lake), session, depth=depth)
        seconds = time.perf_counter() - begin
        assert report.is_sound, [fault.sentence() for fault in report.faults[:3]]
        assert len(report.verified.reproduced) == cycles
        rate = cycles / seconds
        print(f"    from the {depth} on: {rate:.0f} cycles/s{'' if counts else ' (first, not counted)'}", flush=True)
    return rate
