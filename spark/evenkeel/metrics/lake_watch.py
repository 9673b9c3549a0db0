"""A lake that is read in the background, at an interval: every client gets the last reading at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from evenkeel.errors import EvenkeelError
from evenkeel.explain.wording import visible
from evenkeel.lake.table_files import load_libraries
from evenkeel.metrics.figures import LakeFigures, LakeReader

_END_SECONDS = 5.0
_LONGEST = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LakeReading:
    """The last reading of a lake.

    `figures`: of the last successful reading, which ended at `read_at` (monotonic seconds; None: no success yet).
    `is_up`: the last reading succeeded; `seconds`: its duration; `failures`: number of failed readings.
    """

    figures: LakeFigures = field(default_factory=LakeFigures)
    read_at: float | None = None
    is_up: bool = False
    seconds: float | None = None
    failures: int = 0

    def age_seconds(self) -> float | None:
        """Return the age of the figures in seconds; None without figures."""
        return None if self.read_at is None else time.monotonic() - self.read_at


class LakeWatch:
    """Reader of the lake at an interval in seconds, whatever the result. `last` is the current reading."""

    def __init__(self, lake: str, every_seconds: float) -> None:
        load_libraries(lake)
        self._lake, self._every = lake, every_seconds
        self._reader = LakeReader(lake)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lake-watch", daemon=True)
        self._told: Mapping[str, str] = {}
        self.last = LakeReading()

    def start(self) -> None:
        """Begin to read in a separate thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, if it was begun; a reading that is under way is waited for a few seconds."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def read_once(self) -> LakeReading:
        """Read the lake now. A fault is logged once, until another one occurs."""
        begun = time.monotonic()
        try:
            figures = self._reader.read(datetime.now(UTC))
        except Exception as error:  # a lake may be gone, half-written or damaged in any way, and come back
            is_known = isinstance(error, EvenkeelError | OSError)
            self._tell({"lake": str(error) if is_known else f"{type(error).__name__}: {error}"})
            self._reader = LakeReader(self._lake)
            taken = time.monotonic() - begun
            self.last = replace(self.last, is_up=False, seconds=taken, failures=self.last.failures + 1)
        else:
            self._tell(figures.unread)
            ended = time.monotonic()
            self.last = LakeReading(figures, ended, True, ended - begun, self.last.failures)
        return self.last

    def _run(self) -> None:
        while not self._ended.is_set():
            begun = time.monotonic()
            self.read_once()
            self._ended.wait(max(self._every - (time.monotonic() - begun), 0.1))

    def _tell(self, unread: Mapping[str, str]) -> None:
        for part, why in unread.items():
            if self._told.get(part) != why:
                log.error("%s cannot be read: %s", part, visible(why)[:_LONGEST])
        for part in self._told.keys() - unread.keys():
            log.info("%s can be read again", part)
        self._told = dict(unread)
