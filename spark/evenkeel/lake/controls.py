"""Pauses of clusters, approvals of plans, and the lease that makes one publisher at a time.

A lease is taken by a row whose token is one above the last holder's. The last row is read in the very statement that
appends, under Serializable isolation: of two publishers at once one conflicts and looks again. It is renewed while
commands go out; who finds a higher token than its own has lost it and stops.

Clocks of publishers differ, by hours where one takes its machine's local time for UTC, so the end that a row names is
compared with no other clock. A lease is over where its holder gave it back, or where whoever wants it has seen it stand
still, by a clock of their own that only goes forward, for as long as it lasts.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from evenkeel.lake.delta_log import newest_version, until_committed
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, append_frame
from evenkeel.spark.sql import with_moments
from evenkeel.times import after_all

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


log = logging.getLogger(__name__)

PAUSE, RESUME, LEASE = "pause", "resume", "lease"
TAKEOVER, HANDBACK = "takeover", "handback"
_COLUMNS = ("cluster", "kind", "at", "by", "reason", "token", "until", "switches")


@dataclass(frozen=True, slots=True)
class Lease:
    """The last step of a cluster's lease, made `at` that moment by its holder's clock, at which it was to last `until`.

    `before`: until when an earlier holder may have been at work.
    """

    cluster: str
    holder: str
    token: int
    at: datetime
    until: datetime
    before: datetime | None = None

    @property
    def step(self) -> tuple[int, datetime, datetime]:
        """What is another one with every renewal."""
        return self.token, self.at, self.until


def holder_name() -> str:
    """A name for this publisher's try; a try that follows it has another, so it cannot take its lease for its own."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def person(login: str, said: object = None) -> str:
    """Who says something, as it is put on record: the login, and beside it the name that was given, if another."""
    name = " ".join(str(said or "").split())
    return login if name in ("", login) else f"{login} ({name})"


def names_in(who: str) -> frozenset[str]:
    """The names in a text that `person` has put on record: the login, and what was said beside it."""
    found = _BESIDE.fullmatch(who)
    return frozenset({who} if found is None else {who, *found.groups()})


_BESIDE = re.compile(r"(.*?) \((.*)\)", re.DOTALL)


def control_row(cluster: str, kind: str, by: str, reason: str | None) -> dict[str, Any]:
    """The row of what an operator says, made now."""
    said = {"cluster": cluster, "kind": kind, "at": datetime.now(UTC), "by": by, "reason": reason}
    return {**said, "token": 0, "until": None, "switches": None}


def said_last(row: dict[str, Any], others: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The row at a moment after all the others."""
    return {**row, "at": after_all(row["at"], (one["at"] for one in others))}


def last_switches(rows: Iterable[Mapping[str, Any]]) -> dict[str, str | None] | None:
    """What a takeover that still holds found: switch -> dynamic value, None where there was none. None: none holds."""
    found = sorted((row for row in rows if row["kind"] in (TAKEOVER, HANDBACK)), key=lambda row: row["at"])
    if not found or found[-1]["kind"] == HANDBACK:
        return None
    switches: dict[str, str | None] = json.loads(found[-1]["switches"])
    return switches


def paused(spark: SparkSession, lake: Lake, clusters: Sequence[str]) -> dict[str, str]:
    """The paused clusters, each with who paused it and why."""
    return {cluster: _pause_in_words(row) for cluster, row in pauses(spark, lake, clusters).items()}


def pauses(spark: SparkSession, lake: Lake, clusters: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The rows of the pauses that hold now, by cluster."""
    return {cluster: row for cluster, row in last_words(spark, lake, clusters).items() if row["kind"] == PAUSE}


def last_words(spark: SparkSession, lake: Lake, clusters: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The pause or resumption of each cluster that was made last, where there is one."""
    last: dict[str, dict[str, Any]] = {}
    for row in _rows(spark, lake, clusters, (PAUSE, RESUME)):
        before = last.get(row["cluster"])
        # Of a pause and a resumption in one moment the pause holds.
        if before is None or (row["at"], row["kind"] == PAUSE) >= (before["at"], before["kind"] == PAUSE):
            last[row["cluster"]] = row
    return dict(sorted(last.items()))


def _pause_in_words(row: Mapping[str, Any]) -> str:
    why = f" ({row['reason']})" if row["reason"] else ""
    return f"{row['cluster']} is paused by {row['by']}{why}; `evenkeel resume {row['cluster']}` ends that"


def take_leases(
    spark: SparkSession,
    lake: Lake,
    clusters: Sequence[str],
    holder: str,
    length: timedelta,
    *,
    stood_still: Iterable[Lease] = (),
) -> dict[str, Lease]:
    """The leases of these clusters after the attempt to take them: ours where they were free or ours already.

    `stood_still`: leases of others that the caller has seen at this step for as long as they last.
    """
    before = leases(spark, lake, clusters)
    _step(spark, lake, clusters, holder, length, stood_still=tuple(stood_still))
    now = leases(spark, lake, clusters)
    return {
        cluster: replace(lease, before=_end_of_another(before.get(cluster), holder)) for cluster, lease in now.items()
    }


def renew_leases(
    spark: SparkSession, lake: Lake, clusters: Sequence[str], holder: str, length: timedelta
) -> dict[str, Lease]:
    """Moves the end of the leases that are still ours; the others come back as they are."""
    _step(spark, lake, clusters, holder, length, only_own=True)
    return leases(spark, lake, clusters)


def give_back(spark: SparkSession, lake: Lake, clusters: Sequence[str], holder: str) -> None:
    """Ends the leases that are still ours, so that a next publisher need not wait."""
    _step(spark, lake, clusters, holder, timedelta(0), only_own=True)


def leases(spark: SparkSession, lake: Lake, clusters: Sequence[str]) -> dict[str, Lease]:
    """The last step of each cluster's lease."""
    last: dict[str, Lease] = {}
    for row in sorted(_rows(spark, lake, clusters, (LEASE,)), key=lambda row: (row["token"], row["at"])):
        last[row["cluster"]] = Lease(row["cluster"], row["by"], row["token"], row["at"], row["until"])
    return last


def _end_of_another(lease: Lease | None, holder: str) -> datetime | None:
    return None if lease is None or lease.holder == holder else lease.until


def _step(
    spark: SparkSession,
    lake: Lake,
    clusters: Sequence[str],
    holder: str,
    length: timedelta,
    *,
    only_own: bool = False,
    stood_still: Sequence[Lease] = (),
) -> None:
    until_committed(
        lambda: _append_step(spark, lake, clusters, holder, length, only_own=only_own, stood_still=stood_still),
        log,
        "another publisher took a step first; looking again",
    )


def _append_step(
    spark: SparkSession,
    lake: Lake,
    clusters: Sequence[str],
    holder: str,
    length: timedelta,
    *,
    only_own: bool,
    stood_still: Sequence[Lease],
) -> None:
    from pyspark.sql import functions as F

    now = datetime.now(UTC)
    heads = (
        spark.read.format("delta")
        .load(lake.path("controls"))
        .where(F.col("cluster").isin(list(clusters)) & _read_in_full("kind", [LEASE]))
        .groupBy(F.col("cluster"))
        .agg(F.max_by(F.struct("by", "token", "at", "until"), F.struct("token", "at")).alias("head"))
    )
    wanted = _frame(spark, [(cluster, LEASE, now, holder, None, 0, now + length, None) for cluster in clusters])
    linked = wanted.join(F.broadcast(heads), on="cluster", how="left")
    own = F.coalesce(F.col("head.by") == holder, F.lit(False))
    free = F.col("head").isNull() | (F.col("head.until") <= F.col("head.at"))
    for lease in stood_still:
        step = zip(("head.token", "head.at", "head.until"), lease.step, strict=True)
        free |= reduce(and_, (F.col(name) == F.lit(value) for name, value in step), F.col("cluster") == lease.cluster)
    token = F.coalesce(F.col("head.token"), F.lit(0)) + F.when(own, 0).otherwise(1)
    # A clock that was set back must not make a renewal look older than what it renews.
    at = F.greatest(F.col("at"), F.col("head.at") + F.expr("INTERVAL 1 MICROSECOND"))
    rows = linked.where(own if only_own else own | free).withColumn("token", token).withColumn("at", at)
    lasting = F.expr(f"at + INTERVAL {length // timedelta(microseconds=1)} MICROSECOND")
    rows = rows.withColumn("until", lasting).select(*_COLUMNS)
    append_frame(rows, lake, "controls")


def _rows(spark: SparkSession, lake: Lake, clusters: Sequence[str], kinds: Sequence[str]) -> list[dict[str, Any]]:
    if newest_version(lake.path("controls")) == 0:
        return []
    from pyspark.sql import functions as F

    rows = spark.read.format("delta").load(lake.path("controls"))
    rows = rows.where(F.col("cluster").isin(list(clusters)) & _read_in_full("kind", kinds))
    return with_moments(rows.select(*_COLUMNS), ("at", "until"))


def _read_in_full(column: str, values: Sequence[str]) -> Column:
    """The condition that a column has one of these values, in a form for which Delta has every file read.

    Delta passes over files by the statistics in the log. A pause must not be passed over by statistics that lie.
    """
    from pyspark.sql import functions as F

    return F.array_contains(F.array(*map(F.lit, values)), F.col(column))


def _frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(list(rows), TABLES["controls"].struct_type())


# Operators' answers to plans.

APPROVED, WITHOUT_SPLITS, REJECTED = "approved", "approved_without_splits", "rejected"
"""The answers that a plan can have: all of it is sent, all but what splits or rests on a split, nothing."""


def answer_row(
    cluster: str, plan_id: str, answer: str, by: str, note: str | None = None, at: datetime | None = None
) -> dict[str, Any]:
    """The row of an answer, given `at` that moment or now; the last one to a plan holds."""
    given = at or datetime.now(UTC)
    return {"cluster": cluster, "plan_id": plan_id, "answer": answer, "by": by, "at": given, "note": note}


def answers(spark: SparkSession, lake: Lake, plan_ids: Sequence[str]) -> list[dict[str, Any]]:
    """All answers to these plans, with `at` as an aware datetime."""
    if not plan_ids or newest_version(lake.path("approvals")) == 0:
        return []
    rows = spark.read.format("delta").load(lake.path("approvals")).where(_read_in_full("plan_id", plan_ids))
    return with_moments(rows, ("at",))
