"""From an input to all decisions that rest on it: of cycles that read it, and of later ones by state handed on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.record.explain import missing
from evenkeel.record.explain.ask import Times, cycles_within
from evenkeel.record.explain.subject import Subject
from evenkeel.record.read import Attempt, Record
from evenkeel.record.read.record import FIRST_MOMENT, LAST_MOMENT
from evenkeel.record.read.tables import text
from evenkeel.record.trace.answer import Dependents, HandedOn, Resting
from evenkeel.record.trace.inputs import decisions_of
from evenkeel.record.wording import listed, plural, time

_BACK = (timedelta(days=2), timedelta(days=30), timedelta(days=36_500))
_LEAST_DIGITS = 6


def of_broker(lake: str | Path, broker: str, *, cluster: str | None = None, when: Times | None = None) -> Dependents:
    """What rests on the reports of a broker over a range: all that the cycles decided which read them.

    A cycle compares every broker with all others, so each of its decisions rests on each report; those whose own row
    names the broker are marked. Cycles that left its report out (no answer, rejected) do not count.
    """
    record, when = Record(lake), when or Times()
    clusters = missing.known_clusters(record, cluster)
    first, last, there = cycles_within(record, clusters, when)
    states = {name: _states(record, attempts, broker) for name, attempts in there.items()}
    having = sorted(name for name, known in states.items() if known)
    subject = Subject("broker", broker)
    if len(having) > 1:
        raise missing.several_clusters(subject, having)
    if not having:
        name = sorted(there)[0]
        decided = [attempt for attempt in there[name] if attempt.decided] or there[name]
        raise missing.unknown(record, decided[-1], subject)
    (name,) = having
    read = [one for one in there[name] if one.decided and states[name].get(one.attempt_id) == "reported"]
    left_out = Counter(state for state in states[name].values() if state != "reported")
    notes = [f"Its report was read in {len(read):,} of {plural(len(there[name]), 'cycle')}."]
    if left_out:
        told = [f"{plural(number, 'cycle')} {state.replace('_', ' ')}" for state, number in sorted(left_out.items())]
        notes.append(f"Left out: {listed(told)}.")
    return _dependents(record, ("broker", broker), name, (first, last), read, notes, broker)


def _states(record: Record, attempts: Sequence[Attempt], broker: str) -> dict[str, str]:
    rows = record.rows(attempts, "broker_load", columns=["broker", "state"], where=is_broker(broker))
    return {attempt_id: own[0]["state"] for attempt_id, own in rows.items() if own}


def is_broker(broker: str) -> Any:
    """Rows of a broker."""

    return text("broker") == broker


def of_snapshot(lake: str | Path, snapshot: str, *, cluster: str | None = None) -> Dependents:
    """What rests on a landed snapshot, named in full or by the end of its path."""
    import pyarrow.compute as pc

    record = Record(lake)
    clusters = missing.known_clusters(record, cluster)
    field = text("snapshot")
    found = _by_manifest(record, clusters, field == snapshot) or _by_manifest(
        record, clusters, pc.ends_with(field, pattern="/" + snapshot.lstrip("/"))
    )
    names = sorted({str(attempt.planned["snapshot"]) for attempt in found})
    if not found:
        raise BadInput(
            f"no manifest names a snapshot {snapshot!r} ({', '.join(clusters)}). {_newest_snapshot(record, clusters)}"
        )
    if len(names) > 1:
        raise BadInput(f"{snapshot!r} fits {len(names)} snapshots: {', '.join(names[:5])}. Give the path in full.")
    return _of_attempts(record, ("snapshot", names[0]), found)


def _newest_snapshot(record: Record, clusters: Sequence[str]) -> str:
    newest = [one for name in clusters if (one := record.in_force(name, LAST_MOMENT)) is not None]
    named = [f"{one.planned['snapshot']} ({one.cluster})" for one in newest if one.planned["snapshot"]]
    return f"The newest are {listed(named)}." if named else "None of the newest cycles names one."


def _by_manifest(record: Record, clusters: Sequence[str], condition: Any) -> list[Attempt]:
    return [
        attempt for name in clusters for attempt in record.attempts(name, FIRST_MOMENT, LAST_MOMENT, where=condition)
    ]


def of_write(lake: str | Path, write_id: str, *, cluster: str | None = None) -> Dependents:
    """What rests on a write: the cycle that made it, and those that read it or what came of it.

    `write_id` may be shortened to its beginning. The newest cycles are searched first.
    """
    if len(write_id) < _LEAST_DIGITS:
        raise BadInput(f"write {write_id!r}: give {_LEAST_DIGITS} digits of its id at least.")
    record = Record(lake)
    clusters = missing.known_clusters(record, cluster)
    for name in clusters:
        found, names = _making(record, name, write_id)
        if len(names) > 1:
            raise BadInput(f"{len(names)} writes begin with {write_id!r}: {', '.join(sorted(names)[:5])}.")
        if found:
            (whole,) = names
            table = next(w.table for one in found for w in one.writes if w.write_id == whole)
            return _of_attempts(record, ("write", f"{whole} ({table})"), found)
    firsts = [one for name in clusters if (one := record.following(name, FIRST_MOMENT)) is not None]
    oldest = f", from {time(min(one.cycle_at for one in firsts))} on" if firsts else ""
    raise BadInput(
        f"no manifest lists a write {write_id!r} ({', '.join(clusters)}{oldest}): nothing rests on it. It may be that "
        "of a try that was killed."
    )


def _making(record: Record, cluster: str, write_id: str) -> tuple[list[Attempt], set[str]]:
    """The attempts that list a write whose id begins so, and the ids that do."""
    until = LAST_MOMENT
    newest = record.in_force(cluster, LAST_MOMENT)
    start = FIRST_MOMENT if newest is None else newest.cycle_at
    for back in _BACK:
        since = max(start - min(back, start - FIRST_MOMENT), FIRST_MOMENT)
        attempts = record.listing(cluster, since, until, write_id)
        names = {w.write_id for one in attempts for w in one.writes if w.write_id.startswith(write_id)}
        if names:
            return attempts, names
        until = since
    return [], set()


def _of_attempts(record: Record, of: tuple[str, str], found: Sequence[Attempt]) -> Dependents:
    """The first cluster's attempts; a write or a snapshot is one cluster's, or its share of one."""
    name = min(attempt.cluster for attempt in found)
    own = [attempt for attempt in found if attempt.cluster == name]
    notes = [
        f"The cycle of {time(one.cycle_at)} was {one.status}: {one.reason or 'no reason is on record'}"
        for one in own
        if not one.decided
    ]
    others = sorted({attempt.cluster for attempt in found} - {name})
    if others:
        notes.append(f"It is listed for {listed(others)} as well: ask with --cluster.")
    decided = [one for one in own if one.decided]
    span = min(one.cycle_at for one in own), max(one.cycle_at for one in own)
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
        Resting(cluster, one.cycle_at, one.attempt_id, one.status, one.mode, decided[one.attempt_id])
        for one in attempts
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
    """Later cycles that read what one of these wrote, or what such a one wrote, and so on."""
    if not attempts:
        return []
    affected = {attempt.attempt_id for attempt in attempts}
    own = frozenset(affected)
    found = []
    for row in record.handovers(cluster, min(attempt.cycle_at for attempt in attempts), LAST_MOMENT):
        if row["attempt_id"] in own or row["predecessor_attempt_id"] not in affected or not row["reads"]:
            continue
        affected.add(row["attempt_id"])
        found.append(
            HandedOn(
                cluster,
                row["cycle_at"],
                row["attempt_id"],
                row["splits"] or 0,
                row["unloads"] or 0,
                row["placements"] or 0,
            )
        )
    return found
