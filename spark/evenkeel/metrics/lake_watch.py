"""Lakes that are read in the background, at an interval: every client gets the last reading at once.

They are the lakes of the configuration file. A changed file is read again; an unusable one changes nothing: the earlier
lakes are still watched.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import evenkeel.settings.configuration_file  # noqa: F401 (the thread reads the file with it)
from evenkeel.errors import EvenkeelError, SettingsError
from evenkeel.explain.wording import visible
from evenkeel.lake.table_files import load_libraries
from evenkeel.metrics.figures import LakeFigures, LakeReader
from evenkeel.settings.lakes import LakeMap, configured_lakes

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


LOOKS_S = 5.0
"""So often the file is looked at, where lakes are not read more often."""


@dataclass(frozen=True)
class WatchedLakes:
    """Lakes that are watched, by name. A cluster that was moved counts in the lake that it belongs to."""

    lakes: LakeMap
    watches: Mapping[str, LakeWatch]

    def counts(self, lake: str, cluster: str) -> bool:
        """Return True if figures of the cluster come from this lake."""
        home = self.lakes.reader_lake_of(cluster)
        return home is None or home.name == lake


class ConfigurationWatch:
    """Watcher of `lakes`, and after a change of the file, of the lakes that it names.

    `watched` are the lakes watched now; `is_usable`: the file could be used at the last look.
    """

    def __init__(self, lakes: LakeMap, every_seconds: float) -> None:
        self._every = every_seconds
        self._ended = threading.Event()
        self._told = ""
        self.watched = WatchedLakes(lakes, {lake.name: LakeWatch(lake.path, every_seconds) for lake in lakes.lakes})
        self.is_usable = True
        self._thread = threading.Thread(target=self._run, name="configuration-watch", daemon=True)

    def start(self) -> None:
        """Begin to read the lakes, and to look at the file."""
        for watch in self.watched.watches.values():
            watch.start()
        self._thread.start()

    def stop(self) -> None:
        """End all threads; readings that are under way are waited for a few seconds."""
        self._ended.set()
        self._thread.join(_END_SECONDS)
        for watch in self.watched.watches.values():
            watch.stop()

    def look(self) -> None:
        """Apply the current file. A fault is logged once, until another one occurs."""
        try:
            lakes = configured_lakes()
            if not lakes.lakes:
                raise SettingsError("the configuration names no lake any more")
        except SettingsError as error:
            self.is_usable = False
            if self._told != str(error):
                log.error("the lakes of before are watched on: %s", visible(" ".join(str(error).split())))
            self._told = str(error)
            return
        if self._told:
            log.info("the configuration can be used again")
        self.is_usable, self._told = True, ""
        if lakes != self.watched.lakes:
            self._take_up(lakes)

    def _take_up(self, lakes: LakeMap) -> None:
        """Take up the lakes of a new configuration; unchanged lakes keep their watch and its figures."""
        before = {lake.path: self.watched.watches[lake.name] for lake in self.watched.lakes.lakes}
        now = {lake.path: before.get(lake.path) or LakeWatch(lake.path, self._every) for lake in lakes.lakes}
        self.watched = WatchedLakes(lakes, {lake.name: now[lake.path] for lake in lakes.lakes})
        log.info("lakes that are watched: %s", ", ".join(lake.name for lake in lakes.lakes))
        for path in now.keys() - before.keys():
            now[path].start()
        for path in before.keys() - now.keys():
            before[path].stop()

    def _run(self) -> None:
        while not self._ended.wait(min(self._every, LOOKS_S)):
            self.look()
