"""Upload of one local snapshot into the landing zone: one object, put only if no other has its name.

The store compares the object with the SHA-256 in its metadata, so the object is whole or does not exist. The call can
be killed at any point and run again: an existing object with the same SHA-256 ends it.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from botocore.exceptions import ClientError

from evenkeel.aws_errors import code_of, is_absent
from evenkeel.errors import BadInput
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.retrying import Doubling, retry
from evenkeel.sources.landing_zone.layout import Place, place_of
from evenkeel.sources.landing_zone.s3 import SHA256, S3Error, as_s3_error, read_head
from evenkeel.sources.snapshot_files import Header, read_header

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
