"""Decisions taken again from proven files, in processes of this machine: no rows travel, and no Spark is asked.

Only whether an attempt came out as recorded is found here. How it differs, and what needs figures of topics, is found
by the grouped map (`decide_again`), which decides by the same code.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from evenkeel.cycle import again
from evenkeel.cycle.projections import columns_looked_at
from evenkeel.lake.data_files import read_file, with_cluster
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.plan_splits.task import picks_by_topics
from evenkeel.record.verify.by_files import Proven, key_of
from evenkeel.record.verify.contents import ATTEMPT
from evenkeel.record.verify.decide_again import LOOKED_INTO, OBSERVED, compared
from evenkeel.record.verify.recorded_cycle import PLANNED, RecordedCycle, other_plan
from evenkeel.spark.rows import Row, rows_of

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger(__name__)
_AT_ONCE = 8
_MOST_PROCESSES = 16
# Starting a process takes as long as deciding some thirty cycles of a thousand bundles.
_WORTH_A_PROCESS = 60
# As many as a cycle's inputs and those of the cycle before lie in.
_FILES_AT_HAND = 32
_ID = "write_id"
_INPUTS = {
    **{table: table for table in OBSERVED},
    **{again.recorded(table): table for table in again.OUTPUTS},
    "state": again.STATE,
}


Part = tuple[str, str]
"""A file, and the id of the write whose rows are wanted of it: others may have rows there, too."""


@dataclass(frozen=True, slots=True)
class FromFiles:
    """An attempt to decide again: its cycle row, the figures of its manifest, and where the rows of each input are.

    `needs_topics`: whether bundles that were looked into were cut by their topics. `to_the_word`: whether its sentences
    have to be the same as well.
    """

    attempt_id: str
    cycle: Mapping[str, str | None]
    planned: Mapping[str, Any]
    version: int
    files: Mapping[str, tuple[Part, ...]]
    needs_topics: bool
    to_the_word: bool


def from_files(one: RecordedCycle, proven: Proven) -> FromFiles | None:
    """None for an attempt whose inputs are not all in proven files of their own, or that took a wish that looks at
    topics."""
    if any(picks_by_topics(wish) for wish in one.cycle.wishes):
        return None
    files: dict[str, tuple[Part, ...]] = {}
    writes, reads = one.attempt.writes, one.attempt.reads
    for name, table in _INPUTS.items():
        own = [write for write in (reads if name == "state" else writes) if write.table == table and write.rows]
        if not all(proven.get(key_of(write)) for write in own):
            return None
        files[name] = tuple((file, write.write_id) for write in own for file in proven[key_of(write)])
    return FromFiles(
        one.attempt.attempt_id,
        one.cycle_row,
        {name: one.attempt.planned[name] for name in PLANNED},
        one.attempt.schema_version,
        files,
        one.needs_topics,
        one.to_the_word,
    )


class Deciding:
    """Attempts that are being decided; `reproduced` waits for them."""

    def __init__(self) -> None:
        self.here: list[FromFiles] = []
        self.begun: list[Future[dict[str, bool]]] = []

    def reproduced(self) -> dict[str, bool]:
        """The attempts that came out as recorded, and of each whether its sentences are worded otherwise now.

        None of what a process had that was killed.
        """
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


def _part_came_out(asked: Sequence[FromFiles]) -> dict[str, bool]:
    found = _came_out(asked)
    gc.collect()
    return found


def _came_out(asked: Sequence[FromFiles]) -> dict[str, bool]:
    found = {one.attempt_id: _is_reworded(one) for one in asked}
    return {name: reworded for name, reworded in found.items() if reworded is not None}


def _is_reworded(one: FromFiles) -> bool | None:
    """Whether nothing but sentences came out otherwise; None if anything else did.

    An error is left to the grouped map as well: there it is reported with the cycle that it is about. It is logged with
    the file, since nobody would hear of one that Spark reads all the same.
    """
    try:
        rows = {name: _rows(name, table, one) for name, table in _INPUTS.items()}
        if one.needs_topics and any(_is_looked_into(row) for row in rows["split_decisions"]):
            return None
        rows |= {"cycle": [dict(one.cycle)], "topic_hashes": []}
        parameters = compared(one.version, to_the_word=one.to_the_word)
        found = again.held_against({ATTEMPT: one.attempt_id}, rows, parameters=parameters)
    except Exception as error:
        place = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
        said = " ".join(str(error).split())[:500]
        log.warning(
            "%s at %s could not be decided again from its files, and is left to Spark: %s: %s%s",
            *(one.cycle["cluster"], one.cycle["cycle_at"], type(error).__name__, said, place),
        )
        return None
    (plan,) = found[again.PLAN]
    return None if found[again.DIFFERING] or other_plan(one.planned, plan) else bool(found[again.REWORDED])


def _rows(name: str, table: str, one: FromFiles) -> list[dict[str, Any]]:
    names = TABLES[table].column_names()
    wanted = columns_looked_at(name, names) if name in OBSERVED else names
    cluster = one.cycle["cluster"] or ""
    return rows_in(one.files[name], table, [column for column in wanted if column not in STAMP_NAMES], cluster)


def _is_looked_into(row: Mapping[str, Any]) -> bool:
    return row["subject_kind"] == "bundle" and row["outcome"] in LOOKED_INTO


# Rows of a few known files as rounds take them, without a JVM.


def rows_in(parts: Sequence[Part], table: str, columns: Sequence[str], cluster: str) -> list[Row]:
    """The rows of these writes in their files, all of one cluster's, in the order of the table's key.

    `columns` without the stamp of a write; one that the files lack is None in every row.
    """
    found: list[Row] = []
    for file, write_id in parts:
        try:
            own = _by_write(file, table, tuple(columns)).get(write_id)
        except Exception as error:
            error.add_note(f"in the file {file}")
            raise
        if own is not None:
            found += _rows_of_file(own, table, columns, cluster)
    found.sort(key=_in_order(table, tuple(columns)))
    return found


@cache
def _in_order(table: str, columns: tuple[str, ...]) -> Callable[[Row], Any]:
    names = [name for name in TABLES[table].key if name in columns]
    return lambda row: [str(row[name]) for name in names]


# A window has one file of each table for hundreds of cycles, which are decided one after the other.
@lru_cache(maxsize=_FILES_AT_HAND)
def _by_write(file: str, table: str, columns: tuple[str, ...]) -> dict[str, pa.Table]:
    """Write id -> its rows in a file."""
    import pyarrow.compute as pc

    whole = read_file(file, table, (*columns, _ID))
    if not whole.num_rows:
        return {}
    ids = whole.column(_ID).unify_dictionaries()
    whole = whole.drop_columns(_ID)
    if len(ids.chunk(0).dictionary) == 1:
        return {ids[0].as_py(): whole}
    plain = ids.combine_chunks().dictionary_decode()
    order = pc.sort_indices(plain)
    whole, found, begin = whole.unify_dictionaries().take(order).combine_chunks(), {}, 0
    for counted in pc.value_counts(plain.take(order)).to_pylist():  # in the order in which they come
        found[str(counted["values"])] = whole.slice(begin, counted["counts"])
        begin += counted["counts"]
    return found


def _rows_of_file(found: pa.Table, table: str, columns: Sequence[str], cluster: str) -> list[Row]:
    kinds = types_of(table)
    rows = with_cluster(found, cluster) if "cluster" in columns else found
    return rows_of(rows, {name: kinds[name] for name in columns})
