"""Reads several lakes for the status at the same time, so that none waits for another one.

A lake whose store answers slowly, or not at all, is left out after a time limit. Its reading continues, and the next
look gets its result if it is ready by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from evenkeel.errors import LakeError
from evenkeel.lake.record.recent_rows import Recent
from evenkeel.lake.table_files import load_libraries
from evenkeel.status.gather import StatusGathered, gather_status

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
