"""From the lake to the rows of an explanation (of the cycles in question only), and to a course of many cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from evenkeel.errors import LakeError
from evenkeel.explain.explanation import ACTS, PLANNER, PLANNER_KEY, Course, CycleFacts, Moment, Quiet, moment_of
from evenkeel.explain.subject import Subject
from evenkeel.explain.wording import time
from evenkeel.lake.record import Attempt, Record, Row
from evenkeel.lake.record.tables import is_in, text
from evenkeel.model.amounts import plural
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.model.topics import parse_topic
from evenkeel.settings.compatibility import PLACEMENT
from evenkeel.times import utc_seconds

DECIDED = ("split_decisions", *PLANNER, "unload_decisions", "placement_decisions", "guard_decisions")
_BUNDLE = (
    *("bundle", "owner", "ownership", "topics", "used_msg_rate_in", "used_msg_rate_out"),
    *("used_msg_throughput_in", "used_msg_throughput_out", "samples_since_quota"),
)
_BROKER = (
    *("broker", "state", "weighted_usage", "topics", "bundles", "msg_rate_in", "msg_rate_out"),
    *("msg_throughput_in", "msg_throughput_out"),
)

Rows = Mapping[str, Sequence[Row]]
"""attempt_id -> rows."""


def places_of(record: Record, attempts: Sequence[Attempt], subject: Subject) -> dict[str, Row]:
    """Return attempt_id -> the row of `bundle_load` or `broker_load` with the place of the subject, if there is one.

    A topic's place is that of the bundle whose range contains its hash in that cycle.
    """
    table, columns, condition = _where(subject)
    places = record.rows(attempts, table, columns=columns, where=condition)
    return {attempt_id: rows[0] for attempt_id, rows in places.items() if rows}


def _where(subject: Subject) -> tuple[str, tuple[str, ...], Any]:
    import pyarrow.compute as pc

    if subject.kind == "broker":
        return "broker_load", _BROKER, text("broker") == subject.name
    if subject.kind == "bundle":
        return "bundle_load", _BUNDLE, text("bundle") == subject.name
    topic = parse_topic(subject.name, scalable=True)
    upper = (pc.field("upper") > topic.hash) | (pc.field("upper") == HIGHEST_HASH)
    return ("bundle_load", _BUNDLE, (text("namespace") == topic.namespace) & (pc.field("lower") <= topic.hash) & upper)


def bundle_of(subject: Subject, row: Row | None) -> str | None:
    """Return the bundle that a question is about; `row`: the place of a topic in the cycle."""
    if subject.kind == "topic":
        return None if row is None else str(row["bundle"])
    return subject.name if subject.kind == "bundle" else None


def facts_of(
    record: Record, attempts: Sequence[Attempt], subject: Subject, where: Mapping[str, Row]
) -> dict[str, CycleFacts]:
    """Return attempt_id -> all rows of its explanation, for one attempt or more. `where`: the result of `places_of`."""
    bundles = {attempt.attempt_id: bundle_of(subject, where.get(attempt.attempt_id)) for attempt in attempts}
    named = sorted({bundle for bundle in bundles.values() if bundle})
    tables = {table: _decided(record, attempts, table, subject, named, where) for table in DECIDED}
    wanted = is_in("key", [PLACEMENT, PLANNER_KEY])
    tables["settings"] = record.rows(attempts, "settings", columns=["key", "value"], where=wanted)
    gone = _incomplete(record, attempts)
    moments = [attempt.cycle_at for attempt in attempts]
    span = attempts[0].cluster, min(moments), max(moments)
    commands, outcomes = outbox_about(record, span, subject, named)
    loads = "broker_load" if subject.kind == "broker" else "bundle_load"
    facts = {}
    for attempt in attempts:
        row = where.get(attempt.attempt_id)
        rows_of = {table: rows[attempt.attempt_id] for table, rows in tables.items()}
        rows_of |= {"bundle_load": [], "broker_load": []}
        rows_of[loads] = [] if row is None else [row]
        asked = [c for c in commands if (c["cycle_at"], c["plan_id"]) == (attempt.cycle_at, attempt.plan_id)]
        facts[attempt.attempt_id] = CycleFacts(
            attempt=attempt,
            subject=subject,
            bundle=bundles[attempt.attempt_id],
            tables=rows_of,
            commands=[c for c in asked if subject.kind == "broker" or _is_of(c, subject, bundles[attempt.attempt_id])],
            outcomes=outcomes,
            notes=gone[attempt.attempt_id],
        )
    return facts


def _is_of(command: Row, subject: Subject, bundle: str | None) -> bool:
    """Return True if a command is about the bundle; of a topic, not one for another topic of its bundle."""
    if subject.kind == "topic" and command.get("topic") is not None:
        return bool(command["topic"] == subject.name)
    return bool(command["bundle"] == bundle)


def _decided(
    record: Record,
    attempts: Sequence[Attempt],
    table: str,
    subject: Subject,
    bundles: Sequence[str],
    where: Mapping[str, Row],
) -> Rows:
    """Return the rows about the subject, and their alternatives."""
    with_brokers = table in ("unload_decisions", *PLANNER)
    whole = is_in("subject_kind", ["cluster", "broker"] if with_brokers else ["cluster"])
    if subject.kind == "broker":
        named = is_in("broker", [subject.name])
        if table in ("planner_targets", "placement_decisions", "guard_decisions"):
            named = named | is_in("destination", [subject.name])
        return record.rows(attempts, table, where=whole | named)
    condition = whole | is_in("subject", [*bundles, subject.name])
    if table == "unload_decisions":
        owners = sorted({row["owner"] for row in where.values() if row["owner"]})
        condition = condition | is_in("broker", owners)
    return record.rows(attempts, table, where=condition)


def outbox_about(
    record: Record,
    span: tuple[str, datetime, datetime],
    subject: Subject,
    bundles: Sequence[str],
    columns: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
) -> tuple[list[Row], list[Row]]:
    """Return the commands about a subject, and their observed outcomes.

    `bundles`: whose commands they are, unless the subject is a broker. `span`: cluster, and the first and last cycle;
    `columns`: of the commands and of the outcomes, None for all.
    """
    named = is_in("bundle", bundles)
    if subject.kind == "broker":
        named = is_in("from_broker", [subject.name]) | is_in("destination", [subject.name])
    commands = record.outbox("commands", *span, columns[0], named)
    if not commands:
        return [], []
    ids = is_in("command_id", sorted({row["command_id"] for row in commands}))
    return commands, record.outbox("outcomes", *span, columns[1], ids)


def _incomplete(record: Record, attempts: Sequence[Attempt]) -> dict[str, tuple[str, ...]]:
    """Return by attempt a sentence on the tables that lack rows listed in its manifest."""
    missing: dict[str, list[str]] = {attempt.attempt_id: [] for attempt in attempts}
    for table in DECIDED:
        counted = record.counts(attempts, table)
        for attempt in attempts:
            if counted[attempt.attempt_id] < sum(write.rows for write in attempt.writes_of(table)):
                missing[attempt.attempt_id].append(table)
    return {
        attempt_id: (f"Rows of {', '.join(tables)} are past their retention: decisions without an act are missing.",)
        if tables
        else ()
        for attempt_id, tables in missing.items()
    }


def require_rows(record: Record, attempt: Attempt, table: str) -> None:
    """Raise LakeError if the attempt's rows of a table are past their retention; it names the oldest kept rows."""
    listed = sum(write.rows for write in attempt.writes_of(table))
    if not listed or record.counts([attempt], table)[attempt.attempt_id]:
        return
    kept = record.dates(table, attempt.cluster)
    oldest = f"the oldest kept are of {kept[0].isoformat()}" if kept else "none are kept"
    raise LakeError(
        f"the rows of {table} of {attempt.cluster} at {attempt.cycle_at.isoformat()} are past their retention: "
        f"{oldest}. What was decided in that cycle is in its report, if one was written."
    )


# A range of cycles: those in which something was done in full, the others in one line per stretch.

# Moments that are shown in full. For more, narrow the range, or use SQL.
MOST_MOMENTS = 50


def course_of(
    record: Record,
    subject: Subject,
    attempts: Sequence[Attempt],
    where: Mapping[str, Row],
    span: tuple[datetime, datetime],
) -> Course:
    """Return the course of a subject. `where` has its place per attempt (see `places_of`)."""
    decided = [attempt for attempt in attempts if attempt.decided]
    eventful = _eventful(record, decided, subject, where)
    shown = [attempt for attempt in decided if attempt.attempt_id in eventful][:MOST_MOMENTS]
    facts = facts_of(record, shown, subject, where) if shown else {}
    moments = {attempt.attempt_id: moment_of(facts[attempt.attempt_id]) for attempt in shown}
    notes = []
    if len(eventful) > MOST_MOMENTS:
        after = shown[-1].cycle_at
        notes.append(
            f"Acts happened in {len(eventful):,} of these cycles; the first {MOST_MOMENTS} are told in full. Ask "
            f"for the others with --from {utc_seconds(after)}."
        )
    steps: list[Moment | Quiet] = []
    for _, stretch in groupby(attempts, key=lambda attempt: _stretch(attempt, subject, where, moments)):
        cycles = list(stretch)
        if cycles[0].attempt_id in moments:
            steps += [moments[cycle.attempt_id] for cycle in cycles]
        else:
            steps.append(_quiet(cycles, subject, where))
    return Course(
        subject=subject,
        cluster=attempts[0].cluster,
        first=span[0],
        last=span[1],
        cycles=len(attempts),
        steps=tuple(steps),
        notes=tuple(notes),
    )


def _eventful(
    record: Record, attempts: Sequence[Attempt], subject: Subject, where: Mapping[str, Row]
) -> frozenset[str]:
    """The attempts in which something was decided about the subject, held back, or sent."""
    if not attempts:
        return frozenset()
    eventful: set[str] = set()
    for table in ("split_decisions", "unload_decisions", "placement_decisions", "guard_decisions"):
        condition = _named(table, subject, where)
        if table != "guard_decisions":
            condition = condition & is_in("outcome", sorted(ACTS))
        rows = record.rows(attempts, table, columns=["subject"], where=condition)
        eventful |= {
            attempt_id
            for attempt_id, attempt_rows in rows.items()
            if _is_about(attempt_rows, subject, where.get(attempt_id))
        }
    span = attempts[0].cluster, attempts[0].cycle_at, attempts[-1].cycle_at
    commands = record.outbox("commands", *span, ["cycle_at", "plan_id"], _named("commands", subject, where))
    asked = {(row["cycle_at"], row["plan_id"]) for row in commands}
    return frozenset(
        eventful | {attempt.attempt_id for attempt in attempts if (attempt.cycle_at, attempt.plan_id) in asked}
    )


def _is_about(rows: Sequence[Row], subject: Subject, row: Row | None) -> bool:
    """Return True if a row is about the subject; a topic's bundle is that of the row's cycle."""
    if subject.kind != "topic":
        return bool(rows)
    bundle = bundle_of(subject, row)
    return any(command["subject"] in (bundle, subject.name) for command in rows)


def _named(table: str, subject: Subject, where: Mapping[str, Row]) -> Any:
    if subject.kind != "broker":
        bundles = {name for row in where.values() if (name := bundle_of(subject, row))} or {subject.name}
        if table == "commands":
            return is_in("bundle", sorted(bundles))
        return is_in("subject", sorted(bundles | {subject.name}))
    condition = is_in("from_broker" if table == "commands" else "broker", [subject.name])
    if table in ("placement_decisions", "guard_decisions", "commands"):
        condition = condition | is_in("destination", [subject.name])
    return condition


def _stretch(
    attempt: Attempt, subject: Subject, where: Mapping[str, Row], moments: Mapping[str, Moment]
) -> tuple[Any, ...]:
    """Return a key that is equal for neighbours which share a line."""
    if attempt.attempt_id in moments:
        return ("told",)
    if not attempt.decided:
        return ("undecided", attempt.status, attempt.reason)
    row = where.get(attempt.attempt_id)
    if row is None:
        return ("not there",)
    return ("there", row["bundle"], row["owner"], row["ownership"]) if subject.kind != "broker" else (row["state"],)


def _quiet(cycles: Sequence[Attempt], subject: Subject, where: Mapping[str, Row]) -> Quiet:
    first, last = cycles[0], cycles[-1]
    row = where.get(first.attempt_id)
    return Quiet(
        first=first.cycle_at,
        last=last.cycle_at,
        cycles=len(cycles),
        broker=None if row is None or subject.kind == "broker" else row["owner"],
        sentence=_sentence(cycles, subject, row),
    )


def _sentence(cycles: Sequence[Attempt], subject: Subject, row: Row | None) -> str:
    first, number = cycles[0], plural(len(cycles), "cycle")
    if not first.decided:
        return f"{number} {first.status}: {first.reason or 'no reason is on record'}"
    if row is None:
        return f"{number}: it is not on record in them, the first is that of {time(first.cycle_at)}."
    if subject.kind == "broker":
        state = "" if row["state"] == "reported" else f", {row['state'].replace('_', ' ')}"
        return f"{number}: nothing was moved from or to it{state}."
    name = f" in {row['bundle']}" if subject.kind == "topic" else ""
    owner = f"on {row['owner']}" if row["owner"] else row["ownership"]
    return f"{number}: it was {owner}{name}; nothing was done."
