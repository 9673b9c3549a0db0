"""The lakes of the configuration file, each watched in the background. A changed file is read again.

An unusable file changes nothing: the earlier lakes are still watched.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import evenkeel.settings.configuration_file  # noqa: F401 (the thread reads the file with it)
from evenkeel.errors import SettingsError
from evenkeel.explain.wording import visible
from evenkeel.metrics.lake_watch import LakeWatch
from evenkeel.settings.lakes import LakeMap, configured_lakes

LOOKS_S = 5.0
"""So often the file is looked at, where lakes are not read more often."""
_END_SECONDS = 5.0

log = logging.getLogger(__name__)


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
