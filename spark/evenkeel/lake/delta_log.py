"""A table's Delta log: commits, versions, files, and the state of a log that cannot be read."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from evenkeel.errors import LakeError
from evenkeel.handover import Commit, DataFile, Write
from evenkeel.lake.table_files import FolderFiles, TableFiles, arrow_source, files_of
from evenkeel.retrying import Pause, retry, up_to_a_fifth_more

# Spark would read a path with these characters as a pattern. (In names of partitions they are escaped.)
_GLOB = frozenset("*?[]{}\\")


LOG_FOLDER = "_delta_log"
HINT = "_last_checkpoint"
HINT_NAME = f"{LOG_FOLDER}/{HINT}"
_COMMIT = re.compile(r"\d{20}\.json")


def table_exists(path: str) -> bool:
    """Return True if `path` has a Delta table."""
    files = files_of(path)
    return _first_known(files) is not None or bool(_listed(files))


def newest_version(path: str, since: int | None = None) -> int:
    """Return the newest version in a table's log, -1 without any.

    `since`: an existing version, from which the search starts. Commits are looked up one by one from the last
    checkpoint on. A log of months has a hundred thousand files, and listing it for every append would make each cycle
    slower than the last one. In an object store each look-up is a request, so the search begins at the newest version
    that this process has seen.
    """
    files = files_of(path)
    seen = None if isinstance(files, FolderFiles) else _seen.get(files.address)
    known = max((version for version in (since, seen) if version is not None), default=None)
    newest = known if known is not None and files.exists(commit_name(known)) else _first_known(files)
    if newest is None:
        return max(_listed(files), default=-1)
    while files.exists(commit_name(newest + 1)):
        newest += 1
    if not isinstance(files, FolderFiles):
        _seen[files.address] = newest
    return newest


def is_as_made(path: str) -> bool:
    """Return True if the table never had a row: its log has only the commit that made it."""
    return newest_version(path) == 0 and not any(_adds(_commit_text(files_of(path), 0)))


def committed_version(path: str, write_id: str, *, after: int) -> int | None:
    """Return the version in which `write_id` was committed since version `after`, None if no commit carries it.

    A storage client may retry a commit after it had succeeded. Delta's own guard against that is a transaction id, but
    it makes every append read the whole table state (0.75 s instead of 0.22 s). A write id is used once, so two commits
    with it show the retry. It is refused, its rows are never listed, and the next try writes under another id.
    """
    versions = versions_carrying(path, write_id, after)
    if len(versions) > 1:
        raise LakeError(
            f"write {write_id} was committed {len(versions)} times to {path} (versions {versions}): the storage client "
            "repeated a commit that had succeeded. Nothing lists these rows; run the task again."
        )
    return versions[0] if versions else None


def versions_carrying(path: str, carried_text: str, after: int) -> list[int]:
    """Return the versions after `after` whose commits carry a text."""
    files = files_of(path)
    newer = range(after + 1, newest_version(path) + 1)
    return [version for version in newer if carried_text in _commit_text(files, version)]


def written_files(path: str, writes: Iterable[Write]) -> list[str] | None:
    """Return the full names of the data files of writes to the table at `path`, None if one does not exist.

    Files never change; rows compacted into other files do not matter as long as the files exist.
    """
    files, names = files_of(path), set[str]()
    for write in writes:
        if not write.files:
            return None
        names.update(file.path for file in write.files)
    if _GLOB & set(path) or not all(map(files.exists, names)):
        return None
    return [files.full(name) for name in sorted(names)]


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file as its commit names it: `rows` by the commit's statistics, `cluster` "" in a table without
    clusters."""

    file: DataFile
    cluster: str
    rows: int


def read_commit(path: str, table: str, version: int) -> tuple[Commit, tuple[AddedFile, ...]]:
    """Return a commit of the table at `path`, with the SHA-256 of its JSON and of the files that it added.

    Each file is hashed once, as stored. Raises LakeError if one cannot be read.
    """
    try:
        data = files_of(path).read(commit_name(version))
    except OSError as error:
        raise LakeError(f"commit {version} of {path} cannot be read: {error}. Run the task again.") from error
    added = tuple(
        AddedFile(
            hashed(path, unquote(add["path"])),
            str(add["partitionValues"].get("cluster") or ""),
            int(json.loads(add.get("stats") or "{}").get("numRecords", 0)),
        )
        for add in _adds(data.decode())
    )
    files = tuple(sorted((added_file.file for added_file in added), key=lambda file: file.path))
    return Commit(table, version, hashlib.sha256(data).hexdigest(), files), added


def rows_by_write(file: str, *, by_statistics: bool = True) -> Counter[str]:
    """Return the number of rows of a data file by write id. Most files hold one, and their statistics show it.

    Without `by_statistics` the rows themselves are read, for a file that anybody may have written.
    """
    from pyarrow.compute import value_counts
    from pyarrow.parquet import ParquetFile

    counts: Counter[str] = Counter()
    with ParquetFile(arrow_source(file), read_dictionary=["write_id"]) as opened:
        column = opened.schema_arrow.get_field_index("write_id")
        for number in range(opened.num_row_groups):
            group = opened.metadata.row_group(number)
            about = group.column(column).statistics if by_statistics else None
            if about is not None and about.has_min_max and about.min == about.max and not about.null_count:
                counts[about.min] += group.num_rows
                continue
            ids = opened.read_row_group(number, columns=["write_id"]).column(0)
            for entry in value_counts(ids.unify_dictionaries()).to_pylist():
                counts[str(entry["values"])] += int(entry["counts"])
    return counts


def _adds(commit: str) -> Iterator[dict[str, Any]]:
    """Yield the `add` actions in the text of a commit."""
    for line in commit.splitlines():
        if '"add"' in line and "add" in (action := json.loads(line)):
            yield action["add"]


def hashed(table: str, path: str) -> DataFile:
    """Return a file of the table in this folder, as stored; raises LakeError if it cannot be read."""
    try:
        return DataFile(path, *files_of(table).size_and_digest(path))
    except OSError as error:
        raise LakeError(
            f"file {path} of {table} cannot be read: {error}. Make it readable for this process, or run the task "
            "again; nothing lists the rows of a write that was just made."
        ) from error


_seen: dict[str, int] = {}
"""Address of a table in an object store -> its newest version at the last look."""


def _first_known(files: TableFiles) -> int | None:
    """Return a version that certainly exists, without listing: that of the last checkpoint, or the first of all."""
    version = hinted(files) or 0
    return version if files.exists(commit_name(version)) else None


def commit_name(version: int) -> str:
    """Return the name of a commit below the table's folder."""
    return f"{LOG_FOLDER}/{version:020d}.json"


def _commit_text(files: TableFiles, version: int) -> str:
    """Return the text of a commit, a JSON object on each line; "" if it is gone."""
    try:
        return files.read(commit_name(version)).decode()
    except FileNotFoundError:
        return ""


def _listed(files: TableFiles) -> list[int]:
    return [int(name[:20]) for name in files.names(LOG_FOLDER) if _COMMIT.fullmatch(name)]


def hinted(files: TableFiles) -> int | None:
    """Return the checkpoint at which readers are to begin."""
    try:
        return int(json.loads(files.read(HINT_NAME))["version"])
    except FileNotFoundError:
        return None
    except OSError:
        if isinstance(files, FolderFiles):
            return None
        raise  # an unresponsive store may still have a checkpoint
    except (ValueError, KeyError, TypeError):
        return None


T = TypeVar("T")
_TRIES = 30
# Another append (under Serializable isolation), upkeep compacting or dropping the rows read, or a changed property.
_SIGNS = (
    *("DELTA_CONCURRENT_APPEND", "ConcurrentAppendException", "DELTA_CONCURRENT_TRANSACTION"),
    *("DELTA_CONCURRENT_DELETE_READ", "ConcurrentDeleteReadException"),
    *("DELTA_CONCURRENT_DELETE_DELETE", "ConcurrentDeleteDeleteException"),
    *("DELTA_METADATA_CHANGED", "MetadataChangedException"),
)


def is_conflict(error: Exception) -> bool:
    """Return True if another writer's commit came first: nothing was written, look at the table again."""
    return any(sign in str(error) for sign in _SIGNS)


def until_committed(
    write: Callable[[], T],
    log: logging.Logger,
    message: str,
    *,
    tries: int = _TRIES,
    pause: Pause = up_to_a_fifth_more,
) -> T:
    """Run `write`, and again after each conflict; each time `log` gets `message` with the number of the try.

    After `tries` tries the last conflict passes; any other error passes at once.
    """
    return retry(
        write,
        tries=tries,
        pause=pause,
        if_raised=is_conflict,
        say=lambda failed: log.info("%s (%d of %d)", message, failed, tries),
    )


# Days for which old versions of a table stay readable: Delta's own properties, since `VACUUM … RETAIN` is ignored.

VERSION_DAYS = 90
TOPIC_VERSION_DAYS = 7
# Larger than all others together, and kept for days: compacting it must not keep it twice for months.
TOPICS = "topic_stats"

FILES = "delta.deletedFileRetentionDuration"
LOG = "delta.logRetentionDuration"
_INTERVAL = re.compile(r"^(?:interval\s+)?(\d+)\s+(hour|day|week)s?$", re.IGNORECASE)
_HOURS = {"hour": 1, "day": 24, "week": 168}


def version_days(table: str, versions: int = VERSION_DAYS, topic_versions: int = TOPIC_VERSION_DAYS) -> int:
    """Return the days that versions of this table are kept."""
    return topic_versions if table == TOPICS else versions


def version_properties(days: int) -> dict[str, str]:
    """Return the properties that keep versions readable: both the log and the files that it names must exist."""
    return {FILES: f"interval {days} days", LOG: f"interval {days} days"}


def is_interval(text: str) -> bool:
    """Return True for a period as `version_properties` writes it."""
    return _INTERVAL.match(text.strip()) is not None


def kept_days(properties: dict[str, str]) -> float:
    """Return the days that a table's properties promise; 0 if one of them is invalid."""
    matches = [_INTERVAL.match(properties.get(name, "").strip()) for name in (FILES, LOG)]
    return min(int(match.group(1)) * _HOURS[match.group(2).lower()] / 24 if match else 0.0 for match in matches)
