"""The files of a table's Delta log, each read without Spark, and the table state that they add up to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from evenkeel.errors import EvenkeelError, LakeError
from evenkeel.json_text import NotJson, parse_json
from evenkeel.lake.delta_log import HINT, HINT_NAME, LOG_FOLDER, commit_name, hinted, newest_version
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.table_files import FolderFiles, TableFiles, arrow_source, delta_table, files_of
from evenkeel.object_store import explained, is_object_store

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

T = TypeVar("T")
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKSUM = re.compile(r"(\d{20})\.crc")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
# Delta has other names for checkpoints in several files, and for log compactions.
_UNUSED = re.compile(r"\d{20}\.(?:checkpoint\..+|\d{20}\.compacted\.json)")
_REQUESTS_AT_ONCE, _IN_MEMORY = 16, 2_000

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


def checksum_name(version: int) -> str:
    """Return the name of a version checksum below the table's folder."""
    return f"{LOG_FOLDER}/{version:020}.crc"


@dataclass(slots=True)
class LoggedCommit:
    """A commit by its bytes: `digest` is their SHA-256 (hex), `fault` says why it cannot be read.

    `ended`: the SHA-256 with a line feed more, as Spark ends it. `unknown`: actions that no writer of ours leaves.
    """

    version: int
    digest: str
    ended: str
    fault: str | None = None
    info: Action = field(default_factory=dict)
    metadata: Action | None = None
    protocol: Action | None = None
    adds: list[Action] = field(default_factory=list)
    removes: list[Action] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        """The paths of the data files that it adds, in ascending order."""
        return sorted(unquote(add["path"]) for add in self.adds)

    @property
    def removed_paths(self) -> list[str]:
        """The paths of the data files that it removes."""
        return [unquote(remove["path"]) for remove in self.removes]

    @property
    def at(self) -> datetime | None:
        """The time that it gives for itself, None without one."""
        try:
            return datetime.fromtimestamp(int(self.info["timestamp"]) / 1000, UTC)
        except (KeyError, TypeError, ValueError, OverflowError, OSError):
            return None


_ONCE = {"commitInfo": "info", "metaData": "metadata", "protocol": "protocol"}
"""Actions that a commit has once, and their fields of `LoggedCommit`."""


def parse_commit(version: int, data: bytes) -> LoggedCommit:
    """Return the commit with these bytes."""
    digest, ended = (hashlib.sha256(data + end).hexdigest() for end in (b"", b"\n"))
    actions = commit_actions(data)
    commit = LoggedCommit(version, digest, ended, commit_fault(data, actions, version))
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


def logged_commit(files: TableFiles, version: int) -> LoggedCommit | None:
    """Return a commit; None if it is gone."""
    try:
        return parse_commit(version, files.read(commit_name(version)))
    except FileNotFoundError:
        return None


def read_commits(files: TableFiles, versions: Iterable[int]) -> Iterator[LoggedCommit]:
    """Yield commits in the order of `versions`; one that upkeep has removed meanwhile is passed over."""
    for commit in in_order(files, partial(logged_commit, files), [*versions]):
        if commit is not None:
            yield commit


def is_committed(path: str, version: int, digest: str) -> bool:
    """Return True if the log of a table has the commit with that SHA-256 (hex), or had it before upkeep removed it."""
    commit = logged_commit(files_of(path), version)
    return version <= newest_version(path) if commit is None else digest in (commit.digest, commit.ended)


def in_order(files: TableFiles, read: Callable[[int], T], versions: Sequence[int]) -> Iterator[T]:
    """Yield results in order; requests to a store are made several at a time."""
    if isinstance(files, FolderFiles):
        yield from map(read, versions)
        return
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        for begin in range(0, len(versions), _IN_MEMORY):
            yield from pool.map(read, versions[begin : begin + _IN_MEMORY])


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

    Without `with_files` the state has only metadata and protocol. Raises DamagedLogFile for a cut file.
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


def read_object(files: TableFiles, name: str) -> Action:
    """Return the content of a checksum or hint; raises DamagedLogFile if it is cut, FileNotFoundError without one."""
    try:
        value = parse_json(files.read(name))
    except NotJson as error:
        raise DamagedLogFile(str(error)) from error
    if not isinstance(value, dict):
        raise DamagedLogFile("it is not a JSON object")
    return value


def metadata_in_force(files: TableFiles, version: int) -> tuple[list[Action], list[Action]]:
    """Return the metadata and the protocols that readers of a version may use; [] for what the log does not have.

    It looks back from the version, at checksums, commits, and the hinted checkpoint, to the first one that has both.
    """
    metadata: list[Action] = []
    protocols: list[Action] = []
    try:
        hinted = read_object(files, HINT_NAME).get("version")
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
        checksum = read_object(files, checksum_name(version))
        yield checksum.get("metadata") or {}, checksum.get("protocol") or {}
    except (FileNotFoundError, DamagedLogFile):
        pass
    for commit in read_commits(files, [version]):
        yield commit.metadata or {}, commit.protocol or {}
    if is_hinted and (names := listing(files).checkpoints.get(version)):
        state, _ = read_checkpoint(files, names, with_files=False)
        yield state.metadata, state.protocol


# Damage of a table's files, and what to do, in words for the operator who repairs the table.

_RESTORE = "Restore the folder `_delta_log` from a copy."
_MEND_COMMIT = (
    "Restore that file from a copy. Without a copy, remove it if it is the newest commit, else write "
    '`{"commitInfo": {}}` into it. The rows that it named are lost then (docs/how-to/keeping.md)'
)
_MEND_FIRST = (
    "Restore that file from a copy: it holds the table's schema. Without a copy, remove the table's folder if it is "
    "the only commit: no row is in it. Else make it of the oldest `N.crc` (docs/how-to/keeping.md)"
)
_FILES_ADDED = ("numFiles", "numAddedFiles", "num_added_files")
"""Metrics of Spark's and deltalake's commits with the number of added files."""
_OF_A_TABLE = re.compile(r"_delta_log|DELTA_|\.parquet|Json|DeltaError|Kernel error", re.IGNORECASE)


def commit_actions(data: bytes) -> list[dict[str, Any]] | None:
    """Return the actions in the bytes of a commit; None unless they are JSON objects, one on each line."""
    try:
        actions = [parse_json(line) for line in data.splitlines() if line.strip()]
    except NotJson:
        return None
    return actions if all(isinstance(action, dict) for action in actions) else None


def commit_fault(data: bytes, actions: Sequence[Action] | None, version: int) -> str | None:
    """Return the fault of a commit's bytes as a predicate with the advice; None if it can be read."""
    mend = _MEND_COMMIT if version else _MEND_FIRST
    if not data.strip():
        return f"is empty: readers take it for a commit without {'rows' if version else 'a schema'}. {mend}"
    if actions is None:
        return f"is cut short, or is not JSON: no reader can read the table. {mend}"
    infos = [info for action in actions if isinstance(info := action.get("commitInfo"), dict)]
    metrics = [metrics for info in infos if isinstance(metrics := info.get("operationMetrics"), dict)]
    said = max((int(n) for m in metrics for name in _FILES_ADDED if (n := str(m.get(name))).isdecimal()), default=0)
    if (added := sum("add" in action for action in actions)) < said:
        return f"is cut short: it says that it adds {said} files, and names {added}. {mend}"
    return None


def commit_damage(files: TableFiles, version: int) -> str | None:
    """Return the fault of a commit's bytes, and what to do; None for one that can be read, or is gone."""
    try:
        data = files.read(commit_name(version))
    except FileNotFoundError:
        return None
    words = commit_fault(data, commit_actions(data), version)
    return None if words is None else f"commit {version} ({files.full(commit_name(version))}) {words}"


def log_state(path: str) -> str:
    """Return sentences on the missing or damaged and the remaining parts of the log of the table at `path`; '' if none.

    A version can be read from a checkpoint and the commits since, or from all commits.
    """
    files = files_of(path)
    if not files.has_folder(LOG_FOLDER):
        return ""
    names, hint, damaged = listing(files), hinted(files), list[str]()
    if not names.commits:
        return f"Its log holds no commit any more. {_RESTORE}"
    commits, newest, whole = {*names.commits}, names.commits[-1], None
    for version, parts in sorted(names.checkpoints.items(), reverse=True):
        if all(is_whole_parquet(files.full(f"{LOG_FOLDER}/{part}")) for part in parts):
            whole = version
            break
        damaged += [files.full(f"{LOG_FOLDER}/{part}") for part in parts]
    start = next(version for version in count(newest, -1) if version - 1 not in commits)
    if start == 0 or (whole is not None and start <= whole + 1):
        # A version before the checkpoint is seldom read: `verify` checks its commits.
        since = range(0 if whole is None else whole + 1, newest + 1)
        if broken := next((words for version in since if (words := commit_damage(files, version))), None):
            return broken
        if damaged:
            return (
                f"The checkpoint {', '.join(damaged)} is empty, cut short or no Parquet file. The commits hold all of "
                f"it, too: remove that file and {files.full(HINT_NAME)}, and the table can be read."
            )
        return "" if hint is None or hint in names.checkpoints else _needless(files, hint)
    first = 0 if whole is None and 0 in commits else whole
    reached = None if first is None else next(v for v in count(first) if v + 1 not in commits)
    left = "no version can be read" if reached is None else f"the newest version that still can be read is {reached}"
    cut = f" The checkpoint {damaged[0]} is empty, cut short or no Parquet file." if damaged else ""
    return (
        f"Its log has the commits {start} to {newest}, and neither what came before {start} nor a checkpoint since: "
        f"{left}.{cut} {_RESTORE}"
    )


def _needless(files: TableFiles, hint: int) -> str:
    return (
        f"The checkpoint {hint} is missing, though {files.full(HINT_NAME)} names it. The rest of the log "
        "holds all of it, too: remove that one file, and the table can be read."
    )


def is_whole_parquet(file: str) -> bool:
    """Return True if all of a Parquet file can be read; `file` is its `TableFiles.full` name."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(arrow_source(file)) as opened:
            for _ in opened.iter_batches(use_threads=False):
                pass
    except (ArrowException, OSError, ValueError):
        return False
    return True


def unreadable(path: str, error: Exception) -> LakeError:
    """Return the error for a table whose log cannot be read: of its store, or with the damage and what to do."""
    return explained(error, path) or LakeError(
        f"the log of {path} cannot be read: {first_line(error)}. {log_state(path) or 'Restore it from a copy.'}"
    )


def first_line(error: BaseException) -> str:
    """Return the first line of a library's message: Java and Rust write their stack into the others."""
    return str(error).partition("\n")[0].rstrip(". ")


def damage_behind(error: BaseException, lake: object) -> LakeError | None:
    """Return the damage of a lake's tables that an error of Spark or deltalake comes from; None for other errors."""
    text, root = str(error), str(lake or "").rstrip("/")
    is_ours = isinstance(error, EvenkeelError) or not root or is_object_store(root)  # a store writes files whole
    if is_ours or not _OF_A_TABLE.search(f"{type(error).__name__}: {text}"):
        return None
    for table in TABLES:
        if state := log_state(f"{root}/{table}"):
            return LakeError(f"table {table} of the lake {root} cannot be read. {state}")
    for file in re.findall(rf"{re.escape(root)}/[^\s:]+\.parquet", text):
        if not is_whole_parquet(file):
            return LakeError(
                f"{file} is empty, cut short or no Parquet file: its rows cannot be read. Restore it from a copy. "
                "Without a copy they are lost (docs/how-to/keeping.md)"
            )
    return None


def table_and_files(path: str) -> tuple[DeltaTable, pa.Table]:
    """Return the table at `path` as deltalake opens it, and its list of the files, flat.

    Raises LakeError if its log cannot be read, or its store cannot be asked.
    """
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    try:
        table = delta_table(path)
        return table, pa.table(table.get_add_actions(flatten=True))
    except (DeltaError, OSError, ValueError) as error:
        raise unreadable(path, error) from error
