"""`verify`: the record of a range of cycles proved, in chunks that are read and decided again in a few jobs each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from evenkeel.audit.read import Attempt, chunked
from evenkeel.audit.verify.background import background_of
from evenkeel.audit.verify.contents import Checked, can_decide, check_contents
from evenkeel.audit.verify.decisions import decisions_again, listed
from evenkeel.audit.verify.differences import differing
from evenkeel.audit.verify.digests import Content, contents, nothing
from evenkeel.audit.verify.faults import CODE, DATA, UNKNOWN, Fault
from evenkeel.audit.verify.kept import Kept
from evenkeel.audit.verify.loads import LOADS, loads_again
from evenkeel.audit.verify.recorded import Again, again
from evenkeel.audit.verify.rows import ATTEMPT, Rows
from evenkeel.engine.code import code_digest, code_version
from evenkeel.errors import SettingsError
from evenkeel.lake.store import Lake
from evenkeel.rounds import split_round

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS, BUNDLES = "topics", "bundles"
# As many rows of bundles as a worker group, and of topics as a sum, can take at a time without running out of memory.
_ROWS_AT_ONCE = 2_000_000
_CYCLES_AT_ONCE = 400
_PLANNED = (
    *("plan_id", "shedder", "placement", "splits", "unloads", "placements", "refusals", "held"),
    *("before_max_over_mean", "after_max_over_mean", "moved_traffic_share"),
)
Progress = Callable[[int, int], None]


@dataclass
class Verified:
    """What came of it: attempts (ids) that were decided again, how deep, and all faults.

    `expired` are past their period: of what they decided nothing is promised any more but the chain.
    """

    reproduced: dict[str, str] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    differing: set[str] = field(default_factory=set)
    undecidable: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return len(self.reproduced) + len(self.differing) + len(self.undecidable)


def verify_attempts(
    spark: SparkSession,
    lake: Lake,
    attempts: Sequence[Attempt],
    versions: Mapping[str, int],
    *,
    kept: Kept | None = None,
    depth: str = TOPICS,
    progress: Progress = lambda done, total: None,
) -> Verified:
    """Checks what these attempts wrote, and decides those again that decided.

    `versions`: write id -> schema version. `depth` says where deciding again begins: at the topics on record, or at the
    loads of bundles.
    """
    found = Verified()
    done = 0
    for chunk in chunks(attempts):
        _verify_chunk(spark, lake, chunk, versions, kept or Kept(), depth, found)
        done += len(chunk)
        progress(done, len(attempts))
    found.faults.sort(key=lambda one: (one.cluster, str(one.cycle_at), one.kind, one.table, one.place))
    return found


def chunks(attempts: Iterable[Attempt]) -> Iterator[list[Attempt]]:
    """Attempts of one schema version, in order, a bounded number of rows at a time."""
    for _, alike in groupby(attempts, key=lambda attempt: attempt.schema_version):
        yield from chunked(alike, lambda one: sum(write.rows for write in one.writes), _ROWS_AT_ONCE, _CYCLES_AT_ONCE)


def _verify_chunk(
    spark: SparkSession,
    lake: Lake,
    chunk: list[Attempt],
    versions: Mapping[str, int],
    kept: Kept,
    depth: str,
    found: Verified,
) -> None:
    checked = check_contents(_rows(spark, lake, chunk), chunk, versions, kept)
    found.faults += checked.faults
    known = background_of(lake, chunk)
    own: list[Again] = []
    for attempt in chunk:
        if attempt.plan_id is None:
            continue
        if not can_decide(attempt, kept):
            found.expired.add(attempt.attempt_id)
            continue
        try:
            _demand_rows(attempt, checked)
            one = again(attempt, known)
            if split_round.cuts_by_topics(one.cycle) and not kept.promises(attempt, "topic_stats"):
                found.expired.add(attempt.attempt_id)
            else:
                own.append(one)
        except (LookupError, SettingsError) as error:
            found.undecidable.add(attempt.attempt_id)
            found.faults.append(_unknown(attempt, str(error.args[0])))
    if own:
        _decide(checked.rows, own, _with_topics(own, kept) if depth == TOPICS else [], found)


def _with_topics(own: Sequence[Again], kept: Kept) -> list[Again]:
    """Those whose topics are still there."""
    return [one for one in own if one.attempt.writes_of("topic_stats") and kept.promises(one.attempt, "topic_stats")]


def _rows(spark: SparkSession, lake: Lake, attempts: Sequence[Attempt]) -> Rows:
    moments = [attempt.cycle_at for attempt in attempts]
    before = [attempt.planned["predecessor_cycle_at"] for attempt in attempts]
    return Rows(spark, lake, min([*moments, *(at for at in before if at is not None)]), max(moments))


def _demand_rows(attempt: Attempt, checked: Checked) -> None:
    needed = {(w.cluster, w.table, w.write_id) for w in (*attempt.writes, *attempt.reads)}
    lost = sorted({table for _, table, _ in needed & checked.missing})
    if lost:
        raise LookupError(f"rows of {', '.join(lost)} that it rests on cannot be read as they were")


def _decide(rows: Rows, own: Sequence[Again], deep: Sequence[Again], found: Verified) -> None:
    """Decides `own` again; the loads that they rest on too for those that are `deep`."""
    wrong: dict[str, list[tuple[str, str]]] = {}
    if deep:
        made = loads_again(rows, deep)
        for table in LOADS:
            _tell(rows, deep, table, made[table], _other_loads(rows, deep, table, made[table]), wrong)
    decided = decisions_again(rows, own, own[0].attempt.schema_version)
    for table, frame in decided.rows.items():
        _tell(rows, own, table, frame, [name for name in decided.differing if table in decided.differing[name]], wrong)
    for one in own:
        name = one.attempt.attempt_id
        told = _other_plan(one.attempt.planned, decided.plans.get(name, {}))
        if told and name not in wrong:  # else the rows say it better
            wrong.setdefault(name, []).append(("cycles", told))
        if name in wrong:
            found.differing.add(name)
            found.faults += [_fault(one.attempt, table, words) for table, words in wrong[name]]
        else:
            found.reproduced[name] = TOPICS if one in deep else BUNDLES


def _other_loads(rows: Rows, deep: Sequence[Again], table: str, made: DataFrame) -> list[str]:
    """The attempts whose loads come out otherwise."""
    before, after = _recorded(rows, deep, table), contents(made, table, deep[0].attempt.schema_version, (ATTEMPT,))
    names = [one.attempt.attempt_id for one in deep]
    return [name for name in names if before[name] != after.get((name,), nothing())]


def _tell(
    rows: Rows,
    own: Sequence[Again],
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
    told = differing(recorded, now, table, own[0].attempt.schema_version, ATTEMPT)
    for name in other:
        wrong.setdefault(name, []).append((table, "; ".join(told.get(name, ["another number of equal rows"]))))


def _recorded(rows: Rows, own: Sequence[Again], table: str) -> dict[str, Content]:
    """What each attempt recorded in a table: what its manifest lists, which its rows have been held against.

    Only where several writes make up an attempt's rows, which a manifest digests one by one, are they read for it.
    """
    found, several = {}, []
    for one in own:
        writes = [write for write in one.attempt.writes_of(table) if write.rows]
        found[one.attempt.attempt_id] = (writes[0].rows, writes[0].digest) if writes else nothing()
        if len(writes) > 1:
            several.append(one)
    if several:
        told = contents(rows.of(table, listed(several)), table, own[0].attempt.schema_version, (ATTEMPT,))
        found |= {one.attempt.attempt_id: told[one.attempt.attempt_id,] for one in several}
    return found


def _other_plan(planned: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    names = [name for name in _PLANNED if planned[name] != plan.get(name)]
    return ", ".join(f"{name} {planned[name]} became {plan.get(name)}" for name in names)


def _fault(attempt: Attempt, table: str, words: str) -> Fault:
    planned = attempt.planned
    if planned["code_digest"] == code_digest():
        kind, why = DATA, "decided otherwise by the very code that decided first"
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
