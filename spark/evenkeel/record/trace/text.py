"""A trace as text for a person, and as JSON for a program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, tzinfo

from evenkeel.record import wording
from evenkeel.record.explain.text import clock, stamp
from evenkeel.record.trace.model import Decision, Dependents, HandedOn, Inputs, Resting, Written

MOST_HANDED_ON = 10


def as_text(found: Inputs | Dependents, where: tzinfo = UTC) -> str:
    """The trace, with times in the zone `where`; ends with a line break."""
    lines = _inputs(found, where) if isinstance(found, Inputs) else _dependents(found, where)
    return "\n".join(wording.visible(line) for line in lines) + "\n"


def _inputs(found: Inputs, where: tzinfo) -> Iterator[str]:
    yield f"{found.subject} in cluster {found.cluster}, cycle of {clock(found.cycle_at, where)}"
    yield f"attempt {found.attempt} ({found.attempt_id}), plan {found.plan_id or 'none'}"
    yield ""
    yield "Decided"
    yield from [f"  {_decision(one)}" for one in found.decisions] or ["  nothing that acts"]
    yield ""
    yield "Rests on"
    yield f"  snapshot {found.snapshot or 'unknown'} ({found.source or 'unknown source'})"
    yield f"  settings {found.settings_digest or 'unknown'}"
    yield f"  code {found.code_version or 'unknown'}, digest {found.code_digest or 'unknown'}"
    yield f"  run {found.run}"
    yield from _written("Written in this cycle", found.writes)
    yield from _written("Read from the cycle before", found.reads)
    yield ""
    yield "State was handed on from"
    for link in found.chain:
        yield f"  {clock(link.cycle_at, where)}  attempt {link.attempt_id[:16]}  {link.snapshot or 'no snapshot'}"
    if found.open_end:
        yield "  and from cycles before"
    if not found.chain:
        yield "  no cycle"
    yield from found.notes


def _written(title: str, writes: Sequence[Written]) -> Iterator[str]:
    if not writes:
        return
    yield ""
    yield title
    wide = max(len(one.table) for one in writes)
    for one in writes:
        rows = wording.plural(one.rows, "row")
        yield f"  {one.table:<{wide}}  {one.layer:<8}  write {one.write_id}  version {one.version}  {rows}"


def _decision(one: Decision) -> str:
    start = f" from {one.broker}" if one.broker and one.act != "split" else ""
    goal = f" to {one.destination}" if one.destination else ""
    outcome = f", {one.outcome.replace('_', ' ')}" if one.outcome else ""
    return f"{one.act} {one.bundle}{start}{goal}{outcome}"


def _dependents(found: Dependents, where: tzinfo) -> Iterator[str]:
    span = clock(found.first, where)
    if found.last != found.first:
        span += f" to {clock(found.last, where)}"
    yield f"{found.kind} {found.name} in cluster {found.cluster}, {span}"
    yield from found.notes
    yield ""
    number = found.decisions
    cycles = wording.plural(len(found.direct), "cycle")
    if number:
        rest = "This decision rests" if number == 1 else f"These {number:,} decisions rest"
        yield f"{rest} on it directly, in {cycles} that read it:"
    else:
        yield f"No decision that acts rests on it directly; {cycles} read it."
    yield from _direct(found.direct, found.kind, where)
    yield ""
    yield from _handed_on(found.handed_on, where)


def _direct(cycles: Sequence[Resting], kind: str, where: tzinfo) -> Iterator[str]:
    for cycle in cycles:
        if cycle.decisions:
            yield f"  {clock(cycle.cycle_at, where)} ({cycle.mode.replace('_', ' ')})"
        for one in cycle.decisions:
            yield f"    {_decision(one)}{_how(one) if kind == 'broker' else ''}"


def _how(one: Decision) -> str:
    """How a decision rests on a broker's report: a split looks at its own broker only, all others at every broker."""
    if one.names_it:
        return " [names it]"
    return " [same cycle]" if one.act == "split" else " [compared with it]"


def _handed_on(cycles: Sequence[HandedOn], where: tzinfo) -> Iterator[str]:
    if not cycles:
        yield "No later cycle took over state that rests on it."
        return
    splits, unloads = sum(one.splits for one in cycles), sum(one.unloads for one in cycles)
    yield (
        f"By state handed on, {wording.plural(len(cycles), 'later cycle')} up to {clock(cycles[-1].cycle_at, where)}, "
        f"with {wording.plural(splits, 'split')} and {wording.plural(unloads, 'unload')}:"
    )
    acting = [one for one in cycles if one.splits or one.unloads or one.placements]
    for one in acting[:MOST_HANDED_ON]:
        acts = [wording.plural(one.splits, "split"), wording.plural(one.unloads, "unload")]
        yield f"  {clock(one.cycle_at, where)}  {', '.join(acts)}, {wording.plural(one.placements, 'placement')}"
    if len(acting) > MOST_HANDED_ON:
        yield f"  and {wording.plural(len(acting) - MOST_HANDED_ON, 'more cycle')} that decided something"
    if not acting:
        yield "  none of them decided anything"


# A trace as JSON for a program; keys are documented in docs/how-to/explain.md and stay as they are.

VERSION = 1


def as_json(found: Inputs | Dependents) -> str:
    """The text of one JSON object."""
    body = asdict(found) | {"type": "inputs" if isinstance(found, Inputs) else "dependents", "version": VERSION}
    if isinstance(found, Dependents):
        body["direct_decisions"] = found.decisions
    return json.dumps(body, ensure_ascii=False, indent=2, default=stamp)
