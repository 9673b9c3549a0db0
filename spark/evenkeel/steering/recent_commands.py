"""Recent commands to the clusters, put into the hand-over when a run begins."""

from __future__ import annotations

from bisect import bisect_left
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
    """Return the cycles, each steered cluster's with the commands of the day before it; the others unchanged.

    The tables are read once, however many cycles there are.
    """
    steered = [cycle for cycle in cycles if is_steered(cycle)]
    if not steered:
        return cycles
    clusters = sorted(cycle.cluster for cycle in steered)
    since, until = min(cycle.at for cycle in steered) - LOOKBACK, max(cycle.at for cycle in steered)
    acts = recent_acts(spark, lake, clusters, since=since, until=until)
    before = _Acts(acts)
    ends, held = leases(spark, lake, clusters), pauses(spark, lake, clusters)
    return [
        replace(
            cycle,
            acts=before.of(cycle),
            steered_until=ends[cycle.cluster].until.isoformat() if cycle.cluster in ends else None,
            pauses=tuple({"by": row["by"], "reason": row["reason"]} for row in [held.get(cycle.cluster)] if row),
        )
        if is_steered(cycle)
        else cycle
        for cycle in cycles
    ]


def is_steered(cycle: ClusterCycle) -> bool:
    """Return True if commands can reach the cluster, by its admin API or by an agent's queue."""
    return cycle.admin is not None or cycle.queues is not None


class _Acts:
    """Acts of clusters, in the order of their cycles, so that those of a day are found by bisection."""

    def __init__(self, acts: Iterable[Mapping[str, Any]]) -> None:
        by_cluster: dict[str, list[tuple[datetime, int]]] = {}
        self._texts: list[dict[str, Any]] = []
        for act in acts:
            if act["mode"] != "dry_run":
                by_cluster.setdefault(act["cluster"], []).append((act["cycle_at"], len(self._texts)))
                self._texts.append(as_text(act))
        self._places = {cluster: sorted(places) for cluster, places in by_cluster.items()}

    def of(self, cycle: ClusterCycle) -> tuple[dict[str, Any], ...]:
        """Return the acts of the day before a cycle, in the order in which they were read."""
        places = self._places.get(cycle.cluster, [])
        first, end = (bisect_left(places, (moment, -1)) for moment in (cycle.at - LOOKBACK, cycle.at))
        return tuple(self._texts[place] for place in sorted(place for _, place in places[first:end]))


def as_text(act: Mapping[str, Any]) -> dict[str, Any]:
    """Return an act in the form of a hand-over."""
    times = {name: _text(act[name]) for name in ("cycle_at", "expires_at", "seen_at")}
    return {**{name: act[name] for name in (*_KEPT, *_SEEN)}, "clients": act.get("clients"), **times}


def as_known_at(acts: Iterable[Mapping[str, Any]], moment: datetime) -> list[dict[str, Any]]:
    """Return the acts as they were known at a moment.

    Outcomes seen later are unknown, at whatever time the question is asked again, and harm seen later has not been done
    yet.
    """
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
