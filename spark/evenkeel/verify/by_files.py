"""Proof of writes by their files: the files are, byte for byte, those that the manifest lists, and no row was added.

Upkeep puts files together. It compares their rows with those of the files before and records both (`proofs`), and
that stands for the rows. If a file has changed, `contents` compares rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from evenkeel.errors import LakeError
from evenkeel.handover import DataFile, Write
from evenkeel.lake.delta_log import hashed
from evenkeel.lake.record import Attempt, read_table_if_any
from evenkeel.lake.record.tables import open_table
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import arrow_source, files_of, load_libraries

Place = tuple[str, str]
"""A table's folder of one cluster and date (2026-11-21)."""
WriteKey = tuple[str, str, str]
"""Cluster, table, write id."""
Proven = dict[WriteKey, tuple[str, ...]]
"""Writes that are as they were written -> their own files (paths to open), none if these are gone."""
Same = dict[tuple[str, DataFile], bool]
"""Folder of a table and a file as it was listed -> True if it is the same now."""
_READERS_SINCE_DELETION_VECTORS = 3
_AT_ONCE = 4


def key_of(write: Write) -> WriteKey:
    """Return the key of a cluster's share of a write."""
    return write.cluster, write.table, write.write_id


class Files:
    """The files of a lake by its logs, its manifests and upkeep; each is read once.

    `listed`: all attempts on record; their manifests say which write a file belongs to.
    """

    def __init__(self, lake: Lake, listed: Iterable[Attempt]) -> None:
        self._lake = lake
        self._listed: dict[WriteKey, tuple[Write, Place]] = {}
        self._known: dict[str, Counter[str]] = {}
        self._seen: Same = {}
        for attempt in listed:
            for write, at in (
                *((write, attempt.planned["predecessor_cycle_at"]) for write in attempt.reads),
                *((write, attempt.cycle_at) for write in attempt.writes),
            ):
                self._listed[key_of(write)] = (write, (attempt.cluster, str(at.date())))
                self._known.setdefault(write.table, Counter()).update(file.path for file in write.files)
        self._tables: dict[str, _Table | None] = {}
        self._proofs = _proofs(lake) if self._listed else {}

    def proven(self, writes: Iterable[Write]) -> Proven:
        """Return the writes whose files are as they were written.

        A write without rows has no files. It is proven if no other file holds a row of it.
        """
        asked: dict[str, list[tuple[Write, Place]]] = {}
        for write in writes:
            own, place = self._listed.get(key_of(write), (None, ("", "")))
            if own is not None and own == write:
                asked.setdefault(write.table, []).append((own, place))
        self._open(asked)
        found: Proven = {}
        tables = {name: table for name in asked if (table := self._tables[name]) is not None}
        files = {
            (table.folder, file): self._known[name][file.path]
            for name, table in tables.items()
            for write, _ in asked[name]
            for file in write.files
        }
        same = _same(file for file in files if file not in self._seen) | self._seen
        # The file of a window comes up again with each of its cycles; it is read once.
        self._seen |= {file: same[file] for file, listing in files.items() if listing > 1}
        for name, table in tables.items():
            found |= table.proven(asked[name], same)
        return found

    def recorded(self, write: Write) -> Write:
        """Return the write with the files that its manifest lists."""
        return self._listed[key_of(write)][0]

    def not_as_written(self, write: Write) -> list[str]:
        """Return the files of a write that are not as its manifest lists them, each with what happened to it."""
        folder = self._lake.path(write.table)
        there = files_of(folder)
        return [
            f"{file.path} {'was changed' if there.exists(file.path) else 'is gone'}"
            for file in self.recorded(write).files
            if not _is_same(folder, file)
        ]

    def _open(self, names: Iterable[str]) -> None:
        closed = [name for name in names if name not in self._tables]
        load_libraries(self._lake.root)
        with ThreadPoolExecutor(_AT_ONCE, "logs") as threads:
            self._tables.update(zip(closed, threads.map(self._opened, closed), strict=True))

    def _opened(self, name: str) -> _Table | None:
        return _opened(self._lake, name, self._known[name].keys(), self._proofs.get(name, {}))


def _proofs(lake: Lake) -> dict[str, dict[str, DataFile]]:
    """Return table -> path -> the file as upkeep wrote it."""
    found: dict[str, dict[str, DataFile]] = {}
    for row in read_table_if_any(lake.root, "proofs"):
        files = (DataFile(file["path"], int(file["size"]), file["digest"]) for file in row["files_after"])
        found.setdefault(row["table_name"], {}).update((file.path, file) for file in files)
    return found


def _opened(lake: Lake, name: str, listed: Collection[str], proofs: Mapping[str, DataFile]) -> _Table | None:
    """Return the table; None if its files prove nothing: its log cannot be read, or has deletion vectors."""
    try:
        opened = open_table(lake.root, name)
    except LakeError:  # reported where its rows are read
        return None
    if opened.protocol().min_reader_version >= _READERS_SINCE_DELETION_VECTORS:
        return None
    return _Table(files_of(lake.path(name)).full("").rstrip("/"), _active(opened), listed, proofs)


def _active(opened: Any) -> dict[str, Place]:
    """Return path -> place of each file of the newest version of the table."""
    actions = opened.get_add_actions(flatten=True)
    names = ("path", "partition.cluster", "partition.cycle_date")
    columns = (actions.column(name).to_pylist() for name in names)
    return {unquote(path): (cluster, str(day)) for path, cluster, day in zip(*columns, strict=True)}


@dataclass(frozen=True, slots=True)
class _Others:
    """Numbers of rows by write id in files that are not a write's own: those that upkeep recorded, and others."""

    together: Counter[str]
    strange: Counter[str]


class _Table:
    """A table. `active`: path -> place; `listed`: files that manifests list; `proofs`: files that upkeep recorded."""

    def __init__(
        self,
        folder: str,
        active: Mapping[str, Place],
        listed: Collection[str],
        proofs: Mapping[str, DataFile],
    ) -> None:
        self.folder = folder
        self.active = active
        self.together: dict[Place, list[DataFile]] = {}
        # Files that neither a manifest nor upkeep lists: of tries that were killed, or added by someone else.
        self.strangers: dict[Place, list[str]] = {}
        self._others: dict[Place, _Others | None] = {}
        for path, place in active.items():
            if path in proofs:
                self.together.setdefault(place, []).append(proofs[path])
            elif path not in listed:
                self.strangers.setdefault(place, []).append(path)

    def proven(self, asked: Sequence[tuple[Write, Place]], known: Same) -> Proven:
        """Return the proven ones of writes with the places of their rows; `known`: files that are unchanged."""
        same = {file.path: known[self.folder, file] for write, _ in asked for file in write.files}
        changed = self._writes_in(path for path, is_same in same.items() if not is_same and path in self.active)
        if changed is None:
            return {}
        found: Proven = {}
        for write, place in asked:
            others = self._in_others(place)
            if others is None or write.write_id in others.strange or write.write_id in changed:
                continue
            if self._is_whole(write, place, same, others.together[write.write_id]):
                found[key_of(write)] = self._own_files(write, same)
        return found

    def _in_others(self, place: Place) -> _Others | None:
        """Return the rows in other files of a place; None if one of these cannot be read."""
        if place not in self._others:
            files = self.together.get(place, [])
            same = _same((self.folder, file) for file in files)
            right = self._writes_in(file.path for file in files if same[self.folder, file])
            wrong = (file.path for file in files if not same[self.folder, file])
            strange = self._writes_in([*wrong, *self.strangers.get(place, ())])
            self._others[place] = None if right is None or strange is None else _Others(right, strange)
        return self._others[place]

    def _is_whole(self, write: Write, place: Place, same: Mapping[str, bool], put_together: int) -> bool:
        """Return True if all rows of a write are in its own files, or all in those that upkeep put together."""
        own = [self.active[file.path] for file in write.files if file.path in self.active]
        if put_together or (write.rows and not own):
            return put_together == write.rows and not own
        # The log says of which cluster and date a file's rows are.
        return own == [place] * len(write.files) and all(same[file.path] for file in write.files)

    def _own_files(self, write: Write, same: Mapping[str, bool]) -> tuple[str, ...]:
        """Return the files of a write if all of them are as they were written, in any version of the table."""
        if not all(same[file.path] for file in write.files):
            return ()
        return tuple(f"{self.folder}/{file.path}" for file in write.files)

    def _writes_in(self, paths: Iterable[str]) -> Counter[str] | None:
        """Return write id -> number of its rows in these files; None if one of them cannot be read."""
        from pyarrow.compute import value_counts
        from pyarrow.parquet import read_table as read_file

        found: Counter[str] = Counter()
        for path in paths:
            try:
                # As codes of the few ids in it: a file of upkeep's has millions of rows.
                source = arrow_source(f"{self.folder}/{path}")
                file = read_file(source, columns=["write_id"], partitioning=None, read_dictionary=["write_id"])
            except Exception:  # Arrow's own, for whatever is wrong with a file
                return None
            for counted in value_counts(file.column(0).unify_dictionaries()).to_pylist():
                found[str(counted["values"])] += int(counted["counts"])
        return found


def _same(files: Iterable[tuple[str, DataFile]]) -> Same:
    """Return file -> True if it is as it is listed."""
    asked = [*dict.fromkeys(files)]
    with ThreadPoolExecutor(_AT_ONCE, "files") as threads:
        parts = threads.map(_all_same, (asked[first::_AT_ONCE] for first in range(_AT_ONCE)))
        return {file: is_same for part in parts for file, is_same in part.items()}


def _all_same(files: Iterable[tuple[str, DataFile]]) -> Same:
    return {(folder, file): _is_same(folder, file) for folder, file in files}


def _is_same(folder: str, file: DataFile) -> bool:
    try:
        return hashed(folder, file.path) == file
    except LakeError:  # it is not there
        return False
