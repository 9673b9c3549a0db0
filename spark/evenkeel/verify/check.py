"""`verify`: proof of a range of cycles, in chunks that are read and decided again together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from evenkeel.cycle.fold import PLANNER
from evenkeel.errors import SettingsError
from evenkeel.lake.record import Attempt, chunked, read_rows_of
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
from evenkeel.verify.decide_again import Compared, decisions_again, listed, loads_again
from evenkeel.verify.recorded_cycle import Background, RecordedCycle, again, background_of, other_plan

TOPICS, BUNDLES = "topics", "bundles"
# As many rows of bundles as a worker group, and of topics as a sum, can take at a time without running out of memory.
_ROWS_AT_ONCE = 2_000_000
_CYCLES_AT_ONCE = 400
Progress = Callable[[int, int], None]


@dataclass
class Verified:
    """The result: attempts (ids) that were decided again, how deep, and all faults.

    `by_files` and `by_rows`: numbers of writes whose files, or whose rows, were compared with their manifests.
    `expired`: attempts past their period, of which only the chain is kept. `reworded`: reproduced attempts whose
    decisions another version of the code puts into other sentences.
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
    """Check the writes of the attempts of these stretches, and decide again those that decided.

    `attempts`: the number of attempts in all. `depth`: decide again from the topics on record, or from the loads of
    bundles.
    """
    found = Verified()
    done = 0
    for stretch in stretches:
        judge = _Judge(session, lake, Files(lake, stretch.near), kept or Kept(), depth, found)
        for chunk in chunks(stretch.attempts):
            judge.check(chunk)
            done += len(chunk)
            progress(done, attempts)
    found.faults.sort(key=lambda one: (one.cluster, str(one.cycle_at), one.kind, one.table, one.place))
    return found


def chunks(attempts: Iterable[Attempt]) -> Iterator[list[Attempt]]:
    """Yield attempts in order, a bounded number of rows at a time."""
    yield from chunked(attempts, lambda one: sum(write.rows for write in one.writes), _ROWS_AT_ONCE, _CYCLES_AT_ONCE)


@dataclass(frozen=True)
class _Judge:
    """Checks chunks of attempts and adds the results to `found`."""

    session: OnDemand
    lake: Lake
    files: Files
    kept: Kept
    depth: str
    found: Verified

    def check(self, attempts: list[Attempt]) -> None:
        """Check the writes by their files, those that these do not prove by their rows; then decide again."""
        known = background_of(self.lake, attempts)
        owners = promised(attempts, self.kept)
        proven = self.files.proven(owners)
        left = {write: owner for write, owner in owners.items() if key_of(write) not in proven}
        self.found.by_files += len(owners) - len(left)
        self.found.by_rows += len(left)
        checked = check_contents(_rows(self.session, self.lake, attempts), left, self.files)
        self.found.faults += checked.faults
        own = self._decidable(attempts, known, checked)
        if own:
            deep = _with_topics(own, self.kept) if self.depth == TOPICS else []
            _decide(checked.rows, own, deep, proven, self.found)

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
    """Return the attempts that decided on splits which Evenkeel's own planner wanted, by the topics of bundles."""
    planned = [one for one in attempts if one.writes_of("planner_targets")]
    rows = read_rows_of(lake.root, planned, "split_decisions", columns=["strategy"], where={"strategy": [PLANNER]})
    return frozenset(attempt_id for attempt_id, own in rows.items() if own)


def _with_topics(own: Sequence[RecordedCycle], kept: Kept) -> list[RecordedCycle]:
    """Return the attempts whose topics are still there."""
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
    rows: Rows, own: Sequence[RecordedCycle], deep: Sequence[RecordedCycle], proven: Proven, found: Verified
) -> None:
    """Decide the attempts of `own` again, and make the loads of those that are `deep`; add the results to `found`."""
    wrong: dict[str, list[tuple[str, str]]] = {}
    with ThreadPoolExecutor(1) as pool:
        # Spark sums up the topics while this thread decides. `rows.spark` opens the session before both threads use it.
        loads = pool.submit(loads_again, rows, deep, proven) if deep and rows.spark else None
        decided = decisions_again(rows, own, proven)
        if loads is not None:
            _add_differences(rows, deep, loads.result(), wrong)
    _add_differences(rows, own, decided, wrong)
    from_topics = {one.attempt.attempt_id for one in deep}
    for one in own:
        name = one.attempt.attempt_id
        words = other_plan(one.attempt.planned, decided.plans.get(name, {}))
        if words and name not in wrong:  # else the rows say it better
            wrong.setdefault(name, []).append(("cycles", words))
        if name in wrong:
            found.differing.add(name)
            found.faults += [_fault(one.attempt, table, words) for table, words in wrong[name]]
        else:
            found.reproduced[name] = TOPICS if name in from_topics else BUNDLES
            if name in decided.reworded:
                found.reworded.add(name)


def _add_differences(
    rows: Rows, own: Sequence[RecordedCycle], now: Compared, wrong: dict[str, list[tuple[str, str]]]
) -> None:
    """Add to `wrong` how tables of attempts differ now: attempt -> (table, in words)."""
    for table in now.tables():
        names = {name for name, tables in now.differing.items() if table in tables}
        recorded = rows.of(table, listed([one for one in own if one.attempt.attempt_id in names]))
        words = differing(recorded, now.rows(table), table, ATTEMPT)
        for name in sorted(names):
            wrong.setdefault(name, []).append((table, "; ".join(words.get(name, ["another number of equal rows"]))))


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
