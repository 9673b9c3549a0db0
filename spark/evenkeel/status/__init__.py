"""The status: for each cluster one line with its balance, mode, last cycle and needs.

The first page of the desk and `evenkeel status` show it. `gather` reads, `attention` judges, `line` composes, and
`rendering` writes text and JSON. Only `gather` reads the lake, and the clock is passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evenkeel.lake.record.recent_rows import Recent
from evenkeel.status.gather import gather_status
from evenkeel.status.line import ClusterStatus, by_urgency, line_of

__all__ = ["ClusterStatus", "LakeStatus", "read_status"]


@dataclass(frozen=True, slots=True)
class LakeStatus:
    """The status of a lake `at` a moment: a line per cluster, the most urgent first.

    `unread`: table -> why it could not be read; values that need it are missing from the lines.
    """

    lake: str
    at: datetime
    clusters: tuple[ClusterStatus, ...]
    unread: dict[str, str]


def read_status(lake: str | Path | Recent, now: datetime, *, cluster: str | None = None) -> LakeStatus:
    """Return the status of all clusters on record, or of the named one, at the moment `now` (UTC).

    Pass the same `Recent` for repeated calls, so that only new files are read. Raises NoLake without a lake,
    NoSuchCycle for a cluster that is not on record, with the nearest name, and LakeError if `cycles` cannot be read.
    """
    gathered = gather_status(lake, cluster=cluster)
    lines = by_urgency(line_of(rows, now) for rows in gathered.clusters)
    return LakeStatus(gathered.lake, now, tuple(lines), gathered.unread)
