"""Backup of a lake, taken while cycles go on, and its restoration; the copy is a lake itself.

The order of reads and writes makes the copy whole. A manifest is written after the rows that it lists, and a leaf of
the transparency log after its manifest. So the log's heads are read first, then the version of `cycles`, then those of
the other tables. The copy then has all rows that its manifests list, and all manifests of its log. Of each table the
data files are written before the Delta log that names them. `cycles` is the last of the tables, and the log's
checkpoint comes last of all. A backup killed at any point leaves its earlier content, or more of the same.

Data files, commits and tiles never change, so files that the copy already has are not copied again. A copied file
exists whole under its name or not at all; in a folder it also outlives the machine's end.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from evenkeel.errors import BadInput, LakeError, NoLake
from evenkeel.folders import open_below
from evenkeel.lake.delta_log import HINT_NAME, LOG_FOLDER
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import arrow_place, demand_no_links, is_delta_table
from evenkeel.lake.table_log import table_and_files
from evenkeel.object_store import explained, is_object_store
from evenkeel.spark.code import code_version

ABOUT = "backup.json"
"""File that describes a backup's content. A folder without it is not a backup."""
RESTORING = "restore.json"
"""File in a lake that is being restored, until the lake is whole."""
FORMAT = 1

_CHAIN = "cycles"
_OF_THE_LOG, _CHECKPOINT = "_log", "checkpoint"
_VERIFY_RUNS = "_verify"
_VERSION_DIGITS = 20
_AT_ONCE = 8
_AT_ONCE_BYTES = 16 << 20
_PART = ".part-"
_ABANDONED_SECONDS = 86_400.0

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class LakePlace:
    """A folder, or all objects below a key. Names are paths below it, with `/`."""

    address: str
    root: str
    system: Any
    """Arrow's file system."""

    @classmethod
    def at(cls, address: str) -> LakePlace:
        """Return the place at an address.

        Raises LakeError for a store that does not speak S3, and SettingsError if its credentials are missing.
        """
        root, system = arrow_place(address)
        return cls(address, root.rstrip("/"), system)

    @property
    def in_store(self) -> bool:
        """True if it is in an object store."""
        return is_object_store(self.address)

    def holds(self, other: LakePlace) -> bool:
        """Return True if the other is this place, or below it."""
        return self.in_store == other.in_store and f"{other.root}/".startswith(f"{self.root}/")

    def folders(self) -> list[str]:
        """Return the names of the folders directly in it, sorted."""
        from pyarrow.fs import FileSelector, FileType

        entries = self.system.get_file_info(FileSelector(self.root, allow_not_found=True))
        return sorted(info.base_name for info in entries if info.type == FileType.Directory)

    def files(self, below: str = "") -> dict[str, int]:
        """Return name -> bytes of every file in a folder and all below it; none if the folder does not exist.

        Files and folders whose name begins with a dot are not part of a lake: locks, and parts of files.
        """
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._full(below), recursive=True, allow_not_found=True)
        entries = self.system.get_file_info(selector)
        cut = len(self.root) + 1
        files = {info.path[cut:]: int(info.size) for info in entries if info.type == FileType.File}
        return {name: size for name, size in files.items() if "/." not in f"/{name}"}

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        try:
            with self._opened(name) as opened:
                return bytes(opened.read())
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes) -> None:
        """Make or replace a file."""
        with self._new(name) as out:
            out.write(data)

    def take(self, other: LakePlace, name: str) -> int | None:
        """Copy a file of another place, and return its bytes; None if it no longer exists."""
        try:
            opened = other._opened(name)
        except FileNotFoundError:
            return None
        with opened, self._new(name) as out:
            return sum(out.write(part) for part in iter(lambda: opened.read(_AT_ONCE_BYTES), b""))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            self.system.delete_file(self._full(name))
        except FileNotFoundError:
            return

    def clear(self) -> None:
        """Remove parts of files that killed copying left a day ago or earlier."""
        if self.in_store:
            return
        for part in Path(self.root).rglob(f"{_PART}*"):
            with suppress(FileNotFoundError):
                if part.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    part.unlink()

    def _opened(self, name: str) -> IO[bytes] | Any:
        full = self._full(name)
        return self.system.open_input_stream(full) if self.in_store else os.fdopen(open_below(self.root, name), "rb")

    def _full(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/")

    @contextmanager
    def _new(self, name: str) -> Iterator[IO[bytes] | Any]:
        if self.in_store:
            with self.system.open_output_stream(self._full(name)) as out:
                yield out
            return
        path = Path(self._full(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{_PART}{uuid.uuid4().hex}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(open_below(self.root, str(part.relative_to(self.root)), flags), "wb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@dataclass(slots=True)
class Copied:
    """Result of a copy.

    `tables`: name -> version. `files` and `size` (bytes): what was copied; `kept`: files that existed before;
    `removed`: files of the copy that the lake no longer has.
    """

    tables: dict[str, int] = field(default_factory=dict)
    has_log: bool = False
    files: int = 0
    size: int = 0
    kept: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class _LookedAt:
    """A table at one look: its version, its files with their bytes, the files that the version names, and the hint.

    The files are those of its Delta log up to the version and all others. The hint is to its newest checkpoint.
    """

    name: str
    version: int
    log: Mapping[str, int]
    files: Mapping[str, int]
    active: frozenset[str]
    hint: bytes | None


def back_up(
    lake: str, to: str, *, now: Callable[[], datetime], prune: bool = False, progress: Progress = lambda done, of: None
) -> Copied:
    """Copy a lake to a place that is empty or holds an earlier backup of it.

    With `prune` it also removes files from the copy that the lake no longer has. `now`: the time, for `backup.json`.
    `progress` gets files done, and files in all. Raises NoLake, BadInput if the place holds something else or another
    lake's copy, and LakeError if the lake has lost files that its newest version names.
    """
    with _well_told(lake, to):
        return _back_up(lake, to, now, prune=prune, progress=progress)


def _back_up(lake: str, to: str, now: Callable[[], datetime], *, prune: bool, progress: Progress) -> Copied:
    source, target = _two_places(lake, to)
    began = now()
    _demand_lake(source)
    about = target.read(ABOUT)
    if about is None:
        _demand_empty(target, "an empty place, or one that holds an earlier backup of this lake")
        target.put(ABOUT, _as_json({"format": FORMAT, "lake": lake, "ended_at": None}))
    copied = _copy(source, target, progress, prune=prune)
    description = {
        "format": FORMAT,
        "lake": lake,
        "began_at": began.isoformat(),
        "ended_at": now().isoformat(),
        "code": code_version(),
        "tables": copied.tables,
        "log": copied.has_log,
    }
    target.put(ABOUT, _as_json(description))
    return copied


def restore(backup: str, lake: str, *, progress: Progress = lambda done, of: None) -> tuple[Copied, datetime]:
    """Make a lake of a backup, in an empty place or to continue an ended restore of the same backup.

    It also returns when the backup began. A backup that goes on meanwhile does no harm. Raises BadInput if there is no
    whole backup, or the place holds something else.
    """
    with _well_told(backup, lake):
        source, target = _two_places(backup, lake)
        began = _began_at(source)
        mark = _as_json({"backup": backup})
        if target.read(RESTORING) != mark:
            _demand_empty(target, "an empty place, or one where the restore of this backup was ended early")
            target.put(RESTORING, mark)
        copied = _copy(source, target, progress, prune=False)
        target.remove(RESTORING)
        return copied, began


@contextmanager
def _well_told(*places: str) -> Iterator[None]:
    """Raise errors of a disk or a store in an operator's words."""
    try:
        yield
    except OSError as error:
        if (explanation := next((words for place in places if (words := explained(error, place))), None)) is not None:
            raise explanation from error
        where = f"{error.filename}: " if error.filename else ""
        raise LakeError(
            f"{where}{error.strerror or error}. What was copied stays: run the same command again to go on"
        ) from error


def _began_at(backup: LakePlace) -> datetime:
    try:
        about = json.loads(backup.read(ABOUT) or b"null")
        if about is not None and about["format"] != FORMAT:
            raise BadInput(f"{backup.address} is a backup of another format, {about['format']!r}: use a newer version")
        if about is not None and about["ended_at"] is not None:
            return datetime.fromisoformat(about["began_at"]).astimezone(UTC)
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"{backup.address}/{ABOUT} cannot be read: it was changed, or is of something else") from None
    fault = f"there is no {ABOUT}" if about is None else "its first backup was never finished"
    raise BadInput(f"{backup.address} is not a whole backup: {fault}")


def _two_places(first: str, other: str) -> tuple[LakePlace, LakePlace]:
    source, target = LakePlace.at(Lake(first).root), LakePlace.at(Lake(other).root)
    if source.holds(target) or target.holds(source):
        raise BadInput(f"{first} and {other}: one is inside the other; name another place")
    demand_no_links(source.address)
    demand_no_links(target.address)
    return source, target


def _demand_empty(target: LakePlace, wanted: str) -> None:
    if target.files():
        raise BadInput(f"{target.address} holds something else already: name {wanted}")


def _copy(source: LakePlace, target: LakePlace, progress: Progress, *, prune: bool) -> Copied:
    target.clear()
    of_the_log = source.files(_OF_THE_LOG)
    # Files of the log that are replaced as it grows, the checkpoint last: the others never cover more than it does.
    wanted = sorted(
        (name for name in of_the_log if name.count("/") == 1),
        key=lambda name: (name == f"{_OF_THE_LOG}/{_CHECKPOINT}", name),
    )
    heads = {name: data for name in wanted if (data := source.read(name)) is not None}
    _demand_lake(source)
    names = [name for name in source.folders() if is_delta_table(f"{source.address}/{name}")]
    seen = [_look_at(source, name) for name in sorted(names, key=lambda name: (name != _CHAIN, name))]
    existing = target.files()
    _demand_same_lake(seen, source, target, existing)
    if heads:  # tiles are listed once more: those under the checkpoint exist now
        of_the_log |= source.files(f"{_OF_THE_LOG}/tile")
    # The other files of the log never change: tiles, bundles, stamps and rotations.
    lasting = {name: size for name, size in of_the_log.items() if name.count("/") > 1} | source.files(_VERIFY_RUNS)
    of = len(lasting) + sum(len(table.files) + len(table.log) for table in seen)
    copying = _Copying(source, target, existing, lambda done: progress(done, of))
    for table in sorted(seen, key=lambda table: table.name == _CHAIN):
        copying.table(table)
    copying.files(lasting)
    for name, data in heads.items():
        target.put(name, data)
    if prune:
        copying.prune(seen)
    done = copying.done
    done.tables = {table.name: table.version for table in seen}
    done.has_log = bool(heads)
    return done


def _demand_lake(source: LakePlace) -> None:
    if not is_delta_table(f"{source.address}/{_CHAIN}"):
        raise NoLake(f"there is no lake at {source.address}: it has no table {_CHAIN}")


def _look_at(source: LakePlace, name: str) -> _LookedAt:
    path, log = f"{source.address}/{name}", f"{name}/{LOG_FOLDER}/"
    hint = source.read(f"{name}/{HINT_NAME}")  # before the version, which is as new at least
    table, actions = table_and_files(path)
    version, files = int(table.version()), source.files(name)
    return _LookedAt(
        name,
        version,
        {file: size for file, size in files.items() if file.startswith(log) and _reaches(file, log) <= version},
        {file: size for file, size in files.items() if not file.startswith(log)},
        frozenset(f"{name}/{unquote(file)}" for file in actions["path"].to_pylist()),
        hint,
    )


def _reaches(file: str, log: str) -> float:
    """Return the newest version that a file of a Delta log belongs to; infinite for other files."""
    name = file.removeprefix(log)
    if name.startswith("_sidecars/"):
        return 0
    words = name.split(".")
    versions = [int(word) for word in words[:2] if len(word) == _VERSION_DIGITS and word.isdigit()]
    return max(versions) if versions and words[0].isdigit() else float("inf")


def _commits(table: str, files: Iterable[str]) -> dict[int, str]:
    """Return version -> name of the commits among files, in the order of versions."""
    names = (re.fullmatch(rf"{re.escape(table)}/{LOG_FOLDER}/(\d{{{_VERSION_DIGITS}}})\.json", file) for file in files)
    return dict(sorted((int(name[1]), name[0]) for name in names if name))


def _demand_same_lake(seen: Iterable[_LookedAt], source: LakePlace, target: LakePlace, existing: Iterable[str]) -> None:
    """Raise BadInput if a lake that was restored or made again has equal versions with other content."""
    for table in seen:
        of_log = [name for name in existing if name.startswith(f"{table.name}/{LOG_FOLDER}/")]
        version, name = max(_commits(table.name, of_log).items(), default=(-1, ""))
        newest_commit = source.read(name) if name else None
        if (newest_commit is None and version > table.version) or (
            newest_commit is not None and newest_commit != target.read(name)
        ):
            raise BadInput(
                f"{target.address} is a backup of another past of {table.name}: the lake {source.address} was restored "
                "or made again since. Name a new place for its backups; the old one stays as it is"
            )


class _Copying:
    """Copier of missing files, several at a time, with counts."""

    def __init__(
        self, source: LakePlace, target: LakePlace, existing: Mapping[str, int], tell: Callable[[int], None]
    ) -> None:
        self._source, self._target, self._there, self._tell = source, target, existing, tell
        self.done = Copied()

    def table(self, table: _LookedAt) -> None:
        """Copy a table: its data files, then its log in the order of versions, then the hint to its checkpoint."""
        missing = self.files(table.files)
        if lost := sorted(table.active & {*missing}) or sorted(table.active - table.files.keys()):
            raise LakeError(
                f"{self._source.address}/{lost[0]} is named by version {table.version} of its table and is not there: "
                "the lake itself has lost it. `evenkeel verify` says which cycles it held; restore it from an earlier "
                "backup. This backup keeps what it had"
            )
        commits = dict.fromkeys(_commits(table.name, table.log).values())
        self.files({name: size for name, size in table.log.items() if name not in commits})
        known = [name for name in commits if name in self._there]
        self.files({name: table.log[name] for name in (known or commits)})
        for name in commits if known else ():  # one by one: readers of the copy find no commit without the previous one
            if name not in self._there:
                self.files({name: table.log[name]})
        if table.hint is not None:
            self._target.put(f"{table.name}/{HINT_NAME}", table.hint)

    def files(self, wanted: Mapping[str, int]) -> list[str]:
        """Copy files that are missing or have other sizes in the target; return those that were gone meanwhile."""
        missing = [name for name, size in wanted.items() if self._there.get(name) != size]
        self.done.kept += len(wanted) - len(missing)
        gone_meanwhile = []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for name, size in zip(missing, pool.map(self._take, missing), strict=True):
                if size is None:
                    gone_meanwhile.append(name)
                else:
                    self.done.files += 1
                    self.done.size += size
                self._tell(self.done.files + self.done.kept)
        return gone_meanwhile

    def _take(self, name: str) -> int | None:
        return self._target.take(self._source, name)

    def prune(self, seen: Sequence[_LookedAt]) -> None:
        """Remove from the copied tables what the lake no longer has: first of their logs, then of their data."""
        has = {name for table in seen for name in (*table.log, *table.files)}
        folders = {table.name for table in seen}
        for of_log in (True, False):
            for name in sorted(self._there):
                folder, _, below = name.partition("/")
                is_log = below.startswith(f"{LOG_FOLDER}/")
                if folder in folders and name not in has and is_log == of_log and below != HINT_NAME:
                    self._target.remove(name)
                    self.done.removed += 1


def _as_json(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, indent=1, sort_keys=True).encode()
