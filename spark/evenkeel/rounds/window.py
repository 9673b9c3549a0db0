"""The cycles of a cluster in their order, each by the round of a single cycle, on the state that the one before left.

A run of one cycle is a window of one. What a cycle takes over stands under the moment of its predecessor
(`predecessor_cycle_at`), whether that is on record or has just been decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evenkeel.handover import ClusterCycle, CycleKey, Handover, Predecessor, Write
from evenkeel.lake.plain_rows import as_read, types_of
from evenkeel.rounds.memo import SharedRows
from evenkeel.rounds.reading import Decided, Row, Rows
from evenkeel.settings import settings_in
from evenkeel.settings.compatibility import why_undecidable
from evenkeel.spark.row_order import content_order
from evenkeel.spark.rows import cells

OneCycle = Callable[[Row, SharedRows], Decided]
"""A round of one cycle."""

STATE = "state"
"""The input of a round: what its predecessor's strategies remember."""
REMEMBERED = "strategy_state"
"""The table in which a round leaves what its strategies remember."""
LEFT_UNWRITTEN = "left_unwritten"
"""What a round leaves for the next cycle beside `REMEMBERED`, and another task writes: no output of `fold`."""
FAILURES = "failures"
"""What `fold` says of a cycle whose round raised an error."""
FAILURES_TYPE = "cluster string, cycle_at string, error string"


def fold(decide: OneCycle, key: Row, rows: Rows, *, is_window: bool) -> Decided:
    """What `decide` gives for every cycle of `rows["cycle"]`, in order of time; rows without a `cycle_at` get it.

    Each round is given the rows of its own cycle, as if there were no other, and as `STATE` the rows of its predecessor
    alone: those of the input, and what `decide` itself has left there. An error ends a window with a row of `FAILURES`,
    since what comes after rests on that cycle; where the run has one cycle per cluster it goes on to the caller.
    """
    made: Decided = {}
    for at, found in _decided(decide, key, rows, is_window):
        for table, own in found.items():
            made.setdefault(table, []).extend(row if "cycle_at" in row else {**row, "cycle_at": at} for row in own)
    return made


def _decided(decide: OneCycle, key: Row, rows: Rows, is_window: bool) -> Iterator[tuple[str, Decided]]:
    own = {kind: _by_moment(found) for kind, found in rows.items() if kind != STATE}
    recorded = _by_moment(rows.get(STATE, ()))
    last_at, left = None, list[Row]()
    for cycle in _with_settings(rows["cycle"]):
        at, before_at = str(cycle["cycle_at"]), cycle["predecessor_cycle_at"]
        given: dict[str, Sequence[Row]] = {kind: found.get(at, ()) for kind, found in own.items()}
        given["cycle"] = [cycle]
        if STATE in rows:
            given[STATE] = [*recorded.get(before_at, ()), *(left if before_at == last_at else ())]
        try:
            found = dict(decide(key, SharedRows(given)))
        except Exception as error:
            if not is_window:
                raise
            yield at, {FAILURES: [{"error": in_a_line(error)}]}
            return
        last_at, left = at, _as_left([*found.get(REMEMBERED, ()), *found.pop(LEFT_UNWRITTEN, ())])
        yield at, found


def with_settings_once(cycles: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Cycle rows with the text of settings in the first row only of those of a cluster that share the digest."""
    seen: set[tuple[str, str | None]] = set()
    found = []
    for row in cycles:
        shared = (row["cluster"], row["settings_digest"])
        found.append({**row, "settings": None} if shared in seen else dict(row))
        seen.add(shared)
    return found


def _with_settings(cycles: Sequence[Row]) -> list[Row]:
    """A cluster's cycle rows in order of time, each with its settings."""
    ordered = sorted(cycles, key=lambda row: str(row["cycle_at"]))
    texts = {row["settings_digest"]: row["settings"] for row in ordered if row["settings"] is not None}
    return [
        row if row["settings"] is not None else {**row, "settings": texts.get(row["settings_digest"])}
        for row in ordered
    ]


def _by_moment(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["cycle_at"], []).append(row)
    return found


def _as_left(rows: Iterable[Row]) -> list[Row]:
    """Rows of `strategy_state` as the next cycle would read them back."""
    return sorted(
        (as_read(REMEMBERED, row) for row in rows), key=lambda row: (row["strategy"], row["subject"], row["name"])
    )


def read_back(table: str, rows: Iterable[Row]) -> list[Row]:
    """Rows of a table as the round of the next task is given them: read back, in the order of their content (see
    `spark.row_order`)."""
    found: list[Row] = [as_read(table, row) for row in rows]
    if len(found) < 2:
        return found
    columns = {name: kind for name, kind in types_of(table).items() if name in found[0]}
    return [found[place] for place in content_order(columns, cells(found, tuple(columns)))]


def in_a_line(error: Exception) -> str:
    """The first line of an error with its kind, as `FAILURES` has it."""
    text = (str(error).strip().splitlines() or [""])[0][:500]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# The hand-over of a window.


def linked(handover: Handover) -> Handover:
    """The hand-over with each cycle's predecessor as this run has it: where that is a cycle of the run itself, its
    moment and what the run has written of it so far; its attempt has no id yet.

    A cycle that plan_splits will leave out is nobody's predecessor from the first task on. To be read from, not to be
    handed on: where a cycle is left out later, the predecessor on record serves again.
    """
    if not handover.is_window():
        return handover
    written: dict[CycleKey, list[Write]] = {}
    for write in handover.writes:
        written.setdefault((write.cluster, write.cycle_at), []).append(write)
    before = handover.leave_out(undecidable(handover)).within()
    return handover.with_cycles(
        replace(cycle, predecessor=_taken_over(cycle, before[cycle.key], written)) if cycle.key in before else cycle
        for cycle in handover.cycles
    )


def _taken_over(cycle: ClusterCycle, before: CycleKey, written: Mapping[CycleKey, Sequence[Write]]) -> Predecessor:
    expected, at = cycle.predecessor.expected_at, before[1]
    status = "used" if expected in (None, at) else "older"
    return Predecessor(status, at, None, expected, tuple(written.get(before, ())))


def undecidable(handover: Handover) -> dict[CycleKey, str]:
    """Cycles whose strategies do not go together, or whose load manager is not known, with what to do about it."""
    found = {cycle.key: why_undecidable(settings_in(cycle.settings), cycle.manager) for cycle in handover.open_cycles()}
    return {key: reason for key, reason in found.items() if reason}
