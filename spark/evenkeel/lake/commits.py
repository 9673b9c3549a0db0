"""Finding out what was committed, without a Spark job where the table's log can be listed directly."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from evenkeel.errors import LakeError
from evenkeel.handover import DataFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_BACK = 200
# Spark would take a path with these for a pattern. (In names of partitions they are escaped.)
_GLOB = frozenset("*?[]{}\\")


def local_log(path: str) -> Path | None:
    """The `_delta_log` folder of a table on this machine's file system; None for an object store."""
    if "://" in path and not path.startswith("file://"):
        return None
    return Path(path.removeprefix("file://")) / "_delta_log"


def table_exists(spark: SparkSession, path: str) -> bool:
    """Whether a Delta table stands at `path`."""
    log = local_log(path)
    if log is not None:
        return _first_known(log) is not None or (log.is_dir() and bool(_listed(log)))
    try:
        spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()
    except Exception as error:
        if "DELTA_MISSING_DELTA_TABLE" in str(error) or "PATH_NOT_FOUND" in str(error) or "doesn't exist" in str(error):
            return False
        raise
    return True


def newest_version(path: str) -> int | None:
    """The newest version in a log that can be listed from here; None for an object store."""
    log = local_log(path)
    return None if log is None else _newest(log)


def committed_version(spark: SparkSession, path: str, write_id: str, *, after: int | None) -> int | None:
    """The version in which `write_id` was committed since version `after`, or None if no commit carries it.

    Delta's own guard against a commit that a storage client retried after it had succeeded is a transaction id, but
    it makes every append read the whole table state (0.75 s instead of 0.22 s). A write id is used once, so two
    commits that carry it tell the same: that write is refused, its rows are never listed, and the task's next try
    writes under another id.
    """
    versions = _versions_carrying(spark, path, write_id, after)
    if len(versions) > 1:
        raise LakeError(
            f"write {write_id} was committed {len(versions)} times to {path} (versions {versions}): the storage client "
            "repeated a commit that had succeeded. Nothing lists these rows; run the task again."
        )
    return versions[0] if versions else None


def added_files(path: str, versions: Iterable[int], write_ids: Iterable[str] = ()) -> list[str] | None:
    """The data files that these commits added, or None where the log or one of the files cannot be read from here.

    A commit of ours only adds, and files never change. That they were compacted into others later does not matter as
    long as they are there. Each of the writes must be named by one of the commits: in a lake that was exported or
    restored a version has another meaning.
    """
    log = local_log(path)
    if log is None or _GLOB & set(path):
        return None
    found: list[str] = []
    unnamed = set(write_ids)
    for version in sorted(versions):
        try:
            text = _commit(log, version).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        unnamed = {one for one in unnamed if one not in text}
        found += [str(log.parent / unquote(add["path"])) for add in _adds(text)]
    return found if found and not unnamed and all(Path(file).is_file() for file in found) else None


def committed_files(path: str, version: int) -> dict[str, tuple[DataFile, ...]] | None:
    """Cluster -> the data files that a commit to a table partitioned by cluster added for it, by path, with the size
    and the SHA-256 of what lies on disk. None for an object store: all that was written would have to be fetched again.
    """
    log = local_log(path)
    if log is None:
        return None
    found: dict[str, list[DataFile]] = {}
    for add in _adds(_commit(log, version).read_text(encoding="utf-8")):
        found.setdefault(add["partitionValues"]["cluster"], []).append(hashed(str(log.parent), unquote(add["path"])))
    return {cluster: tuple(sorted(files, key=lambda file: file.path)) for cluster, files in found.items()}


def _adds(commit: str) -> Iterator[dict[str, Any]]:
    """The `add` actions in the text of a commit."""
    for line in commit.splitlines():
        if '"add"' in line and "add" in (action := json.loads(line)):
            yield action["add"]


def hashed(table: str, path: str) -> DataFile:
    """A file of the table in this folder, as it lies there. Raises LakeError where it cannot be read from here."""
    try:
        with Path(table.removeprefix("file://"), path).open("rb") as file:
            return DataFile(path, os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as error:
        raise LakeError(
            f"file {path} of {table} cannot be read: {error}. Make it readable from here, or run the task again; "
            "nothing lists the rows of a write that was just made."
        ) from error


def _versions_carrying(spark: SparkSession, path: str, write_id: str, after: int | None) -> list[int]:
    log = local_log(path)
    if log is not None:
        newer = range(0 if after is None else after + 1, _newest(log) + 1)
        commits = ((version, _commit(log, version)) for version in newer)
        return [n for n, commit in commits if commit.is_file() and write_id in commit.read_text(encoding="utf-8")]
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT {_LOOK_BACK}")
    rows = history.where(history.userMetadata.contains(write_id)).select("version").collect()
    return sorted(int(row["version"]) for row in rows)


def _newest(log: Path) -> int:
    """The newest version of a log, -1 without any.

    Commits are asked for one by one from the last checkpoint on: a log of months has a hundred thousand files, and
    listing it for every append would make each cycle slower than the one before.
    """
    newest = _first_known(log)
    if newest is None:
        return max(_listed(log), default=-1)
    while _commit(log, newest + 1).exists():
        newest += 1
    return newest


def _first_known(log: Path) -> int | None:
    """A version that is there for sure, without listing: that of the last checkpoint, or the first of all."""
    try:
        version = int(json.loads((log / "_last_checkpoint").read_text(encoding="utf-8"))["version"])
    except (OSError, ValueError, KeyError, TypeError):
        version = 0
    return version if _commit(log, version).exists() else None


def _commit(log: Path, version: int) -> Path:
    return log / f"{version:020d}.json"


def _listed(log: Path) -> list[int]:
    return [int(commit.stem) for commit in log.glob("[0-9]*.json") if commit.stem.isdigit()]
