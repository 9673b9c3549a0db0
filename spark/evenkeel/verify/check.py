"""`verify`: proof of a range of cycles, in chunks that are read and decided again together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from evenkeel.cycle.fold import PLANNER
from evenkeel.errors import SettingsError
from evenkeel.lake.record import Attempt, chunked, read_rows_of
from evenkeel.lake.store import Lake
from evenkeel.object_store import load_client
from evenkeel.spark.code import code_digest, code_version, definition_of, differing_parts
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
from evenkeel.verify.file_proofs import Files, Proven, key_of
from evenkeel.verify.recorded_cycle import Background, RecordedCycle, background_of, other_plan, restore_cycle

TOPICS, BUNDLES = "topics", "bundles"
_ROWS_AT_ONCE = 2_000_000
"""The most rows that a chunk of attempts wrote: a worker, or a sum of topics, has memory for as many."""
_CYCLES_AT_ONCE = 400
Progress = Callable[[int, int], None]


@dataclass
class Verified:
    """The result for the attempts of a range; the sets hold ids of attempts.

    `reproduced`: attempt id -> `TOPICS` or `BUNDLES`, the records from which it was decided again. `reworded`: those of
    them for which this version of the code writes other sentences. `expired`: attempts past their period, of which only
    the chain is kept. `differing`: attempts that are decided otherwise now. `undecidable`: attempts that cannot be
    decided again. `faults`: all faults. `by_files`, `by_rows`: numbers of writes whose files, or whose rows, were
    compared with their manifests.
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
        """Return the number of attempts that were to be decided again, also if that was not possible."""
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
    """Check the writes of the attempts of these stretches, and decide again the attempts with a plan.

    `attempts`: the number of all attempts. `depth`: `TOPICS` to start from the topics on record, `BUNDLES` to start
    from the loads of bundles.
    """
    verified = Verified()
    done = 0
    for stretch in stretches:
        judge = _Judge(session, lake, Files(lake, stretch.near), kept or Kept(), depth, verified)
        for chunk in chunked(stretch.attempts, _rows_written, _ROWS_AT_ONCE, _CYCLES_AT_ONCE):
            judge.check(chunk)
            done += len(chunk)
            progress(done, attempts)
    verified.faults.sort(key=lambda f: (f.cluster, str(f.cycle_at), f.kind, f.table, f.place))
    return verified


def _rows_written(attempt: Attempt) -> int:
    return sum(write.rows for write in attempt.writes)


@dataclass(frozen=True)
class _Judge:
    """A check of chunks of attempts, which adds its results to `verified`."""

    session: OnDemand
    lake: Lake
    files: Files
    kept: Kept
    depth: str
    verified: Verified

    def check(self, attempts: list[Attempt]) -> None:
        """Check the writes by their files, else by their rows; then decide the attempts again."""
        known = background_of(self.lake, attempts)
        owners = promised(attempts, self.kept)
        proven = self.files.proven(owners)
        left = {write: owner for write, owner in owners.items() if key_of(write) not in proven}
        self.verified.by_files += len(owners) - len(left)
        self.verified.by_rows += len(left)
        checked = check_contents(_rows(self.session, self.lake, attempts), left, self.files)
        self.verified.faults += checked.faults
        recorded = self._decidable(attempts, known, checked)
        if recorded:
            deep = _with_topics(recorded, self.kept) if self.depth == TOPICS else []
            _decide(checked.rows, recorded, deep, proven, self.verified)

    def _decidable(self, chunk: list[Attempt], known: Background, checked: Checked) -> list[RecordedCycle]:
        """Return the attempts that can be decided again; the others are added to `verified`."""
        decidable: list[RecordedCycle] = []
        without_topics = [attempt for attempt in chunk if not self.kept.promises(attempt, "topic_stats")]
        for_planner = _with_splits_for_planner(self.lake, without_topics)
        for attempt in chunk:
            if attempt.plan_id is None:
                continue
            if not can_decide(attempt, self.kept):
                self.verified.expired.add(attempt.attempt_id)
                continue
            try:
                _demand_rows(attempt, checked)
                cycle = restore_cycle(attempt, known)
                needs_topics = cycle.needs_topics or attempt.attempt_id in for_planner
                if needs_topics and not self.kept.promises(attempt, "topic_stats"):
                    self.verified.expired.add(attempt.attempt_id)
                else:
                    decidable.append(cycle)
            except (LookupError, SettingsError) as error:
                self.verified.undecidable.add(attempt.attempt_id)
                words = f"cannot be decided again: {error.args[0]}"
                self.verified.faults.append(_fault(attempt, UNKNOWN, "cycles", words))
        return decidable


def _with_splits_for_planner(lake: Lake, attempts: Sequence[Attempt]) -> frozenset[str]:
    """Return the ids of attempts that decided on splits of Evenkeel's own planner, which depend on topics."""
    planned = [attempt for attempt in attempts if attempt.writes_of("planner_targets")]
    rows = read_rows_of(lake.root, planned, "split_decisions", columns=["strategy"], where={"strategy": [PLANNER]})
    return frozenset(attempt_id for attempt_id, splits in rows.items() if splits)


def _with_topics(recorded: Sequence[RecordedCycle], kept: Kept) -> list[RecordedCycle]:
    """Return the attempts whose topics are on record and kept."""
    return [
        cycle
        for cycle in recorded
        if cycle.attempt.writes_of("topic_stats") and kept.promises(cycle.attempt, "topic_stats")
    ]


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
    rows: Rows, recorded: Sequence[RecordedCycle], deep: Sequence[RecordedCycle], proven: Proven, verified: Verified
) -> None:
    """Decide the `recorded` attempts again, and sum up the loads of `deep` ones; add the results to `verified`."""
    wrong: dict[str, list[tuple[str, str]]] = {}
    load_client(rows.lake.root)
    with ThreadPoolExecutor(1) as pool:
        # Spark sums up the topics while this thread decides. `rows.spark` opens the session before both threads use it.
        loads = pool.submit(loads_again, rows, deep, proven) if deep and rows.spark else None
        decided = decisions_again(rows, recorded, proven)
        if loads is not None:
            _add_differences(rows, deep, loads.result(), wrong)
    _add_differences(rows, recorded, decided, wrong)
    from_topics = {cycle.attempt.attempt_id for cycle in deep}
    for cycle in recorded:
        name = cycle.attempt.attempt_id
        words = other_plan(cycle.attempt.planned, decided.plans.get(name, {}))
        if words and name not in wrong:  # else the differences of rows say more
            wrong.setdefault(name, []).append(("cycles", words))
        if name in wrong:
            verified.differing.add(name)
            verified.faults += [_decided_otherwise(cycle.attempt, table, words) for table, words in wrong[name]]
        else:
            verified.reproduced[name] = TOPICS if name in from_topics else BUNDLES
            if name in decided.reworded:
                verified.reworded.add(name)


def _add_differences(
    rows: Rows, attempts: Sequence[RecordedCycle], now: Compared, wrong: dict[str, list[tuple[str, str]]]
) -> None:
    """Add the differences of attempts' tables to `wrong`: attempt id -> (table, difference in words)."""
    for table in now.tables():
        names = {name for name, tables in now.differing.items() if table in tables}
        recorded = rows.of(table, listed([cycle for cycle in attempts if cycle.attempt.attempt_id in names]))
        words = differing(recorded, now.rows(table), table, ATTEMPT)
        for name in sorted(names):
            wrong.setdefault(name, []).append((table, "; ".join(words.get(name, ["another number of equal rows"]))))


def _decided_otherwise(attempt: Attempt, table: str, words: str) -> Fault:
    planned = attempt.planned
    if planned["code_digest"] == code_digest():
        kind, why = DATA, "decided otherwise by the very code that decided first"
    else:
        kind = CODE if definition_of(planned["code_digest"]) == definition_of(code_digest()) else DEFINITION
        parts = differing_parts(planned["code_digest"])
        why = f"decided by version {planned['code_version']} ({parts}), and otherwise by this one ({code_version()})"
    return _fault(attempt, kind, table, f"{why}: {words}")


def _fault(attempt: Attempt, kind: str, table: str, words: str) -> Fault:
    place = f"attempt {attempt.number}"
    return Fault(attempt.cluster, attempt.cycle_at, kind, table, place, words, attempt.attempt_id)
