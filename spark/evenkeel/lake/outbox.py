"""The outbox: commands and what was seen of them, read by command id, whatever manifest lists them or not.

A command is on record before it is sent. So of a command without an outcome nobody can say more than that it may have
been sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

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
"""Outcomes that are not the last word."""

_COMMAND = (
    *("command_id", "plan_id", "cluster", "step", "kind", "bundle", "from_broker", "destination", "algorithm", "cuts"),
    *("unload_children", "mode", "request", "clients", "topic"),
)
_TIMES = ("cycle_at", "expires_at")


def recent_acts(
    spark: SparkSession, lake: Lake, clusters: Sequence[str], *, since: datetime, until: datetime
) -> list[Row]:
    """Commands of cycles in a span of time, each with the last `outcome`, `seen_at` and `detail` of it, if any.

    By cluster, cycle and step; doubled rows of one id are one command. Times are aware datetimes. A command that did
    harm is there once more, after all others, with the outcome `harmed`.
    """
    if newest_version(lake.path("commands")) == 0:
        return []
    commands = _within(spark, lake, "commands", clusters, since, until, (*_COMMAND, *_TIMES), _TIMES)
    if not commands:
        return []
    # An outcome carries cluster and cycle of its command, so the same span holds both.
    columns = ("cluster", "command_id", "outcome", "seen_at", "detail")
    told = _within(spark, lake, "outcomes", clusters, since, until, columns, ("seen_at",))
    own = {(command["cluster"], command["command_id"]) for command in commands}
    # Of another cluster's command nobody can say anything (`publish.dispatch_sqs`).
    seen = [one for one in told if (one["cluster"], one["command_id"]) in own]
    found = with_outcomes(commands, seen)
    return [*found, *harmed(found, seen)]


def harmed(commands: Iterable[Mapping[str, Any]], outcomes: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The commands that were seen to have done harm, each once, as they were when that was first seen."""
    first: dict[str, Mapping[str, Any]] = {}
    for one in sorted(outcomes, key=lambda one: (one["seen_at"], one["detail"] or "")):
        if one["outcome"] == HARMED:
            first.setdefault(one["command_id"], one)
    return [
        {**command, **{name: first[command["command_id"]][name] for name in ("outcome", "seen_at", "detail")}}
        for command in commands
        if command["command_id"] in first
    ]


def with_outcomes(commands: Iterable[Mapping[str, Any]], outcomes: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The commands, each once, with the last that was seen of them; of one moment the graver word counts."""
    last: dict[str, Mapping[str, Any]] = {}
    for one in outcomes:
        before = last.get(one["command_id"])
        if before is None or _rank(one) >= _rank(before):
            last[one["command_id"]] = one
    found: dict[str, Row] = {}
    for command in commands:
        one = last.get(command["command_id"], {})
        latest = {name: one.get(name) for name in ("outcome", "seen_at", "detail")}
        found[command["command_id"]] = {**command, **latest}
    return sorted(found.values(), key=lambda row: (row["cluster"], row["cycle_at"], row["step"], row["command_id"]))


def is_open(act: Mapping[str, Any]) -> bool:
    """Whether it is not known yet what became of a command that was meant to be sent."""
    return act["mode"] != "dry_run" and (act["outcome"] is None or act["outcome"] in OPEN)


def on_record(
    spark: SparkSession, lake: Lake, table: str, clusters: Sequence[str], ids: Sequence[str], columns: Sequence[str]
) -> list[Row]:
    """What `commands` or `outcomes` knows of these commands."""
    if not ids:
        return []
    from pyspark.sql import functions as F

    known = spark.read.format("delta").load(lake.path(table)).where(F.col("cluster").isin(list(clusters)))
    found = known.where(F.col("command_id").isin(list(ids))).select(*columns).distinct().collect()
    return [row.asDict() for row in found]


def _rank(outcome: Mapping[str, Any]) -> tuple[Any, ...]:
    """What was seen of a command that went out outranks a rival's word that it need not be sent any more."""
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
