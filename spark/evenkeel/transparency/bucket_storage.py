"""A log in a bucket, for a lake whose tables lie there.

A store has no locks, so one process at a time appends by a lease: an object that says until when. What keeps the log
whole where a lease runs out is each put by itself: while it appends a process replaces only what it has seen
(`If-Match`), and makes only what is not there (`If-None-Match`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from evenkeel.errors import DamagedLog, LogBusy, LogError
from evenkeel.object_store import SCHEME, StoreAccess, access, canonical
from evenkeel.transparency.storage import MOST_FILE_BYTES

_LOCK = ".lock"
_LASTS_SECONDS = 60.0
_CLOCKS_APART_SECONDS = 15.0
_LOOKS_EVERY_SECONDS = 0.5
_ABSENT = frozenset({"NoSuchKey", "404"})
_OTHERS_CAME = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409", *_ABSENT})
_UNSEEN = object()


@lru_cache(maxsize=4)
def _client_of(given: StoreAccess) -> Any:
    """A client; to make one takes longer than ten requests."""
    return given.for_boto()


class BucketStorage:
    """A log below a key of a bucket, in a store that knows conditional puts."""

    def __init__(
        self,
        address: str,
        *,
        wait_seconds: float = 30.0,
        lasts_seconds: float = _LASTS_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`address`: s3a://bucket/prefix of the log. `wait_seconds`: how long `appending` waits for another process.
        `lasts_seconds`: after so long without a put another process may append."""
        self._address = canonical(address)
        self._bucket, _, self._prefix = self._address.removeprefix(SCHEME).partition("/")
        self._wait_seconds = wait_seconds
        self._lasts_seconds = lasts_seconds
        self._clock = clock
        self._own: Any = None
        self._seen: dict[str, Any] = {}  # name -> the tag of the object as it was seen; None for none
        self._held_until: float | None = None
        self._lease = ""

    @property
    def _client(self) -> Any:
        if self._own is None:
            self._own = _client_of(access())
        return self._own

    def get(self, name: str) -> bytes | None:
        """The content of a file; None where there is none. Raises DamagedLog where it is larger than any file of a log,
        LogError where the store cannot be asked."""
        with self._well_told(name, "read") as refused:
            found = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
            data = bytes(found["Body"].read(MOST_FILE_BYTES + 1))
            self._seen[name] = found["ETag"]
        if refused:
            if refused[0] not in _ABSENT:
                raise LogError(f"{self._full(name)} cannot be read: {refused[0]}")
            self._seen[name] = None
            return None
        if len(data) > MOST_FILE_BYTES:
            raise DamagedLog(f"{self._full(name)} is larger than any file of a log: it was replaced")
        return data

    def put(self, name: str, data: bytes) -> None:
        """Makes or replaces a file. Raises LogError where it cannot be written; LogBusy where another process has
        written it while this one appends."""
        if self._held_until is not None:
            self._demand_held()
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
        """The names in a folder, sorted; none where there is none. Raises DamagedLog where there are more than `most`,
        LogError where it cannot be listed."""
        found: list[str] = []
        begin = f"{self._key(folder)}/"
        with self._well_told(folder, "listed") as refused:
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=begin, Delimiter="/"):
                keys = (one["Key"] for one in page.get("Contents", ()))
                folders = (one["Prefix"] for one in page.get("CommonPrefixes", ()))
                found += [key.removeprefix(begin).rstrip("/") for key in (*keys, *folders)]
                if len(found) > most:
                    raise DamagedLog(f"{self._full(folder)} holds more than {most:,} files")
        if refused:
            raise LogError(f"{self._full(folder)} cannot be listed: {refused[0]}")
        return sorted(found)

    def remove(self, folder: str) -> None:
        """Removes all below a folder; what the store refuses to remove stays."""
        with self._well_told(folder, "removed"):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=f"{self._key(folder)}/"):
                for one in page.get("Contents", ()):
                    self._client.delete_object(Bucket=self._bucket, Key=one["Key"])
                    self._seen.pop(one["Key"].removeprefix(self._key("")), None)

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Holds the lease, which ends by itself where its holder does not go on."""
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
            self._give_back()

    def _take(self) -> bool:
        there = self.get(_LOCK)
        if there is not None and self._clock() < _until(there) + _CLOCKS_APART_SECONDS:
            return False
        self._lease = uuid.uuid4().hex
        if not self._renewed():
            return False
        # Another process may have written since: what was seen before counts no more.
        self._seen = {_LOCK: self._seen[_LOCK]}
        return True

    def _renewed(self) -> bool:
        """Puts the lease in the place of what was seen there."""
        held_until = time.monotonic() + self._lasts_seconds
        data = f"{self._lease}\n{self._clock() + self._lasts_seconds:.3f}\n".encode()
        before = self._seen[_LOCK]
        if not self._is_put(_LOCK, data, before) and self.get(_LOCK) != data:
            return False
        self._held_until = held_until
        return True

    def _demand_held(self) -> None:
        assert self._held_until is not None
        left = self._held_until - time.monotonic()
        if left < self._lasts_seconds / 2 and not self._renewed():
            raise LogBusy(f"the transparency log in {self._address} was taken over by another process: run this again")

    def _give_back(self) -> None:
        self._held_until = None
        there = self.get(_LOCK)
        if there is not None and there.startswith(self._lease.encode()):
            with self._well_told(_LOCK, "removed"):
                self._client.delete_object(Bucket=self._bucket, Key=self._key(_LOCK))

    def _is_put(self, name: str, data: bytes, before: str | None) -> bool:
        """False where the object is not the one with the tag `before`, or is there where that is None."""
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
        """Gives a list that has the store's code afterwards where it refused in a way that the log goes by; everything
        else that goes wrong is a LogError."""
        from botocore.exceptions import ClientError

        from evenkeel.aws_errors import RAISED_BY_BOTO, code_of, of_s3

        refused: list[str] = []
        try:
            yield refused
        except (*RAISED_BY_BOTO, ValueError) as error:
            if not isinstance(error, ClientError) or code_of(error) not in _OTHERS_CAME:
                what, advice = of_s3(error)
                raise LogError(f"{self._full(name)} cannot be {done}: {what}. {advice}") from None
            refused.append(code_of(error))


def _until(lease: bytes) -> float:
    """Seconds since 1970 until which a lease is held; 0 for what is none."""
    try:
        return float(lease.split(b"\n")[1])
    except (IndexError, ValueError):
        return 0.0
