"""From a decision to its inputs: writes of its own cycle, state of the cycles before, snapshot, settings, code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenkeel.audit.explain.ask import Found, Times, find
from evenkeel.audit.read import Attempt, Record
from evenkeel.audit.trace.decisions import decisions_of
from evenkeel.audit.trace.model import Inputs, Link, Written
from evenkeel.lake.tables import TABLES

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
