"""Figures of a lake's transparency log, read again only after a change, and never too often.

The ends of chains come from Delta's log of `cycles`, which takes a second for a year of cycles. For a table without
statistics of its files, every file has to be opened. So after a reading the next one waits for twenty times as long.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of
from evenkeel.transparency import LOG_FOLDER
from evenkeel.transparency.lake_log import has_log, storage_of
from evenkeel.transparency.log import CHECKPOINT
from evenkeel.transparency.overview import LogOverview, read_overview
from evenkeel.transparency.witnessing import STATES

REST = 20
"""Factor of a reading's duration after which the next reading may start."""


@dataclass(frozen=True, slots=True)
class LogSeen:
    """A log at a moment; `written_at`: when its newest checkpoint was written (seconds since 1970), None if unknown."""

    overview: LogOverview
    written_at: float | None


class LogWatch:
    """The log of a lake, as far as it was read."""

    def __init__(self, lake: str) -> None:
        self._lake = lake
        self._key: tuple[object, ...] | None = None
        self._seen: LogSeen | None = None
        self._not_before = 0.0

    def read(self) -> LogSeen | None:
        """Return the log's figures of now or of the last reading, None without a log.

        Raises LogError, LakeError or BadNote.
        """
        if self._key is not None and time.monotonic() < self._not_before:
            return self._seen
        files = files_of(Lake(self._lake).root)
        if not has_log(storage := storage_of(self._lake)):
            self._key, self._seen = None, None
            return None
        key = storage.get(CHECKPOINT), storage.get(STATES), newest_version(Lake(self._lake).path("cycles"))
        if key != self._key:
            begun = time.monotonic()
            self._key = None
            self._seen = LogSeen(read_overview(self._lake), files.modified(LOG_FOLDER).get(CHECKPOINT))
            ended = time.monotonic()
            self._key, self._not_before = key, ended + REST * (ended - begun)
        return self._seen
