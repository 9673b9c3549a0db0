"""The files of a table's Delta log, each read without Spark, and the table state that they add up to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.delta_log import LOG_FOLDER, commit_actions, commit_fault
from evenkeel.lake.table_files import FolderFiles, TableFiles, arrow_source

T = TypeVar("T")
HINT = "_last_checkpoint"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKSUM = re.compile(r"(\d{20})\.crc")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
# Delta has other names for checkpoints in several files, and for log compactions.
_UNUSED = re.compile(r"\d{20}\.(?:checkpoint\..+|\d{20}\.compacted\.json)")
_REQUESTS_AT_ONCE = 16

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogListing:
    """The names in a table's log: versions of commits and checksums, version -> names of a checkpoint's files, names of
    unknown kinds of files (no writer of Evenkeel leaves them, no reader uses them), and whether a hint exists."""

    commits: tuple[int, ...]
    checksums: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]
    unused: tuple[str, ...]
    has_hint: bool


def listing(files: TableFiles) -> LogListing:
    """Return the names in the log of a table, which another process may be writing to."""
    names = sorted(files.names(LOG_FOLDER))
    checkpoints: dict[int, list[str]] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            checkpoints.setdefault(int(match[1]), []).append(name)
    unused = [name for name in names if _UNUSED.fullmatch(name) and not _CHECKPOINT.fullmatch(name)]
    return LogListing(
        commits=tuple(int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))),
        checksums=frozenset(int(match[1]) for name in names if (match := _CHECKSUM.fullmatch(name))),
        checkpoints={version: tuple(parts) for version, parts in checkpoints.items() if _has_all_parts(parts)},
        unused=tuple(unused),
        has_hint=HINT in names,
    )


def _has_all_parts(names: list[str]) -> bool:
    """Return False while a checkpoint in several files is being written."""
    parts = [match[3] for name in names if (match := _CHECKPOINT.fullmatch(name))]
    return None in parts or any(parts.count(total) == int(total) for total in parts)


def commit_name(version: int) -> str:
    """Return the name of a commit below the table's folder."""
    return f"{LOG_FOLDER}/{version:020}.json"


def checksum_name(version: int) -> str:
    """Return the name of a version checksum below the table's folder."""
    return f"{LOG_FOLDER}/{version:020}.crc"


# Commits.


@dataclass(slots=True)
class LoggedCommit:
    """A commit by its bytes: `digest` is their SHA-256 (hex), `fault` says why it cannot be read.

    `unknown` are kinds of actions that no writer of Evenkeel leaves.
    """

    version: int
    digest: str
    fault: str | None = None
    info: Action = field(default_factory=dict)
    metadata: Action | None = None
    protocol: Action | None = None
    adds: list[Action] = field(default_factory=list)
    removes: list[Action] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


_ONCE = {"commitInfo": "info", "metaData": "metadata", "protocol": "protocol"}
"""Actions that a commit has once, and their fields of `LoggedCommit`."""


def parse_commit(version: int, data: bytes) -> LoggedCommit:
    """Return the commit with these bytes."""
    commit, actions = LoggedCommit(version, hashlib.sha256(data).hexdigest()), commit_actions(data)
    if not actions:
        commit.fault = commit_fault(data)
    for action in actions or ():
        for kind, body in action.items():
            if kind == "cdc":  # rows that upkeep dropped, in tables that keep changes
                continue
            if not isinstance(body, dict):
                commit.fault = f"holds a {kind} that is none"
            elif kind in _ONCE:
                setattr(commit, _ONCE[kind], body)
            elif kind in ("add", "remove") and isinstance(body.get("path"), str):
                (commit.adds if kind == "add" else commit.removes).append(body)
            else:
                commit.unknown.append(kind)
    return commit


def read_commits(files: TableFiles, versions: Iterable[int]) -> Iterator[LoggedCommit]:
    """Yield commits in the order of `versions`; one that upkeep has removed meanwhile is passed over."""

    def read(version: int) -> tuple[int, bytes | None]:
        try:
            return version, files.read(commit_name(version))
        except FileNotFoundError:
            return version, None

    for version, data in _all(files, read, versions):
        if data is not None:
            yield parse_commit(version, data)


def _all(files: TableFiles, read: Any, versions: Iterable[int]) -> Iterator[Any]:
    """Yield results in order; requests to a store are made several at a time."""
    if isinstance(files, FolderFiles):
        yield from map(read, versions)
        return
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        yield from pool.map(read, versions)


# The table at a version.


@dataclass(slots=True)
class TableState:
    """A table at a version: its metadata, protocol, and files by path with the `add` action of each.

    `added_in`: path -> version of the commit that added it, for those added by a commit that was read.
    """

    metadata: Action = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)
    files: dict[str, Action] = field(default_factory=dict)
    added_in: dict[str, int] = field(default_factory=dict)

    def apply(self, commit: LoggedCommit) -> None:
        """Bring the state to the version of the commit."""
        self.metadata = commit.metadata or self.metadata
        self.protocol = commit.protocol or self.protocol
        for remove in commit.removes:
            self.files.pop(remove["path"], None)
            self.added_in.pop(remove["path"], None)
        for add in commit.adds:
            self.files[add["path"]] = add
            self.added_in[add["path"]] = commit.version


class DamagedLogFile(ValueError):
    """A checkpoint or checksum is not whole."""


def read_checkpoint(
    files: TableFiles, names: Iterable[str], *, with_files: bool = True
) -> tuple[TableState, list[str]]:
    """Return the state that the files of a checkpoint hold, and its kinds of actions that no writer of Evenkeel leaves.

    Without `with_files` the state has only metadata and protocol. Raises DamagedLogFile for a file that is empty or cut
    short.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    state, unknown = TableState(), []
    for name in names:
        try:
            with ParquetFile(arrow_source(files.full(f"{LOG_FOLDER}/{name}"))) as opened:
                kinds = None if with_files else ["metaData", "protocol"]
                for batch in opened.iter_batches(columns=kinds, use_threads=False):
                    unknown += _take_rows(state, batch)
        except (ArrowException, OSError, ValueError) as error:
            raise DamagedLogFile(str(error)) from error
    return state, unknown


# The others take as long to convert to Python's values, and no reader uses them.
_OF_A_FILE = (
    *("path", "partitionValues", "size", "stats", "deletionVector"),
    *("partitionValues_parsed", "stats_parsed"),
)


def _take_rows(state: TableState, batch: Any) -> list[str]:
    """Add the actions of some rows of a checkpoint to the state; return kinds of other actions."""
    unknown = []
    for kind in batch.schema.names:
        column = batch.column(kind)
        bodies = column.filter(column.is_valid())
        if not len(bodies) or kind == "remove":
            continue
        if kind == "add":
            import pyarrow as pa

            present = [name for name in _OF_A_FILE if bodies.type.get_field_index(name) >= 0]
            bodies = pa.StructArray.from_arrays([bodies.field(name) for name in present], present)
        for fields in bodies.to_pylist(maps_as_pydicts="lossy"):
            body = {
                name: value for name, value in fields.items() if value is not None
            }  # a column for each possible field
            match kind:
                case "add":
                    state.files[body["path"]] = body
                case "metaData":
                    state.metadata = body
                case "protocol":
                    state.protocol = body
                case _:
                    unknown.append(kind)
    return unknown


def read_checksum(files: TableFiles, version: int) -> Action:
    """Return the checksum of a version; raises DamagedLogFile if it is cut short or empty, FileNotFoundError without
    one."""
    return _json_object(files, checksum_name(version))


def read_hint(files: TableFiles) -> Action:
    """Return `_last_checkpoint`; raises DamagedLogFile and FileNotFoundError as for a checksum."""
    return _json_object(files, f"{LOG_FOLDER}/{HINT}")


def _json_object(files: TableFiles, name: str) -> Action:
    try:
        value = parse_json(files.read(name))
    except NotJson as error:
        raise DamagedLogFile(str(error)) from error
    if not isinstance(value, dict):
        raise DamagedLogFile("it is not a JSON object")
    return value


def metadata_in_force(files: TableFiles, version: int) -> tuple[list[Action], list[Action]]:
    """Return the metadata and the protocols that readers of a version may use; [] for what the log does not have.

    It looks back from the version, at its checksum, commits, and the checkpoint that the hint names, up to the first
    version that has both.
    """
    metadata: list[Action] = []
    protocols: list[Action] = []
    try:
        hinted = read_hint(files).get("version")
    except (FileNotFoundError, DamagedLogFile):
        hinted = None
    for number in range(version, -1, -1):
        for actions in _metadata_in(files, number, is_hinted=number == hinted):
            metadata += [action for action in actions[:1] if action]
            protocols += [action for action in actions[1:] if action]
        if number == hinted or (metadata and protocols):
            break
    return metadata, protocols


def _metadata_in(files: TableFiles, version: int, *, is_hinted: bool) -> Iterator[tuple[Action, Action]]:
    try:
        checksum = read_checksum(files, version)
        yield checksum.get("metadata") or {}, checksum.get("protocol") or {}
    except (FileNotFoundError, DamagedLogFile):
        pass
    for commit in read_commits(files, [version]):
        yield commit.metadata or {}, commit.protocol or {}
    if is_hinted and (names := listing(files).checkpoints.get(version)):
        state, _ = read_checkpoint(files, names, with_files=False)
        yield state.metadata, state.protocol
