"""The answer of a trace, as data, as text for a person and as JSON for a program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, tzinfo

from evenkeel.explain import wording
from evenkeel.explain.rendering import clock, stamp
from evenkeel.lake.record import Row
from evenkeel.model import amounts


@dataclass(frozen=True, slots=True)
class StateLink:
    """A cycle whose state was taken over. `status`: how it got its own predecessor."""

    cycle_at: datetime
    attempt_id: str
    status: str
    snapshot: str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """Something decided about a bundle: `act` is split, unload, place or refused.

    `names_it`: the row itself names the broker asked for, as owner, destination or candidate. `outcome` is the last
    that was seen of its command; None where none was sent.
    """

    act: str
    bundle: str
    broker: str | None
    destination: str | None
    sentence: str
    names_it: bool
    outcome: str | None


@dataclass(frozen=True)
class Inputs:
    """Inputs of a cycle.

    `writes` and `reads`: as the manifest lists them, with the `layer` of the table: observed, checked, derived, decided
    or acted. `chain`: the cycles whose state was handed on to it, the nearest first; `open_end`: True if the chain is
    longer. `planner`: the planner's verdicts on the subject, with their table.
    """

    subject: str
    cluster: str
    cycle_at: datetime
    attempt: int
    attempt_id: str
    plan_id: str | None
    snapshot: str | None
    source: str | None
    settings_digest: str | None
    code_version: str | None
    code_digest: str | None
    run: str
    decisions: tuple[Decision, ...]
    writes: tuple[Row, ...]
    reads: tuple[Row, ...]
    chain: tuple[StateLink, ...]
    open_end: bool
    notes: tuple[str, ...]
    planner: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Resting:
    """A cycle that read the input itself, and its decisions."""

    cluster: str
    cycle_at: datetime
    attempt_id: str
    status: str
    mode: str
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class HandedOn:
    """A later cycle that uses the input through the state it took over."""

    cluster: str
    cycle_at: datetime
    attempt_id: str
    splits: int
    unloads: int
    placements: int

    @property
    def acts(self) -> bool:
        """Return True if it decided anything."""
        return bool(self.splits or self.unloads or self.placements)


@dataclass(frozen=True)
class Dependents:
    """All dependents of an input. `kind` is broker, write or snapshot; `first` and `last` bound the search."""

    kind: str
    name: str
    cluster: str
    first: datetime
    last: datetime
    direct: tuple[Resting, ...]
    handed_on: tuple[HandedOn, ...]
    notes: tuple[str, ...]

    @property
    def decisions(self) -> int:
        """Return how many decisions use it directly."""
        return sum(len(cycle.decisions) for cycle in self.direct)


MOST_HANDED_ON = 10


def as_text(answer: Inputs | Dependents, where: tzinfo = UTC) -> str:
    """The trace, with times in the zone `where`; ends with a line break."""
    lines = _inputs(answer, where) if isinstance(answer, Inputs) else _dependents(answer, where)
    return "\n".join(wording.visible(line) for line in lines) + "\n"


def _inputs(inputs: Inputs, where: tzinfo) -> Iterator[str]:
    yield f"{inputs.subject} in cluster {inputs.cluster}, cycle of {clock(inputs.cycle_at, where)}"
    yield f"attempt {inputs.attempt} ({inputs.attempt_id}), plan {inputs.plan_id or 'none'}"
    yield ""
    yield "Decided"
    yield from [f"  {_decision(decision)}" for decision in inputs.decisions] or ["  nothing that acts"]
    if inputs.planner:
        yield ""
        yield "Evenkeel's planner"
        yield from (f"  {_planner_word(word)}" for word in inputs.planner)
    yield ""
    yield "Rests on"
    yield f"  snapshot {inputs.snapshot or 'unknown'} ({inputs.source or 'unknown source'})"
    yield f"  settings {inputs.settings_digest or 'unknown'}"
    yield f"  code {inputs.code_version or 'unknown'}, digest {inputs.code_digest or 'unknown'}"
    yield f"  run {inputs.run}"
    yield from _written("Written in this cycle", inputs.writes)
    yield from _written("Read from the cycle before", inputs.reads)
    yield ""
    yield "State was handed on from"
    for link in inputs.chain:
        yield f"  {clock(link.cycle_at, where)}  attempt {link.attempt_id[:16]}  {link.snapshot or 'no snapshot'}"
    if inputs.open_end:
        yield "  and from cycles before"
    if not inputs.chain:
        yield "  no cycle"
    yield from inputs.notes


def _written(title: str, writes: Sequence[Row]) -> Iterator[str]:
    if not writes:
        return
    yield ""
    yield title
    wide = max(len(write["table"]) for write in writes)
    for write in writes:
        place = f"{write['table']:<{wide}}  {write['layer']:<8}  write {write['write_id']}"
        yield f"  {place}  version {write['version']}  {amounts.plural(write['rows'], 'row')}"


def _decision(decision: Decision) -> str:
    start = f" from {decision.broker}" if decision.broker and decision.act != "split" else ""
    goal = f" to {decision.destination}" if decision.destination else ""
    outcome = f", {decision.outcome.replace('_', ' ')}" if decision.outcome else ""
    return f"{decision.act} {decision.bundle}{start}{goal}{outcome}"


def _planner_word(word: Row) -> str:
    kind = "finding" if word["table"] == "planner_findings" else word["outcome"]
    goal = f" to {word['destination']}" if word["destination"] else ""
    return f"{kind} {word['subject']}{goal}: {word['sentence']}"


def _dependents(dependents: Dependents, where: tzinfo) -> Iterator[str]:
    span = clock(dependents.first, where)
    if dependents.last != dependents.first:
        span += f" to {clock(dependents.last, where)}"
    yield f"{dependents.kind} {dependents.name} in cluster {dependents.cluster}, {span}"
    yield from dependents.notes
    yield ""
    number = dependents.decisions
    cycles = amounts.plural(len(dependents.direct), "cycle")
    if number:
        words = "This decision rests" if number == 1 else f"These {number:,} decisions rest"
        yield f"{words} on it directly, in {cycles} that read it:"
    else:
        yield f"No decision that acts rests on it directly; {cycles} read it."
    for cycle in dependents.direct:
        if cycle.decisions:
            yield f"  {clock(cycle.cycle_at, where)} ({cycle.mode.replace('_', ' ')})"
        for decision in cycle.decisions:
            yield f"    {_decision(decision)}{_how(decision) if dependents.kind == 'broker' else ''}"
    yield ""
    yield from _handed_on(dependents.handed_on, where)


def _how(decision: Decision) -> str:
    """Return how a decision uses a broker's report: a split reads its own broker only, all others every broker."""
    if decision.names_it:
        return " [names it]"
    return " [same cycle]" if decision.act == "split" else " [compared with it]"


def _handed_on(cycles: Sequence[HandedOn], where: tzinfo) -> Iterator[str]:
    if not cycles:
        yield "No later cycle took over state that rests on it."
        return
    splits, unloads = sum(cycle.splits for cycle in cycles), sum(cycle.unloads for cycle in cycles)
    yield (
        f"By state handed on, {amounts.plural(len(cycles), 'later cycle')} up to {clock(cycles[-1].cycle_at, where)}, "
        f"with {amounts.plural(splits, 'split')} and {amounts.plural(unloads, 'unload')}:"
    )
    acting = [cycle for cycle in cycles if cycle.acts]
    for decision in acting[:MOST_HANDED_ON]:
        counts = (decision.splits, "split"), (decision.unloads, "unload"), (decision.placements, "placement")
        yield f"  {clock(decision.cycle_at, where)}  {', '.join(amounts.plural(*count) for count in counts)}"
    if len(acting) > MOST_HANDED_ON:
        yield f"  and {amounts.plural(len(acting) - MOST_HANDED_ON, 'more cycle')} that decided something"
    if not acting:
        yield "  none of them decided anything"


# A trace as JSON for a program; keys are documented in docs/reference/explain-json.md and stay as they are.

VERSION = 1


def as_json(answer: Inputs | Dependents) -> str:
    """The text of one JSON object."""
    body = asdict(answer) | {"type": "inputs" if isinstance(answer, Inputs) else "dependents", "version": VERSION}
    if isinstance(answer, Dependents):
        body["direct_decisions"] = answer.decisions
    return json.dumps(body, ensure_ascii=False, indent=2, default=stamp)
