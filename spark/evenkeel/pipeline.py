"""The seven tasks in order, as the DAG calls them, and functions that run one cycle or a window without Airflow.

Each function is a task. It takes the previous task's hand-over and returns its own. Its room holds `task.py` (tables
in, tables out) and, if it decides, `round.py` (rows of one cluster in, rows out).
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenkeel.errors import EvenkeelError
from evenkeel.handover import FAILED, SKIPPED, CycleKey, Handover

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.handover import ClusterCycle
    from evenkeel.ingest.chunks import Chunk
    from evenkeel.ingest.open_run import CycleRequest
    from evenkeel.publish.dispatch import Sending

LARGE_SNAPSHOT_BYTES = 4_000_000
"""Size of topics (compressed, about ten thousand), in one snapshot or many, from which compiled queries pay off."""

MOST_TRIES = 3
"""So many times at most a chunk of a window goes on behind a cycle that failed by a defect."""

Progress = Callable[[str, float], None]
Task = Callable[..., Handover]


def ingest(spark: SparkSession, handover: Handover) -> Handover:
    """Read each cluster's snapshot into the observed tables."""
    from evenkeel.ingest.task import run

    return _with_queries_to_size(run, spark, handover, topic_sized=True)


def validate(spark: SparkSession, handover: Handover) -> Handover:
    """Check the observed rows; reject records or skip clusters."""
    from evenkeel.validate.task import run  # Great Expectations alone takes seconds to import

    return _with_queries_to_size(run, spark, handover, topic_sized=True)


def aggregate(spark: SparkSession, handover: Handover) -> Handover:
    """Sum topics to bundles and brokers, with averages and usage."""
    from evenkeel.aggregate.task import run

    return _with_queries_to_size(run, spark, handover, topic_sized=True)


def plan_splits(spark: SparkSession, handover: Handover) -> Handover:
    """Decide which bundles to split, and where."""
    from evenkeel.plan_splits.task import run

    return _with_queries_to_size(run, spark, handover)


def shed(spark: SparkSession, handover: Handover) -> Handover:
    """Decide which bundles leave their broker."""
    from evenkeel.shed.task import run

    return _with_queries_to_size(run, spark, handover)


def place(spark: SparkSession, handover: Handover) -> Handover:
    """Decide where shed bundles and bundles without owner go."""
    from evenkeel.place.task import run

    return _with_queries_to_size(run, spark, handover)


def publish(spark: SparkSession, handover: Handover, sending: Sending | None = None) -> Handover:
    """Record the plan, send what may be sent, and write the manifests. Without `sending` nothing is sent."""
    from evenkeel.publish.task import run

    return _with_queries_to_size(run, spark, handover, sending)


DECIDING: tuple[Task, ...] = (ingest, validate, aggregate, plan_splits, shed, place)
"""The tasks before `publish`, in order. A task's function has its task id in the DAG for a name."""
TASK_IDS: tuple[str, ...] = tuple(task.__name__ for task in (*DECIDING, publish))
"""The ids of the seven tasks, in order. `airflow.preload` names them once more: it runs without this package."""


def _with_queries_to_size(
    run: Task, spark: SparkSession, handover: Handover, *more: Any, topic_sized: bool = False
) -> Handover:
    """Run a task; Spark compiles its queries only where it reads the topics of large snapshots."""
    from evenkeel.spark.sql import compile_queries

    compile_queries(spark, compiled=topic_sized and is_large(handover.open_cycles()))
    return run(spark, handover, *more)


def is_large(cycles: Iterable[ClusterCycle]) -> bool:
    """Return True if the snapshots of these cycles together are so large that compiled queries pay; unknown sizes count
    as large."""
    from evenkeel.ingest.chunks import landed_bytes

    return sum(landed_bytes(cycle.snapshot.path) for cycle in cycles) > LARGE_SNAPSHOT_BYTES


def run_cycle(
    spark: SparkSession, request: CycleRequest, progress: Progress, sending: Sending | None = None
) -> Handover:
    """Run one cycle from snapshot to manifest.

    `progress` gets each task's name and seconds when the task ends. `sending`: how running clusters are steered;
    without it nothing is sent. If a task fails, the cycle is recorded as failed, and the error is raised again.
    """
    from evenkeel.ingest.open_run import open_cycles

    return _run_tasks(spark, open_cycles(spark, request), progress, sending)


def _run_tasks(spark: SparkSession, handover: Handover, progress: Progress, sending: Sending | None = None) -> Handover:
    for task in DECIDING:
        begin = time.perf_counter()
        try:
            handover = task(spark, handover)
        except Exception as error:
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
            kind = "" if isinstance(error, EvenkeelError) else f"{type(error).__name__}: "
            reason = f"{task.__name__} failed: {kind}{first_line}"
            left_out = {cycle.key: reason for cycle in handover.open_cycles()}
            publish(spark, handover.leave_out(left_out, status=FAILED))
            raise
        progress(task.__name__, time.perf_counter() - begin)
    begin = time.perf_counter()
    handover = publish(spark, handover, sending)
    progress(publish.__name__, time.perf_counter() - begin)
    return handover


@dataclass(frozen=True, slots=True)
class WindowProgress:
    """Progress of a window after a task.

    The task's name (empty: none yet), recorded cycles of all that are to be decided, keys of cycles decided before, and
    the part of the work that is done (0 to 1).
    """

    task: str
    cycles: int
    of: int
    decided_before: frozenset[CycleKey]
    share: float


def run_window(
    spark: SparkSession,
    request: CycleRequest,
    progress: Callable[[WindowProgress], None],
    failed: Callable[[Chunk, EvenkeelError], None] | None = None,
    *,
    cycles: Sequence[ClusterCycle] | None = None,
    anew: bool = False,
) -> Iterator[Handover]:
    """Decide all landed snapshots of the request from `since` to `until`, in chunks, and yield each chunk's hand-over.

    A hand-over comes when the chunk's manifests are written. So an interrupted window can be run again: it goes on
    where the record ends.

    Cycles that this code has already decided with the same settings and the same kind are not decided again, unless
    `again`. `cycles`: the result of `landed_in`, if known. Cycles left out behind a cycle that failed by a defect are
    the next chunk; it starts from the cycle before the failed one. If a task fails, the cycles of its chunk are
    recorded as failed. The error is then raised again; or, if it is one of Evenkeel's and `failed` is given, it goes to
    `failed`, and the next chunk begins. Raises BadInput as `landed_in` does, and if the request has a mode that sends.
    """
    from evenkeel.ingest.chunks import decided_already, in_chunks, landed_in
    from evenkeel.ingest.open_run import open_listed
    from evenkeel.spark.memory import return_large_blocks
    from evenkeel.spark.session import session_for_a_while

    request.span()
    return_large_blocks()
    cycles = landed_in(request) if cycles is None else cycles
    decided = frozenset() if anew else decided_already(spark, request, cycles)
    chunks = deque((chunk, 0) for chunk in in_chunks(cycle for cycle in cycles if cycle.key not in decided))
    total, done = sum(len(chunk) for chunk, _ in chunks), 0
    progress(WindowProgress("", 0, total, decided, 0.0 if total else 1.0))
    while chunks:
        chunk, tries = chunks.popleft()
        tasks = 0

        def task_done(task: str, _seconds: float, chunk: Chunk = chunk) -> None:
            nonlocal tasks, done
            tasks += 1
            done += len(chunk) if tasks > len(DECIDING) else 0
            part = len(chunk) * tasks / (len(DECIDING) + 1) if tasks <= len(DECIDING) else 0
            progress(WindowProgress(task, done, total, decided, (done + part) / total))

        try:
            with session_for_a_while(spark) if chunks else nullcontext(spark) as session:
                decided_on = _run_tasks(session, open_listed(session, request, list(chunk)), task_done)
        except EvenkeelError as error:
            if failed is None:
                raise
            failed(chunk, error)
            done += len(chunk)
        else:
            yield decided_on
            waiting = after_failed(chunk, decided_on) if tries < MOST_TRIES else ()
            if waiting:
                chunks.appendleft((waiting, tries + 1))
                done -= len(waiting)
        if chunks:
            gc.collect()  # tables and frames of this chunk, which refer to each other


def after_failed(chunk: Chunk, decided_on: Handover) -> Chunk:
    """Return the cycles of a chunk that were left out since an earlier one failed: their predecessor is recorded
    now."""
    statuses = {cycle.key: cycle.status for cycle in decided_on.cycles}
    first: dict[str, str] = {}
    for cluster, at in sorted(key for key, status in statuses.items() if status == FAILED):
        first.setdefault(cluster, at)
    return tuple(
        cycle
        for cycle in chunk
        if statuses[cycle.key] == SKIPPED and cycle.cycle_at > first.get(cycle.cluster, cycle.cycle_at)
    )
