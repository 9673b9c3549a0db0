"""The seven tasks in their order, for whoever runs them without Airflow: same functions, no second pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from evenkeel.errors import EvenkeelError
from evenkeel.handover import FAILED, Handover
from evenkeel.tasks.begin import CycleRequest, open_cycles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECIDING = ("ingest", "validate", "aggregate", "plan_splits", "shed", "place")
PUBLISH = "publish"
Progress = Callable[[str, float], None]


def task(name: str) -> Callable[[SparkSession, Handover], Handover]:
    """The function of a task; imported when it is needed, since Great Expectations alone takes seconds."""
    run: Callable[[SparkSession, Handover], Handover] = import_module(f"evenkeel.tasks.{name}").run
    return run


def run_cycle(spark: SparkSession, request: CycleRequest, progress: Progress) -> Handover:
    """One cycle from snapshot to manifest. `progress` is told each task's name and seconds when it is done.

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
    handover = task(PUBLISH)(spark, handover)
    progress(PUBLISH, time.perf_counter() - begin)
    return handover


def _reason(name: str, error: Exception) -> str:
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
    kind = "" if isinstance(error, EvenkeelError) else f"{type(error).__name__}: "
    return f"{name} failed: {kind}{first_line}"
