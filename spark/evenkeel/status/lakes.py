"""The status of several lakes: a line per cluster of all of them, and a line per lake that cannot be read.

A cluster is shown from the lake that it belongs to. A cluster may also be on record in another lake, from before a
move. It is then named among the moved ones: its earlier cycles are read in that lake.

Lakes are read at the same time, so that none waits for another one. A lake whose store answers slowly, or not at all,
is left out after a time limit. Its reading continues, and the next look gets its result if it is ready by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime

from evenkeel.errors import EvenkeelError, LakeError, NoLake, NoSuchCycle
from evenkeel.lake.record.recent_rows import Recent
from evenkeel.lake.table_files import load_libraries
from evenkeel.settings.lakes import ConfiguredLake, LakeMap
from evenkeel.status.gather import StatusGathered, gather_status
from evenkeel.status.line import ClusterStatus, by_urgency, line_of

_MOST = 16
"""Lakes that are read at the same time."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A reading and when it began, in monotonic seconds."""

    begun: float
    gathered: Future[StatusGathered]


class SideBySideReader:
    """Reads lakes, each in its own thread.

    `recent` returns the earlier reads of a lake; `longest_seconds`: time after which a lake is left out (None: no
    limit).
    """

    def __init__(
        self, recent: Callable[[str], str | Recent] = lambda path: path, longest_seconds: float | None = None
    ) -> None:
        self._recent, self._longest = recent, longest_seconds
        self._threads = ThreadPoolExecutor(_MOST, thread_name_prefix="lake")
        self._under_way: dict[str, _UnderWay] = {}

    def read(self, paths: Sequence[str]) -> dict[str, StatusGathered | Exception]:
        """Return the content of each lake at these addresses, or why it cannot be read."""
        for path in paths:
            if not self.is_under_way(path):
                load_libraries(path)
                self._under_way[path] = _UnderWay(time.monotonic(), self._threads.submit(self._gather, path))
        results = {path: self._result(self._under_way[path]) for path in paths}
        self._under_way = {path: reading for path, reading in self._under_way.items() if not reading.gathered.done()}
        return results

    def is_under_way(self, path: str) -> bool:
        """Return True if a reading of the lake has not ended."""
        reading = self._under_way.get(path)
        return reading is not None and not reading.gathered.done()

    def _gather(self, path: str) -> StatusGathered:
        return gather_status(self._recent(path))

    def _result(self, reading: _UnderWay) -> StatusGathered | Exception:
        left = None if self._longest is None else max(reading.begun + self._longest - time.monotonic(), 0.0)
        if not wait([reading.gathered], left).done:
            return LakeError(f"it was not read within {self._longest:g} s; it is read on, and shown once that is done")
        error = reading.gathered.exception()
        if error is None:
            return reading.gathered.result()
        if isinstance(error, Exception):
            return error
        raise error


_LONGEST = 500


@dataclass(frozen=True, slots=True)
class LakeSeen:
    """A lake: its `name` and `path`, how many clusters it shows. `fault`: why it cannot be read ("": it could be);
    `unread`: table -> why it could not be read."""

    name: str
    path: str
    clusters: int
    fault: str
    unread: dict[str, str]


@dataclass(frozen=True, slots=True)
class MovedCluster:
    """A cluster on record in the lake `before`, which belongs to the lake `now`."""

    cluster: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class LakesStatus:
    """The status of several lakes `at` a moment: a line per cluster with its lake's name, the most urgent first."""

    at: datetime
    lakes: tuple[LakeSeen, ...]
    lines: tuple[tuple[str, ClusterStatus], ...]
    moved: tuple[MovedCluster, ...]

    @property
    def clusters(self) -> tuple[ClusterStatus, ...]:
        """The lines, without their lakes."""
        return tuple(line for _, line in self.lines)

    @property
    def faulty(self) -> tuple[LakeSeen, ...]:
        """The lakes that cannot be read."""
        return tuple(lake for lake in self.lakes if lake.fault)

    @property
    def unread(self) -> dict[str, str]:
        """Lake and table -> why the table could not be read."""
        return {f"{lake.name}/{table}": why for lake in self.lakes for table, why in lake.unread.items()}


def read_lakes_status(lakes: LakeMap, now: datetime, reader: SideBySideReader | None = None) -> LakesStatus:
    """Return the status of all clusters of all lakes. Pass the same `reader` for repeated calls.

    A fault of one lake is reported for that lake, and the others are shown.
    """
    read = (reader or SideBySideReader()).read([lake.path for lake in lakes.lakes])
    seen, lines, moved = list[LakeSeen](), dict[int, str](), list[MovedCluster]()
    every: list[ClusterStatus] = []
    for lake in lakes.lakes:
        lake_seen = _seen(lakes, lake, now, read[lake.path])
        if lake_seen is None:
            continue
        seen.append(lake_seen[0])
        for line in lake_seen[1]:
            home = lakes.reader_lake_of(line.cluster)
            other = None if home is None or home == lake else home.name
            if other is not None:
                moved.append(MovedCluster(line.cluster, lake.name, other))
            else:
                lines[id(line)] = lake.name
                every.append(line)
    ordered = tuple((lines[id(line)], line) for line in by_urgency(every))
    counted = tuple(replace(one, clusters=sum(name == one.name for name, _ in ordered)) for one in seen)
    return LakesStatus(now, counted, ordered, tuple(sorted(moved, key=lambda move: (move.cluster, move.before))))


def _seen(
    lakes: LakeMap, lake: ConfiguredLake, now: datetime, read: StatusGathered | Exception
) -> tuple[LakeSeen, list[ClusterStatus]] | None:
    """Return the lake and its lines; None for a missing lake without a configured cluster."""
    if isinstance(read, StatusGathered):
        try:
            return LakeSeen(lake.name, lake.path, 0, "", read.unread), [line_of(rows, now) for rows in read.clusters]
        except Exception as error:  # the read data may be damaged in any way, and the other lakes are still shown
            return _faulty(lake, lake_fault(error)), []
    if isinstance(read, NoSuchCycle):  # the lake exists, and has no cycle yet
        return LakeSeen(lake.name, lake.path, 0, "", {}), []
    if isinstance(read, NoLake) and not lakes.clusters_of(lake):
        return None
    return _faulty(lake, lake_fault(read)), []


def _faulty(lake: ConfiguredLake, why: str) -> LakeSeen:
    return LakeSeen(lake.name, lake.path, 0, why, {})


def lake_fault(error: Exception) -> str:
    """Return the fault of a lake, in one line."""
    is_known = isinstance(error, EvenkeelError | OSError)
    text = str(error) if is_known else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:_LONGEST]
