"""Rows of `cycles` that this process reads from the few files that its log names.

The result is None instead of rows if the log, or one of the files, cannot be read in this process, or if many files
would have to be read. Then the caller asks Spark, which also reports the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import unquote

from evenkeel.lake.plain_rows import read_file, with_cluster
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import delta_table, files_of

Row = dict[str, Any]
_Found = TypeVar("_Found")
MOST_FILES = 32
"""Most files that are opened for a question."""
_TABLE = "cycles"
# Logs keep moments to the millisecond, rounded up or down; rows keep microseconds.
_ROUNDING = timedelta(milliseconds=2)
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _ManifestFile:
    """A file of `cycles`: its cluster, and bounds of its rows' moments."""

    path: str
    cluster: str
    first: datetime
    last: datetime


class _Beyond(Exception):
    """The read needs more files than pay off in this process."""


def manifests_at(lake: Lake, moments: Mapping[str, datetime], columns: Sequence[str]) -> list[Row] | None:
    """Return the rows of each cluster's cycle at a moment, with these columns; times are aware datetimes."""
    return _asked(lake, moments, lambda files: [*_at(files, moments, columns)])


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

    def look(files: Sequence[_ManifestFile]) -> dict[str, Row]:
        opened = _Opened(columns)
        newest_rows = {cluster: _newest(files, cluster, at, opened, rank, oldest) for cluster, at in moments.items()}
        return {cluster: row for cluster, row in newest_rows.items() if row is not None}

    return _asked(lake, moments, look)


def _asked(lake: Lake, clusters: Collection[str], look: Callable[[Sequence[_ManifestFile]], _Found]) -> _Found | None:
    from deltalake.exceptions import DeltaError

    try:
        return look([*_files_of(lake, clusters)])
    except (_Beyond, DeltaError, OSError, ValueError, KeyError):
        return None


def _files_of(lake: Lake, clusters: Collection[str]) -> Iterator[_ManifestFile]:
    files = files_of(lake.path(_TABLE))
    actions = delta_table(lake.path(_TABLE)).get_add_actions(flatten=True)
    known = {*actions.schema.names}
    names = ("path", "partition.cluster", "min.cycle_at", "max.cycle_at")
    columns = (actions.column(n).to_pylist() if n in known else [None] * actions.num_rows for n in names)
    for file, cluster, first, last in zip(*columns, strict=True):
        if cluster in clusters:
            lowest = _FIRST if first is None else _aware(first) - _ROUNDING
            highest = _LAST if last is None else _aware(last) + _ROUNDING
            yield _ManifestFile(files.full(unquote(file)), cluster, lowest, highest)


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


class _Opened:
    """Files opened for one question."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = [*dict.fromkeys(("cycle_at", *columns))]
        self._left = MOST_FILES

    def rows(self, file: _ManifestFile) -> list[Row]:
        if not self._left:
            raise _Beyond
        self._left -= 1
        inside = [name for name in self._columns if name != "cluster"]
        file_rows = with_cluster(read_file(file.path, _TABLE, inside), file.cluster).to_pylist()
        nothing = dict.fromkeys(self._columns)
        return [{**nothing, **row, "cycle_at": _aware(row["cycle_at"])} for row in file_rows]


def _at(files: Sequence[_ManifestFile], moments: Mapping[str, datetime], columns: Sequence[str]) -> Iterator[Row]:
    opened = _Opened(columns)
    for file in files:
        at = moments[file.cluster]
        if file.first <= at <= file.last:
            yield from (row for row in opened.rows(file) if row["cycle_at"] == at)


def _newest(
    files: Sequence[_ManifestFile],
    cluster: str,
    before: datetime,
    opened: _Opened,
    rank: Callable[[Row], tuple[Any, ...] | None],
    oldest: datetime | None,
) -> Row | None:
    cluster_files = [file for file in files if file.cluster == cluster and file.first < before]
    best: Row | None = None
    highest: tuple[Any, ...] = (oldest or _FIRST,)
    for file in sorted(cluster_files, key=lambda candidate: candidate.last, reverse=True):
        if file.last < highest[0]:
            break
        for row in opened.rows(file):
            own_rank = rank(row) if highest[0] <= row["cycle_at"] < before else None
            if own_rank is not None and own_rank >= highest:
                best, highest = row, own_rank
    return best
