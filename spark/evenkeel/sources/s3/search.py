"""The search for the snapshot of a moment: what is listed is walked from the newest on until one is whole.

Late snapshots (uploaded after a younger one) need no care: names sort by moment, not by arrival. Half-written ones have
no manifest and are not listed. Damaged ones are passed over, on record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice, tee
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput
from evenkeel.handover import Snapshot
from evenkeel.sources.recordings import Problem, iso
from evenkeel.sources.s3.doubles import alternatives
from evenkeel.sources.s3.fetch import Refused, demand_whole, land, landed_at, manifest_of
from evenkeel.sources.s3.listing import Entry, children, first_since, newest_first
from evenkeel.sources.s3.manifest import Manifest
from evenkeel.sources.s3.place import Place, as_number

LENDER_DAYS = 8
"""How many days with snapshots are looked through for one that lends configuration."""
MOST_REFUSED = 16
"""After so many damaged snapshots a search ends: then something is wrong with the zone, not with a snapshot."""
NAMED_CLUSTERS = 5


@dataclass(frozen=True, slots=True)
class FoundSnapshot:
    """A snapshot that lies here now, who took it, and what was left out on the way.

    `problems`: snapshots younger than its predecessor that are refused, and lenders of configuration that are.
    `doubled`: other collectors' snapshots of the same moments; that is no fault.
    """

    snapshot: Snapshot
    collector: str
    problems: tuple[Problem, ...] = ()
    doubled: tuple[Problem, ...] = ()


class Search:
    """One search in a landing zone; `moment` None asks for the newest snapshot."""

    def __init__(self, client: Any, place: Place, cluster: str, folder: Path, moment: datetime | None) -> None:
        self._client, self._place, self._cluster, self._folder = client, place, cluster, folder
        self._moment = moment
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
                cycle_at=iso(manifest.moment),
                configuration_path=str(lender[1]) if lender else None,
                configuration_at=iso(lender[0].moment) if lender else None,
                previous_at=next((iso(before.moment) for group in groups if (before := self._whole(group))), None),
            ),
            collector=manifest.collector,
            problems=tuple(self._problems.values()),
            doubled=tuple(self._doubled),
        )

    def _manifests(self, entries: Iterator[Entry]) -> Iterator[Manifest]:
        for entry in entries:
            if len(self._problems) >= MOST_REFUSED:
                return
            manifest = self._manifest(entry)
            # A name is exact to the millisecond only.
            if manifest and (self._moment is None or manifest.moment <= self._moment):
                yield manifest

    def _manifest(self, entry: Entry) -> Manifest | None:
        if entry.key in self._problems:
            return None
        if entry.key not in self._read:
            try:
                self._read[entry.key] = manifest_of(self._client, self._place, self._cluster, entry)
            except Refused as refused:
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
            return land(self._client, self._place, manifest, self._folder)
        except Refused as refused:
            self._refuse(manifest, refused)
            return None

    def _whole(self, group: tuple[Manifest, ...]) -> Manifest | None:
        """The first of a group whose objects are here, or in the store as far as a listing shows: it is not needed."""
        for place, manifest in enumerate(group):
            try:
                if landed_at(self._folder, manifest) is None:
                    demand_whole(self._client, self._place, manifest)
            except Refused as refused:
                self._refuse(manifest, refused)
                continue
            self._note_doubles(manifest, group[place + 1 :])
            return manifest
        return None

    def _refuse(self, manifest: Manifest, refused: Refused) -> None:
        self._problems[self._place.manifest(manifest.cluster, manifest.moment)] = refused.problem

    def _note_doubles(self, kept: Manifest, others: tuple[Manifest, ...]) -> None:
        for other in others:
            reason = (
                f"{other.collector} took it {(other.moment - kept.moment).total_seconds():.3f} s after "
                f"{kept.collector} took the one of {iso(kept.moment)}, which is kept"
            )
            file = self._place.url(self._place.manifest(other.cluster, other.moment))
            self._doubled.append(Problem(file, "finished_at", reason))

    def _lender(self, manifest: Manifest, path: Path, entries: Iterator[Entry]) -> tuple[Manifest, Path] | None:
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
                return f"{where} at or before {iso(self._moment)}; the nearest is {iso(manifest.moment)}"
        others = children(self._client, self._place, self._place.root)
        names = ", ".join(name.rstrip("/") for name in others[:NAMED_CLUSTERS])
        return f"{where}; {f'it holds {names}' if names else 'it holds nothing yet: does `evenkeel collect` run?'}"


def _day(entry: Entry) -> str:
    return entry.key.rpartition("/")[0]
