"""Snapshots of a cluster from the landing zone, as a recording gives them."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path
from typing import Any

from evenkeel.sources.headers import utc
from evenkeel.sources.landing import Landing
from evenkeel.sources.s3.errors import told
from evenkeel.sources.s3.fetch import remove_copies_without_snapshot
from evenkeel.sources.s3.listing import Entry, newest_first
from evenkeel.sources.s3.place import place_of
from evenkeel.sources.s3.search import FoundSnapshot, Search

LOG = logging.getLogger(__name__)


class S3Landing:
    """The landing zone `url` (s3://bucket/prefix) of one cluster; what is needed of it comes to `landing_folder`.

    That folder is the cluster's own and itself a recording (see `fetch`). `client`: see `client.connect`.
    """

    def __init__(self, url: str, landing_folder: str | Path, cluster: str, client: Any) -> None:
        self.place = place_of(url)
        self.cluster = cluster
        self.folder = Path(landing_folder)
        self._client = client

    def snapshot_at(self, time: str | datetime | None = None) -> FoundSnapshot:
        """The snapshot of that moment, else the latest before it; None: the newest. It is here when this returns.

        A snapshot that is damaged is passed over, and stands in `problems`. With it come the latest one up to it that
        holds configuration, and the moment of the one before it. `BadInput`: there is none at or before that moment
        (it names the nearest); `S3Error`: the store cannot be asked.
        """
        moment = None if time is None else _utc(time)
        with told(f"cannot read snapshots of {self.cluster} at {self.place}"):
            found = Search(self._client, self.place, self.cluster, self.folder, moment).run()
        for double in found.doubled:
            LOG.info("%s is not needed: %s", double.file, double.reason)
        return found

    def expire(self, days: float) -> None:
        """Removes landed snapshots that are more than so many days older than the newest one here; the zone keeps
        them."""
        Landing(self.folder).expire(days)
        remove_copies_without_snapshot(self.folder)

    def listed(self, since: str | datetime, until: str | datetime) -> tuple[Entry, ...]:
        """The names of all manifests between two moments (both included), oldest first; nothing is read or judged."""
        with told(f"cannot list snapshots of {self.cluster} at {self.place}"):
            found = newest_first(self._client, self.place, self.cluster, until=_utc(until), since=_utc(since))
            return tuple(reversed(list(found)))


def _utc(time: str | datetime) -> datetime:
    return utc(time.isoformat() if isinstance(time, datetime) else time)
