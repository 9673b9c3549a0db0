"""The outbox: commands and their observed outcomes, read by command id, whichever manifest lists them.

A command is recorded before it is sent. So a command without an outcome may have been sent. When a run begins, recent
commands are put into its hand-over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.handover import ClusterCycle
from evenkeel.lake.store import Lake
from evenkeel.model.past_commands import HARMED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Row = dict[str, Any]

SENT = frozenset({"done", "refused", "overridden", "lost", "timed_out", "unknown"})
"""Outcomes of commands that went out, or may have; `dry_run`, `stale` and `withheld` were never sent."""

OPEN = frozenset({"unknown"})
"""Outcomes that are not final."""


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


LOOKBACK = timedelta(days=1)
_KEPT = ("command_id", "plan_id", "kind", "bundle", "from_broker", "destination", "cuts", "unload_children", "mode")
_SEEN = ("outcome", "detail")


def is_steered(cycle: ClusterCycle) -> bool:
    """Return True if commands can reach the cluster, by its admin API or by an agent's queue."""
    return cycle.admin is not None or cycle.queues is not None


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
