"""Search for the snapshot of a moment in a landing zone: newest names first; the first whole snapshot is fetched.

It is fetched into a local folder of the cluster, which is itself a recording. Tasks and the Spark server read it from
the folder, whichever credentials the zone needs. A file in the folder is not fetched again, so a re-run decides from
the same bytes.

Late snapshots need no care: names sort by moment, not by arrival. Damaged ones are passed over and recorded. Of two
collectors that take the same moment with the same name only one object exists. If their moments differ by some seconds,
both objects exist; taking both would make two cycles of one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, tee
from pathlib import Path
from typing import Any

from evenkeel.aws_errors import RAISED_BY_BOTO
from evenkeel.errors import BadInput
from evenkeel.handover import Snapshot
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.sources.landing import SUFFIX, clear_abandoned, hidden, milliseconds, put
from evenkeel.sources.landing_zone.s3 import (
    Entry,
    as_s3_error,
    clusters_in,
    fetch,
    newest_first,
    oldest_first,
    place_of,
    read_head,
)
from evenkeel.sources.recordings import Problem
from evenkeel.sources.snapshot_files import Header, read_header, utc
from evenkeel.times import utc_text

LOG = logging.getLogger(__name__)

WITHIN = timedelta(seconds=10)
AHEAD = timedelta(minutes=5)
"""A snapshot dated further ahead than this of the store's own clock is set aside: its collector's clock is wrong."""
LONGEST_CHAIN = 16
LENDER_NAMES = 20_000
"""Number of names searched for a snapshot that lends configuration: two weeks of one a minute."""
MOST_REFUSED = 16
"""Number of damaged snapshots after which a search ends: then the zone is at fault, not a snapshot."""
NAMED_CLUSTERS = 5


@dataclass(frozen=True, slots=True)
class FoundSnapshot:
    """A fetched snapshot, and those left out before it.

    `problems`: younger snapshots that are refused, and refused lenders of configuration. `doubled`: other collectors'
    snapshots of the same moments, which are not a fault.
    """

    snapshot: Snapshot
    problems: tuple[Problem, ...] = ()
    doubled: tuple[Problem, ...] = ()


class S3Landing:
    """The landing zone `url` (s3://bucket/prefix) of one cluster; needed snapshots are fetched to `landing_folder`.

    That folder is the cluster's own. `client`: see `s3.connect`. A snapshot beyond `limits` is refused before any of it
    is fetched.
    """

    def __init__(
        self, url: str, landing_folder: str | Path, cluster: str, client: Any, limits: Limits = DEFAULT
    ) -> None:
        self._place, self._cluster, self.folder = place_of(url), cluster, Path(landing_folder)
        self._client, self._limits = client, limits
        self._problems: dict[str, Problem] = {}
        self._doubled: list[Problem] = []
        self._ahead: list[Problem] = []

    def snapshot_at(self, time: str | datetime | None = None) -> FoundSnapshot:
        """Return the snapshot of that moment, else the latest before it; None: the newest. It is fetched before this
        returns.

        Damaged snapshots are passed over and listed in `problems`. The result has the latest snapshot up to it that
        holds configuration, and the moment of the previous one. Raises `BadInput` if there is none at or before that
        moment (it names the nearest), and `S3Error` if the store cannot be asked.
        """
        moment = None if time is None else utc(time.isoformat() if isinstance(time, datetime) else time)
        self._problems, self._doubled, self._ahead = {}, [], []
        with as_s3_error(f"cannot read snapshots of {self._cluster} at {self._place}"):
            result = self._found(moment)
        for double in result.doubled:
            LOG.info("%s is not needed: %s", double.file, double.reason)
        return result

    def _found(self, moment: datetime | None) -> FoundSnapshot:
        entries, again = tee(filter(self._is_dated, newest_first(self._client, self._place, self._cluster, moment)))
        groups = self._groups(entries)
        first_landed = next((landed for group in groups if (landed := self._landed(group))), None)
        if first_landed is None:
            raise BadInput(self._nothing_found(moment))
        entry, path, header = first_landed
        previous = next(groups, None)
        if previous is not None:
            self._note_doubles(previous[0], previous[1:])
        lender = (entry, path) if header.has_configuration else self._lender(entry, again)
        return FoundSnapshot(
            Snapshot(
                path=str(path),
                cycle_at=utc_text(header.moment),
                configuration_path=str(lender[1]) if lender else None,
                configuration_at=utc_text(lender[0].moment) if lender else None,
                previous_at=utc_text(previous[0].moment) if previous else None,
            ),
            problems=(*self._problems.values(), *self._ahead[:MOST_REFUSED]),
            doubled=tuple(self._doubled),
        )

    def _groups(self, newest_first: Iterable[Entry]) -> Iterator[tuple[Entry, ...]]:
        """Yield groups of snapshots of one moment, newest group first: the one that counts, then its doubles.

        A double is by another collector and at most 10 s younger than the one that counts; one collector's own
        snapshots never double each other. Collectors are looked up only if snapshots follow that closely.
        """
        chain: list[Entry] = []
        for entry in newest_first:
            if chain and (chain[-1].moment - entry.moment > WITHIN or len(chain) == LONGEST_CHAIN):
                yield from reversed(self._grouped(chain))
                chain = []
            chain.append(entry)
        yield from reversed(self._grouped(chain))

    def _grouped(self, chain: list[Entry]) -> list[tuple[Entry, ...]]:
        if len(chain) < 2:
            return [(entry,) for entry in chain]
        groups: list[list[tuple[Entry, str]]] = []
        for entry in reversed(chain):
            header = self._header(entry)
            if header is None:
                continue
            known = groups[-1] if groups else []
            is_near = known and entry.moment - known[0][0].moment <= WITHIN
            if is_near and all(header.collector != collector for _, collector in known):
                known.append((entry, header.collector))
            else:
                groups.append([(entry, header.collector)])
        return [tuple(entry for entry, _ in group) for group in groups]

    def _header(self, entry: Entry) -> Header | None:
        if self._is_over(entry):
            return None
        try:
            return read_head(self._client, self._place, entry.key)
        except BadInput as error:
            self._refuse(entry, error)
            return None

    def _landed(self, group: tuple[Entry, ...]) -> tuple[Entry, Path, Header] | None:
        """Return the first of a group that can be landed; the others of it are doubles, or damaged."""
        for number, entry in enumerate(group):
            landed = self._land(entry)
            if landed is not None:
                self._note_doubles(entry, group[number + 1 :])
                return entry, *landed
        return None

    def _land(self, entry: Entry) -> tuple[Path, Header] | None:
        """Return the file of the snapshot in the local folder, fetched if need be; None if it is refused."""
        if self._is_over(entry):
            return None
        place = self.folder / f"{entry.number}{SUFFIX}"
        try:
            if not place.exists():
                self._fetch(entry, place)
            return place, read_header(place, self._limits)
        except BadInput as error:
            self._refuse(entry, error)
            return None
        except RAISED_BY_BOTO:  # some of them are OSErrors too
            raise
        except OSError as error:
            raise BadInput(f"cannot land a snapshot of {self._cluster} in {self.folder}: {error}") from None

    def _fetch(self, entry: Entry, place: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        clear_abandoned(self.folder)
        coming = hidden(place)
        try:
            fetch(self._client, self._place, entry.key, coming, self._limits)
            header = read_header(coming, self._limits)
            if milliseconds(header.moment) != entry.number:
                raise BadInput(f"it is of {utc_text(header.moment)}, its name says {utc_text(entry.moment)}")
            put(coming, place)
        finally:
            coming.unlink(missing_ok=True)

    def _is_dated(self, entry: Entry) -> bool:
        """Return True if the store's own clock bears out the moment in the name; else set the snapshot aside."""
        if (ahead := entry.moment - entry.stored_at) <= AHEAD:
            return True
        reason = (
            f"it was stored at {utc_text(entry.stored_at)}, and its name lies {ahead} ahead: set its collector's clock"
        )
        self._ahead.append(Problem(self._place.url(entry.key), "finished_at", reason))
        return False

    def _is_over(self, entry: Entry) -> bool:
        return self._place.url(entry.key) in self._problems or len(self._problems) >= MOST_REFUSED

    def _refuse(self, entry: Entry, error: BadInput) -> None:
        file = self._place.url(entry.key)
        self._problems[file] = Problem(file, "snapshot", str(error))

    def _note_doubles(self, kept: Entry, others: tuple[Entry, ...]) -> None:
        for other in others:
            seconds = (other.moment - kept.moment).total_seconds()
            reason = (
                f"another collector took it {seconds:.3f} s after the one of {utc_text(kept.moment)}, which is kept"
            )
            self._doubled.append(Problem(self._place.url(other.key), "finished_at", reason))

    def _lender(self, entry: Entry, entries: Iterator[Entry]) -> tuple[Entry, Path] | None:
        """Return the latest snapshot up to this one that holds configuration."""
        earlier = (each for each in islice(entries, LENDER_NAMES) if each.may_lend and each.number < entry.number)
        for candidate in earlier:
            if len(self._problems) >= MOST_REFUSED:
                return None
            landed = self._land(candidate)
            if landed is not None and landed[1].has_configuration:
                return candidate, landed[0]
        return None

    def _nothing_found(self, moment: datetime | None) -> str:
        where = f"{self._place} holds no snapshot of {self._cluster}"
        if self._problems:
            first = next(iter(self._problems.values()))
            return f"{where} that can be used: {len(self._problems)} refused, first {first.file}: {first.reason}"
        if moment is not None:
            nearest = next(oldest_first(self._client, self._place, self._cluster, milliseconds(moment)), None)
            if nearest is not None:
                return f"{where} at or before {utc_text(moment)}; the nearest is {utc_text(nearest.moment)}"
        others = clusters_in(self._client, self._place)
        names = ", ".join(others[:NAMED_CLUSTERS])
        return f"{where}; {f'it holds {names}' if names else 'it holds nothing yet: does `evenkeel collect` run?'}"
