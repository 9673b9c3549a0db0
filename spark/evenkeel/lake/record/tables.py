"""Delta tables as Arrow datasets, without a JVM: rows by a condition, and the fault of a table that cannot be read.

Opening a table reads its log since the last checkpoint: some forty requests in an object store, and a page reads a
dozen tables. So a process that reads tables again and again opens each once, and updates it once a look (`OpenTables`).
Commands read a table once, and do not need this.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime, timedelta
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from evenkeel.errors import LakeError, NoLake, without_right
from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.table_files import arrow_place, delta_table, files_of, is_delta_table
from evenkeel.lake.table_log import commit_damage, first_line, log_state
from evenkeel.object_store import canonical, explained, is_object_store

_MOST_OPEN = 24
_MANIFESTS = "/cycles"


def mark_of(path: str) -> object:
    """Return the identity of a table, to detect a replaced one: the inode of its log's folder; None in a store."""
    try:
        status = os.stat(f"{path.removeprefix('file://')}/_delta_log")
    except OSError:
        return None
    return status.st_dev, status.st_ino


def brought_up_to_date(opened: Any, path: str, mark: object) -> bool | None:
    """Take up new commits of an open table; return True if there were any.

    Returns None if the open table is useless: it was replaced, is gone, or cannot be read further.
    """
    newest = newest_version(path, since=opened.version())
    if newest < opened.version() or mark != mark_of(path):
        return None
    if newest == opened.version():
        return False
    try:
        opened.update_incremental()
    except Exception:  # whatever the error, opening the table again reports it
        return None
    return True


class OpenTables:
    """The tables of one process, most recently used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Any, object]] = OrderedDict()

    @contextmanager
    def look(self) -> Iterator[None]:
        """Hold one look: in the block each table stays as first opened; other threads do not take part.

        No table is older than the manifests.
        """
        seen: dict[str, Any] = {}

        def table(path: str) -> Any:
            if path not in seen:
                if path.endswith(_MANIFESTS):  # rows that manifests list were written before them
                    seen.clear()
                seen[path] = self.current(path)
            return seen[path]

        token = _LOOK.set(table)
        try:
            yield
        finally:
            _LOOK.reset(token)

    def current(self, path: str) -> Any:
        """Return the table as it is now."""
        opened, mark = self._kept.pop(path, (None, None))
        if opened is None or brought_up_to_date(opened, path, mark) is None:
            mark = mark_of(path)
            opened = delta_table(path)
        self._kept[path] = opened, mark
        while len(self._kept) > _MOST_OPEN:
            self._kept.popitem(last=False)
        return opened


_LOOK: ContextVar[Callable[[str], Any] | None] = ContextVar("evenkeel_look", default=None)


Row = dict[str, Any]
_TOLD = 200
# Logs keep moments to the millisecond, rounded up or down; rows keep microseconds.
ROUNDING = timedelta(milliseconds=2)
FileFilter = tuple[str, str, Any]
"""A condition on files as deltalake takes it: column, operator, text or texts; by partition or the log's figures."""


def rows_where(
    lake: str | Path,
    table: str,
    condition: Any = None,
    columns: Sequence[str] | None = None,
) -> list[Row]:
    """Return the rows that meet a condition, all of them without one."""
    try:
        return as_rows(dataset(lake, table).to_table(columns=columns, filter=condition))
    except (OSError, ValueError, KeyError) as error:
        raise damaged(lake, table, error) from error


def read_table(lake: str | Path, table: str, where: Mapping[str, Sequence[object]] | None = None) -> list[Row]:
    """Return the rows of a table that no manifest lists: all, or those whose columns have one of the values given."""
    conditions = [is_in(column, values) for column, values in (where or {}).items()]
    return rows_where(lake, table, all_of(*conditions) if conditions else None)


def read_table_if_any(lake: str | Path, table: str) -> list[Row]:
    """Return the rows of `read_table` for a table that a lake may lack; then there are no rows."""
    return read_table(lake, table) if is_table(lake, table) else []


def as_rows(table: Any) -> list[Row]:
    """Return Arrow's rows as dicts; a map column comes as a dict."""
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*map(_values, table.columns), strict=True)]


def _values(column: Any) -> list[Any]:
    """Return a column's values. Manifests list some fifty structs a row: by field they take half the time."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _values(chunk)]
    kind, values = column.type, list[Any]()
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        inside, lengths = _values(column.flatten()), column.value_lengths().to_pylist()
        places = pairwise(accumulate((length or 0 for length in lengths), initial=0))
        values = [
            None if length is None else inside[begin:end] for length, (begin, end) in zip(lengths, places, strict=True)
        ]
    elif pa.types.is_struct(kind) and not column.null_count:
        names = [field.name for field in kind]
        values = [dict(zip(names, row, strict=True)) for row in zip(*map(_values, column.flatten()), strict=True)]
    else:
        values = column.to_pylist(maps_as_pydicts="lossy")
    return values


def dataset(lake: str | Path, table: str, files: Sequence[FileFilter] | None = None) -> Any:
    """Return the files of a table as one dataset."""
    return dataset_of(open_table(lake, table), lake, table, files)


def open_table(lake: str | Path, table: str, *, is_own: bool = False) -> Any:
    """Return the table as its log describes it, without reading a file; raises LakeError if it is missing or damaged.

    `is_own`: a private one that no other reader updates.
    """
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        look, path = None if is_own else _LOOK.get(), _path(lake, table)
        opened = delta_table(path) if look is None else look(path)
    except TableNotFoundError as error:
        is_table(lake, table)  # raises LakeError without the right to look
        if table == "cycles" or not is_table(lake, "cycles"):
            raise NoLake(
                f"there is no lake at {lake}: its `cycles` table is missing. Name the folder that cycles were "
                "written to (--lake, or EVENKEEL_LAKE), or run a first cycle with it."
            ) from error
        raise LakeError(
            f"table {table} of the lake {lake} is missing, although a manifest lists rows of it. Restore the folder."
        ) from error
    except (DeltaError, OSError, ValueError) as error:
        raise damaged(lake, table, error) from error
    # deltalake takes an empty commit for one without rows; a store has no such commit, as it writes a file whole.
    if not is_object_store(path) and (words := commit_damage(files_of(path), opened.version())):
        raise LakeError(f"table {table} of the lake {lake} cannot be read: {words}")
    return opened


def is_table(lake: str | Path, table: str) -> bool:
    """Return True if the lake has the table; raises LakeError for an object store that cannot be asked."""
    try:
        return is_delta_table(_path(lake, table))
    except OSError as error:
        raise damaged(lake, table, error) from error


def dataset_of(opened: Any, lake: str | Path, table: str, files: Sequence[FileFilter] | None = None) -> Any:
    """Return the files of an open table, only those that may meet the conditions: others are not even looked up."""
    from deltalake.exceptions import DeltaError
    from pyarrow.fs import SubTreeFileSystem

    try:
        # deltalake's file system is written in Python, and Arrow's reading threads call it even while the process ends:
        # every other process that had read a lake was aborted then.
        own_files = SubTreeFileSystem(*arrow_place(_path(lake, table)))
        pruning = list(files) if files else None
        dataset = opened.to_pyarrow_dataset(file_pruning_predicate=pruning, filesystem=own_files)
        return _with_sizes(dataset, opened) if is_object_store(str(lake)) else dataset
    except (DeltaError, OSError, ValueError) as error:
        raise damaged(lake, table, error) from error


def _with_sizes(dataset: Any, opened: Any) -> Any:
    """Return the dataset with the log's file sizes, so that a store need not be asked for each of them."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.dataset import FileSystemDataset

    if dataset.filesystem is None or not dataset.files:
        return dataset
    # A year's log knows a hundred thousand files, of which a question concerns a few.
    last = pa.array([file.rpartition("/")[2] for file in dataset.files])
    every = pa.table(opened.get_add_actions()).select(["path", "size_bytes"])
    actions = every.filter(pc.is_in(pc.replace_substring_regex(every["path"].cast(pa.string()), ".*/", ""), last))
    names = (unquote(path) for path in actions.column("path").to_pylist())
    sizes = dict(zip(names, actions.column("size_bytes").to_pylist(), strict=True))
    fragments = [
        dataset.format.make_fragment(
            fragment.path, dataset.filesystem, fragment.partition_expression, file_size=sizes.get(fragment.path)
        )
        for fragment in dataset.get_fragments()
    ]
    return FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)


def files_between(
    clusters: Sequence[str], first: datetime, last: datetime, dates: Iterable[date] = ()
) -> list[FileFilter]:
    """Return the files that may hold rows of these clusters' cycles between two moments, of these dates if any."""
    chosen: list[FileFilter] = [
        ("cluster", "in", [*clusters]),
        ("cycle_at", ">=", _moved(first, -ROUNDING).isoformat()),
        ("cycle_at", "<=", _moved(last, ROUNDING).isoformat()),
    ]
    dates_as_text = [day.isoformat() for day in dates]
    return [*chosen, ("cycle_date", "in", dates_as_text)] if dates_as_text else chosen


def _moved(at: datetime, way: timedelta) -> datetime:
    """Return the moment so much later, or itself at either end of time."""
    try:
        return at + way
    except OverflowError:
        return at


def _path(lake: str | Path, table: str) -> str:
    return f"{canonical(str(lake)).rstrip('/')}/{table}"


def damaged(lake: str | Path, table: str, error: Exception) -> LakeError:
    """Return the error for an existing table that cannot be read."""
    store_error = explained(error, lake)
    if store_error is not None:  # its files are unknown
        return store_error
    if isinstance(error, PermissionError) or "Permission denied" in str(error):
        return LakeError(f"table {table} of the lake {lake} cannot be read: {without_right(error, _path(lake, table))}")
    known = log_state(_path(lake, table)) or (
        "Its files are damaged or incomplete; restore them from a copy, or decide the cycle again."
    )
    return LakeError(f"table {table} of the lake {lake} cannot be read: {first_line(error)[:_TOLD]}. {known}")


def is_in(column: str, values: Sequence[object]) -> Any:
    """Return a condition for rows with one of these values; without values it matches no row of a column of texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if all(isinstance(value, str) for value in values):
        return text(column).isin(pa.array(list(values), pa.string()))
    return pc.field(column).isin(list(values))


def text(column: str) -> Any:
    """Return a column of texts, to be compared with texts.

    Files that deltalake rewrote hold another kind of text, which Arrow does not compare with its own; a cast fixes
    that. No file holds `cluster`: it is a partition, and is compared before a file is opened.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.field(column) if column == "cluster" else pc.field(column).cast(pa.string())


def between(column: str, first: object, last: object) -> Any:
    """Return a condition for rows from one value to another, both included."""
    import pyarrow.compute as pc

    return (pc.field(column) >= first) & (pc.field(column) <= last)


def all_of(*conditions: Any) -> Any:
    """Return a condition for rows that meet every condition."""
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole
