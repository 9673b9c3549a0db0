"""What cycles decided, one entry per bundle and act."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from evenkeel.audit.read import Attempt, Record, Row
from evenkeel.audit.read.tables import is_in
from evenkeel.audit.trace.model import Decision
from evenkeel.lake.outbox import with_outcomes

_TABLES = ("split_decisions", "unload_decisions", "placement_decisions")
_ACTS = ("split", "unload", "placed", "refused")


def decisions_of(
    record: Record, attempts: Sequence[Attempt], *, about: Collection[str] | None = None, broker: str | None = None
) -> dict[str, tuple[Decision, ...]]:
    """attempt_id -> what was decided, by act and bundle. `about` keeps to these bundles, `broker` marks its name."""
    found: dict[str, tuple[Decision, ...]] = {attempt.attempt_id: () for attempt in attempts}
    if not attempts:
        return found
    condition = is_in("outcome", _ACTS) & is_in("subject_kind", ["bundle"])
    if about is not None:
        condition = condition & is_in("subject", sorted(about))
    rows = {table: record.rows(attempts, table, where=condition) for table in _TABLES}
    moments = [attempt.cycle_at for attempt in attempts]
    span = attempts[0].cluster, min(moments), max(moments)
    commands = record.outbox("commands", *span)
    seen = with_outcomes(commands, record.outbox("outcomes", *span) if commands else [])
    outcomes = {(row["plan_id"], row["bundle"], row["kind"]): row["outcome"] or "open" for row in seen}
    for attempt in attempts:
        own = {table: rows[table][attempt.attempt_id] for table in _TABLES}
        found[attempt.attempt_id] = _decisions(own, attempt.plan_id, outcomes, broker)
    return found


def _decisions(
    tables: Mapping[str, Sequence[Row]],
    plan_id: str | None,
    outcomes: Mapping[tuple[str, str, str], str],
    broker: str | None,
) -> tuple[Decision, ...]:
    """An unload and its placement are one; a placement of its own is that of a bundle without owner."""
    placed = {row["subject"]: row for row in tables["placement_decisions"]}
    found = []
    for table in ("split_decisions", "unload_decisions"):
        for row in tables[table]:
            goal = placed.pop(row["subject"], None) if row["outcome"] == "unload" else None
            outcome = outcomes.get((plan_id or "", row["subject"], row["outcome"]))
            found.append(_decision(row, goal, row["outcome"], broker, outcome))
    for row in placed.values():
        act = "place" if row["outcome"] == "placed" else "refused"
        found.append(_decision(row, row, act, broker, None))
    return tuple(sorted(found, key=lambda one: (one.act, one.bundle)))


def _decision(row: Row, goal: Row | None, act: str, broker: str | None, outcome: str | None) -> Decision:
    destination = goal["destination"] if goal is not None else None
    looked_at = [candidate["broker"] for candidate in goal["candidates"]] if goal is not None else []
    names = (row["broker"], destination, *looked_at)
    return Decision(
        act=act,
        bundle=row["subject"],
        broker=row["broker"],
        destination=destination,
        sentence=row["sentence"],
        names_it=broker is not None and broker in names,
        outcome=outcome,
    )
