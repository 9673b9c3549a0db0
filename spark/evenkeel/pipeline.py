"""The seven tasks in their order, for whoever runs them without Airflow: same functions, no second pipeline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.errors import EvenkeelError
from evenkeel.handover import FAILED, Handover
from evenkeel.ingest.open_run import CycleRequest, open_cycles
from evenkeel.spark.sql import compile_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.publish.dispatch import Sending

DECIDING = ("ingest", "validate", "aggregate", "plan_splits", "shed", "place")
PUBLISH = "publish"
# Tasks that read topics; the others see bundles and brokers.
TOPIC_SIZED = frozenset({"ingest", "validate", "aggregate"})
# Some ten thousand topics, compressed.
LARGE_SNAPSHOT_BYTES = 4_000_000
Progress = Callable[[str, float], None]


def task(name: str) -> Callable[..., Handover]:
    """The function of a task; imported when it is needed, since Great Expectations alone takes seconds."""
    run: Callable[..., Handover] = import_module(f"evenkeel.pipeline.{name}").run

    def with_queries_to_size(spark: SparkSession, handover: Handover, *more: Any) -> Handover:
        compile_queries(spark, compiled=name in TOPIC_SIZED and is_large(handover))
        return run(spark, handover, *more)

    return with_queries_to_size


def is_large(handover: Handover) -> bool:
    """Whether any snapshot of the run is so large that compiled queries pay; unknown sizes count as large."""
    return any(landed_bytes(cycle.snapshot.path) > LARGE_SNAPSHOT_BYTES for cycle in handover.open_cycles())


def landed_bytes(path: str) -> float:
    """Size of a landed snapshot as it lies there, infinite where it cannot be seen from here."""
    landed = Path(path.removeprefix("file://"))
    if landed.is_dir():
        return sum(part.stat().st_size for part in landed.iterdir())
    return landed.stat().st_size if landed.exists() else math.inf


def run_cycle(
    spark: SparkSession, request: CycleRequest, progress: Progress, sending: Sending | None = None
) -> Handover:
    """One cycle from snapshot to manifest. `progress` is told each task's name and seconds when it is done. `sending`
    says how running clusters are steered; without it none is.

    If a task fails, the cycle is put on record as failed, and then the error goes on.
    """
    handover = open_cycles(spark, request)
    for name in DECIDING:
        begin = time.perf_counter()
        try:
            handover = task(name)(spark, handover)
        except Exception as error:
            reason = _reason(name, error)
            left_out = {cycle.cluster: reason for cycle in handover.open_cycles()}
            task(PUBLISH)(spark, handover.leave_out(left_out, status=FAILED))
            raise
        progress(name, time.perf_counter() - begin)
    begin = time.perf_counter()
    handover = task(PUBLISH)(spark, handover, sending)
    progress(PUBLISH, time.perf_counter() - begin)
    return handover


def _reason(name: str, error: Exception) -> str:
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
    kind = "" if isinstance(error, EvenkeelError) else f"{type(error).__name__}: "
    return f"{name} failed: {kind}{first_line}"
