"""Rows of a few known files as rounds take them, without a JVM."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter, le
from typing import TYPE_CHECKING, Any, TypeVar

from evenkeel.handover import Write
from evenkeel.lake.arrow_files import read_file
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.spark.rows import Row, rows_of
from evenkeel.verify.by_files import Proven, key_of

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")
Part = tuple[str, str]
"""A file, and the id of the write whose rows are wanted of it: others may have rows there, too."""
# As many as a cycle's inputs and those of the cycle before lie in.
_FILES_AT_HAND = 32
# A cycle's loads are looked at by its own rounds, held against what they come to, and taken over by the next cycle.
_WRITES_AT_HAND = 4
CYCLES_TOGETHER = 24
"""A process decides so many cycles one after the other."""
# Each cycle has a write in a file, and so has the cycle before the first of them, whose state that one takes over.
_WRITES_TOGETHER = CYCLES_TOGETHER + 1
_ROWS_TOGETHER = 3_000
_ID = "write_id"


def parts_of(writes: Iterable[Write], proven: Proven) -> tuple[Part, ...] | None:
    """Where the rows of these writes are; None where they are not all in proven files of their own."""
    found: list[Part] = []
    for write in writes:
        if write.rows:
            files = proven.get(key_of(write))
            if not files:
                return None
            found += [(file, write.write_id) for file in files]
    return tuple(found)


def rows_in(parts: Sequence[Part], table: str, columns: Sequence[str], cluster: str) -> list[Row]:
    """The rows of these writes in their files, all of one cluster's, in the order of the table's key.

    `columns` without the stamp of a write; one that the files lack is None in every row.
    """
    found: list[Row] = []
    for file, write_id in parts:
        found += named(file, _rows_of_write, file, table, tuple(columns), cluster, write_id)
    names = [name for name in TABLES[table].key if name in columns]
    keys = [*zip(*(map(str, map(itemgetter(name), found)) for name in names), strict=True)]
    if all(map(le, keys, keys[1:])):  # most often they were written in order
        return found
    return [found[number] for number in sorted(range(len(found)), key=keys.__getitem__)]


@lru_cache(maxsize=_WRITES_AT_HAND)
def whole_rows_in(parts: tuple[Part, ...], table: str, cluster: str) -> Sequence[Row]:
    """`rows_in` with all columns but the stamp of a write. They are shared, so nobody may change them."""
    return rows_in(parts, table, [name for name in TABLES[table].column_names() if name not in STAMP_NAMES], cluster)


def named(file: str, read: Callable[..., _T], *given: Any) -> _T:
    """What `read` gives; an error is told with the file."""
    try:
        return read(*given)
    except Exception as error:
        error.add_note(f"in the file {file}")
        raise


def in_stretches(file: str, table: str, columns: Sequence[str]) -> tuple[pa.Table, Mapping[str, tuple[int, int]]]:
    """The rows of a file, those of each write together, and by write id where they begin and how many they are."""
    import pyarrow.compute as pc

    whole = read_file(file, table, (*columns, _ID))
    if not whole.num_rows:
        return whole, {}
    ids = whole.column(_ID).unify_dictionaries()
    whole = whole.drop_columns(_ID)
    if len(ids.chunk(0).dictionary) == 1:
        return whole, {ids[0].as_py(): (0, whole.num_rows)}
    plain = ids.combine_chunks().dictionary_decode()
    runs = pc.run_end_encode(plain)
    names = runs.values.to_pylist()
    if len({*names}) == len(names):  # most often they were written one after the other
        begins = [0, *runs.run_ends.to_pylist()]
        stretches = {
            str(name): (begin, end - begin) for name, (begin, end) in zip(names, pairwise(begins), strict=True)
        }
        return whole.unify_dictionaries().combine_chunks(), stretches
    order = pc.sort_indices(plain)
    whole, found, begin = whole.unify_dictionaries().take(order).combine_chunks(), {}, 0
    for counted in pc.value_counts(plain.take(order)).to_pylist():  # in the order in which they come
        found[str(counted["values"])] = (begin, counted["counts"])
        begin += counted["counts"]
    return whole, found


class RowsByWrite:
    """The rows of a file, asked for write by write in about their order; rows of a few writes are made together."""

    def __init__(self, file: str, table: str, columns: Sequence[str], cluster: str) -> None:
        kinds = types_of(table)
        self._columns, self._given = {name: kinds[name] for name in columns}, {"cluster": cluster}
        self._whole, self._stretches = in_stretches(file, table, columns)
        self._ends = sorted(begin + count for begin, count in self._stretches.values())
        self._first, self._rows = 0, list[Row]()

    def of(self, write_id: str) -> Sequence[Row]:
        """The rows of one write, none if the file has none of it. They are shared, so nobody may change them."""
        begin, count = self._stretches.get(write_id, (0, 0))
        if not self._first <= begin <= begin + count <= self._first + len(self._rows):
            made = self._whole.slice(begin, self._end(begin, begin + count) - begin)
            self._first, self._rows = begin, rows_of(made, self._columns, self._given)
        return self._rows[begin - self._first :][:count]

    def _end(self, begin: int, end: int) -> int:
        """Where a write ends that begins and ends here, or one of the next few."""
        ahead = self._ends[bisect_left(self._ends, end) :][:_WRITES_TOGETHER]
        return max([end, *(one for one in ahead if one <= begin + _ROWS_TOGETHER)])


def _rows_of_write(file: str, table: str, columns: tuple[str, ...], cluster: str, write_id: str) -> Sequence[Row]:
    return _rows_kept(file, table, columns, cluster).of(write_id)


# A window has one file of each table for hundreds of cycles, which are decided one after the other.
_rows_kept = lru_cache(maxsize=_FILES_AT_HAND)(RowsByWrite)
