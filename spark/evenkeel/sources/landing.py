"""Folders of snapshots: writing one as its answers arrive, and the landing folder of a cluster, one for each moment.

A snapshot is one file, which becomes visible only as a whole. Requests go to a hidden file beside the snapshot's place,
one a line, packed. With the last one the head is known. Head and requests become a second hidden file, which is synced
to disk and then linked to the snapshot's name. Of two writers one gets it.

A landed snapshot's name is its moment in milliseconds since 1970. So the folder is listed without opening it, and is
itself a recording. A landed snapshot is never taken again: a re-run and a backfill decide from that snapshot. A past
moment that was not observed stays unobserved.
"""

from __future__ import annotations

import bisect
import gzip
import json
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from evenkeel.errors import BadInput, LandingError
from evenkeel.folders import make_folder, sync
from evenkeel.handover import Snapshot
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.sources.recordings import in_span, names_in
from evenkeel.sources.snapshot_files import Header, known_header, read_header
from evenkeel.times import A_JUMP, borne_out, utc_text

if TYPE_CHECKING:
    from evenkeel.pulsar.admin.http_exchange import Hop


SUFFIX = ".jsonl.gz"
"""Suffix of the snapshots that Evenkeel writes."""

_PIECE = 1 << 20
# Two thirds of the best ratio at a third of its cost.
_LEVEL = 3
_NUMBER = re.compile(r"\d+")
_UNFINISHED = re.compile(r"\.part-[0-9a-f]{16}-.+")
_ABANDONED_SECONDS = 3_600.0


class SnapshotWriter(Protocol):
    """One snapshot under way. `write` may be called by several threads at once."""

    def write(self, hop: Hop) -> None:
        """Take a request with its answer."""

    def commit(self, head: Header) -> bool:
        """Make the snapshot visible as a whole; False if another of that name came first, which then stays."""

    def discard(self) -> None:
        """Leave nothing of a snapshot that was not committed."""


class SnapshotStore(Protocol):
    """A place for snapshots: a folder of this machine, or a bucket that takes finished snapshots from one."""

    folder: Path

    def next_number(self) -> int:
        """Return one more than the highest number there is."""

    def begin(self, name: str) -> SnapshotWriter:
        """Start the snapshot of that name (digits)."""


class FolderStore:
    """Snapshots in a folder of this machine, which is made if it is missing."""

    def __init__(self, folder: str | Path, limits: Limits = DEFAULT) -> None:
        self.folder, self.limits = Path(folder), limits

    def next_number(self) -> int:
        """Return one more than the highest number in the folder; 0 if there is none."""
        names = self.folder.iterdir() if self.folder.is_dir() else ()
        heads = (_NUMBER.match(entry.name) for entry in names)
        return 1 + max((int(head.group()) for head in heads if head), default=-1)

    def begin(self, name: str) -> FileWriter:
        """Start the snapshot of that name (digits) and remove abandoned ones; raises LandingError if writing fails."""
        try:
            make_folder(self.folder)
            clear_abandoned(self.folder)
            return self._writer(self.folder / (name + SUFFIX))
        except OSError as error:
            raise _not_written(self.folder, error) from None

    def _writer(self, place: Path) -> FileWriter:
        return FileWriter(place, self.limits)


class FileWriter:
    """Writer of one snapshot to `place`. A file larger than the limits allow raises `BeyondLimit`."""

    def __init__(self, place: Path, limits: Limits = DEFAULT) -> None:
        self.place, self._limits = place, limits
        self._working = hidden(place)
        self._packed = self._working.open("xb")
        self._file = gzip.GzipFile("", "wb", _LEVEL, self._packed, mtime=0)
        self._lock = Lock()
        self._requests = 0

    def write(self, hop: Hop) -> None:
        """Take a request with its answer; raises LandingError if it cannot be written."""
        try:
            with self._lock:
                for piece in _line(hop, self._requests):
                    self._file.write(piece)
                self._requests += 1
                size = self._packed.tell()
            subject = f"the snapshot's file comes to {size:,} bytes"
            self._limits.demand("packed_mib", size, subject, "check that the addresses are of Pulsar's brokers")
        except OSError as error:
            raise _not_written(self.place, error) from None

    def commit(self, head: Header) -> bool:
        """Make the snapshot visible as a whole; False if another of that name came first, which then stays."""
        whole = hidden(self.place)
        try:
            with self._lock:
                self._file.close()
                self._packed.close()
            # A packed file may consist of packed pieces.
            with whole.open("xb") as file, self._working.open("rb") as requests:
                file.write(gzip.compress(replace(head, requests=self._requests).to_line(), mtime=0))
                shutil.copyfileobj(requests, file, _PIECE)
                file.flush()
                os.fsync(file.fileno())
            return put(whole, self.place)
        except OSError as error:
            raise _not_written(self.place, error) from None
        finally:
            whole.unlink(missing_ok=True)
            self.discard()

    def discard(self) -> None:
        """Leave nothing of a snapshot that was not committed."""
        with self._lock, suppress(OSError):  # it is discarded because of a full disk
            self._file.close()
            self._packed.close()
        self._working.unlink(missing_ok=True)


def hidden(place: Path) -> Path:
    """Return a name beside a snapshot's place that no reader takes for a snapshot."""
    return place.with_name(f".part-{secrets.token_hex(8)}-{place.name}")


def put(whole: Path, place: Path) -> bool:
    """Give a synced file its name and sync the folder; return False if the name is taken, and leave that file."""
    try:
        os.link(whole, place)
    except FileExistsError:
        return False
    sync(place.parent)
    return True


def clear_abandoned(folder: Path) -> None:
    """Remove the files of killed writers once they are an hour old."""
    for entry in folder.iterdir():
        if not _UNFINISHED.fullmatch(entry.name):
            continue
        with suppress(OSError):
            if time.time() - entry.stat().st_mtime > _ABANDONED_SECONDS:
                entry.unlink()


def _line(hop: Hop, n: int) -> Iterator[bytes]:
    """Yield the request as a line of JSON, its body last and piece by piece: a body of 100 MB is not copied."""
    members = {"n": n, **hop.as_request()}
    body = members.pop("body")
    yield _json(members)[:-1] + b',"body":"'
    pieces = (body[start : start + _PIECE] for start in range(0, len(body), _PIECE))
    for piece in pieces if hop.large is None else hop.large.pieces():
        yield _json(piece)[1:-1]
    yield b'"}\n'


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _not_written(place: Path, error: OSError) -> LandingError:
    return LandingError(
        f"the snapshot cannot be written to {place} ({error.strerror or error}): give a folder that can be written, "
        "with room for it"
    )


log = logging.getLogger(__name__)

LATEST_SECONDS = 600.0
"""Seconds after which a moment may no longer be observed. A run that starts later decides nothing: it would see the
cluster's present state, not its state at that moment."""

# Twelve digits and more: the numbers of `evenkeel collect` are not moments.
_NAME = re.compile(r"(\d{12,14})\.jsonl?(\.gz)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Take = Callable[[Callable[[], SnapshotWriter], datetime, int, bool], object]
"""Function that takes a snapshot: from the store, the moment, the number, and True for a full one."""


class Landing:
    """The folder. It need not exist yet."""

    def __init__(self, folder: str | Path, limits: Limits = DEFAULT) -> None:
        self.folder, self.limits = Path(folder), limits

    def find(self, at: datetime) -> Snapshot | None:
        """Return the snapshot of exactly that moment, to the millisecond; raises `BadInput` if it cannot be read."""
        names = self._names()
        wanted = milliseconds(at)
        if wanted not in names:
            return None
        moments = sorted(names)
        place = bisect.bisect_left(moments, wanted)
        header = self._read(names[wanted], read_header)
        self._demand_name(header, names[wanted], wanted)
        lender = wanted if header.has_configuration else next(self._full_before(names, wanted), None)
        return self._snapshot(names, moments, place, lender)

    def land(self, at: datetime, take: Take, *, now: datetime, full_every: int = 1) -> Snapshot:
        """Return the snapshot of that moment: the landed one, else a new one.

        `now` is the clock. Raises `LandingError` for a moment that is too long ago, or in the future. Every
        `full_every`-th snapshot has topic lists. If another process lands the moment meanwhile, its snapshot is
        returned.
        """
        already_landed = self.find(at)
        if already_landed is not None:
            return already_landed
        late = (now - at).total_seconds()
        if late > LATEST_SECONDS:
            raise LandingError(f"{self.missing(at)} A past moment cannot be observed ({late:.0f} s have passed).")
        if late < -LATEST_SECONDS:
            raise LandingError(f"{self.missing(at)} It is still to come: it can be observed then.")
        name = milliseconds(at)
        moment, number = moment_named(name), len(self._names())
        full = self._is_due(name, full_every)
        take(lambda: FolderStore(self.folder, self.limits).begin(str(name)), moment, number, full)
        landed = self.find(at)
        if landed is None:
            raise LandingError(
                f"the snapshot of {utc_text(moment)} was landed in {self.folder} and is gone: land it again"
            )
        return landed

    def missing(self, at: datetime) -> str:
        """Return the sentence that the moment has no snapshot, with the nearest one."""
        moments = sorted(self._names())
        place = bisect.bisect_left(moments, milliseconds(at))
        near = [_iso(moment) for moment in moments[max(place - 1, 0) : place + 1]]
        nearest = f"the nearest are {' and '.join(near)}" if near else "the folder has no snapshot"
        return f"No snapshot of {utc_text(at)} was landed in {self.folder}; {nearest}."

    def between(self, since: datetime | None, until: datetime | None) -> list[tuple[datetime, Snapshot | BadInput]]:
        """Return the landed moments of a span of time, both ends included (None: no bound), in order.

        Each has its snapshot as `find` gives it, or the error of reading it. Raises `BadInput`, which names the
        nearest, if there is none.
        """
        names = self._names()
        moments = sorted(names)
        nothing = f"a window takes what was landed, and {self.folder} holds no snapshot"
        span = in_span([moment_named(each) for each in moments], since, until, nothing)
        lender = next(self._full_before(names, moments[span.start]), None)
        landed: list[tuple[datetime, Snapshot | BadInput]] = []
        for place in range(span.start, span.stop):
            moment = moments[place]
            try:
                header = self._read(names[moment], known_header)
                lender = moment if header.has_configuration else lender
                self._demand_name(header, names[moment], moment)
            except BadInput as error:
                landed.append((moment_named(moment), error))
                continue
            landed.append((moment_named(moment), self._snapshot(names, moments, place, lender)))
        return landed

    @staticmethod
    def _snapshot(names: dict[int, Path], moments: list[int], place: int, lender: int | None) -> Snapshot:
        """Return the snapshot of a moment at its place among all, with the one that lends it configuration."""
        moment = moments[place]
        return Snapshot(
            path=str(names[moment]),
            cycle_at=_iso(moment),
            configuration_path=str(names[lender]) if lender is not None else None,
            configuration_at=_iso(lender) if lender is not None else None,
            previous_at=_iso(moments[place - 1]) if place else None,
        )

    def expire(self, days: float, needed: Snapshot | None = None) -> list[Path]:
        """Remove snapshots that are more than so many days older than the newest, and return them.

        A snapshot stays if a kept one borrows its configuration or topic lists, and if it is `needed` by a cycle under
        way. The newest is the newest that the others bear out (`times.borne_out`): one that a clock dated a year ahead
        makes no other old, and is set aside with a warning.
        """
        names = self._names()
        period = timedelta(days=days)
        newest = borne_out(map(moment_named, names), lasting=min(period, A_JUMP))
        if newest is None:
            return []
        if ahead := sorted(moment for moment in names if moment_named(moment) > newest):
            why = "lies more than a day ahead of the others, so none is removed for it until a day of snapshots follows"
            log.warning("%s %s. If a clock was wrong, set the clock and remove the file", names[ahead[0]], why)
        bound = milliseconds(newest - period)
        kept = min(moment for moment in names if moment >= bound)
        lender = next(self._full_before(names, kept), None) if self._borrows(names[kept]) else None
        used = {needed.path, needed.configuration_path} if needed is not None else set()
        old = [names[moment] for moment in sorted(names) if moment < bound and moment != lender]
        old = [snapshot for snapshot in old if str(snapshot) not in used]
        for snapshot in old:
            try:
                snapshot.unlink(missing_ok=True)
            except OSError as error:
                log.warning("the snapshot %s is old and cannot be removed: %s", snapshot, error)
        return old

    def _names(self) -> dict[int, Path]:
        """Return the moments in milliseconds, and their files."""
        if not self.folder.is_dir():
            return {}
        matches = (_NAME.fullmatch(name) for name in names_in(self.folder))
        return {int(name.group(1)): self.folder / name.string for name in matches if name is not None}

    def _read(self, snapshot: Path, read: Callable[[Path, Limits], Header]) -> Header:
        try:
            return read(snapshot, self.limits)
        except BadInput as error:
            raise BadInput(f"the snapshot {snapshot} cannot be read: {error}") from error

    @staticmethod
    def _demand_name(header: Header, snapshot: Path, moment: int) -> None:
        if milliseconds(header.moment) != moment:
            raise BadInput(f"the snapshot {snapshot} is of {utc_text(header.moment)}, but its name says {_iso(moment)}")

    def _borrows(self, snapshot: Path) -> bool:
        try:
            return not read_header(snapshot, self.limits).has_configuration
        except BadInput:
            return True

    def _full_before(self, names: dict[int, Path], moment: int) -> Iterator[int]:
        """Yield earlier moments whose snapshot others may borrow from, the latest first."""
        for earlier in sorted((each for each in names if each < moment), reverse=True):
            if not self._borrows(names[earlier]):
                yield earlier

    def _is_due(self, moment: int, full_every: int) -> bool:
        """Return True if none of the last snapshots before a moment is full."""
        names = self._names()
        latest = sorted((each for each in names if each < moment), reverse=True)[: full_every - 1]
        return all(self._borrows(names[moment]) for moment in latest)


def milliseconds(at: datetime) -> int:
    """Return the moment as a name: cycles differ by a millisecond at least."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


def moment_named(milliseconds: int) -> datetime:
    """Return the moment of a name."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _iso(milliseconds: int) -> str:
    return utc_text(moment_named(milliseconds))
