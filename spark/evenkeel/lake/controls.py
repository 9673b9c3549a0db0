"""Pauses of clusters, approvals of plans, and the lease that allows one publisher at a time.

A publisher takes a lease by a row whose token is one above the last holder's. The statement that appends the row also
reads the last row, under Serializable isolation: of two publishers at once one conflicts and looks again. The lease is
renewed while commands are sent. A publisher that finds a higher token than its own has lost it and stops.

Clocks of publishers differ, by hours if one takes its machine's local time for UTC. So the end in a row is compared
with no other clock. A lease is over if its holder gave it back. It is also over if another publisher has seen it
unchanged for as long as it lasts, by its own monotonic clock.
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

from evenkeel.lake.delta_log import until_committed
from evenkeel.lake.record import Row, read_table
from evenkeel.lake.record.tables import is_in, rows_where
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, append_frame
from evenkeel.times import after_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


log = logging.getLogger(__name__)

PAUSE, RESUME, LEASE = "pause", "resume", "lease"
TAKEOVER, HANDBACK = "takeover", "handback"


@dataclass(frozen=True, slots=True)
class Lease:
    """The last step of a cluster's lease, made `at` that moment by its holder's clock, at which it was to last `until`.

    `before`: end of the time in which an earlier holder may have been at work.
    """

    cluster: str
    holder: str
    token: int
    at: datetime
    until: datetime
    before: datetime | None = None

    @property
    def step(self) -> tuple[int, datetime, datetime]:
        """Key that changes with every renewal."""
        return self.token, self.at, self.until


def holder_name() -> str:
    """Return a name for this publisher's try; the next try has another name, so it cannot take over this lease as its
    own."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def person(login: str, given_name: object = None) -> str:
    """Return a person's name for the record: the login, and beside it the given name, if it differs."""
    name = " ".join(str(given_name or "").split())
    return login if name in ("", login) else f"{login} ({name})"


def names_in(who: str) -> frozenset[str]:
    """Return the names in a text of `person`: the login, and the name beside it."""
    match = _BESIDE.fullmatch(who)
    return frozenset({who} if match is None else {who, *match.groups()})


_BESIDE = re.compile(r"(.*?) \((.*)\)", re.DOTALL)


def control_row(cluster: str, kind: str, by: str, reason: str | None) -> dict[str, Any]:
    """Return the row of an operator's control, made now."""
    row = {"cluster": cluster, "kind": kind, "at": datetime.now(UTC), "by": by, "reason": reason}
    return {**row, "token": 0, "until": None, "switches": None}


def said_last(row: dict[str, Any], others: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row, made at a moment after all the others."""
    return {**row, "at": after_all(row["at"], (other["at"] for other in others))}


def last_switches(rows: Iterable[Mapping[str, Any]]) -> dict[str, str | None] | None:
    """Return the switches found by a takeover in force: switch -> dynamic value, None for none. None: no takeover."""
    switch_rows = sorted((row for row in rows if row["kind"] in (TAKEOVER, HANDBACK)), key=lambda row: row["at"])
    if not switch_rows or switch_rows[-1]["kind"] == HANDBACK:
        return None
    switches: dict[str, str | None] = json.loads(switch_rows[-1]["switches"])
    return switches


def paused(lake: Lake, clusters: Sequence[str]) -> dict[str, str]:
    """Return the paused clusters, each with the person and the reason."""
    words = {}
    for cluster, row in pauses(lake, clusters).items():
        why = f" ({row['reason']})" if row["reason"] else ""
        words[cluster] = f"{cluster} is paused by {row['by']}{why}; `evenkeel resume {cluster}` ends that"
    return words


def pauses(lake: Lake, clusters: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the rows of the pauses in force, by cluster."""
    return {cluster: row for cluster, row in last_words(lake, clusters).items() if row["kind"] == PAUSE}


def last_words(lake: Lake, clusters: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the last pause or resumption of each cluster that has one."""
    last: dict[str, dict[str, Any]] = {}
    for row in _rows(lake, clusters, (PAUSE, RESUME)):
        before = last.get(row["cluster"])
        # If a pause and a resumption have the same moment, the pause counts.
        if before is None or (row["at"], row["kind"] == PAUSE) >= (before["at"], before["kind"] == PAUSE):
            last[row["cluster"]] = row
    return dict(sorted(last.items()))


def take_leases(
    spark: SparkSession,
    lake: Lake,
    clusters: Sequence[str],
    holder: str,
    length: timedelta,
    *,
    stood_still: Iterable[Lease] = (),
) -> dict[str, Lease]:
    """Try to take the leases of these clusters; return all leases: ours if they were free or ours already.

    `stood_still`: leases of others that the caller has seen at this step for as long as they last.
    """
    before = leases(lake, clusters)
    _step(spark, lake, clusters, holder, length, stood_still=tuple(stood_still))
    now = leases(lake, clusters)
    ends = {cluster: lease.until for cluster, lease in before.items() if lease.holder != holder}
    return {cluster: replace(lease, before=ends.get(cluster)) for cluster, lease in now.items()}


def renew_leases(
    spark: SparkSession, lake: Lake, clusters: Sequence[str], holder: str, length: timedelta
) -> dict[str, Lease]:
    """Extend the leases that are still ours, and return the last step of each cluster's lease."""
    _step(spark, lake, clusters, holder, length, only_own=True)
    return leases(lake, clusters)


def give_back(spark: SparkSession, lake: Lake, clusters: Sequence[str], holder: str) -> None:
    """End the leases that are still ours, so that a next publisher need not wait."""
    _step(spark, lake, clusters, holder, timedelta(0), only_own=True)


def leases(lake: Lake, clusters: Sequence[str]) -> dict[str, Lease]:
    """Return the last step of each cluster's lease."""
    last: dict[str, Lease] = {}
    for row in sorted(_rows(lake, clusters, (LEASE,)), key=lambda row: (row["token"], row["at"])):
        last[row["cluster"]] = Lease(row["cluster"], row["by"], row["token"], row["at"], row["until"])
    return last


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
    from pyspark.sql import functions as F

    def append() -> None:
        now = datetime.now(UTC)
        heads = (
            spark.read.format("delta")
            .load(lake.path("controls"))
            .where(F.col("cluster").isin(list(clusters)))
            .where(F.array_contains(F.array(F.lit(LEASE)), F.col("kind")))  # a form by which Delta skips no file
            .groupBy(F.col("cluster"))
            .agg(F.max_by(F.struct("by", "token", "at", "until"), F.struct("token", "at")).alias("head"))
        )
        steps = [(cluster, LEASE, now, holder, None, 0, now + length, None) for cluster in clusters]
        wanted = spark.createDataFrame(steps, TABLES["controls"].struct_type())
        linked = wanted.join(F.broadcast(heads), on="cluster", how="left")
        is_ours = F.coalesce(F.col("head.by") == holder, F.lit(False))
        free = F.col("head").isNull() | (F.col("head.until") <= F.col("head.at"))
        for lease in stood_still:
            step = zip(("head.token", "head.at", "head.until"), lease.step, strict=True)
            free |= reduce(
                and_, (F.col(name) == F.lit(value) for name, value in step), F.col("cluster") == lease.cluster
            )
        token = F.coalesce(F.col("head.token"), F.lit(0)) + F.when(is_ours, 0).otherwise(1)
        # If a clock was set back, a renewal must not look older than the row that it renews.
        at = F.greatest(F.col("at"), F.col("head.at") + F.expr("INTERVAL 1 MICROSECOND"))
        rows = linked.where(is_ours if only_own else is_ours | free).withColumn("token", token).withColumn("at", at)
        lasting = F.expr(f"at + INTERVAL {length // timedelta(microseconds=1)} MICROSECOND")
        append_frame(rows.withColumn("until", lasting).select(*TABLES["controls"].column_names()), lake, "controls")

    until_committed(append, log, "another publisher took a step first; looking again")


def _rows(lake: Lake, clusters: Sequence[str], kinds: Sequence[str]) -> list[Row]:
    """Return the steps of some kinds. The cluster alone selects files: wrong statistics must not hide a pause."""
    rows = rows_where(lake.root, "controls", is_in("cluster", clusters))
    return [row for row in rows if row["kind"] in kinds]


APPROVED, WITHOUT_SPLITS, REJECTED = "approved", "approved_without_splits", "rejected"
"""The possible answers to a plan: all of it is sent, all but splits and their dependants, nothing."""
NOBODY = "nobody"
"""The author of an answer where a question ended without one."""


def answer_row(
    cluster: str, plan_id: str, answer: str, by: str, note: str | None = None, at: datetime | None = None
) -> dict[str, Any]:
    """Return the row of an answer, given `at` that moment or now; the last one to a plan counts."""
    given = at or datetime.now(UTC)
    return {"cluster": cluster, "plan_id": plan_id, "answer": answer, "by": by, "at": given, "note": note}


def answers(lake: Lake, plan_ids: Sequence[str]) -> list[Row]:
    """Return all answers to these plans; no condition selects files, since wrong statistics must not hide one."""
    return [row for row in read_table(lake.root, "approvals") if row["plan_id"] in plan_ids] if plan_ids else []
