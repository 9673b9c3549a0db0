"""One local snapshot into the landing zone: its data first, its manifest last and only if nobody else has the moment.

It can be killed at any point and run again: the same bytes have the same keys, what is there whole is not sent again,
and a manifest that is there with the same digest is the end of it. What a killed upload leaves behind has no manifest,
so nobody reads it; it ends with the bucket's lifecycle rules.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Any, Literal

from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore.exceptions import ClientError

from evenkeel import __version__
from evenkeel.aws_errors import RAISED_BY_BOTO, code_of
from evenkeel.errors import BadInput
from evenkeel.pulsar.limits import DEFAULT, Limits
from evenkeel.retrying import Doubling, retry
from evenkeel.sources.landing_zone.layout import (
    DOCUMENTS,
    Manifest,
    Place,
    StoredFile,
    objects_below,
    place_of,
    read_manifest,
)
from evenkeel.sources.landing_zone.s3 import S3Error, as_s3_error, read_object
from evenkeel.sources.recordings import FOLDER_HEADER, parts_of, read_header

LOG = logging.getLogger(__name__)
LARGE_BYTES = 16 << 20
"""From this size on a file goes in several parts, each with a checksum of its own."""
PART_BYTES = 16 << 20
AT_ONCE = 4
CONFLICT_TRIES = 8
_CONFLICT_PAUSE = Doubling(first_s=0.1, longest_s=2.0, least=0.5, most=1.0)
_SHA256_KEY = "sha256"

Outcome = Literal["uploaded", "was_there", "taken"]


@dataclass(frozen=True, slots=True)
class Upload:
    """How an upload ended: `uploaded`, `was_there` (the same bytes, from an earlier run), or `taken`.

    `taken`: another snapshot has the moment already. `manifest` is then the other's, and says who uploaded it.
    """

    outcome: Outcome
    manifest: Manifest
    url: str

    def __str__(self) -> str:
        moment = self.manifest.moment.isoformat()
        if self.outcome == "taken":
            return (
                f"{moment} of {self.manifest.cluster} was landed by {self.manifest.collector} before, with other "
                f"content ({self.url}): this snapshot is not needed"
            )
        return (
            f"{moment} of {self.manifest.cluster} {'is' if self.outcome == 'uploaded' else 'was already'} at {self.url}"
        )


def upload_snapshot(
    path: str | Path,
    url: str,
    cluster: str,
    *,
    client: Any,
    collector: str | None = None,
    limits: Limits = DEFAULT,
) -> Upload:
    """Uploads a snapshot in either layout of `sources.recordings` to `s3://bucket/prefix`.

    `collector` names this machine in the manifest, by default its host name. `BadInput`: the snapshot cannot be read,
    is beyond `limits`, or changed meanwhile. `S3Error`: the store cannot take it; nothing is listed then, and the call
    can be repeated.
    """
    snapshot, place = Path(path), place_of(url)
    files = _files(snapshot)
    manifest = _manifest(snapshot, files, cluster, collector or gethostname(), limits)
    key = place.manifest(cluster, manifest.moment)
    doing = f"cannot upload {snapshot} to {place}"
    try:
        with as_s3_error(doing):
            there = _manifest_there(client, place, key)
            if there is None:
                _send_data(client, place, manifest, files)
                there = _claim(client, place, key, manifest)
            if there is None:
                return Upload("uploaded", manifest, place.url(key))
            if there.digest == manifest.digest:
                return Upload("was_there", there, place.url(key))
            if place.data(there) != place.data(manifest):
                _remove_data(client, place, manifest)
            return Upload("taken", there, place.url(key))
    except OSError as error:
        raise BadInput(f"{doing}: the snapshot cannot be read ({error})") from None


def _files(snapshot: Path) -> dict[str, Path]:
    """The files that make the snapshot, by their name in the landing zone."""
    if snapshot.is_dir():
        return {part.name: part for part in (snapshot / FOLDER_HEADER, *parts_of(snapshot))}
    if not snapshot.exists():
        raise BadInput(f"there is no snapshot at {snapshot}")
    return {DOCUMENTS[snapshot.name.endswith(".gz")]: snapshot}


def _manifest(snapshot: Path, files: dict[str, Path], cluster: str, collector: str, limits: Limits) -> Manifest:
    try:
        header = read_header(snapshot, limits)
        stored = tuple(_stored(name, file) for name, file in sorted(files.items()))
    except BadInput as error:
        raise BadInput(f"snapshot {snapshot} is not uploaded: {error}") from None
    except OSError as error:
        raise BadInput(f"snapshot {snapshot} is not uploaded: it cannot be read ({error})") from None
    return Manifest(
        cluster=cluster,
        started_at=header.started_at,
        finished_at=header.finished_at,
        cycle_at=header.cycle_at,
        has_configuration=header.has_configuration,
        files=stored,
        collector=collector,
        version=__version__,
    )


def _stored(name: str, file: Path) -> StoredFile:
    with file.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return StoredFile(name, file.stat().st_size, sha256)


def _manifest_there(client: Any, place: Place, key: str) -> Manifest | None:
    """The manifest that has the moment, None if nobody has it."""
    try:
        data = read_object(client, place, key)
        return None if data is None else read_manifest(data)
    except BadInput as error:
        raise S3Error(
            f"{place.url(key)} has the moment and cannot be read: {error}. Remove it, then upload again."
        ) from None


def _send_data(client: Any, place: Place, manifest: Manifest, files: dict[str, Path]) -> None:
    prefix = place.data(manifest)
    there = objects_below(client, place, prefix)
    config = TransferConfig(multipart_threshold=LARGE_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=AT_ONCE)
    with create_transfer_manager(client, config) as manager:
        sent = []
        for stored in manifest.files:
            key = prefix + stored.name
            if there.get(key) == stored.size and _is_whole(client, place, key, stored):
                continue
            sent.append(manager.upload(str(files[stored.name]), place.bucket, key, _extra(stored)))
        for future in sent:
            future.result()
    _demand_unchanged(manifest, files)


def _extra(stored: StoredFile) -> dict[str, Any]:
    """A small file must arrive with the very digest of its manifest; of a large one each part is checked on its way."""
    metadata = {"Metadata": {_SHA256_KEY: stored.sha256}}
    if stored.size >= LARGE_BYTES:
        return {**metadata, "ChecksumAlgorithm": "SHA256"}
    return {**metadata, "ChecksumSHA256": base64.b64encode(bytes.fromhex(stored.sha256)).decode()}


def _is_whole(client: Any, place: Place, key: str, stored: StoredFile) -> bool:
    """Whether an earlier run sent this very file: objects appear whole or not at all."""
    head = client.head_object(Bucket=place.bucket, Key=key)
    return bool(head["ContentLength"] == stored.size and head["Metadata"].get(_SHA256_KEY) == stored.sha256)


def _demand_unchanged(manifest: Manifest, files: dict[str, Path]) -> None:
    """Large files travel without a digest of the whole: they are read again before the manifest vouches for them."""
    for stored in manifest.files:
        if stored.size >= LARGE_BYTES and _stored(stored.name, files[stored.name]) != stored:
            raise BadInput(f"{files[stored.name]} changed while it was uploaded: upload it again when it is finished")


def _claim(client: Any, place: Place, key: str, manifest: Manifest) -> Manifest | None:
    """Writes the manifest if nobody has the moment; None: done, else the manifest of who has it.

    The answer to a write that succeeded may be lost, and its repetition then finds our own manifest: the caller
    compares digests, so that is `was_there` at worst. 409 means that two wrote at once and neither is decided yet.
    """
    try:
        return retry(
            lambda: _claim_once(client, place, key, manifest),
            tries=CONFLICT_TRIES,
            pause=_CONFLICT_PAUSE,
            if_raised=lambda error: isinstance(error, _Undecided),
        )
    except _Undecided:
        raise S3Error(
            f"cannot write {place.url(key)}: others were writing it in all of {CONFLICT_TRIES} tries. "
            "Run it again later."
        ) from None


class _Undecided(Exception):
    """Others are writing the manifest or removing it: nobody has the moment yet."""


def _claim_once(client: Any, place: Place, key: str, manifest: Manifest) -> Manifest | None:
    try:
        client.put_object(
            Bucket=place.bucket,
            Key=key,
            Body=manifest.to_bytes(),
            ContentType="application/json",
            ChecksumAlgorithm="SHA256",
            IfNoneMatch="*",
        )
        return None
    except ClientError as error:
        code = code_of(error)
        if code not in ("PreconditionFailed", "ConditionalRequestConflict", "OperationAborted"):
            raise
    there = _manifest_there(client, place, key) if code == "PreconditionFailed" else None
    if there is None:  # after PreconditionFailed: it was removed since
        raise _Undecided
    return there


def _remove_data(client: Any, place: Place, manifest: Manifest) -> None:
    """Removes what no manifest will ever name: another snapshot has the moment. What cannot be removed expires."""
    try:
        for key in objects_below(client, place, place.data(manifest)):
            client.delete_object(Bucket=place.bucket, Key=key)
    except RAISED_BY_BOTO as error:
        LOG.info("data of a snapshot that nobody needs stays for expiry at %s (%s)", place, type(error).__name__)
