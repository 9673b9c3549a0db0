"""The search for the snapshot of a moment: manifests are listed newest first and walked until one is whole.

Two machines that collect at the same moment meet at the manifest, where the store decides. Where their moments differ
by some seconds both manifests stand; taking both would make two cycles of one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, islice, tee
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.handover import Snapshot
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.sources.landing import Landing
from evenkeel.sources.landing_zone.fetch import (
    SnapshotRefused,
    demand_whole,
    land,
    landed_at,
    manifest_of,
    remove_copies_without_snapshot,
)
from evenkeel.sources.landing_zone.layout import (
    Manifest,
    ManifestEntry,
    Place,
    as_number,
    children,
    first_since,
    newest_first,
    place_of,
)
from evenkeel.sources.landing_zone.s3 import as_s3_error
from evenkeel.sources.recordings import Problem, utc
from evenkeel.times import utc_text

WITHIN = timedelta(seconds=10)
LONGEST_CHAIN = 16


def alternatives(newest_first: Iterable[Manifest]) -> Iterator[tuple[Manifest, ...]]:
    """Groups of snapshots that stand for one moment, newest group first: the one that counts, then its doubles.

    A double is by another collector and at most 10 s younger than the one that counts; one collector's own snapshots
    never double each other. Reads one manifest ahead, more only where different collectors follow closely.
    """
    chain: list[Manifest] = []
    for manifest in newest_first:
        if chain and not _may_belong_together(manifest, chain):
            yield from reversed(_groups(chain))
            chain = []
        chain.append(manifest)
    yield from reversed(_groups(chain))


def _may_belong_together(manifest: Manifest, chain: list[Manifest]) -> bool:
    later = chain[-1]
    return (
        manifest.collector != later.collector
        and later.moment - manifest.moment <= WITHIN
        and len(chain) < LONGEST_CHAIN
    )


def _groups(chain: list[Manifest]) -> list[tuple[Manifest, ...]]:
    groups: list[tuple[Manifest, ...]] = []
    for manifest in reversed(chain):
        if groups and _is_double(manifest, groups[-1]):
            groups[-1] = (*groups[-1], manifest)
        else:
            groups.append((manifest,))
    return groups


def _is_double(manifest: Manifest, group: tuple[Manifest, ...]) -> bool:
    is_another = all(manifest.collector != known.collector for known in group)
    return is_another and manifest.moment - group[0].moment <= WITHIN


# The search for the snapshot of a moment: what is listed is walked from the newest on until one is whole.
#
# Late snapshots (uploaded after a younger one) need no care: names sort by moment, not by arrival. Half-written ones
# have no manifest and are not listed. Damaged ones are passed over, on record.

LENDER_DAYS = 8
"""How many days with snapshots are looked through for one that lends configuration."""
MOST_REFUSED = 16
"""After so many damaged snapshots a search ends: then something is wrong with the zone, not with a snapshot."""
NAMED_CLUSTERS = 5


@dataclass(frozen=True, slots=True)
class FoundSnapshot:
    """A snapshot that lies here now, who took it, and what was left out on the way.

    `problems`: snapshots younger than its predecessor that are refused, and lenders of configuration that are.
    `doubled`: other collectors' snapshots of the same moments; that is not a fault.
    """

    snapshot: Snapshot
    collector: str
    problems: tuple[Problem, ...] = ()
    doubled: tuple[Problem, ...] = ()


class Search:
    """One search in a landing zone; `moment` None asks for the newest snapshot."""

    def __init__(
        self,
        client: Any,
        place: Place,
        cluster: str,
        folder: Path,
        moment: datetime | None,
        limits: Limits = DEFAULT,
    ) -> None:
        self._client, self._place, self._cluster, self._folder = client, place, cluster, folder
        self._moment, self._limits = moment, limits
        self._read: dict[str, Manifest] = {}
        self._problems: dict[str, Problem] = {}
        self._doubled: list[Problem] = []

    def run(self) -> FoundSnapshot:
        """The snapshot, landed; `BadInput` if there is none."""
        entries, again = tee(newest_first(self._client, self._place, self._cluster, until=self._moment))
        groups = alternatives(self._manifests(entries))
        found = next((landed for group in groups if (landed := self._landed(group))), None)
        if found is None:
            raise BadInput(self._nothing_found())
        manifest, path = found
        lender = self._lender(manifest, path, again)
        return FoundSnapshot(
            Snapshot(
                path=str(path),
                cycle_at=utc_text(manifest.moment),
                configuration_path=str(lender[1]) if lender else None,
                configuration_at=utc_text(lender[0].moment) if lender else None,
                previous_at=next((utc_text(before.moment) for group in groups if (before := self._whole(group))), None),
            ),
            collector=manifest.collector,
            problems=tuple(self._problems.values()),
            doubled=tuple(self._doubled),
        )

    def _manifests(self, entries: Iterator[ManifestEntry]) -> Iterator[Manifest]:
        for entry in entries:
            if len(self._problems) >= MOST_REFUSED:
                return
            manifest = self._manifest(entry)
            # A name is exact to the millisecond only.
            if manifest and (self._moment is None or manifest.moment <= self._moment):
                yield manifest

    def _manifest(self, entry: ManifestEntry) -> Manifest | None:
        if entry.key in self._problems:
            return None
        if entry.key not in self._read:
            try:
                self._read[entry.key] = manifest_of(self._client, self._place, self._cluster, entry)
            except SnapshotRefused as refused:
                self._problems[entry.key] = refused.problem
                return None
        return self._read[entry.key]

    def _landed(self, group: tuple[Manifest, ...]) -> tuple[Manifest, Path] | None:
        """The first of a group that can be landed; the others of it are doubles, or damaged."""
        for place, manifest in enumerate(group):
            path = self._land(manifest)
            if path is not None:
                self._note_doubles(manifest, group[place + 1 :])
                return manifest, path
        return None

    def _land(self, manifest: Manifest) -> Path | None:
        try:
            return land(self._client, self._place, manifest, self._folder, self._limits)
        except SnapshotRefused as refused:
            self._refuse(manifest, refused)
            return None

    def _whole(self, group: tuple[Manifest, ...]) -> Manifest | None:
        """The first of a group whose objects are here, or in the store as far as a listing shows: it is not needed."""
        for place, manifest in enumerate(group):
            try:
                if landed_at(self._folder, manifest) is None:
                    demand_whole(self._client, self._place, manifest)
            except SnapshotRefused as refused:
                self._refuse(manifest, refused)
                continue
            self._note_doubles(manifest, group[place + 1 :])
            return manifest
        return None

    def _refuse(self, manifest: Manifest, refused: SnapshotRefused) -> None:
        self._problems[self._place.manifest(manifest.cluster, manifest.moment)] = refused.problem

    def _note_doubles(self, kept: Manifest, others: tuple[Manifest, ...]) -> None:
        for other in others:
            reason = (
                f"{other.collector} took it {(other.moment - kept.moment).total_seconds():.3f} s after "
                f"{kept.collector} took the one of {utc_text(kept.moment)}, which is kept"
            )
            file = self._place.url(self._place.manifest(other.cluster, other.moment))
            self._doubled.append(Problem(file, "finished_at", reason))

    def _lender(self, manifest: Manifest, path: Path, entries: Iterator[ManifestEntry]) -> tuple[Manifest, Path] | None:
        """The latest snapshot up to this one that holds configuration."""
        if manifest.has_configuration:
            return manifest, path
        earlier = (entry for entry in entries if entry.number < as_number(manifest.moment))
        for _, of_day in islice(groupby(earlier, _day), LENDER_DAYS):
            for entry in of_day:
                if len(self._problems) >= MOST_REFUSED:
                    return None
                candidate = self._manifest(entry) if entry.may_lend else None
                lent = self._land(candidate) if candidate and candidate.has_configuration else None
                if candidate and lent:
                    return candidate, lent
        return None

    def _nothing_found(self) -> str:
        where = f"{self._place} holds no snapshot of {self._cluster}"
        if self._problems:
            first = next(iter(self._problems.values()))
            return f"{where} that can be used: {len(self._problems)} refused, first {first.file}: {first.reason}"
        if self._moment is not None:
            nearest = first_since(self._client, self._place, self._cluster, self._moment)
            manifest = self._manifest(nearest) if nearest else None
            if manifest:
                return f"{where} at or before {utc_text(self._moment)}; the nearest is {utc_text(manifest.moment)}"
        others = children(self._client, self._place, self._place.root)
        names = ", ".join(name.rstrip("/") for name in others[:NAMED_CLUSTERS])
        return f"{where}; {f'it holds {names}' if names else 'it holds nothing yet: does `evenkeel collect` run?'}"


def _day(entry: ManifestEntry) -> str:
    return entry.key.rpartition("/")[0]


# Snapshots of a cluster from the landing zone, as a recording gives them.

LOG = logging.getLogger(__name__)


class S3Landing:
    """The landing zone `url` (s3://bucket/prefix) of one cluster; what is needed of it comes to `landing_folder`.

    That folder is the cluster's own and itself a recording (see `fetch`). `client`: see `client.connect`. A snapshot
    beyond `limits` is refused before anything of it is fetched.
    """

    def __init__(
        self, url: str, landing_folder: str | Path, cluster: str, client: Any, limits: Limits = DEFAULT
    ) -> None:
        self.place, self._limits = place_of(url), limits
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
        with as_s3_error(f"cannot read snapshots of {self.cluster} at {self.place}"):
            found = Search(self._client, self.place, self.cluster, self.folder, moment, self._limits).run()
        for double in found.doubled:
            LOG.info("%s is not needed: %s", double.file, double.reason)
        return found

    def expire(self, days: float) -> None:
        """Removes landed snapshots that are more than so many days older than the newest one here; the zone keeps
        them."""
        Landing(self.folder, self._limits).expire(days)
        remove_copies_without_snapshot(self.folder)

    def listed(self, since: str | datetime, until: str | datetime) -> tuple[ManifestEntry, ...]:
        """The names of all manifests between two moments (both included), oldest first; nothing is read or judged."""
        with as_s3_error(f"cannot list snapshots of {self.cluster} at {self.place}"):
            found = newest_first(self._client, self.place, self.cluster, until=_utc(until), since=_utc(since))
            return tuple(reversed(list(found)))


def _utc(time: str | datetime) -> datetime:
    return utc(time.isoformat() if isinstance(time, datetime) else time)
