"""What was done to the clusters lately, put into the hand-over when a run begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.handover import ClusterCycle
from evenkeel.lake.controls import leases, pauses
from evenkeel.lake.outbox import recent_acts
from evenkeel.lake.store import Lake
from evenkeel.model.past_commands import HARMED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOKBACK = timedelta(days=1)
_KEPT = ("command_id", "plan_id", "kind", "bundle", "from_broker", "destination", "cuts", "unload_children", "mode")
_SEEN = ("outcome", "detail")


def with_acts(spark: SparkSession, lake: Lake, cycles: list[ClusterCycle]) -> list[ClusterCycle]:
    """The cycles of clusters that are steered, with the commands of the day before; the others as they are."""
    steered = [cycle for cycle in cycles if is_steered(cycle)]
    if not steered:
        return cycles
    clusters = sorted(cycle.cluster for cycle in steered)
    since, until = min(cycle.at for cycle in steered) - LOOKBACK, max(cycle.at for cycle in steered)
    acts = recent_acts(spark, lake, clusters, since=since, until=until)
    ends, held = leases(spark, lake, clusters), pauses(spark, lake, clusters)
    return [
        replace(
            cycle,
            acts=tuple(as_text(act) for act in acts if _concerns(act, cycle)),
            steered_until=ends[cycle.cluster].until.isoformat() if cycle.cluster in ends else None,
            pauses=tuple({"by": row["by"], "reason": row["reason"]} for row in [held.get(cycle.cluster)] if row),
        )
        if is_steered(cycle)
        else cycle
        for cycle in cycles
    ]


def is_steered(cycle: ClusterCycle) -> bool:
    """Whether commands can reach the cluster, by its admin API or by an agent's queue."""
    return cycle.admin is not None or cycle.queues is not None


def _concerns(act: Mapping[str, Any], cycle: ClusterCycle) -> bool:
    earlier = cycle.at - LOOKBACK <= act["cycle_at"] < cycle.at
    return bool(act["cluster"] == cycle.cluster and act["mode"] != "dry_run" and earlier)


def as_text(act: Mapping[str, Any]) -> dict[str, Any]:
    """An act as a hand-over carries it."""
    times = {name: _text(act[name]) for name in ("cycle_at", "expires_at", "seen_at")}
    return {**{name: act[name] for name in (*_KEPT, *_SEEN)}, "clients": act.get("clients"), **times}


def as_known_at(acts: Iterable[Mapping[str, Any]], moment: datetime) -> list[dict[str, Any]]:
    """The acts as they were known at a moment: what was seen later is not known yet, whoever asks again later, and harm
    that was seen later has not been done yet."""
    unseen = {"outcome": None, "detail": None, "seen_at": None}
    known = []
    for act in acts:
        is_later = act["seen_at"] is not None and datetime.fromisoformat(act["seen_at"]) > moment
        if not is_later:
            known.append({**act})
        elif act["outcome"] != HARMED:
            known.append({**act, **unseen})
    return known


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
