"""A landed snapshot into a local folder, whole and verified or not at all.

The local folder is itself a recording: a snapshot lies there as `<milliseconds>.json[.gz]` or as a folder
`<milliseconds>/`, with a copy of its manifest beside it. It is written under a temporary name and renamed, so whoever
reads the folder never sees half of one; what is there whole is not fetched again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore.exceptions import ClientError, FlexibleChecksumError

from evenkeel.aws_errors import RAISED_BY_BOTO, is_absent
from evenkeel.errors import BadInput
from evenkeel.pulsar.limits import DEFAULT, BeyondLimit, Limits
from evenkeel.sources.landing_zone.layout import (
    Manifest,
    ManifestEntry,
    Place,
    StoredFile,
    as_number,
    milliseconds,
    objects_below,
    read_manifest,
)
from evenkeel.sources.landing_zone.s3 import read_object
from evenkeel.sources.recordings import Problem, demand_packed, read_header

LOG = logging.getLogger(__name__)
AT_ONCE = 8
LEFT_BEHIND_SECONDS = 24 * 3600
LANDING_SECONDS = 3600
_PARTIAL = ".partial-"
_COPY = ".manifest.json"


class SnapshotRefused(BadInput):
    """A snapshot that is listed and must not be used; `problem` says which object, where in it, and why."""

    def __init__(self, file: str, place: str, reason: str) -> None:
        super().__init__(f"{file}, {place}: {reason}")
        self.problem = Problem(file, place, reason)


def manifest_of(client: Any, place: Place, cluster: str, entry: ManifestEntry) -> Manifest:
    """The manifest behind a listed name; `SnapshotRefused` if it cannot be what its name says."""
    file = place.url(entry.key)
    try:
        data = read_object(client, place, entry.key)
        if data is None:
            raise BadInput("it was removed after it was listed")
        manifest = read_manifest(data)
    except BadInput as error:
        raise SnapshotRefused(file, "manifest", str(error)) from None
    if manifest.cluster != cluster:
        raise SnapshotRefused(file, "cluster", f"it is of cluster {manifest.cluster!r} and lies with {cluster!r}")
    if as_number(manifest.moment) != entry.number:
        raise SnapshotRefused(
            file, "finished_at", f"its moment {manifest.moment.isoformat()} is not the one of its name"
        )
    return manifest


def demand_whole(client: Any, place: Place, manifest: Manifest) -> None:
    """Raises `SnapshotRefused` unless every object of a snapshot is there with the size that its manifest gives."""
    prefix = place.data(manifest)
    there = objects_below(client, place, prefix)
    for file in manifest.files:
        size = there.get(prefix + file.name)
        if size is None:
            raise SnapshotRefused(place.url(prefix + file.name), "object", "its manifest lists it, and it is not there")
        if size != file.size:
            reason = f"it has {size} bytes, its manifest says {file.size}: it was replaced or cut"
            raise SnapshotRefused(place.url(prefix + file.name), "size", reason)


def _demand_small(place: Place, manifest: Manifest, limits: Limits) -> None:
    """Raises `SnapshotRefused` where the files of a snapshot are larger than they may be, before any is fetched."""
    size, url = sum(file.size for file in manifest.files), place.url(place.data(manifest))
    try:
        demand_packed("the snapshot", size, limits)
    except BeyondLimit as error:
        raise SnapshotRefused(url, "size", str(error)) from None


def land(client: Any, place: Place, manifest: Manifest, folder: Path, limits: Limits = DEFAULT) -> Path:
    """Where the snapshot lies in the local `folder`, fetched if need be.

    `SnapshotRefused`: an object is missing or differs from its manifest, the snapshot cannot be read, or its manifest
    says that it is larger than `limits` allow. `BadInput`: the folder cannot be written.
    """
    try:
        landed = landed_at(folder, manifest)
        if landed is not None:
            return landed
        _demand_small(place, manifest, limits)
        demand_whole(client, place, manifest)
        with _partial(folder) as partial:
            _fetch(client, place, manifest, partial)
            _check_header(place, manifest, partial, limits)
            return _move(partial, folder, manifest)
    except RAISED_BY_BOTO:  # some of them are OSErrors too
        raise
    except OSError as error:
        raise BadInput(f"cannot land a snapshot of {manifest.cluster} in {folder}: {error}") from None


def remove_copies_without_snapshot(folder: Path) -> None:
    """Removes copies of manifests whose snapshot is gone, an hour old and more: a younger one may be landing."""
    copies = {path: path.name.removesuffix(_COPY) for path in folder.glob("*" + _COPY)}
    for copy, name in copies.items():
        landed = any((folder / (name + suffix)).exists() for suffix in ("", ".json", ".json.gz"))
        with suppress(FileNotFoundError):
            if not landed and time.time() - copy.stat().st_mtime > LANDING_SECONDS:
                copy.unlink()


def _local_path(folder: Path, manifest: Manifest) -> Path:
    name = milliseconds(manifest.moment)
    return folder / (name + manifest.files[0].name.removeprefix("document") if manifest.is_document else name)


def _manifest_copy(folder: Path, manifest: Manifest) -> Path:
    return folder / (milliseconds(manifest.moment) + _COPY)


def landed_at(folder: Path, manifest: Manifest) -> Path | None:
    """Where the moment's snapshot lies whole. What was landed stays, even if the store now has other bytes."""
    try:
        landed = read_manifest(_manifest_copy(folder, manifest).read_bytes())
    except (BadInput, FileNotFoundError):
        return None
    path = _local_path(folder, landed)
    for file in landed.files:
        part = path if landed.is_document else path / file.name
        if not part.is_file() or part.stat().st_size != file.size:
            return None
    if landed.digest != manifest.digest:
        LOG.warning("%s was landed from other bytes than the store has now; what was landed stays", path)
    return path


@contextmanager
def _partial(folder: Path) -> Iterator[Path]:
    """A folder of its own for what is under way; those that a kill left behind a day ago are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(_PARTIAL + "*"):
        with suppress(FileNotFoundError):  # others tidy up as well
            if time.time() - old.stat().st_mtime > LEFT_BEHIND_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fetch(client: Any, place: Place, manifest: Manifest, partial: Path) -> None:
    prefix = place.data(manifest)
    data = partial / "data"
    data.mkdir()
    with create_transfer_manager(client, TransferConfig(max_concurrency=AT_ONCE)) as manager:
        coming = [
            (file, manager.download(place.bucket, prefix + file.name, str(data / file.name))) for file in manifest.files
        ]
        for file, future in coming:
            try:
                future.result()
            except FlexibleChecksumError:
                reason = "its bytes differ from the checksum that the store keeps with it: it is damaged"
                raise SnapshotRefused(place.url(prefix + file.name), "checksum", reason) from None
            except ClientError as error:
                if not is_absent(error):
                    raise
                raise SnapshotRefused(
                    place.url(prefix + file.name), "object", "it was removed after it was listed"
                ) from None
    for file in manifest.files:
        _demand_digest(place.url(prefix + file.name), data / file.name, file)


def _demand_digest(url: str, path: Path, file: StoredFile) -> None:
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
        os.fsync(stream.fileno())
    if found != file.sha256:
        raise SnapshotRefused(url, "sha256", f"it is {found}, its manifest says {file.sha256}: replaced or damaged")


def _check_header(place: Place, manifest: Manifest, partial: Path, limits: Limits) -> None:
    data = partial / "data"
    url = place.url(place.data(manifest))
    try:
        header = read_header(data / manifest.files[0].name if manifest.is_document else data, limits)
    except BadInput as error:
        raise SnapshotRefused(url, "snapshot", str(error)) from None
    if header.moment != manifest.moment:
        reason = f"it is of {header.moment.isoformat()}, its manifest says {manifest.moment.isoformat()}"
        raise SnapshotRefused(url, "finished_at", reason)


def _move(partial: Path, folder: Path, manifest: Manifest) -> Path:
    """The manifest's copy first: it says how large the rest has to be."""
    final = _local_path(folder, manifest)
    copy = partial / "manifest.json"
    copy.write_bytes(manifest.to_bytes())
    copy.replace(_manifest_copy(folder, manifest))
    data = partial / "data"
    if manifest.is_document:
        (data / manifest.files[0].name).replace(final)
        return final
    try:
        data.rename(final)
    except OSError:  # it is there: another task was faster, or something of it was lost
        if landed_at(folder, manifest) is None:
            final.rename(partial / "damaged")
            data.rename(final)
    return final
