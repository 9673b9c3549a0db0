"""The outbox: commands and their observed outcomes, read by command id, whichever manifest lists them.

A command is recorded before it is sent. So a command without an outcome may have been sent. When a run begins, recent
commands are put into its hand-over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.handover import ClusterCycle
from evenkeel.lake.controls import leases, pauses
from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.store import Lake
from evenkeel.model.past_commands import HARMED
from evenkeel.spark.sql import moment, with_moments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Row = dict[str, Any]

SENT = frozenset({"done", "refused", "overridden", "lost", "timed_out", "unknown"})
"""Outcomes of commands that went out, or may have; `dry_run`, `stale` and `withheld` were never sent."""

OPEN = frozenset({"unknown"})
"""Outcomes that are not final."""

_COMMAND = (
    *("command_id", "plan_id", "cluster", "step", "kind", "bundle", "from_broker", "destination", "algorithm", "cuts"),
    *("unload_children", "mode", "request", "clients", "topic"),
)
_TIMES = ("cycle_at", "expires_at")


def recent_acts(
    spark: SparkSession, lake: Lake, clusters: Sequence[str], *, since: datetime, until: datetime
) -> list[Row]:
    """Return commands of cycles in a span of time, each with its last `outcome`, `seen_at` and `detail`, if any.

    They are ordered by cluster, cycle and step; duplicate rows of one id are one command. Times are aware datetimes. A
    command that did harm has another entry, after all others, with the outcome `harmed`.
    """
    if newest_version(lake.path("commands")) == 0:
        return []
    commands = _within(spark, lake, "commands", clusters, since, until, (*_COMMAND, *_TIMES), _TIMES)
    if not commands:
        return []
    # An outcome has cluster and cycle of its command, so one span covers both.
    columns = ("cluster", "command_id", "outcome", "seen_at", "detail")
    outcomes = _within(spark, lake, "outcomes", clusters, since, until, columns, ("seen_at",))
    ids = {(command["cluster"], command["command_id"]) for command in commands}
    # An outcome under another cluster than the command's does not count (`publish.dispatch`).
    seen = [outcome for outcome in outcomes if (outcome["cluster"], outcome["command_id"]) in ids]
    acts = with_outcomes(commands, seen)
    return [*acts, *harmed(acts, seen)]


def harmed(commands: Iterable[Mapping[str, Any]], outcomes: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the commands that were seen to have done harm, each once, with the first observation of it."""
    first: dict[str, Mapping[str, Any]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: (outcome["seen_at"], outcome["detail"] or "")):
        if outcome["outcome"] == HARMED:
            first.setdefault(outcome["command_id"], outcome)
    return [
        {**command, **{name: first[command["command_id"]][name] for name in ("outcome", "seen_at", "detail")}}
        for command in commands
        if command["command_id"] in first
    ]


def with_outcomes(commands: Iterable[Mapping[str, Any]], outcomes: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the commands, each once, with their last outcome; of one moment the graver outcome counts."""
    last: dict[str, Mapping[str, Any]] = {}
    for outcome in outcomes:
        before = last.get(outcome["command_id"])
        if before is None or _rank(outcome) >= _rank(before):
            last[outcome["command_id"]] = outcome
    acts: dict[str, Row] = {}
    for command in commands:
        outcome = last.get(command["command_id"], {})
        latest = {name: outcome.get(name) for name in ("outcome", "seen_at", "detail")}
        acts[command["command_id"]] = {**command, **latest}
    return sorted(acts.values(), key=lambda row: (row["cluster"], row["cycle_at"], row["step"], row["command_id"]))


def is_open(act: Mapping[str, Any]) -> bool:
    """Return True if the outcome of a command that was meant to be sent is still unknown."""
    return act["mode"] != "dry_run" and (act["outcome"] is None or act["outcome"] in OPEN)


def on_record(
    spark: SparkSession, lake: Lake, table: str, clusters: Sequence[str], ids: Sequence[str], columns: Sequence[str]
) -> list[Row]:
    """Return the rows of `commands` or `outcomes` for these commands."""
    if not ids:
        return []
    from pyspark.sql import functions as F

    known = spark.read.format("delta").load(lake.path(table)).where(F.col("cluster").isin(list(clusters)))
    rows = known.where(F.col("command_id").isin(list(ids))).select(*columns).distinct().collect()
    return [row.asDict() for row in rows]


def _rank(outcome: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the rank of an outcome: that of a command that went out ranks above a rival's that it need not be sent."""
    word = outcome["outcome"]
    return (word in SENT, outcome["seen_at"], word not in OPEN, word)


def _within(
    spark: SparkSession,
    lake: Lake,
    table: str,
    clusters: Sequence[str],
    since: datetime,
    until: datetime,
    columns: Sequence[str],
    times: Sequence[str],
) -> list[Row]:
    from pyspark.sql import functions as F

    day = timedelta(days=1)
    rows = spark.read.format("delta").load(lake.path(table)).where(F.col("cluster").isin(list(clusters)))
    # Whole dates first: they are the partitions.
    first, last = (since - day).date().isoformat(), (until + day).date().isoformat()
    dates = F.col("cycle_date").between(F.lit(first), F.lit(last))
    span = F.col("cycle_at").between(moment(since.isoformat()), moment(until.isoformat()))
    return with_moments(rows.where(dates & span).select(*columns), times)


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
    moments = {name: act[name] for name in ("cycle_at", "expires_at", "seen_at")}
    times = {name: None if moment is None else moment.isoformat() for name, moment in moments.items()}
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
