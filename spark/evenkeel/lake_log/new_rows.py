"""Which rows outside manifests have no leaf yet.

Nearly always those in the files that a few commits added since the last time. Where a commit rewrote rows, as upkeep's
do, or the commits are gone, all rows of the table are held against all its leaves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from evenkeel.errors import LakeError
from evenkeel.lake.arrow_files import read_file
from evenkeel.lake.delta_log import add_actions, commit_text, newest_version
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import files_of
from evenkeel.lake_log.row_leaves import LOGGED_TABLES, LoggedTable, Unit, parse_rows_leaf, units_of
from evenkeel.transparency.tiles import Tree

_File = tuple[str, Mapping[str, str | None]]
"""The path of a data file, and its partition's values."""


class NewRows:
    """Finds the rows without a leaf.

    `versions`: table -> the version up to which its rows had leaves when the tree had `size` leaves. `reached`: the
    same once those that are found now have them.
    """

    def __init__(self, lake: Lake, tree: Tree, versions: Mapping[str, int], size: int) -> None:
        self._lake, self._tree, self._versions, self._size = lake, tree, versions, size
        self._since: Counter[tuple[str, str]] | None = None
        self.reached: dict[str, int] = {}

    def units(self) -> Iterator[Unit]:
        """Rows without a leaf, table by table. Raises LakeError where a table or a file cannot be read."""
        for table in LOGGED_TABLES.values():
            newest = _newest(self._lake.path(table.name))
            if newest is None:
                continue
            self.reached[table.name] = newest
            known = self._versions.get(table.name)
            if newest == known:
                continue
            added = None if known is None else _added(self._lake.path(table.name), known + 1, newest)
            if added is None:
                yield from _without(units_in(self._lake, table), self._logged(table.name))
            else:
                yield from _without(_units(table, added), self._logged_since())

    def _logged_since(self) -> Counter[tuple[str, str]]:
        """Table and digest of leaves that joined since the versions were put down: whoever logged them was killed."""
        if self._since is None:
            self._since = Counter(_digests(self._tree.entries(self._size, self._tree.size)))
        return self._since

    def _logged(self, table: str) -> Counter[tuple[str, str]]:
        part = f'"table":"{table}"'.encode()
        return Counter(_digests(entry for entry in self._tree.entries(0, self._tree.size) if part in entry))


def units_in(lake: Lake, table: LoggedTable) -> list[Unit]:
    """All rows of a table as it is now. Raises LakeError where it cannot be read; nothing where there is no such
    table."""
    path = lake.path(table.name)
    actions, place = add_actions(path), files_of(path)
    if actions is None or place is None:
        return []
    files = actions.column("path").to_pylist()
    names = {*actions.schema.names}
    nothing: list[dict[str, str | None]] = [{}] * len(files)
    values = actions.column("partition").to_pylist() if "partition" in names else nothing
    return _units(table, [(place.full(unquote(file)), own or {}) for file, own in zip(files, values, strict=True)])


def _units(table: LoggedTable, files: Iterable[_File]) -> list[Unit]:
    columns = [name for name in TABLES[table.name].column_names() if name != "cycle_date"]
    rows: list[dict[str, Any]] = []
    for file, values in files:
        try:
            read = read_file(file, table.name, columns).to_pylist()
        except (OSError, ValueError, KeyError) as error:
            raise LakeError(f"{file} cannot be read: {str(error)[:200]}; restore it") from error
        own = {"cluster": values["cluster"]} if values.get("cluster") is not None else {}
        rows += [{**row, **own} for row in read]
    return units_of(table, rows)


def _without(units: Iterable[Unit], logged: Counter[tuple[str, str]]) -> Iterator[Unit]:
    left = Counter(logged)
    for unit in units:
        key = (unit.table, unit.digest)
        if left[key]:
            left[key] -= 1
        else:
            yield unit


def _digests(entries: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        leaf = parse_rows_leaf(entry)
        if leaf is not None:
            yield from ((leaf.table, digest) for digest in leaf.digests)


def _newest(path: str) -> int | None:
    """The newest version of a table; None where there is none."""
    version = newest_version(path)
    return version if version is not None and version >= 0 else None


def _added(path: str, first: int, last: int) -> list[_File] | None:
    """The files that these commits added; None where one of them is gone, or took files away."""
    files = files_of(path)
    assert files is not None
    found: list[_File] = []
    for version in range(first, last + 1):
        try:
            actions = [json.loads(line) for line in commit_text(files, version).splitlines()]
        except (OSError, ValueError):
            return None
        if any("remove" in action for action in actions):
            return None
        for added in (action["add"] for action in actions if "add" in action):
            found.append((files.full(unquote(added["path"])), added.get("partitionValues") or {}))
    return found
