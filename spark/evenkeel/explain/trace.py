"""Lineage by the manifests: from a decision to its inputs, and from an input to its dependents; as data, text and JSON.

Inputs are writes of the decision's own cycle, state of the earlier cycles, snapshot, settings and code.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.explain import missing_data as missing
from evenkeel.explain import wording
from evenkeel.explain.ask import Times, cycles_within, find, record_of
from evenkeel.explain.explanation import PLANNER
from evenkeel.explain.rendering import clock, stamp
from evenkeel.explain.subject import Subject
from evenkeel.explain.wording import listed, time
from evenkeel.lake.outbox import with_outcomes
from evenkeel.lake.record import Attempt, Record, Row
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT
from evenkeel.lake.record.tables import is_in, text
from evenkeel.lake.schemas import TABLES
from evenkeel.model.amounts import plural

MOST_LINKS = 10
_WORDS = ("outcome", "subject", "broker", "destination", "sentence")


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


def inputs(
    lake: str | Path | Record, text: str | Subject, *, cluster: str | None = None, when: Times | None = None
) -> Inputs:
    """Return the inputs of decisions about a subject, in the cycle in force; subjects and errors as in `explain`."""
    record = record_of(lake)
    cycle = find(record, text, cluster, when or Times())
    attempt, row = cycle.attempt, cycle.attempt.planned
    about = None if cycle.bundle is None else [cycle.bundle]
    broker = cycle.subject.name if cycle.subject.kind == "broker" else None
    decided = decisions_of(record, [attempt], about=about, broker=broker)[attempt.attempt_id]
    if broker is not None:
        decided = tuple(decision for decision in decided if decision.names_it)
    chain, open_end = _chain(record, attempt)
    return Inputs(
        subject=cycle.subject.name,
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
        planner=_planner_words(record, attempt, [name for name in (cycle.bundle, cycle.subject.name) if name]),
    )


def _planner_words(record: Record, attempt: Attempt, names: Sequence[str]) -> tuple[Row, ...]:
    """Return the planner's verdicts on a bundle or a broker, and on bundles that come to it or leave it."""
    words: list[Row] = []
    for table in PLANNER:
        about = is_in("subject", names)
        if table == "planner_targets":
            acts = is_in("outcome", _ACTS)
            about = about | (acts & (is_in("broker", names) | is_in("destination", names)))
        rows = record.rows([attempt], table, where=about)[attempt.attempt_id]
        rows.sort(key=lambda row: (row["subject"] not in names, row.get("position") or 0, row["subject"], row["rule"]))
        words += [{"table": table, **{name: row.get(name) for name in _WORDS}} for row in rows]
    return tuple(words)


def written(rows: Sequence[Mapping[str, Any]]) -> tuple[Row, ...]:
    """Writes as a manifest lists them, those without rows left out, in the order of the pipeline, with their layer."""
    order = {name: (place, table.layer) for place, (name, table) in enumerate(TABLES.items())}
    placed = [(*order.get(row["table"], (99, "unknown")), row) for row in rows if row["rows"]]
    placed.sort(key=lambda one: one[0])
    names = ("write_id", "version", "rows", "commit")
    return tuple({"table": row["table"], "layer": layer} | {n: row[n] for n in names} for _, layer, row in placed)


def _chain(record: Record, attempt: Attempt) -> tuple[list[StateLink], bool]:
    """Return the predecessors, the nearest first, and True if there are more of them."""
    links: list[StateLink] = []
    known: dict[str, Attempt] = {}
    at, wanted = attempt.planned["predecessor_cycle_at"], attempt.planned["predecessor_attempt_id"]
    gap = None if at is None else attempt.cycle_at - at
    while wanted is not None and at is not None and gap is not None:
        if len(links) == MOST_LINKS:
            return links, True
        if wanted not in known:
            known |= {
                earlier.attempt_id: earlier for earlier in record.attempts(attempt.cluster, at - gap * MOST_LINKS, at)
            }
        before = known.get(wanted)
        if before is None:
            links.append(StateLink(at, wanted, "not on record any more", None))
            return links, False
        row = before.planned
        links.append(
            StateLink(before.cycle_at, before.attempt_id, row["predecessor_status"] or "unknown", row["snapshot"])
        )
        at, wanted = row["predecessor_cycle_at"], row["predecessor_attempt_id"]
    return links, False


def _notes(attempt: Attempt) -> list[str]:
    status = attempt.planned["predecessor_status"]
    if status == "missing":
        return ["The cycle that should have come before is not on record: it began without its state."]
    if status == "none":
        return ["It is the first cycle of its chain: no state was taken over."]
    return []


_TABLES = ("split_decisions", "unload_decisions", "placement_decisions")
_ACTS = ("split", "unload", "placed", "refused")


def decisions_of(
    record: Record, attempts: Sequence[Attempt], *, about: Collection[str] | None = None, broker: str | None = None
) -> dict[str, tuple[Decision, ...]]:
    """Return attempt_id -> its decisions, by act and bundle. `about`: these bundles alone; `broker` marks its name."""
    decisions: dict[str, tuple[Decision, ...]] = {attempt.attempt_id: () for attempt in attempts}
    if not attempts:
        return decisions
    condition = is_in("outcome", _ACTS) & is_in("subject_kind", ["bundle"])
    if about is not None:
        condition = condition & is_in("subject", sorted(about))
    rows = {table: record.rows(attempts, table, where=condition) for table in _TABLES}
    moments = [attempt.cycle_at for attempt in attempts]
    span = attempts[0].cluster, min(moments), max(moments)
    commands = record.outbox("commands", *span)
    seen = with_outcomes(commands, record.outbox("outcomes", *span) if commands else [])
    outcomes = {(row["plan_id"], *_done_to(row)): row["outcome"] or "open" for row in seen}
    for attempt in attempts:
        rows_of = {table: rows[table][attempt.attempt_id] for table in _TABLES}
        decisions[attempt.attempt_id] = _decisions(rows_of, attempt.plan_id, outcomes, broker)
    return decisions


def _done_to(command: Row) -> tuple[str, str]:
    """Subject and outcome of the decision that a command follows."""
    topic = command.get("topic")
    return (command["bundle"], command["kind"]) if topic is None else (topic, "unload")


def _decisions(
    tables: Mapping[str, Sequence[Row]],
    plan_id: str | None,
    outcomes: Mapping[tuple[str, str, str], str],
    broker: str | None,
) -> tuple[Decision, ...]:
    """Return the decisions: an unload with its placement is one; one without an unload is of an ownerless bundle."""
    placed = {row["subject"]: row for row in tables["placement_decisions"]}
    decisions = []
    for table in ("split_decisions", "unload_decisions"):
        for row in tables[table]:
            goal = placed.pop(row["subject"], None) if row["outcome"] == "unload" else None
            outcome = outcomes.get((plan_id or "", row["subject"], row["outcome"]))
            decisions.append(_decision(row, goal, row["outcome"], broker, outcome))
    for row in placed.values():
        act = "place" if row["outcome"] == "placed" else "refused"
        decisions.append(_decision(row, row, act, broker, None))
    return tuple(sorted(decisions, key=lambda decision: (decision.act, decision.bundle)))


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


# From an input to all its dependents: decisions of cycles that read it, and of later ones by state handed on.

_BACK = (timedelta(days=2), timedelta(days=30), timedelta(days=36_500))
_LEAST_DIGITS = 6


def of_broker(
    lake: str | Path | Record, broker: str, *, cluster: str | None = None, when: Times | None = None
) -> Dependents:
    """Return what uses a broker's reports over a range: all decisions of the cycles that read them.

    A cycle compares every broker with all others, so each of its decisions uses each report; decisions whose own row
    names the broker are marked. Cycles that left its report out (no answer, rejected) do not count.
    """
    record, when = record_of(lake), when or Times()
    clusters = missing.known_clusters(record, cluster)
    first, last, present = cycles_within(record, clusters, when)
    states = {name: _states(record, attempts, broker) for name, attempts in present.items()}
    having = sorted(name for name, known in states.items() if known)
    subject = Subject("broker", broker)
    if len(having) > 1:
        raise missing.several_clusters(subject, having)
    if not having:
        name = sorted(present)[0]
        decided = [attempt for attempt in present[name] if attempt.decided] or present[name]
        raise missing.unknown(record, decided[-1], subject)
    (name,) = having
    read = [one for one in present[name] if one.decided and states[name].get(one.attempt_id) == "reported"]
    left_out = Counter(state for state in states[name].values() if state != "reported")
    notes = [f"Its report was read in {len(read):,} of {plural(len(present[name]), 'cycle')}."]
    if left_out:
        left = [f"{plural(number, 'cycle')} {state.replace('_', ' ')}" for state, number in sorted(left_out.items())]
        notes.append(f"Left out: {listed(left)}.")
    return _dependents(record, ("broker", broker), name, (first, last), read, notes, broker)


def _states(record: Record, attempts: Sequence[Attempt], broker: str) -> dict[str, str]:
    rows = record.rows(attempts, "broker_load", columns=["broker", "state"], where=text("broker") == broker)
    return {attempt_id: state_rows[0]["state"] for attempt_id, state_rows in rows.items() if state_rows}


def of_snapshot(lake: str | Path, snapshot: str, *, cluster: str | None = None) -> Dependents:
    """Return what uses a landed snapshot, named in full or by the end of its path."""
    import pyarrow.compute as pc

    record = Record(lake)
    clusters = missing.known_clusters(record, cluster)
    field = text("snapshot")
    attempts = _by_manifest(record, clusters, field == snapshot) or _by_manifest(
        record, clusters, pc.ends_with(field, pattern="/" + snapshot.lstrip("/"))
    )
    names = sorted({str(attempt.planned["snapshot"]) for attempt in attempts})
    if not attempts:
        raise BadInput(
            f"no manifest names a snapshot {snapshot!r} ({', '.join(clusters)}). {_newest_snapshot(record, clusters)}"
        )
    if len(names) > 1:
        raise BadInput(f"{snapshot!r} fits {len(names)} snapshots: {', '.join(names[:5])}. Give the path in full.")
    return _of_attempts(record, ("snapshot", names[0]), attempts)


def _newest_snapshot(record: Record, clusters: Sequence[str]) -> str:
    newest = [one for name in clusters if (one := record.in_force(name, LAST_MOMENT)) is not None]
    named = [f"{attempt.planned['snapshot']} ({attempt.cluster})" for attempt in newest if attempt.planned["snapshot"]]
    return f"The newest are {listed(named)}." if named else "None of the newest cycles names one."


def _by_manifest(record: Record, clusters: Sequence[str], condition: Any) -> list[Attempt]:
    return [
        attempt for name in clusters for attempt in record.attempts(name, FIRST_MOMENT, LAST_MOMENT, where=condition)
    ]


def of_write(lake: str | Path, write_id: str, *, cluster: str | None = None) -> Dependents:
    """Return what uses a write: the cycle that made it, and the cycles that read it or its results.

    `write_id` may be shortened to its beginning. The newest cycles are searched first.
    """
    if len(write_id) < _LEAST_DIGITS:
        raise BadInput(f"write {write_id!r}: give {_LEAST_DIGITS} digits of its id at least.")
    record = Record(lake)
    clusters = missing.known_clusters(record, cluster)
    for name in clusters:
        attempts, names = _making(record, name, write_id)
        if len(names) > 1:
            raise BadInput(f"{len(names)} writes begin with {write_id!r}: {', '.join(sorted(names)[:5])}.")
        if attempts:
            (whole,) = names
            table = next(w.table for attempt in attempts for w in attempt.writes if w.write_id == whole)
            return _of_attempts(record, ("write", f"{whole} ({table})"), attempts)
    firsts = [one for name in clusters if (one := record.following(name, FIRST_MOMENT)) is not None]
    oldest = f", from {time(min(first.cycle_at for first in firsts))} on" if firsts else ""
    raise BadInput(
        f"no manifest lists a write {write_id!r} ({', '.join(clusters)}{oldest}): nothing rests on it. It may be that "
        "of a try that was killed."
    )


def _making(record: Record, cluster: str, write_id: str) -> tuple[list[Attempt], set[str]]:
    """Return the attempts that list a write whose id has this beginning, and these ids."""
    until = LAST_MOMENT
    newest = record.in_force(cluster, LAST_MOMENT)
    start = FIRST_MOMENT if newest is None else newest.cycle_at
    for back in _BACK:
        since = max(start - min(back, start - FIRST_MOMENT), FIRST_MOMENT)
        attempts = record.listing(cluster, since, until, write_id)
        names = {w.write_id for attempt in attempts for w in attempt.writes if w.write_id.startswith(write_id)}
        if names:
            return attempts, names
        until = since
    return [], set()


def _of_attempts(record: Record, of: tuple[str, str], attempts: Sequence[Attempt]) -> Dependents:
    """The first cluster's attempts; a write or a snapshot is one cluster's, or its share of one."""
    name = min(attempt.cluster for attempt in attempts)
    cluster_attempts = [attempt for attempt in attempts if attempt.cluster == name]
    notes = [
        f"The cycle of {time(one.cycle_at)} was {one.status}: {one.reason or 'no reason is on record'}"
        for one in cluster_attempts
        if not one.decided
    ]
    others = sorted({attempt.cluster for attempt in attempts} - {name})
    if others:
        notes.append(f"It is listed for {listed(others)} as well: ask with --cluster.")
    decided = [one for one in cluster_attempts if one.decided]
    span = min(one.cycle_at for one in cluster_attempts), max(one.cycle_at for one in cluster_attempts)
    return _dependents(record, of, name, span, decided, notes, None)


def _dependents(
    record: Record,
    of: tuple[str, str],
    cluster: str,
    span: tuple[datetime, datetime],
    attempts: Sequence[Attempt],
    notes: Sequence[str],
    broker: str | None,
) -> Dependents:
    decided = decisions_of(record, attempts, broker=broker)
    direct = tuple(
        Resting(
            cluster, attempt.cycle_at, attempt.attempt_id, attempt.status, attempt.mode, decided[attempt.attempt_id]
        )
        for attempt in attempts
    )
    handed_on = _handed_on(record, cluster, attempts)
    return Dependents(
        kind=of[0],
        name=of[1],
        cluster=cluster,
        first=span[0],
        last=span[1],
        direct=direct,
        handed_on=tuple(handed_on),
        notes=tuple(notes),
    )


def _handed_on(record: Record, cluster: str, attempts: Sequence[Attempt]) -> list[HandedOn]:
    """Return later cycles that read a write of one of these, or of such a later one, and so on."""
    if not attempts:
        return []
    affected = {attempt.attempt_id for attempt in attempts}
    affected_ids = frozenset(affected)
    cycles = []
    for row in record.handovers(cluster, min(attempt.cycle_at for attempt in attempts), LAST_MOMENT):
        if row["attempt_id"] in affected_ids or row["predecessor_attempt_id"] not in affected or not row["reads"]:
            continue
        affected.add(row["attempt_id"])
        cycles.append(
            HandedOn(
                cluster,
                row["cycle_at"],
                row["attempt_id"],
                row["splits"] or 0,
                row["unloads"] or 0,
                row["placements"] or 0,
            )
        )
    return cycles


# A trace as text for a person.

MOST_HANDED_ON = 10


def as_text(answer: Inputs | Dependents, where: tzinfo = UTC) -> str:
    """The trace, with times in the zone `where`; ends with a line break."""
    lines = _inputs_text(answer, where) if isinstance(answer, Inputs) else _dependents_text(answer, where)
    return "\n".join(wording.visible(line) for line in lines) + "\n"


def _inputs_text(inputs: Inputs, where: tzinfo) -> Iterator[str]:
    yield f"{inputs.subject} in cluster {inputs.cluster}, cycle of {clock(inputs.cycle_at, where)}"
    yield f"attempt {inputs.attempt} ({inputs.attempt_id}), plan {inputs.plan_id or 'none'}"
    yield ""
    yield "Decided"
    yield from [f"  {_decision_words(decision)}" for decision in inputs.decisions] or ["  nothing that acts"]
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
    yield from _written_text("Written in this cycle", inputs.writes)
    yield from _written_text("Read from the cycle before", inputs.reads)
    yield ""
    yield "State was handed on from"
    for link in inputs.chain:
        yield f"  {clock(link.cycle_at, where)}  attempt {link.attempt_id[:16]}  {link.snapshot or 'no snapshot'}"
    if inputs.open_end:
        yield "  and from cycles before"
    if not inputs.chain:
        yield "  no cycle"
    yield from inputs.notes


def _written_text(title: str, writes: Sequence[Row]) -> Iterator[str]:
    if not writes:
        return
    yield ""
    yield title
    wide = max(len(write["table"]) for write in writes)
    for write in writes:
        place = f"{write['table']:<{wide}}  {write['layer']:<8}  write {write['write_id']}"
        yield f"  {place}  version {write['version']}  {plural(write['rows'], 'row')}"


def _decision_words(decision: Decision) -> str:
    start = f" from {decision.broker}" if decision.broker and decision.act != "split" else ""
    goal = f" to {decision.destination}" if decision.destination else ""
    outcome = f", {decision.outcome.replace('_', ' ')}" if decision.outcome else ""
    return f"{decision.act} {decision.bundle}{start}{goal}{outcome}"


def _planner_word(word: Row) -> str:
    kind = "finding" if word["table"] == "planner_findings" else word["outcome"]
    goal = f" to {word['destination']}" if word["destination"] else ""
    return f"{kind} {word['subject']}{goal}: {word['sentence']}"


def _dependents_text(dependents: Dependents, where: tzinfo) -> Iterator[str]:
    span = clock(dependents.first, where)
    if dependents.last != dependents.first:
        span += f" to {clock(dependents.last, where)}"
    yield f"{dependents.kind} {dependents.name} in cluster {dependents.cluster}, {span}"
    yield from dependents.notes
    yield ""
    number = dependents.decisions
    cycles = plural(len(dependents.direct), "cycle")
    if number:
        words = "This decision rests" if number == 1 else f"These {number:,} decisions rest"
        yield f"{words} on it directly, in {cycles} that read it:"
    else:
        yield f"No decision that acts rests on it directly; {cycles} read it."
    for cycle in dependents.direct:
        if cycle.decisions:
            yield f"  {clock(cycle.cycle_at, where)} ({cycle.mode.replace('_', ' ')})"
        for decision in cycle.decisions:
            yield f"    {_decision_words(decision)}{_how(decision) if dependents.kind == 'broker' else ''}"
    yield ""
    yield from _handed_on_text(dependents.handed_on, where)


def _how(decision: Decision) -> str:
    """Return how a decision uses a broker's report: a split reads its own broker only, all others every broker."""
    if decision.names_it:
        return " [names it]"
    return " [same cycle]" if decision.act == "split" else " [compared with it]"


def _handed_on_text(cycles: Sequence[HandedOn], where: tzinfo) -> Iterator[str]:
    if not cycles:
        yield "No later cycle took over state that rests on it."
        return
    splits, unloads = sum(cycle.splits for cycle in cycles), sum(cycle.unloads for cycle in cycles)
    yield (
        f"By state handed on, {plural(len(cycles), 'later cycle')} up to {clock(cycles[-1].cycle_at, where)}, "
        f"with {plural(splits, 'split')} and {plural(unloads, 'unload')}:"
    )
    acting = [cycle for cycle in cycles if cycle.acts]
    for decision in acting[:MOST_HANDED_ON]:
        counts = (decision.splits, "split"), (decision.unloads, "unload"), (decision.placements, "placement")
        yield f"  {clock(decision.cycle_at, where)}  {', '.join(plural(*count) for count in counts)}"
    if len(acting) > MOST_HANDED_ON:
        yield f"  and {plural(len(acting) - MOST_HANDED_ON, 'more cycle')} that decided something"
    if not acting:
        yield "  none of them decided anything"


# A trace as JSON for a program; keys are documented in docs/reference/json.md and stay as they are.

VERSION = 1


def as_json(answer: Inputs | Dependents) -> str:
    """The text of one JSON object."""
    body = asdict(answer) | {"type": "inputs" if isinstance(answer, Inputs) else "dependents", "version": VERSION}
    if isinstance(answer, Dependents):
        body["direct_decisions"] = answer.decisions
    return json.dumps(body, ensure_ascii=False, indent=2, default=stamp)
