"""Proof of writes by their files: the files are, byte for byte, those that the manifest lists, and no row was added.

Upkeep merges files. It compares the rows of the new files with those of the old ones and records both lists
(`proofs`); such a record proves the rows. If a file was changed, `contents` compares rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

from evenkeel.errors import LakeError
from evenkeel.handover import DataFile, Write
from evenkeel.lake.delta_log import hashed, rows_by_write
from evenkeel.lake.record import Attempt, read_table_if_any
from evenkeel.lake.record.tables import open_table
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of, load_libraries

Place = tuple[str, str]
"""A table's folder of one cluster and date (2026-11-21)."""
WriteKey = tuple[str, str, str]
"""Cluster, table, write id."""
Proven = dict[WriteKey, tuple[str, ...]]
"""Unchanged writes -> their own files (paths to open), none if these are gone."""
Same = dict[tuple[str, DataFile], bool]
"""Folder of a table and a file as it was listed -> True if the file is unchanged."""
_READERS_SINCE_DELETION_VECTORS = 3
_AT_ONCE = 4


def key_of(write: Write) -> WriteKey:
    """Return the key of a cluster's share of a write."""
    return write.cluster, write.table, write.write_id


class Files:
    """The files of a lake by its logs, its manifests and upkeep; each file is read once.

    `listed`: all attempts on record; their manifests say to which write a file belongs.
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
        """Return the writes whose files are unchanged.

        A write without rows has no files. It is proven if no other file holds a row of it.
        """
        by_table: dict[str, list[tuple[Write, Place]]] = {}
        for write in writes:
            listed, place = self._listed.get(key_of(write), (None, ("", "")))
            if listed is not None and listed == write:
                by_table.setdefault(write.table, []).append((listed, place))
        self._open(by_table)
        proven: Proven = {}
        tables = {name: table for name in by_table if (table := self._tables[name]) is not None}
        files = {
            (table.folder, file): self._known[name][file.path]
            for name, table in tables.items()
            for write, _ in by_table[name]
            for file in write.files
        }
        same = _same(file for file in files if file not in self._seen) | self._seen
        # Each cycle of a window lists the file of the window; it is read once.
        self._seen |= {file: same[file] for file, listing in files.items() if listing > 1}
        for name, table in tables.items():
            proven |= table.proven(by_table[name], same)
        return proven

    def recorded(self, write: Write) -> Write:
        """Return the write with the files that its manifest lists."""
        return self._listed[key_of(write)][0]

    def not_as_written(self, write: Write) -> list[str]:
        """Return the files of a write that are not as its manifest lists them, in words: changed or gone."""
        folder = self._lake.path(write.table)
        files = files_of(folder)
        return [
            f"{file.path} {'was changed' if files.exists(file.path) else 'is gone'}"
            for file in self.recorded(write).files
            if not _is_same(folder, file)
        ]

    def _open(self, names: Iterable[str]) -> None:
        closed = [name for name in names if name not in self._tables]
        load_libraries(self._lake.root)
        with ThreadPoolExecutor(_AT_ONCE, "logs") as threads:
            self._tables.update(zip(closed, threads.map(self._opened, closed), strict=True))

    def _opened(self, name: str) -> _Table | None:
        """Return the table, None if its files prove nothing: its log cannot be read, or it has deletion vectors."""
        try:
            table = open_table(self._lake.root, name)
        except LakeError:  # reported where its rows are read
            return None
        if table.protocol().min_reader_version >= _READERS_SINCE_DELETION_VECTORS:
            return None
        folder = files_of(self._lake.path(name)).full("").rstrip("/")
        return _Table(folder, _active(table), self._known[name].keys(), self._proofs.get(name, {}))


def _proofs(lake: Lake) -> dict[str, dict[str, DataFile]]:
    """Return table -> path -> the file as upkeep wrote it."""
    proofs: dict[str, dict[str, DataFile]] = {}
    for row in read_table_if_any(lake.root, "proofs"):
        files = (DataFile(file["path"], int(file["size"]), file["digest"]) for file in row["files_after"])
        proofs.setdefault(row["table_name"], {}).update((file.path, file) for file in files)
    return proofs


def _active(table: Any) -> dict[str, Place]:
    """Return path -> place of each file of the newest version of a table."""
    actions = table.get_add_actions(flatten=True)
    names = ("path", "partition.cluster", "partition.cycle_date")
    columns = (actions.column(name).to_pylist() for name in names)
    return {unquote(path): (cluster, str(day)) for path, cluster, day in zip(*columns, strict=True)}


class _Table:
    """A table.

    `active`: path -> place. `listed`: paths that manifests list. `proofs`: path -> file as upkeep recorded it.
    """

    def __init__(
        self,
        folder: str,
        active: Mapping[str, Place],
        listed: Collection[str],
        proofs: Mapping[str, DataFile],
    ) -> None:
        self.folder = folder
        self.active = active
        self.merged: dict[Place, list[DataFile]] = {}
        # Files that neither a manifest nor upkeep lists: of killed attempts, or added by another writer.
        self.unknown: dict[Place, list[str]] = {}
        self._others: dict[Place, tuple[Counter[str], Counter[str]] | None] = {}
        for path, place in active.items():
            if path in proofs:
                self.merged.setdefault(place, []).append(proofs[path])
            elif path not in listed:
                self.unknown.setdefault(place, []).append(path)

    def proven(self, writes: Sequence[tuple[Write, Place]], known: Same) -> Proven:
        """Return the proven ones of these writes, each with the place of its rows; `known`: files -> is unchanged."""
        same = {file.path: known[self.folder, file] for write, _ in writes for file in write.files}
        changed = self._writes_in(path for path, is_same in same.items() if not is_same and path in self.active)
        if changed is None:
            return {}
        proven: Proven = {}
        for write, place in writes:
            others = self._in_others(place)
            if others is None or write.write_id in others[1] or write.write_id in changed:
                continue
            if self._is_whole(write, place, same, others[0][write.write_id]):
                are_there = all(same[file.path] for file in write.files)  # also if the newest version lacks them
                paths = (f"{self.folder}/{file.path}" for file in write.files)
                proven[key_of(write)] = tuple(paths) if are_there else ()
        return proven

    def _in_others(self, place: Place) -> tuple[Counter[str], Counter[str]] | None:
        """Return numbers of rows by write id in files of a place that no manifest lists: in unchanged files that upkeep
        recorded, and in others. Return None if one of these cannot be read."""
        if place not in self._others:
            files = self.merged.get(place, [])
            same = _same((self.folder, file) for file in files)
            merged = self._writes_in(file.path for file in files if same[self.folder, file])
            changed = (file.path for file in files if not same[self.folder, file])
            unknown = self._writes_in([*changed, *self.unknown.get(place, ())])
            self._others[place] = None if merged is None or unknown is None else (merged, unknown)
        return self._others[place]

    def _is_whole(self, write: Write, place: Place, same: Mapping[str, bool], merged: int) -> bool:
        """Return True if all rows of a write are in its own files, or all (`merged`) in those that upkeep merged."""
        places = [self.active[file.path] for file in write.files if file.path in self.active]
        if merged or (write.rows and not places):
            return merged == write.rows and not places
        # By the log, all rows of a file have its cluster and date.
        return places == [place] * len(write.files) and all(same[file.path] for file in write.files)

    def _writes_in(self, paths: Iterable[str]) -> Counter[str] | None:
        """Return write id -> number of its rows in these files; None if one of them cannot be read."""
        counts: Counter[str] = Counter()
        for path in paths:
            try:
                counts += rows_by_write(f"{self.folder}/{path}", by_statistics=False)
            except Exception:  # Arrow's own, for any fault of a file
                return None
        return counts


def _same(files: Iterable[tuple[str, DataFile]]) -> Same:
    """Return file -> True if it is as it was listed."""
    unique = [*dict.fromkeys(files)]
    with ThreadPoolExecutor(_AT_ONCE, "files") as threads:
        parts = threads.map(_all_same, (unique[first::_AT_ONCE] for first in range(_AT_ONCE)))
        return {file: is_same for part in parts for file, is_same in part.items()}


def _all_same(files: Iterable[tuple[str, DataFile]]) -> Same:
    return {(folder, file): _is_same(folder, file) for folder, file in files}


def _is_same(folder: str, file: DataFile) -> bool:
    try:
        return hashed(folder, file.path) == file
    except LakeError:  # the file is gone
        return False
