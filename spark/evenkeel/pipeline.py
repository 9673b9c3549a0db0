"""The seven tasks in their order: what the DAG calls, and what runs a cycle without Airflow.

Each function is a task. It takes the hand-over of the task before and returns its own; its room holds `task.py` (tables
in, tables out) and, where it decides, `round.py` (rows of one cluster in, rows out).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.errors import EvenkeelError
from evenkeel.handover import FAILED, Handover

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.ingest.open_run import CycleRequest
    from evenkeel.publish.dispatch import Sending

LARGE_SNAPSHOT_BYTES = 4_000_000
"""Some ten thousand topics, compressed: from there on compiled queries pay."""

Progress = Callable[[str, float], None]
Task = Callable[..., Handover]


def ingest(spark: SparkSession, handover: Handover) -> Handover:
    """Reads each cluster's snapshot into the observed tables."""
    from evenkeel.ingest.task import run

    return _with_queries_to_size(run, spark, handover, topic_sized=True)


def validate(spark: SparkSession, handover: Handover) -> Handover:
    """Checks what was observed; sets records or clusters aside."""
    from evenkeel.validate.task import run  # Great Expectations alone takes seconds to import

    return _with_queries_to_size(run, spark, handover, topic_sized=True)


def aggregate(spark: SparkSession, handover: Handover) -> Handover:
    """Sums topics to bundles and brokers, with averages and usage."""
    from evenkeel.aggregate.task import run

    return _with_queries_to_size(run, spark, handover, topic_sized=True)


def plan_splits(spark: SparkSession, handover: Handover) -> Handover:
    """Decides which bundles to split, and where."""
    from evenkeel.plan_splits.task import run

    return _with_queries_to_size(run, spark, handover)


def shed(spark: SparkSession, handover: Handover) -> Handover:
    """Decides which bundles leave their broker."""
    from evenkeel.shed.task import run

    return _with_queries_to_size(run, spark, handover)


def place(spark: SparkSession, handover: Handover) -> Handover:
    """Decides where shed bundles and bundles without owner go."""
    from evenkeel.place.task import run

    return _with_queries_to_size(run, spark, handover)


def publish(spark: SparkSession, handover: Handover, sending: Sending | None = None) -> Handover:
    """Puts the plan on record, sends what may be sent, and writes the manifests. Without `sending` nothing is sent."""
    from evenkeel.publish.task import run

    return _with_queries_to_size(run, spark, handover, sending)


DECIDING: tuple[Task, ...] = (ingest, validate, aggregate, plan_splits, shed, place)
"""The tasks before `publish`, in order. A task's function has its task id in the DAG for a name."""


def _with_queries_to_size(
    run: Task, spark: SparkSession, handover: Handover, *more: Any, topic_sized: bool = False
) -> Handover:
    """Runs a task; Spark compiles its queries only where it reads the topics of a large snapshot."""
    from evenkeel.spark.sql import compile_queries

    compile_queries(spark, compiled=topic_sized and is_large(handover))
    return run(spark, handover, *more)


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
    """One cycle from snapshot to manifest. `progress` gets each task's name and seconds when it is done. `sending`
    says how running clusters are steered; without it none is.

    If a task fails, the cycle is put on record as failed, and then the error goes on.
    """
    from evenkeel.ingest.open_run import open_cycles

    handover = open_cycles(spark, request)
    for task in DECIDING:
        begin = time.perf_counter()
        try:
            handover = task(spark, handover)
        except Exception as error:
            reason = _reason(task.__name__, error)
            left_out = {cycle.key: reason for cycle in handover.open_cycles()}
            publish(spark, handover.leave_out(left_out, status=FAILED))
            raise
        progress(task.__name__, time.perf_counter() - begin)
    begin = time.perf_counter()
    handover = publish(spark, handover, sending)
    progress(publish.__name__, time.perf_counter() - begin)
    return handover


def _reason(name: str, error: Exception) -> str:
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
    kind = "" if isinstance(error, EvenkeelError) else f"{type(error).__name__}: "
    return f"{name} failed: {kind}{first_line}"
