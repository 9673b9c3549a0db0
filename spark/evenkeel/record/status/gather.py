"""Reads from the lake what the status shows: of each cluster the newest cycles alone, of all clusters together.

What is read is bounded by the clusters and brokers that there are, and not by how long the record is: files are chosen
by what the log knows of them, and a table is opened once for all clusters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from evenkeel.errors import LakeError
from evenkeel.lake.controls import PAUSE, RESUME
from evenkeel.lake.outbox import SENT, harmed
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.model.past_commands import HARMED
from evenkeel.record.read import Attempt, Record, Row
from evenkeel.record.read.newest import newest_attempts, rows_of_clusters, whole_manifests
from evenkeel.record.read.ranges import clusters_of
from evenkeel.record.read.spans import Span
from evenkeel.record.read.tables import is_in, rows_where
from evenkeel.record.status.attention import (
    BOUNCE_SPAN,
    HARM_SPAN,
    SOLE_BUNDLE_RULES,
    StatusRows,
    is_newer,
    waits_for_approval,
)

COURSE_CYCLES = 24
"""A course of more points could not be told apart in a line."""
LIGHT = (
    *("cluster", "cycle_at", "sequence", "row_kind", "attempt_id", "attempt", "kind", "mode", "plan_id", "status"),
    *("reason", "splits", "unloads", "held", "before_max_over_mean", "source", "schema_version"),
)
"""Columns of a manifest that the cycles of a course are read with."""
_AGE_KEY = "evenkeelMaxReportAgeSeconds"
_THREADS = 4
_LOAD = ("broker", "state", "bundles", "msg_rate_in", "msg_rate_out")
_UNLOADS = ("subject", "subject_kind", "strategy", "rule", "sentence")
_GUARDS = ("subject", "subject_kind", "outcome", "rule", "sentence", "position")
_COMMANDS = (
    *("command_id", "cluster", "cycle_at", "plan_id", "step", "kind", "bundle", "from_broker", "destination", "mode"),
)
_OUTCOMES = ("command_id", "outcome", "seen_at", "detail")


@dataclass
class StatusGathered:
    """`clusters`: the rows of each. `unread`: table -> why it could not be read; what rests on it is missing then."""

    lake: str
    clusters: list[StatusRows] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)


def gather_status(lake: str | Path, *, cluster: str | None = None) -> StatusGathered:
    """The rows of all clusters on record, or of the one that is named, by name.

    Raises NoSuchCycle for a cluster that is not on record, with the nearest name, or where nothing is; LakeError where
    `cycles` cannot be read.
    """
    record = Record(lake)
    names = clusters_of(record, cluster)
    attempts = newest_attempts(record, names, COURSE_CYCLES, LIGHT)
    known = {name: own for name, own in attempts.items() if own}
    newest = whole_manifests(record, {name: own[-1] for name, own in known.items()})
    readable = {name: one for name, one in newest.items() if not is_newer(one)}
    decided = _newest_decided(record, known, readable)
    found = StatusGathered(str(lake))
    tables = _read_all(record, _reads(record, readable, decided, list(decided.values())), found.unread)
    for name, own in known.items():
        one = newest[name]
        found.clusters.append(
            StatusRows(
                cluster=name,
                attempts=[*own[:-1], one],
                newest=one,
                broker_load=tables["broker_load"].get(name, ()),
                unload_decisions=tables["unload_decisions"].get(name, ()),
                guard_decisions=tables["guard_decisions"].get(name, ()),
                failed_checks=tables["validation_results"].get(name, ()),
                harm=tables["harm"].get(name, ()),
                moves=tables["moves"].get(name, ()),
                pause=next(iter(tables["controls"].get(name, ())), None),
                answered=frozenset(str(row["plan_id"]) for row in tables["approvals"].get(name, ())),
                answer_by=_answer_by(one, tables["settings"].get(name, ())),
            )
        )
    return found


def _newest_decided(
    record: Record, attempts: Mapping[str, Sequence[Attempt]], readable: Mapping[str, Attempt]
) -> dict[str, Attempt]:
    """Of each cluster the newest cycle that came to decisions, of those that were read, with what it wrote."""
    earlier = {}
    found = {name: one for name, one in readable.items() if one.decided}
    for name in readable.keys() - found.keys():
        before = next((one for one in reversed(attempts[name]) if one.decided), None)
        if before is not None and not is_newer(before):
            earlier[name] = before
    return found | whole_manifests(record, earlier)


ByCluster = dict[str, list[Row]]


def _reads(
    record: Record, readable: Mapping[str, Attempt], decided: Mapping[str, Attempt], listed: Sequence[Attempt]
) -> dict[str, Callable[[], ByCluster]]:
    """What is to be read, by name: each is one pass over one table, or two that belong together."""
    import pyarrow.compute as pc

    skipped = [one for one in readable.values() if one.status == "skipped"]
    waiting = [one for one in readable.values() if waits_for_approval(one)]
    acting = {name: one for name, one in readable.items() if one.mode != "dry_run"}
    rules = is_in("rule", sorted(SOLE_BUNDLE_RULES)) | is_in("strategy", [BY_DRAINING])
    quarantine = is_in("severity", ["quarantine"]) & ~pc.field("passed")
    return {
        "broker_load": lambda: rows_of_clusters(record, listed, "broker_load", _LOAD),
        "unload_decisions": lambda: rows_of_clusters(record, listed, "unload_decisions", _UNLOADS, rules),
        "guard_decisions": lambda: rows_of_clusters(record, listed, "guard_decisions", _GUARDS),
        "validation_results": lambda: rows_of_clusters(record, skipped, "validation_results", ("rule",), quarantine),
        "settings": lambda: rows_of_clusters(record, waiting, "settings", ("key", "value"), is_in("key", [_AGE_KEY])),
        "approvals": lambda: _answers(record, waiting),
        "controls": lambda: _pauses(record, readable),
        "harm": lambda: _harm(record, acting),
        "moves": lambda: _moves(record, acting),
    }


def _read_all(
    record: Record, reads: Mapping[str, Callable[[], ByCluster]], unread: dict[str, str]
) -> dict[str, ByCluster]:
    """Everything at once, as most of it waits for files; what cannot be read is told of, and the rest still stands."""

    def read(name: str) -> ByCluster:
        try:
            return reads[name]()
        except LakeError as error:
            unread[name] = str(error)
            return {}

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="status") as pool:
        return dict(zip(reads, pool.map(read, reads), strict=True))


def _answers(record: Record, waiting: Sequence[Attempt]) -> ByCluster:
    plans = [one.plan_id for one in waiting if one.plan_id]
    if not plans or not record.has("approvals"):
        return {}
    names = sorted({one.cluster for one in waiting})
    return _by_cluster(
        rows_where(record.lake, "approvals", is_in("cluster", names) & is_in("plan_id", plans), ["cluster", "plan_id"])
    )


def _pauses(record: Record, attempts: Mapping[str, Attempt]) -> ByCluster:
    """The pauses that hold. Most rows of `controls` are leases: files with nothing else are left out by the log."""
    if not attempts or not record.has("controls"):
        return {}
    said = is_in("kind", [PAUSE, RESUME]) & is_in("cluster", sorted(attempts))
    columns = ["cluster", "kind", "at", "by", "reason"]
    last: dict[str, Row] = {}
    for row in rows_where(record.lake, "controls", said, columns, [("kind", ">=", PAUSE)]):
        if row["cluster"] not in last or row["at"] >= last[row["cluster"]]["at"]:
            last[row["cluster"]] = row
    return {name: [row] for name, row in last.items() if row["kind"] == PAUSE}


def _harm(record: Record, acting: Mapping[str, Attempt]) -> ByCluster:
    spans = _spans(acting, HARM_SPAN)
    seen = record.rows_between("outcomes", spans, _OUTCOMES, is_in("outcome", [HARMED]), [("outcome", "=", HARMED)])
    if not seen:
        return {}
    near: dict[str, Span] = {}
    for row in seen:
        first, last = near.get(row["cluster"], (row["cycle_at"], row["cycle_at"]))
        near[row["cluster"]] = min(first, row["cycle_at"]), max(last, row["cycle_at"])
    ids = is_in("command_id", sorted({row["command_id"] for row in seen}))
    commands = {row["command_id"]: row for row in record.rows_between("commands", near, _COMMANDS, ids)}
    return _by_cluster(harmed(commands.values(), seen))


def _moves(record: Record, acting: Mapping[str, Attempt]) -> ByCluster:
    spans = _spans(acting, BOUNCE_SPAN)
    unloads = record.rows_between("commands", spans, _COMMANDS, is_in("kind", ["unload"]))
    if not unloads:
        return {}
    sent = is_in("outcome", sorted(SENT))
    out = {row["command_id"] for row in record.rows_between("outcomes", spans, ("command_id", "outcome"), sent)}
    moved = {row["command_id"]: row for row in unloads if row["mode"] != "dry_run" and row["command_id"] in out}
    return _by_cluster(sorted(moved.values(), key=lambda row: (row["cycle_at"], row["step"])))


def _spans(attempts: Mapping[str, Attempt], back: timedelta) -> dict[str, Span]:
    return {name: (one.cycle_at - back, one.cycle_at) for name, one in attempts.items()}


def _by_cluster(rows: Iterable[Row]) -> ByCluster:
    found: ByCluster = defaultdict(list)
    for row in rows:
        found[str(row["cluster"])].append(row)
    return dict(found)


def _answer_by(attempt: Attempt, settings: Sequence[Row]) -> datetime | None:
    """Until when the plan may be approved: no plan is sent on figures that are too old."""
    if not waits_for_approval(attempt) or not settings:
        return None
    return attempt.cycle_at.astimezone(UTC) + timedelta(seconds=float(settings[0]["value"]))
