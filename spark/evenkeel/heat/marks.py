"""Marks on the heat map: moves and splits that cycles requested, commands that guards held back, and bounces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.heat.loads import LOADS
from evenkeel.heat.owner_changes import Bundle, OwnerChange, bounces_among
from evenkeel.lake.outbox import with_outcomes
from evenkeel.lake.record import Attempt, Record
from evenkeel.lake.record.tables import is_in, text
from evenkeel.model.bundles import namespace_of, range_of
from evenkeel.model.past_commands import BOUNCE_MS

MarkRow = dict[str, Any]
BOUNCE, SPLIT, HELD, MOVE = "bounce", "split", "held", "move"
KINDS = (BOUNCE, SPLIT, HELD, MOVE)
_COMMAND = (
    "cluster",
    "command_id",
    "plan_id",
    "cycle_at",
    "step",
    "kind",
    "bundle",
    "from_broker",
    "destination",
    "mode",
    "topic",
)
_GUARD = ("subject", "subject_kind", "position", "kind", "outcome", "rule", "broker", "destination")
_TICK = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def command_marks(record: Record, attempts: Sequence[Attempt]) -> list[MarkRow]:
    """Return marks of the requests of ordered attempts of one cluster, and of those that their guards held back.

    The text has source and destination, and the command's last outcome; of a dry run, that nothing was sent.
    """
    acting = [attempt for attempt in attempts if attempt.plan_id is not None]
    if not acting:
        return []
    plans = {(attempt.cycle_at, attempt.plan_id) for attempt in acting}
    span = (acting[0].cluster, acting[0].cycle_at, acting[-1].cycle_at)
    commands = [
        row for row in record.outbox("commands", *span, columns=_COMMAND) if (row["cycle_at"], row["plan_id"]) in plans
    ]
    seen = record.outbox("outcomes", *span, columns=["command_id", "outcome", "seen_at", "detail"]) if commands else []
    marks = [_command_mark(row) for row in with_outcomes(commands, seen)]
    listing = [attempt for attempt in acting if any(write.rows for write in attempt.writes_of("guard_decisions"))]
    if listing:
        held = record.rows(listing, "guard_decisions", columns=_GUARD, where=text("outcome") == HELD)
        marks += [
            _held_mark(attempt.cycle_at, row) for attempt in listing for row in held[attempt.attempt_id] if row["kind"]
        ]
    return [mark for mark in marks if mark]


def _command_mark(row: Mapping[str, Any]) -> MarkRow:
    word = "" if row["outcome"] is None else f", {row['outcome']}"
    if row["kind"] == SPLIT:
        return _mark(row["cycle_at"], SPLIT, row["bundle"], f"split{word}")
    subject = f"topic {row['topic']} " if row.get("topic") else ""
    return _mark(row["cycle_at"], MOVE, row["bundle"], f"{subject}{_way(row['from_broker'], row['destination'])}{word}")


def _held_mark(at: datetime, row: Mapping[str, Any]) -> MarkRow:
    way = _way(row["broker"], row["destination"]) if row["kind"] != SPLIT else SPLIT
    return _mark(at, HELD, row["subject"], f"{way} held by {row['rule']}")


def _way(source: str | None, destination: str | None) -> str:
    return f"{source or 'nobody'} → {destination or 'where Pulsar chooses'}"


def _mark(at: datetime, kind: str, bundle: str, words: str) -> MarkRow:
    """Return the mark; an empty one for a name that is not a bundle's."""
    try:
        bundle_range = range_of(bundle)
        return _row(at, kind, (namespace_of(bundle), bundle_range.lower, bundle_range.upper), words)
    except BadInput:
        return {}


def _row(at: datetime, kind: str, bundle: Bundle, words: str) -> MarkRow:
    namespace, lower, upper = bundle
    return {"at": at, "kind": kind, "namespace": namespace, "lower": lower, "upper": upper, "text": words}


def bounce_marks(record: Record, cluster: str, changes: Sequence[OwnerChange]) -> list[MarkRow]:
    """Return marks of ordered changes of owner that bring a bundle back to a broker of the hour before.

    The owners in the hour before the first change are read from the record.
    """
    if not changes:
        return []
    at = {change.at: moment_of(change.at) for change in changes}
    earlier = _owners_before(record, cluster, at[changes[0].at], {change.name for change in changes})
    return [
        _row(
            at[bounce.at],
            BOUNCE,
            bounce.bundle,
            f"{bounce.left} → {bounce.came_to}, which it left {_minutes(since)} before",
        )
        for bounce, since in bounces_among(changes, earlier)
    ]


def _owners_before(
    record: Record, cluster: str, at: datetime, bundles: Iterable[str]
) -> dict[str, list[tuple[int, str]]]:
    since = at - timedelta(milliseconds=BOUNCE_MS)
    before = record.in_force(cluster, since)
    first = since if before is None else before.cycle_at
    attempts = record.cycles(cluster, first, at - _TICK)
    rows = record.arrow_rows(attempts, LOADS, ["bundle", "owner"], is_in("bundle", sorted(bundles)))
    owners: dict[str, list[tuple[int, str]]] = {}
    if rows is not None:
        for row in rows.sort_by("attempt").to_pylist():
            if row["owner"] is not None:
                moment = microseconds(attempts[row["attempt"]].cycle_at)
                owners.setdefault(row["bundle"], []).append((moment, row["owner"]))
    return owners


def _minutes(microseconds: int) -> str:
    return f"{max(1, round(microseconds / 60_000_000))} min"


def microseconds(at: datetime) -> int:
    """Return microseconds since 1970."""
    return (at - _EPOCH) // _TICK


def moment_of(microseconds: int) -> datetime:
    """Return the moment so many microseconds after the beginning of 1970, in UTC."""
    return _EPOCH + microseconds * _TICK
