"""The chains of `cycles` as a log needs them, read in this process: how far each reaches, and its rows from there on.

Delta's own figures say which files hold rows behind a sequence, so that of a year two or three small files are opened
after a publish. Many rows come in portions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from evenkeel.errors import LakeError
from evenkeel.lake.arrow_files import read_file, with_cluster
from evenkeel.lake.delta_log import add_actions
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import arrow_source, files_of
from evenkeel.lake_log.leaves import LEAF_COLUMNS, ChainEnd

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
_TABLE = "cycles"
_COLUMNS = (*LEAF_COLUMNS, "previous_digest")
_AT_ONCE = 4_000
"""So many rows at most are held at a time; one with twenty roots takes some 10 kB."""


@dataclass(frozen=True, slots=True)
class _ChainFile:
    """A data file with rows of one chain: their number, and the first and last sequence."""

    path: str
    rows: int
    first: int
    last: int


class Chains:
    """The chains of a lake as they were when this was made; none where the lake has no `cycles` yet."""

    def __init__(self, lake: Lake) -> None:
        """Reads Delta's log. Raises LakeError where it is damaged or cannot be had."""
        self._path = lake.path(_TABLE)
        self._files = self._listed()

    def clusters(self) -> list[str]:
        """The clusters with a chain, by name."""
        return sorted(self._files)

    def reach(self, cluster: str) -> int:
        """The highest sequence of a cluster's chain; 0 where it has none."""
        return max((file.last for file in self._files.get(cluster, ())), default=0)

    def end(self, cluster: str) -> ChainEnd:
        """How far a cluster's chain reaches."""
        last = self.reach(cluster)
        rows = [*self.rows_behind(cluster, last - 1)]
        manifests = sum(file.rows for file in self._files[cluster])
        return ChainEnd(manifests, last, rows[-1]["manifest_digest"] if rows else "")

    def rows_behind(self, cluster: str, sequence: int) -> Iterator[Row]:
        """The rows of a chain behind a sequence, in its order, with `cluster`, `LEAF_COLUMNS` and `previous_digest`."""
        files = [file for file in self._files.get(cluster, ()) if file.last > sequence]
        if sum(file.rows for file in files) <= _AT_ONCE:
            yield from self._between(cluster, files, sequence, None)
            return
        numbers = sorted(number for file in files for number in self._sequences(file.path) if number > sequence)
        begin = 0
        while begin < len(numbers):
            last = numbers[min(begin + _AT_ONCE, len(numbers)) - 1]
            yield from self._between(cluster, [file for file in files if file.first <= last], sequence, last)
            sequence, begin = last, bisect_right(numbers, last)

    def _between(self, cluster: str, files: Sequence[_ChainFile], after: int, last: int | None) -> Iterator[Row]:
        found: list[Row] = []
        for file in files:
            if file.last > after:
                rows = self._read(partial(_rows_in, file, after, last))
                found += with_cluster(rows, cluster).to_pylist()
        inside = [row for row in found if row["sequence"] > after and (last is None or row["sequence"] <= last)]
        for row in sorted(inside, key=lambda one: (one["sequence"], one["manifest_digest"])):
            yield {**row, "cycle_at": _aware(row["cycle_at"])}

    def _listed(self) -> dict[str, list[_ChainFile]]:
        actions = add_actions(self._path, flatten=True)
        if actions is None:
            return {}
        names = ("path", "num_records", "min.sequence", "max.sequence", "partition.cluster")
        nothing = [None] * actions.num_rows
        there = {*actions.schema.names}
        columns = (actions.column(name).to_pylist() if name in there else nothing for name in names)
        files = files_of(self._path)
        found: dict[str, list[_ChainFile]] = {}
        for path, rows, first, last, cluster in zip(*columns, strict=True):
            assert files is not None
            file = files.full(unquote(path))
            if None in (rows, first, last):
                own = self._sequences(file)
                rows, first, last = len(own), min(own, default=0), max(own, default=0)
            found.setdefault(cluster, []).append(_ChainFile(file, int(rows), int(first), int(last)))
        return found

    def _sequences(self, file: str) -> list[int]:
        found: list[int] = self._read(lambda: read_file(file, _TABLE, ["sequence"])).column("sequence").to_pylist()
        return found

    def _read(self, read: Callable[[], pa.Table]) -> pa.Table:
        try:
            return read()
        except (OSError, ValueError, KeyError) as error:
            raise LakeError(f"a file of {self._path} cannot be read: {str(error)[:200]}; restore it") from error


def _rows_in(file: _ChainFile, after: int, last: int | None) -> pa.Table:
    """A file's rows; of one with many, those alone that are asked for."""
    if last is None or file.rows <= _AT_ONCE:
        return read_file(file.path, _TABLE, _COLUMNS)
    from pyarrow.parquet import read_schema, read_table

    source = arrow_source(file.path)
    there = {*read_schema(source).names}
    asked = [("sequence", ">", after), ("sequence", "<=", last)]
    columns = [name for name in _COLUMNS if name in there]
    return read_table(source, columns=columns, filters=asked, partitioning=None, coerce_int96_timestamp_unit="us")


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
