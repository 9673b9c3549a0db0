"""One question to the record: its cluster and cycles, and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from evenkeel.errors import BadInput, EvenkeelError, LakeError
from evenkeel.explain import missing_data as missing
from evenkeel.explain.changes import Change
from evenkeel.explain.changes.question import AskedCycle
from evenkeel.explain.cycles import bundle_of, course_of, facts_of, places_of, require_rows
from evenkeel.explain.explanation import Course, Moment, moment_of
from evenkeel.explain.subject import Subject, find_command, parse_subject
from evenkeel.explain.wording import time
from evenkeel.lake.plain_rows import as_read, types_of
from evenkeel.lake.record import LATEST, Attempt, Record, Row
from evenkeel.lake.record.known_files import LAST_MOMENT
from evenkeel.lake.record.tables import is_in
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.store import Lake
from evenkeel.model.amounts import duration, plural
from evenkeel.repetition import OBSERVED, ROUNDS, STATE, columns_looked_at
from evenkeel.spark.rows import rows_of
from evenkeel.times import Given, range_given, time_given, zone
from evenkeel.verify.recorded_cycle import background_of, restore_cycle

_LATE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Times:
    """The time of a question: a moment (None: the newest cycle), or all from one moment to another."""

    at: Given | None = None
    first: Given | None = None
    last: Given | None = None
    where: tzinfo = UTC

    @property
    def is_range(self) -> bool:
        """Return True if the question is about a range of time; else it is about a moment or the latest cycle."""
        return self.first is not None or self.last is not None


def times(at: str | None, first: str | None, last: str | None, tz: str | None) -> Times:
    """Return the times of a question. Raises BadInput if they contradict each other or are not times."""
    where = zone(tz)
    if at is not None and (first is not None or last is not None):
        raise BadInput("--at asks for a moment, --from and --to for a range: give one or the other.")
    moment = None if at in (None, LATEST) else time_given(at or "", "--at", where)
    return Times(moment, *range_given(first, last, where), where)


@dataclass(frozen=True)
class FoundCycle:
    """The cycle that a question about a moment is about. `row` has the place of the subject, if recorded."""

    attempt: Attempt
    subject: Subject
    bundle: str | None
    row: Row | None
    command_id: str | None = None


def explain(
    lake: str | Path | Record, text: str | Subject, *, cluster: str | None = None, when: Times | None = None
) -> Moment | Course:
    """Return the explanation of a subject, at a moment or over a range.

    Pass the same `Record` for repeated questions. Raises BadInput (no such subject, a name in several clusters),
    NoSuchCycle (no cycle at that time, or none that decided) and LakeError (rows past their retention, no lake).
    """
    when, record = when or Times(), record_of(lake)
    subject = subject_of(text)
    if when.is_range and subject.kind != "command":
        return _over_range(record, subject, missing.known_clusters(record, cluster), when)
    return _moment(record, find(record, subject, cluster, when), when)


def record_of(lake: str | Path | Record) -> Record:
    """Return the record of a lake, or the given record."""
    return lake if isinstance(lake, Record) else Record(lake)


def subject_of(text: str | Subject) -> Subject:
    """Return the subject that a text names, or the given subject."""
    return text if isinstance(text, Subject) else parse_subject(text)


def find(record: Record, text: str | Subject, cluster: str | None, when: Times) -> FoundCycle:
    """The cycle in force for a question about a moment; errors as `explain`."""
    subject, clusters = subject_of(text), missing.known_clusters(record, cluster)
    if subject.kind == "command":
        return _of_command(record, find_command(record, subject.name, clusters), when)
    attempt, row = _one_cluster(record, subject, clusters, when.at)
    return FoundCycle(attempt, subject, bundle_of(subject, row), row)


def _of_command(record: Record, command: Row, when: Times) -> FoundCycle:
    command_id, bundle = str(command["command_id"]), str(command["bundle"])
    if when.at is not None or when.is_range:
        raise BadInput(
            f"command {command_id} belongs to the cycle of {time(command['cycle_at'])}: leave out --at, --from "
            f"and --to, or ask for its bundle {bundle}."
        )
    attempts = record.attempts(command["cluster"], command["cycle_at"], command["cycle_at"])
    attempt = next((listed for listed in attempts if listed.plan_id == command["plan_id"]), None)
    if attempt is None:
        raise missing.no_manifest(command)
    row = places_of(record, [attempt], Subject("bundle", bundle)).get(attempt.attempt_id)
    return FoundCycle(attempt, Subject("command", command_id), bundle, row, command_id)


def _moment(record: Record, cycle: FoundCycle, when: Times) -> Moment:
    attempt, command = cycle.attempt, cycle.command_id
    subject = cycle.subject if command is None else Subject("bundle", cycle.bundle or "")
    where = {} if cycle.row is None else {attempt.attempt_id: cycle.row}
    facts = facts_of(record, [attempt], subject, where)[attempt.attempt_id]
    ask = _Again(record, attempt)
    moment = moment_of(replace(facts, notes=(*_notes(record, attempt, when.at), *facts.notes)), ask.changes)
    moment = replace(moment, notes=(*moment.notes, *ask.notes()))
    if command is None:
        return moment
    return replace(moment, subject=cycle.subject, commands=tuple(c for c in moment.commands if c.command_id == command))


class _Again:
    """The decisions of an attempt asked again. Its rows are read when the first one is asked."""

    def __init__(self, record: Record, attempt: Attempt) -> None:
        self._record, self._attempt = record, attempt
        self._question: AskedCycle | None = None
        self._missing = ""
        self._others = 0

    def changes(self, table: str, row: Row) -> Sequence[Change]:
        """Return the changes that would have changed a decision; empty if the decision cannot be repeated."""
        if self._question is None and not self._missing:
            try:
                self._question = question_of(self._record, self._attempt)
            except LakeError as error:
                self._missing = str(error)
        changed = None if self._question is None else self._question.changes(table, row)
        self._others += changed is None and not self._missing
        return changed or ()

    def notes(self) -> list[str]:
        """Return why no such changes are known for some decisions."""
        words = "What would have changed the answer is not known"
        if self._missing:
            return [f"{words}: {self._missing.rstrip('.')}."]
        if self._others:
            return [f"{words} of {plural(self._others, 'decision')}: repeated, this version decides differently."]
        return []


def _one_cluster(
    record: Record, subject: Subject, clusters: Sequence[str], at: Given | None
) -> tuple[Attempt, Row | None]:
    """Return the attempt in force in the only cluster that has the subject, and the row with its place."""
    moment = LAST_MOMENT if at is None else at.last
    in_force = {name: record.in_force(name, moment) for name in clusters}
    present = {name: attempt for name, attempt in in_force.items() if attempt is not None}
    if not present:
        raise missing.before_the_first(record, clusters, moment)
    rows = {
        name: places_of(record, [attempt], subject).get(attempt.attempt_id)
        for name, attempt in present.items()
        if attempt.decided
    }
    having = [name for name, row in rows.items() if row is not None]
    if len(having) > 1:
        raise missing.several_clusters(subject, having)
    if having:
        return present[having[0]], rows[having[0]]
    if len(present) > 1:
        missing.look_for_undecided(record, subject, present)
        raise missing.unknown_everywhere(record, subject, present)
    (attempt,) = present.values()
    if not attempt.decided:
        raise missing.undecided(record, attempt)
    return attempt, _not_in_it(record, attempt, subject)


def _not_in_it(record: Record, attempt: Attempt, subject: Subject) -> Row | None:
    """Return None if the subject's load is past its retention and decisions are not; else raise the error with why."""
    table = "broker_load" if subject.kind == "broker" else "bundle_load"
    if subject.kind == "bundle" and missing.has_decisions(record, attempt, subject.name):
        return None
    require_rows(record, attempt, table)
    raise missing.unknown(record, attempt, subject)


def _notes(record: Record, attempt: Attempt, at: Given | None) -> list[str]:
    notes = []
    if at is not None and at.first - attempt.cycle_at > _LATE:
        ago = duration((at.first - attempt.cycle_at).total_seconds())
        notes.append(f"The cycle in force at {at.text} is {ago} older: none is on record between them.")
    if attempt.status == "planned":
        notes.append("The cycle is still open: it is planned, and what is sent and seen may follow.")
    opened = _without_manifest(record, attempt)
    if opened is not None and (at is None or at.last >= opened):
        notes.append(
            f"A later cycle, of {time(opened)}, has rows and no manifest: it is still under way, or its run died."
        )
    return notes


def _without_manifest(record: Record, attempt: Attempt) -> datetime | None:
    """Return the newest cycle that has begun, if it is later than the given one and has no manifest."""
    opened = record.newest_row_at("cluster_policies", attempt.cluster)
    if opened is None or opened - attempt.cycle_at <= timedelta(seconds=1):
        return None
    return opened if record.following(attempt.cluster, attempt.cycle_at) is None else None


def _over_range(record: Record, subject: Subject, clusters: Sequence[str], when: Times) -> Course:
    first, last, present = cycles_within(record, clusters, when)
    where = {name: places_of(record, attempts, subject) for name, attempts in present.items()}
    having = [name for name, rows in where.items() if rows]
    if len(having) > 1:
        raise missing.several_clusters(subject, having)
    if not having:
        newest = {name: attempts[-1] for name, attempts in present.items()}
        if len(newest) > 1:
            raise missing.unknown_everywhere(record, subject, newest)
        (attempts,) = present.values()
        decided = [attempt for attempt in attempts if attempt.decided]
        if not decided:
            raise missing.undecided(record, attempts[-1])
        _not_in_it(record, decided[-1], subject)
        return course_of(record, subject, attempts, {}, (first, last))
    (name,) = having
    return course_of(record, subject, present[name], where[name], (first, last))


def cycles_within(
    record: Record, clusters: Sequence[str], when: Times
) -> tuple[datetime, datetime, dict[str, list[Attempt]]]:
    """Return first and last moment of the range, and per cluster the attempt that counts for each of its cycles in it.

    Clusters without a cycle in the range are left out; raises NoSuchCycle if all are.
    """
    first, last = _bounds(record, clusters, when)
    attempts_of = {name: record.cycles(name, first, last) for name in clusters}
    present = {name: attempts for name, attempts in attempts_of.items() if attempts}
    if not present:
        raise missing.nothing_between(record, clusters, first, last)
    return first, last, present


def _bounds(record: Record, clusters: Sequence[str], when: Times) -> tuple[datetime, datetime]:
    """Return the range; an open end is the first or the newest recorded cycle."""
    if when.first is not None and when.last is not None:
        return when.first.first, when.last.last
    ends = record.files("cycles").ends(clusters)
    assert ends is not None, "clusters are those with a cycle on record"
    first = when.first.first if when.first else ends[0]
    return first, when.last.last if when.last else ends[1] + timedelta(seconds=1)


def question_of(record: Record, attempt: Attempt) -> AskedCycle:
    """Return the question that repeats the decisions of an attempt; LakeError if some of its rows are gone."""
    try:
        cycle = restore_cycle(attempt, background_of(Lake(str(record.lake)), [attempt])).cycle_row
    except (LookupError, EvenkeelError) as error:
        raise LakeError(str(error)) from error
    # Decisions without an act, which expire first, are not used by the later rounds.
    tables = (*OBSERVED, *(table for task_round in ROUNDS for table in task_round.tables))
    rows: dict[str, Sequence[Row]] = {table: _rows(record, attempt, table) for table in tables}
    return AskedCycle({**rows, "cycle": [cycle], "state": state_before(record, attempt)})


def _rows(record: Record, attempt: Attempt, table: str) -> list[Row]:
    kinds = types_of(table)
    wanted = columns_looked_at(table, list(kinds)) if table in OBSERVED else list(kinds)
    columns = {name: kinds[name] for name in wanted if name not in STAMP_NAMES}
    table_rows = record.arrow_rows([attempt], table, [*columns])
    rows = [] if table_rows is None else rows_of(table_rows, columns)
    listed = sum(write.rows for write in attempt.writes_of(table))
    if table in OBSERVED and len(rows) < listed:
        raise LakeError(f"rows of {table} are past their retention")
    return rows


def state_before(record: Record, attempt: Attempt) -> list[Row]:
    """Return the state of the previous cycle: the rows of `strategy_state` that this one took over."""
    taken = sorted({write.write_id for write in attempt.reads_of(STATE)})
    at = attempt.planned["predecessor_cycle_at"]
    if not taken or at is None:
        return []
    rows = record.outbox(STATE, attempt.cluster, at, at, where=is_in("write_id", taken))
    if not rows:
        raise LakeError(f"the rows of {STATE} of the cycle before are past their retention")
    return [as_read(STATE, row) for row in rows]
