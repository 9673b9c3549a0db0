"""How fast is the record proved? Cycles a second of `evenkeel verify`, over cycles of 3 brokers with 1,000 bundles.

`python -m benchmarks verify [--cycles 600] [--bundles 1000] [--topics 3000]`. First with the files that cycles write,
from the loads of bundles on, and of the last hundred from the topics on; then after an upkeep, which compacts them. The
server runs already, and the first round of each, in which Java compiles, is not counted. The goal is 10 cycles a second
from the loads on.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import description
from benchmarks.synthetic_snapshot import Shape, write_snapshot
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import read_attempts
from evenkeel.maintenance.upkeep import Request, keep
from evenkeel.pipeline import run_cycle
from evenkeel.spark.server import engine_for
from evenkeel.spark.session import close, connect
from evenkeel.verify import BUNDLES, TOPICS, verify
from tests.lakes.long_record import lengthen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOAL = 10.0
_LATER = timedelta(days=2)
_FEW = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints cycles a second for each depth; 1 where the goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks verify", description=__doc__)
    parser.add_argument("--cycles", type=int, default=600)
    parser.add_argument("--bundles", type=int, default=1_000)
    parser.add_argument("--topics", type=int, default=3_000)
    given = parser.parse_args(arguments)
    print(description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as name, engine_for(name) as engine:
        folder = Path(name)
        spark = connect(engine.url, "benchmark")
        recording, lake = folder / "recording" / "0000.jsonl.gz", folder / "lake"
        write_snapshot(recording, Shape(given.topics, given.bundles, brokers=3))
        run_cycle(spark, CycleRequest(str(lake), f"recording:{recording.parent}"), lambda task, seconds: None)
        lengthen(lake, given.cycles)
        close(spark)  # its queries are interpreted, as a cycle's are; those of `verify` are compiled
        spark = connect(engine.url, "verify")
        rates = [_rate(spark, lake, "as written", BUNDLES)]
        _rate(spark, lake, "as written", TOPICS, _FEW)
        begin = time.perf_counter()
        keep(spark, Request(str(lake), by="benchmark"), lambda text: None, read_attempts(lake)[-1].cycle_at + _LATER)
        print(f"    upkeep: {time.perf_counter() - begin:.0f} s", flush=True)
        rates.append(_rate(spark, lake, "after upkeep", BUNDLES))
        close(spark)
    return 0 if min(rates) >= GOAL else 1


def _rate(spark: SparkSession, lake: Path, state: str, depth: str, last: int | None = None) -> float:
    """Cycles a second, of all cycles or only of the last ones."""

    @contextmanager
    def session() -> Iterator[SparkSession]:
        yield spark

    asked = read_attempts(lake)[-(last or 0) :]
    rate = 0.0
    for counts in (False, True):
        begin = time.perf_counter()
        report = verify(str(lake), session, since=asked[0].cycle_at, depth=depth)
        seconds = time.perf_counter() - begin
        assert report.is_sound, [fault.sentence() for fault in report.faults[:3]]
        assert len(report.verified.reproduced) == len(asked)
        rate = len(asked) / seconds
        told = f"{state}, from the {depth} on: {rate:.0f} cycles/s of {len(asked)}"
        print(f"    {told}{'' if counts else ' (first, not counted)'}", flush=True)
    return rate
