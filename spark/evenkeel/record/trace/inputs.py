"""From a decision to its inputs: writes of its own cycle, state of the cycles before, snapshot, settings, code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenkeel.lake.outbox import with_outcomes
from evenkeel.lake.schemas import TABLES
from evenkeel.record.explain.ask import Found, Times, find
from evenkeel.record.read import Attempt, Record, Row
from evenkeel.record.read.tables import is_in
from evenkeel.record.trace.answer import Decision, Inputs, Link, Written

MOST_LINKS = 10


def inputs(lake: str | Path, text: str, *, cluster: str | None = None, when: Times | None = None) -> Inputs:
    """What the decisions about a subject rest on, in the cycle in force; see `explain` for subjects and errors."""
    record = Record(lake)
    found = find(record, text, cluster, when or Times())
    return inputs_of(record, found)


def inputs_of(record: Record, found: Found) -> Inputs:
    """What the cycle found rests on."""
    attempt, row = found.attempt, found.attempt.planned
    about = None if found.bundle is None else [found.bundle]
    broker = found.subject.name if found.subject.kind == "broker" else None
    decided = decisions_of(record, [attempt], about=about, broker=broker)[attempt.attempt_id]
    if broker is not None:
        decided = tuple(one for one in decided if one.names_it)
    chain, open_end = _chain(record, attempt)
    return Inputs(
        subject=found.subject.name,
        cluster=attempt.cluster,
        cycle_at=attempt.cycle_at,
        attempt=attempt.number,
        attempt_id=attempt.attempt_id,
        plan_id=attempt.plan_id,
        snapshot=row["snapshot"],
        source=row["source"],
        settings_digest=row["settings_digest"],
        code_version=row["code_version"],
        code_digest=row["code_digest"],
        run=f"{row['dag_id'] or 'unknown'} / {row['run_id'] or 'unknown'}",
        decisions=decided,
        writes=written(row["writes"]),
        reads=written(row["reads"]),
        chain=tuple(chain),
        open_end=open_end,
        notes=tuple(_notes(attempt)),
    )


def written(rows: Sequence[Mapping[str, Any]]) -> tuple[Written, ...]:
    """Writes as a manifest lists them, those without rows left out, in the order of the pipeline."""
    order = list(TABLES)
    listed = [one for one in rows if one["rows"]]
    return tuple(
        Written(
            one["table"],
            TABLES[one["table"]].layer if one["table"] in TABLES else "unknown",
            one["write_id"],
            int(one["version"]),
            int(one["rows"]),
            one["digest"],
        )
        for one in sorted(listed, key=lambda one: order.index(one["table"]) if one["table"] in order else 99)
    )


def _chain(record: Record, attempt: Attempt) -> tuple[list[Link], bool]:
    """The predecessors, the nearest first, and whether there are more than those."""
    links: list[Link] = []
    known: dict[str, Attempt] = {}
    at, wanted = attempt.planned["predecessor_cycle_at"], attempt.planned["predecessor_attempt_id"]
    gap = None if at is None else attempt.cycle_at - at
    while wanted is not None and at is not None and gap is not None:
        if len(links) == MOST_LINKS:
            return links, True
        if wanted not in known:
            known |= {one.attempt_id: one for one in record.attempts(attempt.cluster, at - gap * MOST_LINKS, at)}
        before = known.get(wanted)
        if before is None:
            links.append(Link(at, wanted, "not on record any more", None))
            return links, False
        row = before.planned
        links.append(Link(before.cycle_at, before.attempt_id, row["predecessor_status"] or "unknown", row["snapshot"]))
        at, wanted = row["predecessor_cycle_at"], row["predecessor_attempt_id"]
    return links, False


def _notes(attempt: Attempt) -> list[str]:
    status = attempt.planned["predecessor_status"]
    if status == "missing":
        return ["The cycle that should have come before is not on record: it began without its state."]
    if status == "none":
        return ["It is the first cycle of its chain: no state was taken over."]
    return []


# What cycles decided, one entry per bundle and act.

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
