"""Loads and decisions made again from proven files, in processes of this machine: no rows travel, and no Spark is
asked.

Only whether an attempt came out as recorded is found here. How it differs, and what is rare, is found by Spark
(`decide_again`), by the same code.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from evenkeel.cycle.state import PLANNER
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.plan_splits.task import picks_by_topics
from evenkeel.repetition import repeat as again
from evenkeel.repetition.projections import columns_looked_at
from evenkeel.verify.by_files import Proven
from evenkeel.verify.contents import ATTEMPT
from evenkeel.verify.decide_again import LOADS, LOOKED_INTO, OBSERVED, compared
from evenkeel.verify.loads_in_processes import Files, came_out, load_files
from evenkeel.verify.recorded_cycle import PLANNED, RecordedCycle, other_plan
from evenkeel.verify.rows_in_files import CYCLES_TOGETHER, Part, parts_of, rows_in, whole_rows_in

log = logging.getLogger(__name__)
_MOST_PROCESSES = 16
# Starting a process takes as long as deciding some thirty cycles of a thousand bundles.
_WORTH_A_PROCESS = 60
_INPUTS = {
    **{table: table for table in OBSERVED},
    **{again.recorded(table): table for table in again.OUTPUTS},
    "state": again.STATE,
}


@dataclass(frozen=True, slots=True)
class FromFiles:
    """An attempt to decide again: its cycle row, the figures of its manifest, and where the rows of each input are.

    `files` are the inputs of decisions, `loads` those of loads (`load_files`); None for what Spark makes again.
    `needs_topics`: whether bundles that were looked into were cut by their topics. `to_the_word`: whether its sentences
    have to be the same as well.
    """

    attempt_id: str
    cycle: Mapping[str, str | None]
    planned: Mapping[str, Any]
    files: Mapping[str, tuple[Part, ...]] | None
    loads: Files | None
    needs_topics: bool
    to_the_word: bool


@dataclass(frozen=True, slots=True)
class CameOut:
    """Attempts that came out as recorded: `decisions`, and of each whether its sentences are worded otherwise now, and
    those whose `loads` did."""

    decisions: dict[str, bool] = field(default_factory=dict)
    loads: set[str] = field(default_factory=set)

    def add(self, other: CameOut) -> None:
        """Takes what `other` has over."""
        self.decisions.update(other.decisions)
        self.loads.update(other.loads)


def from_files(one: RecordedCycle, proven: Proven, *, with_loads: bool) -> FromFiles | None:
    """None for an attempt that Spark makes again as a whole; `with_loads`: its loads too."""
    files, loads = _decision_files(one, proven), load_files(one, proven) if with_loads else None
    if files is None and loads is None:
        return None
    return FromFiles(
        one.attempt.attempt_id,
        one.cycle_row,
        {name: one.attempt.planned[name] for name in PLANNED},
        files,
        loads,
        one.needs_topics,
        one.to_the_word,
    )


def _decision_files(one: RecordedCycle, proven: Proven) -> Mapping[str, tuple[Part, ...]] | None:
    """None where inputs are not all in proven files of their own, or a wish was taken that looks at topics."""
    if any(picks_by_topics(wish) for wish in one.cycle.wishes):
        return None
    files: dict[str, tuple[Part, ...]] = {}
    for name, table in _INPUTS.items():
        parts = parts_of(one.attempt.reads_of(table) if name == "state" else one.attempt.writes_of(table), proven)
        if parts is None:
            return None
        files[name] = parts
    return files


class Deciding:
    """Attempts that are being decided; `came_out` waits for them."""

    def __init__(self) -> None:
        self.here: list[FromFiles] = []
        self.begun: list[Future[CameOut]] = []

    def came_out(self) -> CameOut:
        """What came out as recorded; nothing of what a process had that was killed."""
        found = _came_out(self.here)
        for one in self.begun:
            try:
                found.add(one.result())
            except BrokenExecutor as error:
                log.warning("a process that decided again has ended (%s); Spark decides its cycles", error)
        return found


class Processes:
    """Processes that decide, where `cycles` are enough to be worth them; they last until `end`."""

    def __init__(self, cycles: int) -> None:
        self._pool: ProcessPoolExecutor | None = None
        if cycles >= _WORTH_A_PROCESS:
            cores = min(_cores(), _MOST_PROCESSES)
            # Spawned: this process may have threads, those of a Spark session for one.
            self._pool = ProcessPoolExecutor(cores, multiprocessing.get_context("spawn"), initializer=_started)
            for _ in range(cores):
                self._pool.submit(_started)  # they start while the first files are looked at

    def begin(self, asked: Sequence[FromFiles], deciding: Deciding) -> None:
        """Decides these as well, from now on."""
        if self._pool is None:
            deciding.here += asked
            return
        for first in range(0, len(asked), CYCLES_TOGETHER):
            try:
                deciding.begun.append(self._pool.submit(_part_came_out, asked[first : first + CYCLES_TOGETHER]))
            except BrokenExecutor:  # told of what was begun
                return

    def end(self) -> None:
        """Ends them; what was not begun is not begun any more."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


@contextmanager
def processes(cycles: int) -> Iterator[Processes]:
    """Processes that end with the block."""
    found = Processes(cycles)
    try:
        yield found
    finally:
        found.end()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _started() -> None:
    """The collector runs after each part only: looking for circles while rows were made took a tenth of the time."""
    gc.disable()
    gc.freeze()


def _part_came_out(asked: Sequence[FromFiles]) -> CameOut:
    found = _came_out(asked)
    gc.collect()
    return found


def _came_out(asked: Sequence[FromFiles]) -> CameOut:
    found = CameOut()
    for one in asked:
        if one.loads is not None and _tried(one, _loads_came_out, "summed up"):
            found.loads.add(one.attempt_id)
        reworded = _tried(one, _is_reworded, "decided") if one.files is not None else None
        if reworded is not None:
            found.decisions[one.attempt_id] = reworded
    return found


def _tried(one: FromFiles, find: Callable[[FromFiles], bool | None], what: str) -> bool | None:
    """What `find` gives; None after an error, for Spark reports it with the cycle that it is about.

    It is logged with the file, since nobody would hear of one that Spark reads all the same.
    """
    try:
        return find(one)
    except Exception as error:
        place = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
        said = " ".join(str(error).split())[:500]
        log.warning(
            "%s at %s could not be %s again from its files, and is left to Spark: %s: %s%s",
            *(one.cycle["cluster"], one.cycle["cycle_at"], what, type(error).__name__, said, place),
        )
        return None


def _loads_came_out(one: FromFiles) -> bool:
    return one.loads is not None and came_out(one.cycle, one.loads)


def _is_reworded(one: FromFiles) -> bool | None:
    """Whether nothing but sentences came out otherwise; None if anything else did, or topics are to be asked."""
    rows = {name: _rows(name, table, one) for name, table in _INPUTS.items()}
    if any(
        _is_looked_into(row) and (one.needs_topics or row["strategy"] == PLANNER) for row in rows["split_decisions"]
    ):
        return None
    rows |= {"cycle": [dict(one.cycle)], "topic_hashes": []}
    parameters = compared(to_the_word=one.to_the_word)
    found = again.held_against({ATTEMPT: one.attempt_id}, rows, parameters=parameters)
    (plan,) = found[again.PLAN]
    return None if found[again.DIFFERING] or other_plan(one.planned, plan) else bool(found[again.REWORDED])


def _rows(name: str, table: str, one: FromFiles) -> Sequence[Mapping[str, Any]]:
    parts, cluster = (one.files or {})[name], one.cycle["cluster"] or ""
    if one.loads is not None and name in one.loads and name in LOADS:  # all of their columns have been read already
        return whole_rows_in(parts, table, cluster)
    names = TABLES[table].column_names()
    wanted = columns_looked_at(name, names) if name in OBSERVED else names
    return rows_in(parts, table, [column for column in wanted if column not in STAMP_NAMES], cluster)


def _is_looked_into(row: Mapping[str, Any]) -> bool:
    return row["subject_kind"] == "bundle" and row["outcome"] in LOOKED_INTO
