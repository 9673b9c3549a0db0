"""Witnesses that keep every published checkpoint: a file elsewhere, or a bucket with Object Lock.

They sign nothing. A file is worth as much as its place is out of the reach of the log's writers: another host's disk,
or a store that keeps its files. It has one line of JSON for each checkpoint, and accepts only those that have grown
from its last line.

In a bucket the object of a checkpoint is `<prefix>/<SHA-256 of the log's name>/<size, 20 digits>`, locked in the mode
COMPLIANCE, which not even the owner of the bucket can lift. It is put only if it does not exist. A bucket with Object
Lock keeps all versions of an object. A writer can put another version on top, or a mark that hides it, and both are
seen (`WitnessBucket.kept`). Its readers must learn the bucket's name from another source than the lake.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from evenkeel.errors import BadInput, BadNote, DamagedLog, InconsistentLog, WitnessError
from evenkeel.folders import make_folder, sync
from evenkeel.json_text import NotJson, parse_json
from evenkeel.locks import held
from evenkeel.object_store import SCHEME, bucket_of, canonical
from evenkeel.times import utc_text
from evenkeel.transparency.keys import VerifierKey, shown
from evenkeel.transparency.merkle import is_consistent
from evenkeel.transparency.notes import MOST_BYTES, Checkpoint, SignedCheckpoint, open_checkpoint
from evenkeel.transparency.witness_client import Prove, origin_hash

log = logging.getLogger(__name__)


def _demand_grown(place: object, old: Checkpoint, new: Checkpoint, prove: Prove) -> None:
    """Raise InconsistentLog, with both sizes and roots, if a checkpoint has not grown from the one that a place has."""
    if old.size > new.size:
        raise InconsistentLog(
            f"{place} has the log {shown(new.origin)} at {old.words}, and now it is given {new.words}: the log was set "
            "back to an earlier state, or a second signer uses its key"
        )
    if not is_consistent(old.size, new.size, old.root, new.root, prove(old.size, new.size)):
        raise InconsistentLog(
            f"split view: {place} has the log {shown(new.origin)} at {old.words}, and {new.words} has not grown from "
            "that"
        )


_TAIL_BYTES = 3 * MOST_BYTES  # a line: a note, whose line feeds and dashes are longer in JSON
_WAIT_SECONDS = 30.0


class WitnessFile:
    """The checkpoints of one log in a file, which is made with the first."""

    def __init__(
        self,
        path: Path,
        origin: str,
        log_keys: Collection[VerifierKey],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._origin = origin
        self._log_keys = log_keys
        self._clock = clock

    def latest(self) -> SignedCheckpoint | None:
        """Return the last checkpoint in the file; None if there is none.

        Raises DamagedLog if its line is not a checkpoint that a key of the log has signed.
        """
        try:
            with self._path.open("rb") as file:
                return self._last(file)[0]
        except FileNotFoundError:
            return None

    def append(self, checkpoint: SignedCheckpoint, prove: Prove) -> bool:
        """Append a checkpoint durably; return False if the file ends with it already.

        Raises InconsistentLog, with both sizes and roots, if it has not grown from the last line, BadNote if no key of
        the log has signed it, and WitnessError if the file cannot be written, or is held by another process.
        """
        open_checkpoint(checkpoint.note.data, self._origin, self._log_keys)
        try:
            return self._appended(checkpoint, prove)
        except OSError as error:
            raise WitnessError(f"the file of checkpoints {self._path} cannot be written: {error.strerror}") from None

    def _appended(self, checkpoint: SignedCheckpoint, prove: Prove) -> bool:
        make_folder(self._path.parent)
        lock = self._path.with_name(f"{self._path.name}.lock")
        with held(lock, wait_seconds=_WAIT_SECONDS) as is_ours:
            if not is_ours:
                raise WitnessError(f"the file of checkpoints {self._path} is held by another process: run this again")
            is_there = self._path.exists()
            with self._path.open("r+b" if is_there else "x+b") as file:
                last, end = self._last(file)
                if last is not None and last.note.text == checkpoint.note.text:
                    return False
                if last is not None:
                    _demand_grown(self._path, last.checkpoint, checkpoint.checkpoint, prove)
                file.truncate(end)
                file.seek(end)
                file.write(self._line(checkpoint))
                file.flush()
                os.fsync(file.fileno())
            if not is_there:
                sync(self._path.parent)
        return True

    def _line(self, checkpoint: SignedCheckpoint) -> bytes:
        at = utc_text(datetime.fromtimestamp(int(self._clock()), UTC))
        return json.dumps({"at": at, "checkpoint": checkpoint.note.data.decode()}).encode() + b"\n"

    @staticmethod
    def notes_in(data: bytes) -> Iterator[bytes]:
        """Yield the signed notes in the content of such a file, without verification.

        Raises BadNote if a line holds none; a cut line after the last line feed is passed over.
        """
        for line in data.rpartition(b"\n")[0].split(b"\n"):
            try:
                body = parse_json(line, depth=2, values=100)
                yield body["checkpoint"].encode()
            except (NotJson, KeyError, TypeError, AttributeError, UnicodeEncodeError):
                raise BadNote(f"a line that holds no checkpoint: {line[:80]!a}") from None

    def _last(self, file: BinaryIO) -> tuple[SignedCheckpoint | None, int]:
        """Return the last whole line's checkpoint, and the end of that line; a rest behind it does not count."""
        size = file.seek(0, os.SEEK_END)
        begin = max(size - _TAIL_BYTES, 0)
        file.seek(begin)
        whole, feed, cut = file.read(_TAIL_BYTES).rpartition(b"\n")
        if cut:
            log.warning("%s ends in a line that was cut: it was never acknowledged, and is passed over", self._path)
        if not feed:
            if begin:
                raise DamagedLog(f"{self._path}: its last line is longer than any checkpoint")
            return None, 0
        try:
            (note,) = self.notes_in(whole.rpartition(b"\n")[2] + feed)
            return open_checkpoint(note, self._origin, self._log_keys), size - len(cut)
        except BadNote as error:
            raise DamagedLog(f"{self._path}: its last line is not a checkpoint of the log: {error}") from None


DEFAULT_RETAIN_DAYS = 400
"""Default days for which an object is locked. No lock of this mode can be shortened afterwards."""
MOST_RETAIN_DAYS = 36_500
MOST_VERSIONS = 1_000_000
"""Most versions of objects that are read: two years of a publish a minute."""
_MODE = "COMPLIANCE"
_AT_ONCE = 16
_TRIES = 3  # if another process puts an equal object at that time
_DIGITS = 20
_SIZE = re.compile(rf"[0-9]{{{_DIGITS}}}")
_THERE_ALREADY = frozenset({"PreconditionFailed", "412"})
_NO_LOCK = frozenset({"InvalidRequest", "ObjectLockConfigurationNotFoundError"})
_UNKNOWN = "NotImplemented"
_DENIED = frozenset({"AccessDenied", "403"})
_RIGHTS = (
    "Putting needs s3:PutObject, s3:PutObjectRetention, s3:GetObject, s3:GetObjectRetention and s3:ListBucket; "
    "verifying needs s3:ListBucketVersions and s3:GetObjectVersion"
)
_AT_THE_SAME_TIME = frozenset({"ConditionalRequestConflict", "409"})


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """Place of the checkpoints. `url`: `s3://BUCKET/PREFIX`; `retain_days`: for how long an object is locked."""

    url: str
    retain_days: int = DEFAULT_RETAIN_DAYS

    def __post_init__(self) -> None:
        canonical(self.url)
        if not 1 <= self.retain_days <= MOST_RETAIN_DAYS:
            raise BadInput(f"retain_days={self.retain_days}: 1 to {MOST_RETAIN_DAYS:,} days")

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return bucket_of(canonical(self.url))

    def folder(self, origin: str) -> str:
        """Return the prefix of the keys of a log's objects."""
        prefix = canonical(self.url).removeprefix(SCHEME).partition("/")[2]
        return f"{prefix}/{origin_hash(origin)}/".lstrip("/")


class WitnessBucket:
    """The checkpoints of one log in a bucket. `client`: of boto3, for S3, e.g. `object_store.StoreAccess.for_boto`."""

    def __init__(
        self,
        client: Any,
        place: BucketPlace,
        origin: str,
        log_keys: Collection[VerifierKey],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._place = place
        self._origin = origin
        self._log_keys = log_keys
        self._clock = clock
        self._folder = place.folder(origin)

    def put(self, checkpoint: SignedCheckpoint, prove: Prove, known: int = 0) -> bool:
        """Put a checkpoint and lock it; return False if it exists already.

        `known`: size of one that was put before, 0 if none is known. Raises InconsistentLog, with both sizes and roots,
        if the bucket has another of that size, a larger one, or one from which this has not grown. Raises BadNote if no
        key of the log has signed it, and WitnessError if the bucket cannot be reached, refuses, or does not lock.
        """
        open_checkpoint(checkpoint.note.data, self._origin, self._log_keys)
        new = checkpoint.checkpoint
        self._demand_newest(checkpoint)
        if 0 < known < new.size and (before := self._read(self._key(known))) is not None:
            _demand_grown(self._place.url, before.checkpoint, new, prove)
        is_new = self._put(checkpoint)
        self._demand_lock(self._key(new.size))
        return is_new

    def kept(self) -> Iterator[SignedCheckpoint | str]:
        """Yield all versions of all objects of the log: its signed checkpoints, and a sentence for each other object.

        The sentence says what is wrong with it. Raises WitnessError if the bucket cannot be reached or refuses, or
        holds more than `MOST_VERSIONS`.
        """
        count = 0
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for page in self._pages():
                count += len(page)
                if count > MOST_VERSIONS:
                    raise WitnessError(f"{self._place.url} holds more than {MOST_VERSIONS:,} objects of this log")
                yield from pool.map(self._version, page)

    def _key(self, size: int) -> str:
        return f"{self._folder}{size:0{_DIGITS}}"

    def _put(self, checkpoint: SignedCheckpoint) -> bool:
        from botocore.exceptions import ClientError

        from evenkeel.aws_errors import code_of

        key = self._key(checkpoint.checkpoint.size)
        until = datetime.fromtimestamp(int(self._clock()), UTC) + timedelta(days=self._place.retain_days)
        for _ in range(_TRIES):
            try:
                with self._explained("does not take a checkpoint", but=ClientError):
                    self._client.put_object(
                        Bucket=self._place.bucket,
                        Key=key,
                        Body=checkpoint.note.data,
                        ContentType="text/plain; charset=utf-8",
                        IfNoneMatch="*",
                        ObjectLockMode=_MODE,
                        ObjectLockRetainUntilDate=until,
                    )
                return True
            except ClientError as error:
                if code_of(error) in _THERE_ALREADY:
                    self._demand_same(checkpoint, key)
                    return False
                if code_of(error) not in _AT_THE_SAME_TIME:
                    raise self._error(error, "does not take a checkpoint") from None
        raise WitnessError(f"{self._place.url}: others put the same checkpoint all the while: try again")

    def _demand_same(self, checkpoint: SignedCheckpoint, key: str) -> None:
        kept, new = self._read(key), checkpoint.checkpoint
        if kept is not None and kept.checkpoint.root != new.root:
            raise InconsistentLog(
                f"split view: {self._place.url} has the log {shown(self._origin)} at {kept.checkpoint.words}, and now "
                f"it is given {new.words}"
            )

    def _demand_newest(self, checkpoint: SignedCheckpoint) -> None:
        new = checkpoint.checkpoint
        with self._explained("cannot be listed"):
            listed = self._client.list_objects_v2(
                Bucket=self._place.bucket, Prefix=self._folder, StartAfter=self._key(new.size), MaxKeys=1
            )
        for entry in listed.get("Contents", ()):
            if _SIZE.fullmatch(entry["Key"].removeprefix(self._folder)) and (later := self._read(entry["Key"])):
                _demand_grown(self._place.url, later.checkpoint, new, lambda old, new: ())

    def _demand_lock(self, key: str) -> None:
        with self._explained("cannot be asked whether the checkpoint is locked"):
            head = self._client.head_object(Bucket=self._place.bucket, Key=key)
        if head.get("ObjectLockMode") != _MODE:
            raise WitnessError(
                f"{self._place.url} does not say that the checkpoint is locked: make a bucket with Object Lock, and "
                "let these keys read it (s3:GetObjectRetention)"
            )

    def _read(self, key: str, version: str | None = None) -> SignedCheckpoint | None:
        """Return the checkpoint in an object; None if it does not exist.

        Raises WitnessError if it is not one of the log, or of another size than its key says.
        """
        from botocore.exceptions import ClientError

        from evenkeel.aws_errors import is_absent

        try:
            with self._explained("cannot be read", but=ClientError):
                which = {} if version is None else {"VersionId": version}
                with self._client.get_object(Bucket=self._place.bucket, Key=key, **which)["Body"] as body:
                    data = body.read(MOST_BYTES + 1)
        except ClientError as error:
            if is_absent(error):
                return None
            raise self._error(error, "cannot be read") from None
        try:
            signed = open_checkpoint(data, self._origin, self._log_keys)
            if self._key(signed.checkpoint.size) != key:
                raise BadNote(f"it is of another size than its key says: {signed.checkpoint.words}")
        except BadNote as error:
            raise WitnessError(f"{self._place.url}: {shown(key)} is not a checkpoint of this log: {error}") from None
        return signed

    def _version(self, key_and_version: tuple[str, str | None]) -> SignedCheckpoint | str:
        """Return the checkpoint of a version, or what is wrong with it."""
        key, version = key_and_version
        if version is None:
            return f"{shown(key)} was marked as deleted; its versions are read all the same"
        try:
            signed = self._read(key, version)
        except WitnessError as error:
            return str(error)
        return f"{shown(key)} is gone while it is read" if signed is None else signed

    def _pages(self) -> Iterator[list[tuple[str, str | None]]]:
        """Yield key and version of all objects, page by page; no version for a mark that hides an object."""
        where: dict[str, str] = {}
        while True:
            with self._explained("cannot be listed"):
                page = self._client.list_object_versions(Bucket=self._place.bucket, Prefix=self._folder, **where)
            versions = [(entry["Key"], entry["VersionId"]) for entry in page.get("Versions", ())]
            yield [*versions, *((entry["Key"], None) for entry in page.get("DeleteMarkers", ()))]
            if not page.get("IsTruncated"):
                return
            where = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page.get("NextVersionIdMarker", "")}

    @contextmanager
    def _explained(self, what: str, but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
        """Raise WitnessError for boto3's errors, except for those of the kind `but`."""
        from evenkeel.aws_errors import RAISED_BY_BOTO

        try:
            yield
        except but:
            raise
        except (*RAISED_BY_BOTO, ValueError) as error:
            raise self._error(error, what) from None

    def _error(self, error: Exception, what: str) -> WitnessError:
        from botocore.exceptions import ClientError

        from evenkeel.aws_errors import code_of, of_s3

        code = code_of(error) if isinstance(error, ClientError) else ""
        if code in _NO_LOCK and "objectlock" in re.sub("[ -]", "", str(error).lower()):
            return WitnessError(
                f"the bucket of {self._place.url} has no Object Lock, so it protects no checkpoint: it is "
                "switched on when a bucket is made; make another one"
            )
        if code == _UNKNOWN:
            return WitnessError(
                f"the store of {self._place.url} does not know what a witness needs: Object Lock, versions, and puts "
                "with If-None-Match; name a bucket in another one"
            )
        why, advice = of_s3(error)
        if code in _DENIED:
            advice = _RIGHTS
        return WitnessError(f"the witness {self._place.url} {what}: {why}. {advice}".rstrip("."))
