"""A range of cycles: those in which something was done in full, the others in one line per stretch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from evenkeel.record.explain.gather import bundle_of, facts_of
from evenkeel.record.explain.model import ACTS, Course, Moment, Quiet, moment_of
from evenkeel.record.explain.subject import Subject
from evenkeel.record.read import Attempt, Record, Row
from evenkeel.record.read.tables import is_in
from evenkeel.record.wording import plural, time

# What is told in full. A range with more is a question for a narrower one, or for SQL.
MOST_MOMENTS = 50


def course_of(
    record: Record,
    subject: Subject,
    attempts: Sequence[Attempt],
    where: Mapping[str, Row],
    span: tuple[datetime, datetime],
) -> Course:
    """The course of a subject. `where` says per attempt where it was (see `gather.standing`)."""
    decided = [attempt for attempt in attempts if attempt.decided]
    eventful = _eventful(record, decided, subject, where)
    told = [attempt for attempt in decided if attempt.attempt_id in eventful][:MOST_MOMENTS]
    facts = facts_of(record, told, subject, where) if told else {}
    moments = {attempt.attempt_id: moment_of(facts[attempt.attempt_id]) for attempt in told}
    notes = []
    if len(eventful) > MOST_MOMENTS:
        after = told[-1].cycle_at
        notes.append(
            f"Something was done in {len(eventful):,} of these cycles; the first {MOST_MOMENTS} are told in full. Ask "
            f"for the others with --from {after.strftime('%Y-%m-%dT%H:%M:%SZ')}."
        )
    return Course(
        subject=subject,
        cluster=attempts[0].cluster,
        first=span[0],
        last=span[1],
        cycles=len(attempts),
        steps=tuple(_steps(attempts, subject, where, moments)),
        notes=tuple(notes),
    )


def _eventful(
    record: Record, attempts: Sequence[Attempt], subject: Subject, where: Mapping[str, Row]
) -> frozenset[str]:
    """The attempts in which something was decided about the subject, held back, or sent."""
    if not attempts:
        return frozenset()
    found: set[str] = set()
    for table in ("split_decisions", "unload_decisions", "placement_decisions", "guard_decisions"):
        condition = _named(table, subject, where)
        if table != "guard_decisions":
            condition = condition & is_in("outcome", sorted(ACTS))
        rows = record.rows(attempts, table, columns=["subject"], where=condition)
        found |= {attempt_id for attempt_id, own in rows.items() if _is_about(own, subject, where.get(attempt_id))}
    span = attempts[0].cluster, attempts[0].cycle_at, attempts[-1].cycle_at
    commands = record.outbox("commands", *span, ["cycle_at", "plan_id"], _named("commands", subject, where))
    asked = {(row["cycle_at"], row["plan_id"]) for row in commands}
    return frozenset(found | {one.attempt_id for one in attempts if (one.cycle_at, one.plan_id) in asked})


def _is_about(rows: Sequence[Row], subject: Subject, row: Row | None) -> bool:
    """A topic's bundle changes in time: rows about another cycle's bundle are about another."""
    if subject.kind != "topic":
        return bool(rows)
    bundle = bundle_of(subject, row)
    return any(one["subject"] == bundle for one in rows)


def _named(table: str, subject: Subject, where: Mapping[str, Row]) -> Any:
    if subject.kind != "broker":
        bundles = sorted({name for row in where.values() if (name := bundle_of(subject, row))} or {subject.name})
        return is_in("bundle" if table == "commands" else "subject", bundles)
    condition = is_in("from_broker" if table == "commands" else "broker", [subject.name])
    if table in ("placement_decisions", "guard_decisions", "commands"):
        condition = condition | is_in("destination", [subject.name])
    return condition


def _steps(
    attempts: Sequence[Attempt], subject: Subject, where: Mapping[str, Row], moments: Mapping[str, Moment]
) -> list[Moment | Quiet]:
    steps: list[Moment | Quiet] = []
    for _, stretch in groupby(attempts, key=lambda one: _stretch(one, subject, where, moments)):
        cycles = list(stretch)
        if cycles[0].attempt_id in moments:
            steps += [moments[one.attempt_id] for one in cycles]
        else:
            steps.append(_quiet(cycles, subject, where))
    return steps


def _stretch(
    attempt: Attempt, subject: Subject, where: Mapping[str, Row], moments: Mapping[str, Moment]
) -> tuple[Any, ...]:
    """Equal for neighbours that are told in one line."""
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
