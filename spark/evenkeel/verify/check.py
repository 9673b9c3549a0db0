"""`verify`: the record of a range of cycles proved, in chunks that are read and decided again in a few jobs each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from evenkeel.cycle.state import PLANNER
from evenkeel.errors import SettingsError
from evenkeel.lake.record import Attempt, chunked, read_rows_of
from evenkeel.lake.row_comparison import surplus
from evenkeel.lake.store import Lake
from evenkeel.spark.code import code_digest, code_version, definition_of
from evenkeel.verify.by_files import Files, Proven, key_of
from evenkeel.verify.chain import CODE, DATA, DEFINITION, UNKNOWN, Fault, Kept, Stretch
from evenkeel.verify.contents import (
    ATTEMPT,
    Checked,
    OnDemand,
    Rows,
    can_decide,
    check_contents,
    differing,
    promised,
)
from evenkeel.verify.decide_again import LOADS, decisions_again, listed, loads_again
from evenkeel.verify.in_processes import CameOut, Deciding, FromFiles, Processes, from_files, processes
from evenkeel.verify.recorded_cycle import Background, RecordedCycle, again, background_of, other_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPICS, BUNDLES = "topics", "bundles"
# As many rows of bundles as a worker group, and of topics as a sum, can take at a time without running out of memory.
_ROWS_AT_ONCE = 2_000_000
_CYCLES_AT_ONCE = 400
_PROVEN_AT_ONCE = 50
# A stretch may end with a small chunk, which is done before the next one has been read.
_AHEAD = 2
Progress = Callable[[int, int], None]
_T = TypeVar("_T")


@dataclass
class Verified:
    """The result: attempts (ids) that were decided again, how deep, and all faults.

    `by_files` and `by_rows` count the writes whose files, or whose rows, were held against their manifests. `expired`
    are past their period: of what they decided nothing is promised any more but the chain. `reworded` are those of the
    reproduced ones whose decisions another version of the code puts into other sentences.
    """

    reproduced: dict[str, str] = field(default_factory=dict)
    reworded: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    differing: set[str] = field(default_factory=set)
    undecidable: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    by_files: int = 0
    by_rows: int = 0

    @property
    def tried(self) -> int:
        """The number of attempts whose decisions were to be reproduced, whether that was possible or not."""
        return len(self.reproduced) + len(self.differing) + len(self.undecidable)


def verify_attempts(
    session: OnDemand,
    lake: Lake,
    stretches: Iterable[Stretch],
    attempts: int,
    *,
    kept: Kept | None = None,
    depth: str = TOPICS,
    progress: Progress = lambda done, total: None,
) -> Verified:
    """Checks what the attempts of these stretches wrote, `attempts` of them in all, and decides those again that
    decided.

    `depth` says where deciding again begins: at the topics on record, or at the loads of bundles.
    """
    found = Verified()
    done = 0
    with processes(attempts) as deciding:

        def begun() -> Iterator[tuple[_Judge, _Begun]]:
            for stretch in stretches:
                judge = _Judge(session, lake, Files(lake, stretch.near), deciding, kept or Kept(), depth, found)
                for chunk in chunks(stretch.attempts):
                    yield judge, judge.begin(chunk)

        for judge, chunk in _some_ahead(begun()):
            judge.end(chunk)
            done += len(chunk.attempts)
            progress(done, attempts)
    found.faults.sort(key=lambda one: (one.cluster, str(one.cycle_at), one.kind, one.table, one.place))
    return found


def _some_ahead(things: Iterable[_T]) -> Iterator[_T]:
    """Each of these when the next two are there, too: processes decide on those while this one is looked at."""
    waiting = deque[_T]()
    for thing in things:
        waiting.append(thing)
        if len(waiting) > _AHEAD:
            yield waiting.popleft()
    yield from waiting


def chunks(attempts: Iterable[Attempt]) -> Iterator[list[Attempt]]:
    """Yield attempts in order, a bounded number of rows at a time."""
    yield from chunked(attempts, lambda one: sum(write.rows for write in one.writes), _ROWS_AT_ONCE, _CYCLES_AT_ONCE)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A chunk's attempts: what they rest on, the writes that files prove, and the attempts that are being decided."""

    attempts: list[Attempt]
    known: Background
    proven: Proven = field(default_factory=dict)
    deciding: Deciding = field(default_factory=Deciding)


@dataclass(frozen=True)
class _Judge:
    """What all chunks have in common: where they are read from, who decides, and what came of it (`found`)."""

    session: OnDemand
    lake: Lake
    files: Files
    deciding: Processes
    kept: Kept
    depth: str
    found: Verified

    def begin(self, attempts: list[Attempt]) -> _Begun:
        """Looks at the writes by their files; what these prove is decided again from here on."""
        begun = _Begun(attempts, background_of(self.lake, attempts))
        for first in range(0, len(attempts), _PROVEN_AT_ONCE):  # decided while the next ones are looked at
            part = attempts[first : first + _PROVEN_AT_ONCE]
            by_files = self.files.proven(promised(part, self.kept))
            begun.proven.update(by_files)
            self.deciding.begin([*self._from_files(part, begun.known, by_files)], begun.deciding)
        return begun

    def end(self, begun: _Begun) -> None:
        """Looks at the writes that files have left open by their rows; then at what was decided."""
        owners = promised(begun.attempts, self.kept)
        left = {write: owner for write, owner in owners.items() if key_of(write) not in begun.proven}
        self.found.by_files += len(owners) - len(left)
        self.found.by_rows += len(left)
        checked = check_contents(_rows(self.session, self.lake, begun.attempts), left, self.files)
        self.found.faults += checked.faults
        own = self._decidable(begun.attempts, begun.known, checked)
        if own:
            deep = _with_topics(own, self.kept) if self.depth == TOPICS else []
            _decide(checked.rows, own, deep, begun.deciding.came_out(), self.found)

    def _from_files(self, part: Sequence[Attempt], known: Background, proven: Proven) -> Iterator[FromFiles]:
        for attempt in part:
            if attempt.plan_id is not None and can_decide(attempt, self.kept):
                with suppress(LookupError, SettingsError):  # told by `_decidable`
                    found = from_files(again(attempt, known), proven, with_loads=self.depth == TOPICS)
                    if found is not None:
                        yield found

    def _decidable(self, chunk: list[Attempt], known: Background, checked: Checked) -> list[RecordedCycle]:
        own: list[RecordedCycle] = []
        for_planner = _with_splits_for_planner(
            self.lake, [one for one in chunk if not self.kept.promises(one, "topic_stats")]
        )
        for attempt in chunk:
            if attempt.plan_id is None:
                continue
            if not can_decide(attempt, self.kept):
                self.found.expired.add(attempt.attempt_id)
                continue
            try:
                _demand_rows(attempt, checked)
                one = again(attempt, known)
                needs_topics = one.needs_topics or attempt.attempt_id in for_planner
                if needs_topics and not self.kept.promises(attempt, "topic_stats"):
                    self.found.expired.add(attempt.attempt_id)
                else:
                    own.append(one)
            except (LookupError, SettingsError) as error:
                self.found.undecidable.add(attempt.attempt_id)
                self.found.faults.append(_unknown(attempt, str(error.args[0])))
        return own


def _with_splits_for_planner(lake: Lake, attempts: Sequence[Attempt]) -> frozenset[str]:
    """The attempts that decided on splits which Evenkeel's own planner wanted, by the topics of the bundles."""
    planned = [one for one in attempts if one.writes_of("planner_targets")]
    rows = read_rows_of(lake.root, planned, "split_decisions", columns=["strategy"], where={"strategy": [PLANNER]})
    return frozenset(attempt_id for attempt_id, own in rows.items() if own)


def _with_topics(own: Sequence[RecordedCycle], kept: Kept) -> list[RecordedCycle]:
    """The attempts whose topics are still there."""
    return [one for one in own if one.attempt.writes_of("topic_stats") and kept.promises(one.attempt, "topic_stats")]


def _rows(session: OnDemand, lake: Lake, attempts: Sequence[Attempt]) -> Rows:
    moments = [attempt.cycle_at for attempt in attempts]
    before = [attempt.planned["predecessor_cycle_at"] for attempt in attempts]
    return Rows(session, lake, min([*moments, *(at for at in before if at is not None)]), max(moments))


def _demand_rows(attempt: Attempt, checked: Checked) -> None:
    needed = {*map(key_of, (*attempt.writes, *attempt.reads))}
    lost = sorted({table for _, table, _ in needed & checked.missing})
    if lost:
        raise LookupError(f"rows of {', '.join(lost)} that it rests on cannot be read as they were")


def _decide(
    rows: Rows,
    own: Sequence[RecordedCycle],
    deep: Sequence[RecordedCycle],
    known: CameOut,
    found: Verified,
) -> None:
    """Decides those of `own` again that are not known to come out; for those that are `deep` the loads too."""
    reworded = {name for name, in_other_words in known.decisions.items() if in_other_words}
    wrong: dict[str, list[tuple[str, str]]] = {}
    open_ = [one for one in deep if one.attempt.attempt_id not in known.loads]
    if open_:
        made = loads_again(rows, open_)
        for table in LOADS:
            _tell(rows, open_, table, made[table], _other_loads(rows, open_, table, made[table]), wrong)
    left = [one for one in own if one.attempt.attempt_id not in known.decisions]
    for to_the_word in (True, False):
        alike = [one for one in left if one.to_the_word is to_the_word]
        if alike:
            reworded |= _decide_by_rows(rows, alike, wrong, to_the_word=to_the_word)
    from_topics = {one.attempt.attempt_id for one in deep}
    for one in own:
        name = one.attempt.attempt_id
        if name in wrong:
            found.differing.add(name)
            found.faults += [_fault(one.attempt, table, words) for table, words in wrong[name]]
        else:
            found.reproduced[name] = TOPICS if name in from_topics else BUNDLES
            if name in reworded:
                found.reworded.add(name)


def _decide_by_rows(
    rows: Rows, own: Sequence[RecordedCycle], wrong: dict[str, list[tuple[str, str]]], *, to_the_word: bool
) -> set[str]:
    """Adds to `wrong` what comes out otherwise: attempt -> (table, in words). Returns attempts with other sentences."""
    decided = decisions_again(rows, own, to_the_word=to_the_word)
    for table, frame in decided.rows.items():
        _tell(rows, own, table, frame, [name for name in decided.differing if table in decided.differing[name]], wrong)
    for one in own:
        name = one.attempt.attempt_id
        told = other_plan(one.attempt.planned, decided.plans.get(name, {}))
        if told and name not in wrong:  # else the rows say it better
            wrong.setdefault(name, []).append(("cycles", told))
    return set(decided.reworded)


def _other_loads(rows: Rows, deep: Sequence[RecordedCycle], table: str, made: DataFrame) -> list[str]:
    """Return the attempts whose loads come out otherwise."""
    found = surplus(rows.of(table, listed(deep)), made, table, (ATTEMPT,)).select(ATTEMPT).distinct().collect()
    return sorted(row[ATTEMPT] for row in found)


def _tell(
    rows: Rows,
    own: Sequence[RecordedCycle],
    table: str,
    made: DataFrame,
    other: Sequence[str],
    wrong: dict[str, list[tuple[str, str]]],
) -> None:
    """Adds to `wrong` how a table of the `other` attempts differs: attempt -> (table, in words)."""
    if not other:
        return
    recorded = rows.of(table, listed([one for one in own if one.attempt.attempt_id in other]))
    now = made.where(made[ATTEMPT].isin(sorted(other)))
    told = differing(recorded, now, table, ATTEMPT)
    for name in other:
        wrong.setdefault(name, []).append((table, "; ".join(told.get(name, ["another number of equal rows"]))))


def _fault(attempt: Attempt, table: str, words: str) -> Fault:
    planned = attempt.planned
    if planned["code_digest"] == code_digest():
        kind, why = DATA, "decided otherwise by the very code that decided first"
    elif definition_of(planned["code_digest"]) != definition_of(code_digest()):
        kind = DEFINITION
        why = (
            f"decided by version {planned['code_version']} (other definition of the code digest), "
            f"and otherwise by this one ({code_version()})"
        )
    else:
        kind = CODE
        why = f"decided by version {planned['code_version']}, and otherwise by this one ({code_version()})"
    return Fault(
        attempt.cluster,
        attempt.cycle_at,
        kind,
        table,
        f"attempt {attempt.number}",
        f"{why}: {words}",
        attempt.attempt_id,
    )


def _unknown(attempt: Attempt, words: str) -> Fault:
    text = f"cannot be decided again: {words}"
    return Fault(
        attempt.cluster, attempt.cycle_at, UNKNOWN, "cycles", f"attempt {attempt.number}", text, attempt.attempt_id
    )
