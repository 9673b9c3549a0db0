"""Writing a snapshot as its answers arrive: nothing of it can be seen before all of it lies there.

    NNNN/requests-000.jsonl.gz, …       one request a line, as they came
    NNNN/requests-quotas.jsonl.gz       the same, of resource quotas; only where any was asked for
    NNNN/snapshot.json                  the head, written last

This is the folder layout of a recording, for small snapshots too: bodies go to disk one by one, whatever their sum, and
the head is read without unpacking anything.
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
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from evenkeel.errors import LandingError
from evenkeel.pulsar.answers import Kind, subject_of
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.sources.recordings import FOLDER_HEADER
from evenkeel.times import utc_milliseconds

if TYPE_CHECKING:
    from evenkeel.pulsar.admin.http_exchange import Hop

PART_BYTES = 16 << 20
"""A part is closed once it holds this much, unpacked: packed text cannot be divided among readers."""

QUOTAS_PART = "requests-quotas.jsonl.gz"
"""Resource quotas lie apart, so that a snapshot without any has the files that it always had."""

_PIECE = 1 << 20
# Two thirds of the best ratio at a third of its cost.
_LEVEL = 3
_NUMBER = re.compile(r"\d+")
_UNFINISHED = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.(part|gone)")
_ABANDONED_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Head:
    """What a snapshot says of itself. `has_configuration`: later snapshots that lack them may borrow the brokers'
    configuration and the topic lists from it. `cycle_at` is the moment that it was taken for, where there is one."""

    n: int
    started_at: datetime
    finished_at: datetime
    note: str = ""
    has_configuration: bool = False
    cycle_at: datetime | None = None

    def to_json(self) -> str:
        """The text of the snapshot's header file."""
        body = {
            "format": 1,
            "n": self.n,
            "started_at": utc_milliseconds(self.started_at),
            "finished_at": utc_milliseconds(self.finished_at),
            "note": self.note,
            "has_configuration": self.has_configuration,
        }
        if self.cycle_at is not None:
            body["cycle_at"] = self.cycle_at.astimezone(UTC).isoformat(timespec="milliseconds")
        return json.dumps(body, ensure_ascii=False, indent=1) + "\n"


class SnapshotWriter(Protocol):
    """One snapshot under way. `write` may be called by several threads at once."""

    def write(self, hop: Hop) -> None:
        """Takes a request with its answer."""
        ...

    def commit(self, head: Head) -> bool:
        """Makes the snapshot visible as a whole; False if another of that name came first, which then stays."""
        ...

    def discard(self) -> None:
        """Leaves nothing behind of a snapshot that was not committed."""
        ...


class SnapshotStore(Protocol):
    """A place for snapshots: a folder here, or whatever takes a finished folder from one."""

    folder: Path

    def next_number(self) -> int:
        """One more than the highest number there is."""
        ...

    def begin(self, name: str) -> SnapshotWriter:
        """Starts the snapshot of that name (digits)."""
        ...


class FolderStore:
    """Snapshots in a folder of this machine, which is made if it is missing."""

    def __init__(self, folder: str | Path, limits: Limits = DEFAULT) -> None:
        self.folder, self._limits = Path(folder), limits

    def next_number(self) -> int:
        """One more than the highest number in the folder; 0 where there is none."""
        names = self.folder.iterdir() if self.folder.is_dir() else ()
        heads = (_NUMBER.match(entry.name) for entry in names)
        return 1 + max((int(head.group()) for head in heads if head), default=-1)

    def begin(self, name: str) -> FolderWriter:
        """Starts the snapshot of that name (digits) and removes abandoned ones; LandingError where writing fails."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            clear_abandoned(self.folder)
            return FolderWriter(self.folder, name, self._limits)
        except OSError as error:
            raise _not_written(self.folder, error) from None


class FolderWriter:
    """Writes into a hidden folder beside its place; `commit` renames it, which either happens or does not.

    More than the limits allow the files of a snapshot is `BeyondLimit`.
    """

    def __init__(self, folder: Path, name: str, limits: Limits = DEFAULT) -> None:
        self.place = folder / name
        self._working = folder / _hidden(name, "part")
        self._working.mkdir()
        self._lock = Lock()
        self._part: gzip.GzipFile | None = None
        self._quotas: gzip.GzipFile | None = None
        self._parts = self._written = self._requests = self._packed = 0
        self._limits = limits

    def write(self, hop: Hop) -> None:
        """Takes a request with its answer; LandingError where it cannot be written."""
        try:
            with self._lock:
                is_quota = subject_of(hop.path).kind == Kind.QUOTA
                part = self._quota_part() if is_quota else self._open_part()
                for piece in _line(hop, self._requests):
                    part.write(piece)
                    self._written += 0 if is_quota else len(piece)
                self._requests += 1
        except OSError as error:
            raise _not_written(self.place, error) from None

    def commit(self, head: Head) -> bool:
        """Makes the snapshot visible as a whole; False if another of that name came first, which then stays."""
        try:
            with self._lock:
                self._open_part()
                self._close_part()
                if self._quotas is not None:
                    self._close(self._quotas)
                    self._quotas = None
            with (self._working / FOLDER_HEADER).open("w", encoding="utf-8") as file:
                file.write(head.to_json())
                file.flush()
                _settle(file.fileno())
            _settle_folder(self._working)
            if not _renamed(self._working, self.place):
                self.discard()
                return False
            _settle_folder(self.place.parent)
        except OSError as error:
            raise _not_written(self.place, error) from None
        return True

    def discard(self) -> None:
        """Leaves nothing behind of a snapshot that was not committed."""
        with self._lock:
            for part in (self._part, self._quotas):
                if part is not None:
                    with suppress(OSError):  # a full disk is why it is discarded
                        part.close()
            self._part = self._quotas = None
        shutil.rmtree(self._working, ignore_errors=True)

    def _open_part(self) -> gzip.GzipFile:
        if self._part is not None and self._written >= PART_BYTES:
            self._close_part()
        if self._part is None:
            self._part = self._file(f"requests-{self._parts:03d}.jsonl.gz")
            self._parts, self._written = self._parts + 1, 0
        return self._part

    def _quota_part(self) -> gzip.GzipFile:
        if self._quotas is None:
            self._quotas = self._file(QUOTAS_PART)
        return self._quotas

    def _file(self, name: str) -> gzip.GzipFile:
        return gzip.GzipFile(self._working / name, "wb", compresslevel=_LEVEL)

    def _close_part(self) -> None:
        assert self._part is not None
        self._close(self._part)
        self._part = None

    def _close(self, part: gzip.GzipFile) -> None:
        part.close()
        with Path(part.name).open("rb") as file:
            _settle(file.fileno())
            self._packed += os.fstat(file.fileno()).st_size
        what = f"the snapshot's files come to {self._packed:,} bytes"
        self._limits.demand("packed_mib", self._packed, what, "check that the addresses are of Pulsar's brokers")


def remove(snapshot: Path) -> None:
    """Removes a snapshot so that no reader ever sees a part of it: it is hidden first."""
    hidden = snapshot.parent / _hidden(snapshot.name, "gone")
    try:
        snapshot.rename(hidden)
    except FileNotFoundError:
        return
    _delete(hidden)


def clear_abandoned(folder: Path) -> None:
    """Removes what writers that were killed left behind, once it is an hour old."""
    for entry in folder.iterdir():
        if not _UNFINISHED.fullmatch(entry.name):
            continue
        try:
            if time.time() - entry.stat().st_mtime > _ABANDONED_SECONDS:
                _delete(entry)
        except OSError:
            continue


def _delete(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)


def _line(hop: Hop, n: int) -> Iterator[bytes]:
    """The request as a line of JSON, its body piece by piece: a body of 100 MB is not copied as a whole."""
    members = {"n": n, **hop.as_request()}
    body = members.pop("body")
    yield _json(members)[:-1] + b',"body":"'
    pieces = (body[start : start + _PIECE] for start in range(0, len(body), _PIECE))
    for piece in pieces if hop.large is None else hop.large.pieces():
        yield _json(piece)[1:-1]
    yield b'"}\n'


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _hidden(name: str, kind: str) -> str:
    return f".{name}.{secrets.token_hex(8)}.{kind}"


def _renamed(source: Path, target: Path) -> bool:
    """Whether `target` is now what `source` was; a folder that stands there with anything in it stays."""
    if target.is_file():
        return False
    try:
        source.rename(target)
    except OSError:
        if target.exists():
            return False
        raise
    return True


def _settle(descriptor: int) -> None:
    os.fsync(descriptor)


def _settle_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _settle(descriptor)
    finally:
        os.close(descriptor)


def _not_written(place: Path, error: OSError) -> LandingError:
    return LandingError(
        f"the snapshot cannot be written to {place} ({error.strerror or error}): give a folder that can be written, "
        "with room for it"
    )
