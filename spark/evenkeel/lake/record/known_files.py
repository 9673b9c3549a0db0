"""Files of a table as its log describes them: the cluster of their rows, and the moments of the rows.

A year has a hundred thousand files. So they are kept in columns, and a `KnownFile` is made only for requested ones.
Moments are microseconds since 1970; the log has them to the millisecond.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from evenkeel.lake.record.tables import ROUNDING

FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_ROUNDING_US = ROUNDING // _TICK
_DAY_US = timedelta(days=1) // _TICK


def log_moment(at: datetime) -> int:
    """Return a moment as `KnownFile` has it: microseconds since 1970."""
    return (at - FIRST_MOMENT) // _TICK


def moment_of_log(microseconds: int) -> datetime:
    """Return the moment of a number that `log_moment` makes."""
    return FIRST_MOMENT + microseconds * _TICK


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file of a table: its path in the table's folder, its cluster, the span of its rows' moments, their number, its
    size."""

    path: str
    cluster: str
    first: int
    last: int
    rows: int
    size: int


class KnownFiles:
    """The files of a table by cluster, those with the newest row first; `actions` may have none."""

    def __init__(self, actions: Any = None) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        self._starts: dict[str, tuple[int, int]] = {}
        self._first = self._last = self._rows = np.empty(0, np.int64)
        if actions is None or not actions.num_rows:
            return
        present, none = set(actions.column_names), pa.nulls(actions.num_rows, pa.string())
        days = actions.column("partition.cycle_date") if "partition.cycle_date" in present else none
        days = days.cast(pa.string())
        # A file without moments in the log may hold any of its date's.
        begins = pc.cast(pc.cast(days, pa.timestamp("us")), pa.int64())
        whole = {"first": begins, "last": pc.add(begins, _DAY_US - 1)}
        widest = {"first": log_moment(FIRST_MOMENT), "last": log_moment(LAST_MOMENT)}
        columns = {
            "cluster": actions.column("partition.cluster").cast(pa.string()),
            "path": actions.column("path"),
            "day": days,
            "rows": actions.column("num_records"),
            "size": actions.column("size_bytes"),
        }
        for name, statistic in (("first", "min.cycle_at"), ("last", "max.cycle_at")):
            figures = actions.column(statistic) if statistic in present else pa.nulls(actions.num_rows, pa.int64())
            moments = (
                figures if figures.type == pa.int64() else pc.cast(pc.cast(figures, pa.timestamp("us")), pa.int64())
            )
            columns[name] = pc.fill_null(pc.coalesce(moments, whole[name]), widest[name])
        table = pa.table(columns).sort_by([("cluster", "ascending"), ("last", "descending")])
        self._path, self._cluster = table["path"].combine_chunks(), table["cluster"].combine_chunks()
        self._day = table["day"].combine_chunks()
        self._first, self._last = table["first"].to_numpy(), table["last"].to_numpy()
        self._rows, self._size = pc.fill_null(table["rows"], 1).to_numpy(), table["size"].to_numpy()
        runs = pc.run_end_encode(self._cluster)
        begin = 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            self._starts[name] = begin, end
            begin = end

    def clusters(self) -> list[str]:
        """Return the clusters with a file, by name."""
        return sorted(self._starts)

    def newest_first(self, cluster: str) -> Iterator[KnownFile]:
        """Yield the cluster's files, those with the newest row first."""
        for place in range(*self._span(cluster)):
            yield self._file(place)

    def between(self, cluster: str, first: datetime, last: datetime) -> list[KnownFile]:
        """Return the cluster's files that may hold rows of cycles from one moment to another."""
        begin, end = self._span(cluster)
        low, high = log_moment(first) - _ROUNDING_US, log_moment(last) + _ROUNDING_US
        # Newest first: files that end before `low` come last.
        until = bisect_left(range(begin, end), True, key=lambda place: bool(self._last[place] < low)) + begin
        return [self._file(place) for place in range(begin, until) if self._first[place] <= high]

    def dates(self, cluster: str) -> list[date]:
        """Return the dates for which the cluster has files, oldest first."""
        import pyarrow.compute as pc

        begin, end = self._span(cluster)
        if begin == end:
            return []
        return sorted(date.fromisoformat(day) for day in pc.unique(self._day[begin:end]).to_pylist() if day)

    def ends(self, clusters: Iterable[str]) -> tuple[datetime, datetime] | None:
        """Return the first and the last moment of the rows of these clusters; None without a file."""
        spans = [(begin, end) for begin, end in map(self._span, clusters) if begin < end]
        if not spans:
            return None
        oldest = min(int(self._first[begin:end].min()) for begin, end in spans)
        return moment_of_log(oldest), moment_of_log(max(int(self._last[begin]) for begin, _ in spans))

    def last_known(self, cluster: str, at: datetime) -> datetime | None:
        """Return a moment at or before `at` from which on the cluster has a row, as far as the log shows."""
        begin, end = self._span(cluster)
        first, last, wanted = self._first[begin:end], self._last[begin:end], log_moment(at)
        ended, begun = last[last <= wanted], first[(first <= wanted) & (last > wanted)]
        known = [int(moments.max()) for moments in (ended, begun) if len(moments)]
        return moment_of_log(max(known)) if known else None

    def next_known(self, cluster: str, at: datetime) -> datetime | None:
        """Return a moment after `at` up to which the cluster has a row, as far as the log shows."""
        begin, end = self._span(cluster)
        first, last, wanted = self._first[begin:end], self._last[begin:end], log_moment(at)
        to_come, under_way = first[first > wanted], last[(first <= wanted) & (last > wanted)]
        known = [int(moments.min()) for moments in (to_come, under_way) if len(moments)]
        return moment_of_log(min(known)) if known else None

    def since(self, clusters: Sequence[str], until: datetime, rows: int) -> datetime | None:
        """Return the moment from which on these clusters have about so many rows until another; None if they have
        fewer.

        A file's rows are assumed to be spread evenly between its first and its last moment.
        """
        import numpy as np

        high = log_moment(until)
        chosen = np.concatenate([np.arange(*self._span(name)) for name in clusters] or [np.empty(0, np.int64)])
        chosen = chosen[self._first[chosen] <= high]
        chosen = chosen[np.argsort(-self._last[chosen], kind="stable")]
        counted = np.cumsum(self._rows[chosen])
        place = int(np.searchsorted(counted, rows))
        if place >= len(chosen):
            return None
        file = int(chosen[place])
        first, last = int(self._first[file]), min(int(self._last[file]), high)
        rows_of_file = int(self._rows[file])
        wanted = rows - (int(counted[place]) - rows_of_file)
        return moment_of_log(last - (last - first) * wanted // max(1, rows_of_file))

    def _span(self, cluster: str) -> tuple[int, int]:
        return self._starts.get(cluster, (0, 0))

    def _file(self, place: int) -> KnownFile:
        return KnownFile(
            unquote(self._path[place].as_py()),
            self._cluster[place].as_py(),
            int(self._first[place]),
            int(self._last[place]),
            int(self._rows[place]),
            int(self._size[place]),
        )
