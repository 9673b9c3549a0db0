"""Rows of `cycles` that this process reads from the few files that its log names.

The result is None instead of rows if the log, or one of the files, cannot be read in this process, or if many files
would have to be read. Then the caller asks Spark, which also reports the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from evenkeel.lake.plain_rows import read_file, with_cluster
from evenkeel.lake.record.known_files import FIRST_MOMENT, KnownFile, KnownFiles, moment_of_log
from evenkeel.lake.record.tables import ROUNDING
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import delta_table, files_of

Row = dict[str, Any]
_Found = TypeVar("_Found")
MOST_FILES = 32
"""Most files that are opened for a question."""
_TABLE = "cycles"


class _Beyond(Exception):
    """The read needs more files than pay off in this process."""


def manifests_at(lake: Lake, moments: Mapping[str, datetime], columns: Sequence[str]) -> list[Row] | None:
    """Return the rows of each cluster's cycle at a moment, with these columns; times are aware datetimes."""

    def look(files: _Files) -> list[Row]:
        return [
            row
            for cluster, at in moments.items()
            for file in files.known.between(cluster, at, at)
            for row in files.rows(file)
            if row["cycle_at"] == at
        ]

    return _asked(lake, columns, look)


def newest_manifests(
    lake: Lake,
    moments: Mapping[str, datetime],
    columns: Sequence[str],
    rank: Callable[[Row], tuple[Any, ...] | None],
    oldest: datetime | None = None,
) -> dict[str, Row] | None:
    """Return each cluster's row of the highest rank among those before a moment, and from `oldest` on.

    A cluster without such a row is missing. A rank begins with the moment of the row's cycle; a row of rank None does
    not count.
    """

    def newest(files: _Files, cluster: str, before: datetime) -> Row | None:
        best: Row | None = None
        highest: tuple[Any, ...] = (oldest or FIRST_MOMENT,)
        for file in files.known.between(cluster, highest[0], before):
            if moment_of_log(file.last) + ROUNDING < highest[0]:
                break
            for row in files.rows(file):
                own_rank = rank(row) if highest[0] <= row["cycle_at"] < before else None
                if own_rank is not None and own_rank >= highest:
                    best, highest = row, own_rank
        return best

    def look(files: _Files) -> dict[str, Row]:
        rows = {cluster: newest(files, cluster, at) for cluster, at in moments.items()}
        return {cluster: row for cluster, row in rows.items() if row is not None}

    return _asked(lake, columns, look)


def _asked(lake: Lake, columns: Sequence[str], look: Callable[[_Files], _Found]) -> _Found | None:
    from deltalake.exceptions import DeltaError

    try:
        return look(_Files(lake, columns))
    except (_Beyond, DeltaError, OSError, ValueError, KeyError):
        return None


class _Files:
    """The files of the table for one question."""

    def __init__(self, lake: Lake, columns: Sequence[str]) -> None:
        import pyarrow as pa

        self.known = KnownFiles(pa.table(delta_table(lake.path(_TABLE)).get_add_actions(flatten=True)))
        self._place = files_of(lake.path(_TABLE))
        self._columns = [*dict.fromkeys(("cycle_at", *columns))]
        self._left = MOST_FILES

    def rows(self, file: KnownFile) -> list[Row]:
        if not self._left:
            raise _Beyond
        self._left -= 1
        inside = [name for name in self._columns if name != "cluster"]
        read = read_file(self._place.full(file.path), _TABLE, inside)
        file_rows = with_cluster(read, file.cluster).to_pylist()
        nothing = dict.fromkeys(self._columns)
        return [{**nothing, **row} for row in file_rows]
