"""Decisions taken again from proven files, in processes of this machine: no rows travel, and no Spark is asked.

Only whether an attempt came out as recorded is found here. How it differs, and what needs figures of topics, is found
by the grouped map (`decisions`), which decides by the same code.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from evenkeel.audit.verify.by_files import Proven, key_of
from evenkeel.audit.verify.decisions import LOOKED_INTO, OBSERVED, covered
from evenkeel.audit.verify.recorded import PLANNED, Again, other_plan
from evenkeel.audit.verify.rows import ATTEMPT
from evenkeel.audit.verify.rows_in_files import rows_in
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.tables import TABLES
from evenkeel.rounds import again
from evenkeel.rounds.looked_at import columns_looked_at
from evenkeel.tasks.plan_splits import picks_by_topics

log = logging.getLogger(__name__)
_AT_ONCE = 8
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
    """An attempt to decide again: its cycle row, the figures of its manifest, and the files that hold each input.

    `needs_topics`: whether bundles that were looked into were cut by their topics.
    """

    attempt_id: str
    cycle: Mapping[str, str | None]
    planned: Mapping[str, Any]
    version: int
    files: Mapping[str, tuple[str, ...]]
    needs_topics: bool


def from_files(one: Again, proven: Proven) -> FromFiles | None:
    """None for an attempt whose inputs are not all in proven files of their own, or that took a wish that looks at
    topics."""
    if any(picks_by_topics(wish) for wish in one.cycle.wishes):
        return None
    files: dict[str, tuple[str, ...]] = {}
    writes, reads = one.attempt.writes, one.attempt.reads
    for name, table in _INPUTS.items():
        own = [write for write in (reads if name == "state" else writes) if write.table == table and write.rows]
        if not all(proven.get(key_of(write)) for write in own):
            return None
        files[name] = tuple(file for write in own for file in proven[key_of(write)])
    return FromFiles(
        one.attempt.attempt_id,
        one.cycle_row,
        {name: one.attempt.planned[name] for name in PLANNED},
        one.attempt.schema_version,
        files,
        one.needs_topics,
    )


class Deciding:
    """Attempts that are being decided; `same` waits for them."""

    def __init__(self) -> None:
        self.here: list[FromFiles] = []
        self.begun: list[Future[set[str]]] = []

    def same(self) -> set[str]:
        """The attempts that came out as recorded, to the bit; none of what a process had that was killed."""
        found = _came_out(self.here)
        for one in self.begun:
            try:
                found |= one.result()
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
        for first in range(0, len(asked), _AT_ONCE):
            try:
                deciding.begun.append(self._pool.submit(_part_came_out, asked[first : first + _AT_ONCE]))
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


def _part_came_out(asked: Sequence[FromFiles]) -> set[str]:
    found = _came_out(asked)
    gc.collect()
    return found


def _came_out(asked: Sequence[FromFiles]) -> set[str]:
    return {one.attempt_id for one in asked if _is_same(one)}


def _is_same(one: FromFiles) -> bool:
    """An error is left to the grouped map as well: there it is told with the cycle that it is about."""
    try:
        rows = {name: _rows(name, table, one) for name, table in _INPUTS.items()}
        if one.needs_topics and any(_is_looked_into(row) for row in rows["split_decisions"]):
            return False
        rows |= {"cycle": [dict(one.cycle)], "topic_hashes": []}
        columns = {table: covered(table, one.version) for table in again.OUTPUTS}
        found = again.held_against({ATTEMPT: one.attempt_id}, rows, parameters={"columns": columns})
    except Exception:
        return False
    (plan,) = found[again.PLAN]
    return not found[again.DIFFERING] and not other_plan(one.planned, plan)


def _rows(name: str, table: str, one: FromFiles) -> list[dict[str, Any]]:
    names = TABLES[table].column_names()
    wanted = columns_looked_at(name, names) if name in OBSERVED else names
    cluster = one.cycle["cluster"] or ""
    return rows_in(one.files[name], table, [column for column in wanted if column not in STAMP_NAMES], cluster)


def _is_looked_into(row: Mapping[str, Any]) -> bool:
    return row["subject_kind"] == "bundle" and row["outcome"] in LOOKED_INTO
