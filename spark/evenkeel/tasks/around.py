"""What stands around the plans of a run: read from the tables just before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.handover import ClusterCycle, Handover
from evenkeel.lake.approvals import answers
from evenkeel.lake.controls import paused
from evenkeel.lake.outbox import SENT, recent_acts
from evenkeel.lake.store import Lake
from evenkeel.lake.times import iso, moment
from evenkeel.settings import settings_in
from evenkeel.tasks.permits import DRY_RUN, Circumstances
from evenkeel.tasks.remembering import is_steered
from evenkeel.tasks.sending import Sending

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def circumstances(
    spark: SparkSession,
    lake: Lake,
    handover: Handover,
    plans: Mapping[str, str],
    sending: Sending | None,
    now: datetime,
) -> dict[str, Circumstances]:
    """Of each cluster that has a plan (cluster -> plan id)."""
    clusters = sorted(plans)
    oldest = min(cycle.at for cycle in handover.open_cycles() if cycle.cluster in plans)
    newest, pauses = _newest(spark, lake, clusters, oldest), paused(spark, lake, clusters)
    acts = _acts_of_these_cycles(spark, lake, handover, clusters)
    replies = answers(spark, lake, sorted(plans.values()))
    found = {}
    for cycle in handover.open_cycles():
        if cycle.cluster not in plans:
            continue
        settings = settings_in(cycle.settings)
        halted = sending.halted(cycle.cluster) if sending is not None else None
        found[cycle.cluster] = Circumstances(
            cycle_at=cycle.at,
            plan_id=plans[cycle.cluster],
            kind=handover.run.kind,
            mode=handover.run.mode,
            now=now,
            newest_at=newest.get(cycle.cluster),
            max_age=timedelta(seconds=settings.evenkeelMaxReportAgeSeconds),
            ahead=timedelta(seconds=settings.evenkeelFutureToleranceSeconds),
            sent_plans=_sent_plans(acts, cycle),
            paused=pauses.get(cycle.cluster) or halted,
            unreachable=_unreachable(cycle, sending),
            answers=tuple(reply for reply in replies if reply["cluster"] == cycle.cluster),
        )
    return found


def _newest(spark: SparkSession, lake: Lake, clusters: list[str], since: datetime) -> dict[str, datetime]:
    """The newest cycle of each cluster on record from a moment on, backfills aside."""
    from pyspark.sql import functions as F

    rows = spark.read.format("delta").load(lake.path("cycles")).where(F.col("cluster").isin(clusters))
    rows = rows.where(F.col("cycle_at") >= moment(since.isoformat()))
    rows = rows.where(F.col("kind") != "backfill").groupBy(F.col("cluster")).agg(F.max("cycle_at").alias("cycle_at"))
    found = rows.select("cluster", iso("cycle_at").alias("cycle_at")).collect()
    return {row["cluster"]: datetime.fromisoformat(row["cycle_at"]) for row in found}


def _acts_of_these_cycles(
    spark: SparkSession, lake: Lake, handover: Handover, clusters: list[str]
) -> list[dict[str, Any]]:
    moments = [cycle.at for cycle in handover.open_cycles() if cycle.cluster in clusters]
    return recent_acts(spark, lake, clusters, since=min(moments), until=max(moments)) if moments else []


def _sent_plans(acts: Iterable[Mapping[str, Any]], cycle: ClusterCycle) -> frozenset[str]:
    """Plans of this cycle of which a command went out, or may have."""
    own = (act for act in acts if (act["cluster"], act["cycle_at"]) == (cycle.cluster, cycle.at))
    out = (act for act in own if act["mode"] != DRY_RUN and (act["outcome"] is None or act["outcome"] in SENT))
    return frozenset(act["plan_id"] for act in out)


def _unreachable(cycle: ClusterCycle, sending: Sending | None) -> str | None:
    if is_steered(cycle) and sending is not None:
        return None
    return (
        f"no admin URL is configured for {cycle.cluster}: it is observed only. Name its brokers under `admin` in the "
        "configuration file to steer it, or the queues of an agent under `queue` and `reports`"
    )
