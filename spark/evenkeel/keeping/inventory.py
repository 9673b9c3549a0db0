"""What lies in a table, from its log alone: files by partition, with size, age, rows and, where one write made it,
whose it is. No data file is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from evenkeel.errors import LakeError
from evenkeel.lake.commits import local_log
from evenkeel.lake.log_state import log_state
from evenkeel.lake.schema import Table

Place = tuple[str | None, date | None]
"""A partition: cluster and date, None where the table is not parted by it."""


@dataclass(frozen=True, slots=True)
class File:
    """A data file; `write_id` is None where it holds rows of several writes, or of who knows which. `path` is below the
    table's folder."""

    cluster: str | None
    date: date | None
    size: int
    rows: int
    written_at: datetime
    write_id: str | None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """A table's files, and the version that it was looked at in."""

    table: Table
    version: int
    files: tuple[File, ...]
    properties: Mapping[str, str]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    def oldest(self) -> date | None:
        """The oldest date of a file; None where no file has one."""
        return min((file.date for file in self.files if file.date is not None), default=None)

    def places(self) -> dict[Place, list[File]]:
        """Files by partition, in the order of date and cluster."""
        found: dict[Place, list[File]] = {}
        for file in sorted(self.files, key=lambda file: (file.date or date.min, file.cluster or "")):
            found.setdefault((file.cluster, file.date), []).append(file)
        return found


def take_inventory(table: Table, path: str) -> Inventory:
    """Reads the table's log. Raises LakeError where there is no such table or its log is damaged."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        delta = DeltaTable(path)
        actions = delta.get_add_actions(flatten=True)
        files = tuple(_file(row) for row in _rows(actions))
        return Inventory(table, int(delta.version()), files, dict(delta.metadata().configuration))
    except (DeltaError, OSError, ValueError) as error:
        known = log_state(path) or "Restore it from a copy."
        raise LakeError(f"the log of {path} cannot be read: {error}. {known}") from error


def bytes_on_disk(path: str) -> int | None:
    """All that lies in the table's folder, versions and log included; None for an object store."""
    log = local_log(path)
    return None if log is None else sum(size for _, size in _sizes(log.parent))


def log_on_disk(path: str) -> tuple[int, int] | None:
    """Number and bytes of the files of the table's log; None for an object store."""
    log = local_log(path)
    sizes = None if log is None else [size for _, size in _sizes(log)]
    return None if sizes is None else (len(sizes), sum(sizes))


def _sizes(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                yield path, path.stat().st_size
        except FileNotFoundError:  # a writer's temporary file
            continue


def _rows(actions: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    found = pa.table(actions)
    wanted = [name for name in found.column_names if name in _WANTED]
    rows: list[dict[str, Any]] = found.select(wanted).to_pylist()
    return rows


_WANTED = frozenset(
    {
        *("path", "size_bytes", "modification_time", "num_records", "partition.cluster", "partition.cycle_date"),
        *("min.write_id", "max.write_id"),
    }
)
# Longer values are cut in statistics, and two that are cut alike are not therefore the same.
_CUT = 32


def _file(row: Mapping[str, Any]) -> File:
    first, last = row.get("min.write_id"), row.get("max.write_id")
    return File(
        row.get("partition.cluster"),
        row.get("partition.cycle_date"),
        int(row["size_bytes"]),
        int(row["num_records"] or 0),
        datetime.fromtimestamp(row["modification_time"] / 1000, UTC),
        first if first is not None and first == last and len(first) <= _CUT else None,
        unquote(row["path"]),
    )
