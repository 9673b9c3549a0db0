"""Storage of the files of one log, in a folder or in a bucket. Names are relative, with `/`, as in C2SP tlog-tiles.

A log is safe if a written file exists whole or not at all, also after a power cut, and if one process at a time
appends. The tree itself demands no more: checkpoints are written last, files without one are overwritten.

An object store has no locks, so one process at a time appends by a lease: an object with the end of the lease. If a
lease expires, each put by itself keeps the log whole. While it appends, a process replaces only objects that it has
read (`If-Match`), and makes only objects that do not exist (`If-None-Match`).
"""

from __future__ import annotations

import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from evenkeel.errors import DamagedLog, LogBusy, LogError
from evenkeel.folders import make_folder, sync
from evenkeel.locks import acquired
from evenkeel.object_store import SCHEME, StoreAccess, access, canonical
from evenkeel.times import elapsed

MOST_FILE_BYTES = 256 * (2 + 65_535)
"""Largest file of a log: a full bundle of the longest entries."""

_PARTS = ".parts"
_LOCK = ".lock"
_TRIES = 20


class FolderStorage:
    """A log in a folder of a file system that has locks."""

    def __init__(self, folder: Path, *, wait_seconds: float = 30.0) -> None:
        """Take `wait_seconds`, how long `appending` waits for another process."""
        self._folder = folder
        self._wait_seconds = wait_seconds

    def get(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist.

        Raises DamagedLog if it is larger than any file of a log, or cannot be read.
        """
        try:
            with (self._folder / name).open("rb") as file:
                data = file.read(MOST_FILE_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DamagedLog(f"{self._folder / name} cannot be read: {error.strerror}") from None
        if len(data) > MOST_FILE_BYTES:
            raise DamagedLog(f"{self._folder / name} is larger than any file of a log: it was replaced")
        return data

    def put(self, name: str, data: bytes) -> None:
        """Write the file under another name, sync it, then give it its own name.

        Raises LogError on failure; the file then has its old content.
        """
        path = self._folder / name
        for left in reversed(range(_TRIES)):
            try:
                self._put(path, data)
                return
            except OSError as error:
                # An appender that begins removes the leftovers of writers, and this one may just have begun.
                if not isinstance(error, FileNotFoundError) or not left:
                    raise LogError(f"{path} cannot be written: {error.strerror}") from None

    def _put(self, path: Path, data: bytes) -> None:
        part = self._folder / _PARTS / uuid.uuid4().hex
        make_folder(part.parent)
        make_folder(path.parent)
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync(path.parent)

    def names(self, folder: str, most: int) -> list[str]:
        """Return the names in a folder, sorted; raises DamagedLog for more than `most`, or if it cannot be read."""
        try:
            with os.scandir(self._folder / folder) as entries:
                names = [entry.name for entry in islice(entries, most + 1)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DamagedLog(f"{self._folder / folder} cannot be read: {error.strerror}") from None
        if len(names) > most:
            raise DamagedLog(f"{self._folder / folder} holds more than {most:,} files: remove what is not the log's")
        return sorted(names)

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it; do nothing if it does not exist."""
        shutil.rmtree(self._folder / folder, ignore_errors=True)

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Hold the folder's lock, which ends with its holder; raises LogError if the folder has no locks."""
        try:
            make_folder(self._folder)
            lock = acquired(self._folder / _LOCK, wait_seconds=self._wait_seconds)
        except OSError as error:
            raise LogError(f"the lock in {self._folder} cannot be had: {error.strerror or error}") from None
        if lock is None:
            raise LogBusy(
                f"the transparency log in {self._folder} is held by another process for {self._wait_seconds:g} s: "
                "wait for it to end, then run this again"
            )
        try:
            self.remove(_PARTS)  # leftovers of a killed writer
            yield
        finally:
            lock.release()


_LASTS_SECONDS = 60.0
_CLOCKS_APART_SECONDS = 15.0
_LOOKS_EVERY_SECONDS = 0.5
_ABSENT = frozenset({"NoSuchKey", "404"})
_OTHERS_CAME = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409", *_ABSENT})


@lru_cache(maxsize=4)
def _client_of(given: StoreAccess) -> Any:
    """Return a client; making one takes longer than ten requests."""
    return given.for_boto()


class BucketStorage:
    """A log below a key of a bucket, in a store that supports conditional puts."""

    def __init__(
        self,
        address: str,
        *,
        wait_seconds: float = 30.0,
        lasts_seconds: float = _LASTS_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take `address`, s3a://bucket/prefix of the log.

        `wait_seconds`: how long `appending` waits for another process. `lasts_seconds`: time without a put after which
        another process may append.
        """
        self._address = canonical(address)
        self._bucket, _, self._prefix = self._address.removeprefix(SCHEME).partition("/")
        self._wait_seconds = wait_seconds
        self._lasts_seconds = lasts_seconds
        self._clock = clock
        self._seen: dict[str, Any] = {}  # name -> the tag of the object as read; None if it did not exist
        self._held_until: float | None = None
        self._lease = ""

    @cached_property
    def _client(self) -> Any:
        return _client_of(access())

    def get(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist.

        Raises DamagedLog if it is larger than any file of a log, LogError if the store cannot be asked.
        """
        with self._well_told(name, "read") as refused:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
            data = bytes(answer["Body"].read(MOST_FILE_BYTES + 1))
            self._seen[name] = answer["ETag"]
        if refused:
            if refused[0] not in _ABSENT:
                raise LogError(f"{self._full(name)} cannot be read: {refused[0]}")
            self._seen[name] = None
            return None
        if len(data) > MOST_FILE_BYTES:
            raise DamagedLog(f"{self._full(name)} is larger than any file of a log: it was replaced")
        return data

    def put(self, name: str, data: bytes) -> None:
        """Make or replace a file.

        Raises LogError if it cannot be written, LogBusy if another process has written it while this one appends.
        """
        left = math.inf if self._held_until is None else self._held_until - elapsed()
        if left < self._lasts_seconds / 2 and not self._renewed():
            raise LogBusy(f"the transparency log in {self._address} was taken over by another process: run this again")
        for _ in range(3):
            if name not in self._seen:
                self.get(name)
            if self._is_put(name, data, self._seen[name]):
                return
            if self.get(name) == data:  # an answer got lost
                return
            if self._held_until is not None:
                raise LogBusy(f"{self._full(name)} was written by another process meanwhile: run this again")
        raise LogError(f"{self._full(name)} cannot be written: others write it again and again")

    def names(self, folder: str, most: int) -> list[str]:
        """Return the names in a folder, sorted; none if it does not exist.

        Raises DamagedLog if there are more than `most`, LogError if it cannot be listed.
        """
        names: list[str] = []
        begin = f"{self._key(folder)}/"
        with self._well_told(folder, "listed") as refused:
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=begin, Delimiter="/"):
                keys = (entry["Key"] for entry in page.get("Contents", ()))
                folders = (entry["Prefix"] for entry in page.get("CommonPrefixes", ()))
                names += [key.removeprefix(begin).rstrip("/") for key in (*keys, *folders)]
                if len(names) > most:
                    raise DamagedLog(f"{self._full(folder)} holds more than {most:,} files")
        if refused:
            raise LogError(f"{self._full(folder)} cannot be listed: {refused[0]}")
        return sorted(names)

    def remove(self, folder: str) -> None:
        """Remove all objects below a folder; those that the store refuses to remove stay."""
        with self._well_told(folder, "removed"):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=f"{self._key(folder)}/"):
                for entry in page.get("Contents", ()):
                    self._client.delete_object(Bucket=self._bucket, Key=entry["Key"])
                    self._seen.pop(entry["Key"].removeprefix(self._key("")), None)

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Hold the lease, which expires if its holder stops renewing it."""
        until = time.monotonic() + self._wait_seconds
        while not self._take():
            if time.monotonic() >= until:
                raise LogBusy(
                    f"the transparency log in {self._address} is held by another process for "
                    f"{self._wait_seconds:g} s: wait for it to end, then run this again"
                )
            time.sleep(_LOOKS_EVERY_SECONDS)
        try:
            yield
        finally:
            self._held_until = None
            lease = self.get(_LOCK)
            if lease is not None and lease.startswith(self._lease.encode()):
                with self._well_told(_LOCK, "removed"):
                    self._client.delete_object(Bucket=self._bucket, Key=self._key(_LOCK))

    def _take(self) -> bool:
        lease = self.get(_LOCK)
        if lease is not None and self._clock() < _until(lease) + _CLOCKS_APART_SECONDS:
            return False
        self._lease = uuid.uuid4().hex
        if not self._renewed():
            return False
        # Another process may have written since: earlier reads are void.
        self._seen = {_LOCK: self._seen[_LOCK]}
        return True

    def _renewed(self) -> bool:
        """Replace the lease that was read by a new one."""
        held_until = elapsed() + self._lasts_seconds
        data = f"{self._lease}\n{self._clock() + self._lasts_seconds:.3f}\n".encode()
        before = self._seen[_LOCK]
        if not self._is_put(_LOCK, data, before) and self.get(_LOCK) != data:
            return False
        self._held_until = held_until
        return True

    def _is_put(self, name: str, data: bytes, before: str | None) -> bool:
        """Return False if the object does not have the tag `before`, or exists although that is None."""
        only_if = {"IfNoneMatch": "*"} if before is None else {"IfMatch": before}
        with self._well_told(name, "written") as refused:
            answer = self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=data, **only_if)
            self._seen[name] = answer["ETag"]
        return not refused

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self._prefix, name) if part)

    def _full(self, name: str) -> str:
        return f"{self._address}/{name}"

    @contextmanager
    def _well_told(self, name: str, done: str) -> Iterator[list[str]]:
        """Yield a list that gets the store's code after a refusal that is expected; raise LogError for others."""
        from botocore.exceptions import ClientError

        from evenkeel.aws_errors import RAISED_BY_BOTO, code_of, of_s3

        refused: list[str] = []
        try:
            yield refused
        except (*RAISED_BY_BOTO, ValueError) as error:
            if not isinstance(error, ClientError) or code_of(error) not in _OTHERS_CAME:
                fault, advice = of_s3(error)
                raise LogError(f"{self._full(name)} cannot be {done}: {fault}. {advice}") from None
            refused.append(code_of(error))


LogStorage = FolderStorage | BucketStorage


def _until(lease: bytes) -> float:
    """Return the seconds since 1970 until which a lease is held; 0 for an invalid one."""
    try:
        return float(lease.split(b"\n")[1])
    except (IndexError, ValueError):
        return 0.0
