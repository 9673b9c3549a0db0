"""The first and the last task of `rebalance_history`: a run takes all landed snapshots of its data interval.

The interval is the window. Nothing is ever sent, whatever mode the environment allows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel import pipeline
from evenkeel.airflow.order import BACKFILL, await_turn, kind_of
from evenkeel.airflow.steps import Events, TaskInstance, carried_out, put_on_record, request_from
from evenkeel.errors import BadInput, NothingLanded
from evenkeel.handover import Handover
from evenkeel.ingest.chunks import decided_at_all, landed_bytes, landed_in
from evenkeel.ingest.open_run import CycleRequest, open_listed
from evenkeel.times import utc_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_TICK = timedelta(microseconds=1)
LARGE_INTERVAL_BYTES = 2_000_000_000
"""Size of packed landed data from which a shorter interval saves the Spark server's memory."""


def begin(spark: SparkSession, params: Mapping[str, Any], dag_run: Any, ti: TaskInstance, events: Events = None) -> str:
    """Open the cycles of the interval and ingest their snapshots; skip all tasks if there is nothing to decide."""

    def ingest() -> Handover:
        request = window_request(params, dag_run)
        await_turn(dag_run, ti, windows=True)
        handover = open_interval(spark, request, everything=kind_of(dag_run) == BACKFILL)
        return pipeline.ingest(spark, handover) if handover.cycles else handover

    ingested, handover = carried_out(ingest, ti, events)
    if not handover.cycles:
        from airflow.sdk.exceptions import DownstreamTasksSkipped

        ti.xcom_push("return_value", ingested)
        raise DownstreamTasksSkipped(tasks=list(pipeline.TASK_IDS[1:]))
    return ingested


def close(spark: SparkSession, params: Mapping[str, Any], dag_run: Any, ti: TaskInstance, events: Events = None) -> str:
    """Publish the interval's cycles, and report how far the backfill is; fail if an earlier task failed."""

    def reopened() -> Handover:
        return open_interval(spark, window_request(params, dag_run), everything=kind_of(dag_run) == BACKFILL)

    published, handover = put_on_record(spark, reopened, dag_run, ti, events, None)
    seconds = (datetime.now(UTC) - dag_run.start_date).total_seconds()
    waiting = ti.get_dr_count(dag_run.dag_id, states=["queued"])
    log.info("%s", course(len(handover.cycles), seconds, waiting))
    return published


def open_interval(spark: SparkSession, request: CycleRequest, *, everything: bool) -> Handover:
    """The hand-over of the request's window: with `everything` all its cycles, else those without a decision."""
    try:
        landed = landed_in(request)
    except NothingLanded as error:
        log.info("%s", error)
        landed = []
    decided = frozenset() if everything else decided_at_all(spark, request.lake, landed)
    handover = open_listed(spark, request, [cycle for cycle in landed if cycle.key not in decided])
    log.info(
        "%d cycles of %d clusters to decide from %s to %s%s",
        len(handover.cycles),
        len({cycle.cluster for cycle in handover.cycles}),
        request.since,
        request.until,
        f"; {len(decided):,} more are decided already" if decided else "",
    )
    size = sum(landed_bytes(cycle.snapshot.path) for cycle in handover.open_cycles())
    if size > LARGE_INTERVAL_BYTES:
        log.warning(
            "the snapshots of the interval are %.1f GB, which may be more than the Spark server has room for at once: "
            "make the interval shorter (EVENKEEL_HISTORY_SCHEDULE), or give the server more memory",
            size / 1e9,
        )
    return handover


def window_request(params: Mapping[str, Any], dag_run: Any) -> CycleRequest:
    """Return the request of a run's params and data interval; the interval's end is not part of it.

    BadInput for a run without an interval, `SettingsError` for invalid params.
    """
    request = request_from({**params, "mode": "dry_run"}, dag_run)
    since, until = dag_run.data_interval_start, dag_run.data_interval_end
    if since is None or until is None or since >= until:
        raise BadInput(
            "the run has no data interval, so there is no window to decide: trigger it with a logical date, or create "
            f"a backfill (airflow backfill create --dag-id {dag_run.dag_id} --from-date … --to-date …)"
        )
    since, until = utc_text(since), utc_text(until - _TICK)
    return replace(request, at=None, every=True, since=since, until=until, kind=BACKFILL)


def course(cycles: int, seconds: float, waiting: int) -> str:
    """Return the speed of the run, and when the waiting runs will be done at the same speed."""
    text = f"{cycles:,} cycles on record after {seconds:.0f} s"
    if seconds > 0:
        text += f" ({cycles / seconds:.1f} a second)"
    if waiting:
        runs = "1 more run waits" if waiting == 1 else f"{waiting:,} more runs wait"
        text += f"; {runs}, for about {waiting * seconds / 60:,.0f} min at that pace"
    return text
