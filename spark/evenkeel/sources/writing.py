"""Writing a snapshot as its answers arrive: one file, which becomes visible only as a whole.

Requests go to a hidden file beside the snapshot's place, one a line, packed. With the last one the head is known. Head
and requests become a second hidden file, which is synced to disk and then linked to the snapshot's name. If two writers
use the same name, one gets it, and `commit` returns False to the other.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from evenkeel.errors import LandingError
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.sources.snapshot_files import Header

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
        ...

    def commit(self, head: Header) -> bool:
        """Make the snapshot visible as a whole; False if another of that name came first, which then stays."""
        ...

    def discard(self) -> None:
        """Leave nothing of a snapshot that was not committed."""
        ...


class SnapshotStore(Protocol):
    """A place for snapshots: a folder of this machine, or a bucket that takes finished snapshots from one."""

    folder: Path

    def next_number(self) -> int:
        """Return one more than the highest number there is."""
        ...

    def begin(self, name: str) -> SnapshotWriter:
        """Start the snapshot of that name (digits)."""
        ...


class FolderStore:
    """Snapshots in a folder of this machine, which is made if it is missing."""

    def __init__(self, folder: str | Path, limits: Limits = DEFAULT) -> None:
        self.folder, self._limits = Path(folder), limits

    def next_number(self) -> int:
        """Return one more than the highest number in the folder; 0 if there is none."""
        names = self.folder.iterdir() if self.folder.is_dir() else ()
        heads = (_NUMBER.match(entry.name) for entry in names)
        return 1 + max((int(head.group()) for head in heads if head), default=-1)

    def begin(self, name: str) -> FileWriter:
        """Start the snapshot of that name (digits) and remove abandoned ones; raises LandingError if writing fails."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            clear_abandoned(self.folder)
            return FileWriter(self.folder / (name + SUFFIX), self._limits)
        except OSError as error:
            raise _not_written(self.folder, error) from None


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
    descriptor = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
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
    """Yield the request as a line of JSON, its body last and piece by piece: a body of 100 MB is not copied as a
    whole."""
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
