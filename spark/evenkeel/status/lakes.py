"""The status of several lakes: a line per cluster of all of them, and a line per lake that cannot be read.

A cluster is shown from the lake that it belongs to. A cluster may also be on record in another lake, from before a
move. It is then named among the moved ones: its earlier cycles are read in that lake.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from evenkeel.errors import EvenkeelError, NoLake, NoSuchCycle
from evenkeel.settings.lakes import ConfiguredLake, LakeMap
from evenkeel.status.gather import StatusGathered
from evenkeel.status.line import ClusterStatus, by_urgency, line_of
from evenkeel.status.side_by_side import SideBySideReader

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
    """The status of several lakes `at` a moment: a line per cluster with the name of its lake, the most urgent
    first."""

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
            other = _elsewhere(lakes, lake, line.cluster)
            if other is not None:
                moved.append(MovedCluster(line.cluster, lake.name, other))
            else:
                lines[id(line)] = lake.name
                every.append(line)
    ordered = tuple((lines[id(line)], line) for line in by_urgency(every))
    counted = tuple(replace(one, clusters=sum(name == one.name for name, _ in ordered)) for one in seen)
    return LakesStatus(now, counted, ordered, tuple(sorted(moved, key=lambda move: (move.cluster, move.before))))


def _elsewhere(lakes: LakeMap, lake: ConfiguredLake, cluster: str) -> str | None:
    """Return the name of the lake that the cluster belongs to, if that is another one."""
    home = lakes.reader_lake_of(cluster)
    return None if home is None or home == lake else home.name


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
