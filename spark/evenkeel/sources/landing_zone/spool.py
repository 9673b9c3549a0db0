"""Destination of `evenkeel collect`'s snapshots: a folder, or a landing zone by way of a local spool.

A snapshot that cannot be uploaded stays in the spool and is tried again after the next one. So an outage of the store
or of the network costs no snapshot, only time. The newest goes first: decisions wait for it.

An upload puts one object, only if no other has its name. The store compares the object with the SHA-256 in its
metadata, so the object is whole or does not exist. An upload can be killed at any point and run again: an existing
object with the same SHA-256 ends it.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from socket import gethostname
from typing import Any, Literal

from botocore.exceptions import ClientError

from evenkeel.aws_errors import code_of, is_absent
from evenkeel.errors import BadInput, LandingError, SettingsError
from evenkeel.handover import Snapshot
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.retrying import Doubling, retry
from evenkeel.sources.landing import SUFFIX, FileWriter, FolderStore, SnapshotStore
from evenkeel.sources.landing_zone.s3 import SHA256, Place, S3Error, as_s3_error, place_of, read_head
from evenkeel.sources.recordings import cluster_name
from evenkeel.sources.snapshot_files import Header, read_header
from evenkeel.times import utc_text

CONFLICT_TRIES = 8
_CONFLICT_PAUSE = Doubling(first_s=0.1, longest_s=2.0, least=0.5, most=1.0)
_MOST_BYTES = 5 << 30

Outcome = Literal["uploaded", "was_there", "taken"]


@dataclass(frozen=True, slots=True)
class Upload:
    """Result of an upload: `uploaded`, `was_there` (the same bytes, from an earlier run), or `taken`.

    `taken`: another snapshot has the moment. `header` is then the other's, and names the collector that took it.
    """

    outcome: Outcome
    cluster: str
    header: Header
    url: str

    def __str__(self) -> str:
        moment = self.header.moment.isoformat()
        if self.outcome == "taken":
            return (
                f"{moment} of {self.cluster} was landed by {self.header.collector or 'another collector'} before, with "
                f"other content ({self.url}): this snapshot is not needed"
            )
        return f"{moment} of {self.cluster} {'is' if self.outcome == 'uploaded' else 'was already'} at {self.url}"


def upload_snapshot(path: str | Path, url: str, cluster: str, *, client: Any, limits: Limits = DEFAULT) -> Upload:
    """Upload a snapshot in lines to `s3://bucket/prefix`.

    Raises `BadInput` if the snapshot cannot be read or is beyond `limits`, and `S3Error` if the store cannot take it;
    then no object exists, and the call can be repeated.
    """
    snapshot, place = Path(path), place_of(url)
    try:
        header = read_header(snapshot, limits)
        size = snapshot.stat().st_size
        if size > _MOST_BYTES:
            raise BadInput(f"it has {size:,} bytes; a store takes {_MOST_BYTES:,} in one request")
        with snapshot.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").digest()
    except BadInput as error:
        raise BadInput(f"snapshot {snapshot} is not uploaded: {error}") from None
    except OSError as error:
        raise BadInput(f"snapshot {snapshot} is not uploaded: it cannot be read ({error})") from None
    key = place.key(cluster, header)
    doing = f"cannot upload {snapshot} to {place}"
    try:
        with as_s3_error(doing):
            existing = _put(client, place, key, snapshot, sha256)
            if existing is None:
                return Upload("uploaded", cluster, header, place.url(key))
            if existing == sha256.hex():
                return Upload("was_there", cluster, header, place.url(key))
            return Upload("taken", cluster, _header_there(client, place, key), place.url(key))
    except OSError as error:
        raise BadInput(f"{doing}: the snapshot cannot be read ({error})") from None


class _Undecided(Exception):
    """Other uploads write or remove the object: no upload has the name yet."""


def _put(client: Any, place: Place, key: str, snapshot: Path, sha256: bytes) -> str | None:
    """Put the object if no other has its name; return the SHA-256 of the other (hex, "" if it has none).

    The answer to a successful write may be lost, and its repetition then finds our own object. 409 means that two write
    at once and neither is decided yet.
    """
    try:
        return retry(
            lambda: _put_once(client, place, key, snapshot, sha256),
            tries=CONFLICT_TRIES,
            pause=_CONFLICT_PAUSE,
            if_raised=lambda error: isinstance(error, _Undecided),
        )
    except _Undecided:
        raise S3Error(
            f"cannot write {place.url(key)}: others were writing it in all of {CONFLICT_TRIES} tries. "
            "Run it again later."
        ) from None


def _put_once(client: Any, place: Place, key: str, snapshot: Path, sha256: bytes) -> str | None:
    try:
        with snapshot.open("rb") as stream:
            client.put_object(
                Bucket=place.bucket,
                Key=key,
                Body=stream,
                ContentType="application/gzip",
                ChecksumSHA256=base64.b64encode(sha256).decode(),
                Metadata={SHA256: sha256.hex()},
                IfNoneMatch="*",
            )
        return None
    except ClientError as error:
        code = code_of(error)
        if code in ("ConditionalRequestConflict", "OperationAborted"):
            raise _Undecided from None
        if code != "PreconditionFailed":
            raise
    try:
        existing = client.head_object(Bucket=place.bucket, Key=key)
    except ClientError as error:
        if is_absent(error):  # removed meanwhile
            raise _Undecided from None
        raise
    return str(existing["Metadata"].get(SHA256, ""))


def _header_there(client: Any, place: Place, key: str) -> Header:
    try:
        return read_head(client, place, key)
    except BadInput as error:
        raise S3Error(
            f"{place.url(key)} has the moment and cannot be read: {error}. Remove it, then upload again."
        ) from None


LOG = logging.getLogger(__name__)

CAUGHT_UP_AT_ONCE = 20
"""Number of kept snapshots that are uploaded with a new one: the next snapshot is due soon."""
MOST_KEPT = 1_500
"""Most kept snapshots: a day of one a minute. Beyond it the oldest are removed, with a warning."""
_REFUSED = ".refused"


class S3Spool(FolderStore):
    """Spool of snapshots from `folder`, which is this collector's own, to `url`.

    `cluster` None: the one of the snapshot. One folder may serve several runs at once. `say` receives warnings that
    stop nothing; by default they are logged.
    """

    def __init__(
        self,
        url: str,
        folder: str | Path,
        client: Any,
        *,
        cluster: str | None = None,
        say: Callable[[str], None] | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        place_of(url)
        self._say = say or LOG.warning
        super().__init__(folder, limits)
        self.url, self.cluster, self.client = url, cluster, client

    def next_number(self) -> int:
        """Return 0: numbers tell snapshots apart in a recording's folder, in the zone their moments do."""
        return 0

    def begin(self, name: str) -> FileWriter:
        """Start a snapshot; its file name is the time, since another run may have begun one of this number."""
        return super().begin(str(time.time_ns()))

    def _writer(self, place: Path) -> FileWriter:
        return SpoolWriter(self, place)

    def send(self, newest: Path) -> None:
        """Upload the newest snapshot, then some kept ones; `LandingError`, with its file, if the newest cannot be."""
        try:
            self._send(newest)
        except (S3Error, BadInput) as error:
            self._bound()
            raise LandingError(
                f"{error} The snapshot is kept at {newest} and goes along with the next one that can be uploaded."
            ) from None
        for kept in self.kept()[::-1][:CAUGHT_UP_AT_ONCE]:
            try:
                self._send(kept)
            except (S3Error, BadInput) as error:
                self._say(f"snapshots still kept in {self.folder}: {len(self.kept())}. {error}")
                return
            except LandingError as error:
                self._say(str(error))

    def kept(self) -> list[Path]:
        """Return the snapshots that wait for their upload, oldest first."""
        files = self.folder.iterdir() if self.folder.is_dir() else ()
        names = {path: path.name.removesuffix(SUFFIX) for path in files if path.name.endswith(SUFFIX)}
        return sorted((path for path, name in names.items() if name.isdigit()), key=lambda path: int(names[path]))

    def _send(self, snapshot: Path) -> None:
        """Upload and remove a snapshot; another run of this folder may have sent it meanwhile."""
        try:
            cluster = self._cluster_of(snapshot)
        except BadInput:
            if snapshot.exists():
                raise
            return
        try:
            done = upload_snapshot(snapshot, self.url, cluster, client=self.client, limits=self.limits)
        except BadInput as error:
            if not snapshot.exists():
                return
            aside = snapshot.with_name(snapshot.name + _REFUSED)
            snapshot.rename(aside)
            raise LandingError(f"{error} It will not be tried again; its file is {aside}.") from None
        if done.outcome == "taken":
            self._say(str(done))
        snapshot.unlink(missing_ok=True)

    def _cluster_of(self, snapshot: Path) -> str:
        if self.cluster is not None:
            return self.cluster
        moment = utc_text(read_header(snapshot, self.limits).moment)
        landed = Snapshot(str(snapshot), moment, configuration_path=str(snapshot))
        return cluster_name(landed, limits=self.limits)

    def _bound(self) -> None:
        surplus = self.kept()[:-MOST_KEPT]
        for snapshot in surplus:
            snapshot.unlink(missing_ok=True)
        if surplus:
            self._say(
                f"snapshots removed from {self.folder} that were never uploaded: {len(surplus)}. Only the newest "
                f"{MOST_KEPT} are kept."
            )


class SpoolWriter(FileWriter):
    """Writer of a snapshot into the spool; `commit` sends it to the landing zone."""

    def __init__(self, spool: S3Spool, place: Path) -> None:
        super().__init__(place, spool.limits)
        self._spool = spool

    def commit(self, head: Header) -> bool:
        """Return True once the moment is in the zone, by any collector's snapshot; else see `S3Spool.send`."""
        if not super().commit(replace(head, collector=gethostname())):
            return False
        self._spool.send(self.place)
        return True


S3_SCHEME = "s3://"


def store_of(
    target: str,
    *,
    cluster: str | None = None,
    spool: str | None = None,
    say: Callable[[str], None] | None = None,
    limits: Limits = DEFAULT,
) -> SnapshotStore:
    """Return the store that a folder's path or `s3://bucket/prefix` names.

    It writes no more than `limits` allow. For S3 only: `cluster` (None: as in its snapshots), `spool`, the folder where
    snapshots wait for their upload, and `say`, which receives warnings for the operator.
    """
    scheme, separator, _ = target.partition("://")
    if not separator:
        return FolderStore(target, limits)
    if target.startswith(S3_SCHEME):
        from evenkeel.sources.landing_zone.s3 import connect

        folder = spool or spool_folder(target, cluster)
        return S3Spool(target, folder, connect(), cluster=cluster, say=say, limits=limits)
    raise SettingsError(f"--to {target}: this version writes to folders and to s3://, and knows no {scheme}://")


def spool_folder(target: str, cluster: str | None) -> Path:
    """Return the default folder of waiting snapshots: below `XDG_STATE_HOME`, one for each target and cluster."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    digest = hashlib.sha256(f"{target}\n{cluster or ''}".encode("utf-8", "replace")).hexdigest()
    return Path(state) / "evenkeel" / "uploads" / digest[:12]
