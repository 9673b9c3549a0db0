"""The course of a bundle or a broker over a range of time: its load cycle by cycle, and its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.explain.cycles import outbox_about
from evenkeel.explain.settings_in_force import settings_changes
from evenkeel.explain.subject import Subject
from evenkeel.heat.recorded_rows import BOUNCE, COMMAND, HELD, MOVE, SPLIT, way
from evenkeel.heat.tables import HeatTables, mark_blocks
from evenkeel.lake.outbox import SENT, harmed, with_outcomes
from evenkeel.lake.record import Attempt, Record, Row
from evenkeel.lake.record.ranges import at_moments
from evenkeel.lake.record.tables import is_in, text
from evenkeel.model.bundles import namespace_of, range_of
from evenkeel.model.load import RATES
from evenkeel.model.past_commands import FormerOwners
from evenkeel.status.attention import bounces

MOST_POINTS, LEAST_POINTS = 240, 24
MOST_ROWS_READ = 3_000_000
"""So many rows at most are looked through for the points: a cluster of many bundles has fewer points."""
BUNDLE_FIGURES = (
    *("bundle", "owner", "ownership", "topics", "producers", "consumers"),
    *(f"used_{rate}" for rate in RATES),
)
BROKER_FIGURES = (
    *("broker", "state", "is_leader", "pulsar_version", "weighted_usage", "bundles", "topics"),
    *RATES,
    *("cpu_percent", "memory_percent", "direct_memory_percent", "bandwidth_in_percent", "bandwidth_out_percent"),
)
HARM, OWNER, CAME, LEFT, SETTINGS = "harm", "owner", "came", "left", "settings"
KINDS_OF = {
    "bundle": (MOVE, OWNER, BOUNCE, SPLIT, HELD, HARM, SETTINGS),
    "broker": (CAME, LEFT, BOUNCE, SPLIT, HELD, HARM, SETTINGS),
}
"""Kind of subject -> the kinds of events of its course, in the order in which they are drawn."""
_MANIFEST = (
    *("cluster", "cycle_at", "sequence", "row_kind", "attempt_id", "attempt", "kind", "mode", "plan_id"),
    *("status", "reason", "writes"),
)
_GUARD = ("subject", "subject_kind", "position", "kind", "rule", "broker", "destination", "cycle_at", "write_id")
_LIMIT_RULES = ("below_threshold", "above_threshold", "sole_bundle")
"""Rules of ThresholdShedder and OverloadShedder whose rows hold a broker's usage beside its limit."""
_LIMIT = ("subject", "measured", "threshold", "unit")


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """The subject in one cycle.

    `row`: its row of `bundle_load` or `broker_load`, None without one; a broker's also has `compared` and `limit`,
    fractions, if a shedder compared the two. `silent`: why the cycle decided nothing, empty if it did.
    """

    at: datetime
    silent: str
    row: Row | None

    @property
    def rate(self) -> float | None:
        """Messages per second, in and out."""
        return self._sum("msg_rate")

    @property
    def throughput(self) -> float | None:
        """Bytes per second, in and out."""
        return self._sum("msg_throughput")

    @property
    def sessions(self) -> int | None:
        """Producers and consumers of a bundle."""
        row = self.row or {}
        known = [row.get(name) for name in ("producers", "consumers")]
        return None if None in known else sum(known)  # type: ignore[arg-type]

    def _sum(self, name: str) -> float | None:
        row = self.row
        if row is None:
            return None
        used = f"used_{name}" if "bundle" in row else name
        values = row[f"{used}_in"], row[f"{used}_out"]
        return None if None in values else float(sum(values))


@dataclass(frozen=True, slots=True)
class SubjectEvent:
    """Something that happened to the subject at a moment. `bundle`: the one that a broker's event is about. `is_dry`:
    it was planned in a dry run, and not asked for."""

    at: datetime
    kind: str
    words: str
    bundle: str = ""
    is_dry: bool = False


@dataclass(frozen=True)
class SubjectCourse:
    """A course, oldest first. `cycles`: number of cycles in the range; `points` show a selection if there are many."""

    subject: Subject
    cluster: str
    first: datetime
    last: datetime
    cycles: int
    points: tuple[LoadPoint, ...]
    events: tuple[SubjectEvent, ...]

    @property
    def is_thinned(self) -> bool:
        """Return True if cycles are left out of the points."""
        return self.cycles > len(self.points)

    @property
    def there(self) -> tuple[LoadPoint, ...]:
        """Return the points at which the subject was on record."""
        return tuple(point for point in self.points if point.row is not None)

    @property
    def told(self) -> tuple[LoadPoint, ...]:
        """Return the points with the subject's load, or why its cycle decided nothing; None if it is not on record."""
        return tuple(point for point in self.points if point.row is not None or point.silent) if self.there else ()

    @property
    def absent(self) -> int:
        """Return the number of points with decisions and without the subject."""
        return sum(point.row is None and not point.silent for point in self.points)


def read_course(
    record: Record, subject: Subject, cluster: str, first: datetime, last: datetime, rows_a_cycle: int
) -> SubjectCourse:
    """The course of a bundle or a broker. `rows_a_cycle`: about how many rows a cycle's tables hold of all subjects."""
    moments = record.moments(cluster, first=first, last=last)
    most = min(max(MOST_ROWS_READ // max(rows_a_cycle, 1), LEAST_POINTS), MOST_POINTS)
    chosen = thinned(moments, most)
    cycles = []
    if chosen:
        cycles = record.cycles(cluster, chosen[0], chosen[-1], _MANIFEST, at_moments(chosen))
    points = _points(record, subject, cycles)
    is_thinned = len(moments) > len(points)
    events = [*_asked(record, subject, cluster, first, last), *_held(record, subject, cluster, first, last)]
    events += [SubjectEvent(at, SETTINGS, words) for at, words in settings_changes(record, cluster, first, last)]
    if subject.kind == "bundle":
        events += _owner_events(points, with_bounces=not is_thinned)
        if is_thinned:
            events += _bounces_between(record, subject.name, cluster, first, last)
    return SubjectCourse(
        subject, cluster, first, last, len(moments), tuple(points), tuple(sorted(events, key=lambda event: event.at))
    )


def thinned(moments: Any, most: int) -> list[datetime]:
    """Return at most so many of these moments in time order: the newest of each slot of equal length."""
    at = moments.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    if len(at) <= most:
        return [moment for moment in moments.to_pylist() if moment is not None]
    slot = (at - at[0]) * most // (at[-1] - at[0] + 1)
    newest = np.flatnonzero(np.append(slot[1:] != slot[:-1], True))
    chosen: list[datetime] = moments.take(pa.array(newest)).to_pylist()
    return chosen


def _points(record: Record, subject: Subject, cycles: Sequence[Attempt]) -> list[LoadPoint]:
    decided = [cycle for cycle in cycles if cycle.decided]
    table, columns = ("broker_load", BROKER_FIGURES) if subject.kind == "broker" else ("bundle_load", BUNDLE_FIGURES)
    rows = _by_attempt(record, decided, table, columns, text(subject.kind) == subject.name)
    if subject.kind == "broker":
        compared = (text("subject") == subject.name) & is_in("rule", _LIMIT_RULES)
        limits = _by_attempt(record, decided, "unload_decisions", _LIMIT, compared)
        for attempt_id, row in rows.items():
            limit = limits.get(attempt_id)
            is_usage = limit is not None and limit["unit"] == "fraction"
            row |= {"compared": limit["measured"] if is_usage and limit else None}
            row |= {"limit": limit["threshold"] if is_usage and limit else None}
    return [LoadPoint(cycle.cycle_at, _silent(cycle), rows.get(cycle.attempt_id)) for cycle in cycles]


def _by_attempt(
    record: Record, attempts: Sequence[Attempt], table: str, columns: Sequence[str], where: Any
) -> dict[str, Row]:
    """attempt_id -> the row that meets the condition."""
    table_rows = record.arrow_rows(attempts, table, columns, where) if attempts else None
    if table_rows is None:
        return {}
    return {attempts[row.pop("attempt")].attempt_id: row for row in table_rows.to_pylist()}


def _silent(attempt: Attempt) -> str:
    return "" if attempt.decided else f"{attempt.status}: {attempt.reason or 'no reason is on record'}"


def _asked(record: Record, subject: Subject, cluster: str, first: datetime, last: datetime) -> list[SubjectEvent]:
    """Return commands about the subject with their last outcome, their harm, and a broker's bounces."""
    columns = COMMAND, ("command_id", "outcome", "seen_at", "detail")
    commands, seen = outbox_about(record, (cluster, first, last), subject, [subject.name], columns)
    known = with_outcomes(commands, seen)
    events = [_command_event(subject, row) for row in known]
    for row in harmed(known, seen):
        events.append(SubjectEvent(row["seen_at"], HARM, f"{row['kind']} did harm: {row['detail']}", row["bundle"]))
    if subject.kind == "broker":
        sent = [row for row in known if row["kind"] == "unload" and row["outcome"] in SENT]
        for row in bounces(sent):
            words = f"{way(row['from_broker'], row['destination'])}, which it left within the hour before"
            events.append(SubjectEvent(row["cycle_at"], BOUNCE, words, row["bundle"]))
    return events


def _command_event(subject: Subject, row: Mapping[str, Any]) -> SubjectEvent:
    is_dry = row["mode"] == "dry_run"
    kind = SPLIT if row["kind"] == SPLIT else MOVE
    if subject.kind == "broker" and kind == MOVE:
        kind = LEFT if row["from_broker"] == subject.name else CAME
    topic = f"topic {row['topic']} " if row.get("topic") else ""
    text = SPLIT if kind == SPLIT else f"{topic}{way(row['from_broker'], row['destination'])}"
    came_of_it = "in a dry run" if is_dry else str(row["outcome"] or "not seen yet").replace("_", " ")
    return SubjectEvent(row["cycle_at"], kind, f"{text}, {came_of_it}", row["bundle"], is_dry)


def _held(record: Record, subject: Subject, cluster: str, first: datetime, last: datetime) -> list[SubjectEvent]:
    """Commands about the subject that guards held back, by rows that manifests list."""
    named = is_in("subject", [subject.name])
    if subject.kind == "broker":
        named = is_in("broker", [subject.name]) | is_in("destination", [subject.name])
    rows = record.outbox("guard_decisions", cluster, first, last, _GUARD, named & is_in("outcome", [HELD]))
    rows = [row for row in rows if row["kind"] and row["subject_kind"] == "bundle"]
    if not rows:
        return []
    moments = {row["cycle_at"] for row in rows}
    counted = record.cycles(cluster, min(moments), max(moments), _MANIFEST, at_moments(moments))
    listed = {
        (attempt.cycle_at, write.write_id) for attempt in counted for write in attempt.writes_of("guard_decisions")
    }
    return [_held_event(row) for row in rows if (row["cycle_at"], row["write_id"]) in listed]


def _held_event(row: Mapping[str, Any]) -> SubjectEvent:
    text = SPLIT if row["kind"] == SPLIT else way(row["broker"], row["destination"])
    return SubjectEvent(row["cycle_at"], HELD, f"{text}, held by {row['rule']}", row["subject"])


def _owner_events(points: Iterable[LoadPoint], *, with_bounces: bool) -> list[SubjectEvent]:
    """Changes of a bundle's owner from point to point; those back to an owner of the hour before are bounces too."""
    known = [(point.at, str(point.row["owner"])) for point in points if point.row and point.row["owner"]]
    former, events = FormerOwners(), []
    for (_, left), (at, came_to) in pairwise(known):
        if left == came_to:
            continue
        events.append(SubjectEvent(at, OWNER, f"{left} → {came_to}"))
        milliseconds = round(at.timestamp() * 1_000)
        if with_bounces and former.is_bounce("", came_to, milliseconds):
            since = timedelta(milliseconds=milliseconds - former.known[""][came_to])
            words = f"{left} → {came_to}, which it left {max(1, round(since.total_seconds() / 60))} min before"
            events.append(SubjectEvent(at, BOUNCE, words))
        former.left("", left, milliseconds)
    return events


def _bounces_between(record: Record, bundle: str, cluster: str, first: datetime, last: datetime) -> list[SubjectEvent]:
    """Return a bundle's bounces in all cycles of a range, as the heat tables have them; none if these are not built."""
    span = range_of(bundle)
    own = (text("namespace") == namespace_of(bundle)) & (text("kind") == BOUNCE)
    own &= (pc.field("lower") == span.lower) & (pc.field("upper") == span.upper)
    rows = HeatTables(str(record.lake)).marks(cluster, [*mark_blocks(first, last)], own).to_pylist()
    return [SubjectEvent(row["at"], BOUNCE, row["text"]) for row in rows if first <= row["at"] <= last]


@dataclass(frozen=True, slots=True)
class OwnedBundles:
    """The bundles that a broker owned in a cycle: how many, the busiest of them, the names of all, and the producers
    and consumers of all together, as far as they are known."""

    number: int
    busiest: tuple[LoadPoint, ...]
    names: frozenset[str]
    sessions: int


def owned_bundles(record: Record, attempt: Attempt, broker: str, most: int) -> OwnedBundles:
    """The bundles that a broker owned in a cycle, the busiest by messages first."""
    owned = record.arrow_rows([attempt], "bundle_load", BUNDLE_FIGURES, text("owner") == broker)
    if owned is None or not owned.num_rows:
        return OwnedBundles(0, (), frozenset(), 0)
    rates = sum(
        owned.column(f"used_msg_rate_{way}").fill_null(0.0).to_numpy(zero_copy_only=False) for way in ("in", "out")
    )
    order = np.argsort(-np.asarray(rates), kind="stable")[:most]
    busiest = tuple(LoadPoint(attempt.cycle_at, "", row) for row in owned.take(pa.array(order)).to_pylist())
    sessions = sum(pc.sum(owned.column(name)).as_py() or 0 for name in ("producers", "consumers"))
    return OwnedBundles(owned.num_rows, busiest, frozenset(owned.column("bundle").to_pylist()), sessions)
