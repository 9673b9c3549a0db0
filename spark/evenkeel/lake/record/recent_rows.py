"""The newest rows and cycles of many clusters at once: files chosen by the log's statistics, each read once.

A file of a table never changes, so its rows are kept, and a later look reads only new files. A `Recent` may live as
long as its process: `refresh` takes up new commits, and begins again if the lake was replaced.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

from evenkeel.lake.record.attempts import Attempt, are_told_apart_by_commands, attempts_of, trusted
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT, KnownFile, KnownFiles
from evenkeel.lake.record.ranges import Record, clusters_of
from evenkeel.lake.record.tables import Row, as_rows, brought_up_to_date, damaged, is_table, mark_of, open_table
from evenkeel.lake.table_files import arrow_place, load_libraries
from evenkeel.object_store import canonical, is_object_store

_THREADS_HERE, _THREADS_IN_STORE = 2, 8
"""Threads that read files: opening files of a folder is faster than switching threads; a store is waited for."""
_KEPT_BYTES = 192 << 20
"""Most bytes of read rows that stay in memory."""
_SMALL_BYTES = 8 << 20
"""Size in bytes above which only the needed row groups of a file are read."""
_NUMBER = "file number"
MANY_ROWS = 1_000
"""Number of rows above which not all rows of a file should be requested."""


class Recent:
    """A lake whose newest rows are read again and again. Threads may share it, one `refresh` at a time."""

    def __init__(self, lake: str | Path) -> None:
        self.lake = str(lake)
        self._opened: dict[str, tuple[Any, Any]] = {}
        self._files: dict[tuple[str, str], KnownFiles] = {}
        self._kept: OrderedDict[tuple[str, str, tuple[str, ...], str], _Kept] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()
        self.memo: dict[tuple[str, str], tuple[object, Any]] = {}
        """Results that a reader computed from files: name and cluster -> the files, and the result."""

    def refresh(self) -> None:
        """Take up new commits; forget everything of a table that was replaced or removed."""
        for table, (opened, mark) in [*self._opened.items()]:
            is_newer = brought_up_to_date(opened, self._path(table), mark)
            if is_newer is None:
                self._opened.clear()
                self._files.clear()
                self._kept.clear()
                self.memo.clear()
                self._held = 0
                return
            if is_newer:
                self._files = {key: files for key, files in self._files.items() if key[0] != table}

    def clusters(self) -> list[str]:
        """Return the clusters with a cycle on record, by name; raises NoLake or LakeError."""
        return self.files("cycles").clusters()

    def files(self, table: str, kinds_from: str = "") -> KnownFiles:
        """Return the table's files; none if the lake lacks it (`cycles` it must have).

        `kinds_from`: only those that may hold a row whose `kind` is that word or a later one.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        known = self._files.get((table, kinds_from))
        if known is None:
            if table not in self._opened:
                if table != "cycles" and not is_table(self.lake, table):
                    return KnownFiles(pa.table({}))
                self._opened[table] = open_table(self.lake, table, is_own=True), mark_of(self._path(table))
            actions = pa.table(self._opened[table][0].get_add_actions(flatten=True))
            if kinds_from and "max.kind" in actions.column_names:
                highest = actions.column("max.kind")
                actions = actions.filter(pc.fill_null(pc.greater_equal(highest, kinds_from), True))
            known = self._files[table, kinds_from] = KnownFiles(actions)
        return known

    def is_kept(self, table: str, file: KnownFile, columns: Sequence[str]) -> bool:
        """Return True if the rows of the file are in memory."""
        return (table, file.path, tuple(columns), "") in self._kept

    def rows(
        self,
        table: str,
        files: Iterable[KnownFile],
        columns: Sequence[str],
        where: Any = None,
        name: str = "",
        shown: Sequence[str] = (),
    ) -> list[Row]:
        """Return these columns of all rows of the files that meet `where`: a condition on these columns, with its
        `name`.

        Each row has `cluster`. `shown`: the columns that the rows are to have, of the columns kept for later. Raises
        LakeError for a file that cannot be read, FileNotFoundError for one that is gone.
        """
        chosen, key = [*files], (tuple(columns), name)
        with self._lock:
            held_by_file = {file: self._kept.get((table, file.path, *key)) for file in chosen}
        missing = [file for file, held in held_by_file.items() if held is None]
        if missing:
            held_by_file |= zip(missing, self._read(table, missing, key, where), strict=True)
        view = tuple(shown) or key[0]
        kept = [(file.cluster, held) for file, held in held_by_file.items() if held is not None]
        _make_views(kept, view)
        of_file = {file: held.views[view] for file, held in held_by_file.items() if held is not None}
        return [row for file in chosen for row in of_file[file]]

    def _read(
        self, table: str, files: Sequence[KnownFile], key: tuple[tuple[str, ...], str], where: Any
    ) -> list[_Kept]:
        load_libraries(self.lake)
        root, system = arrow_place(self._path(table))
        threads = min(_THREADS_IN_STORE if is_object_store(self.lake) else _THREADS_HERE, len(files))
        slices = [files[number::threads] for number in range(threads)]

        def read(chosen: Sequence[KnownFile]) -> list[_Kept]:
            try:
                return [*map(_Kept, _read_files(root, system, chosen, key[0], where))]
            except FileNotFoundError:
                raise
            except (OSError, ValueError, KeyError) as error:
                raise damaged(self.lake, table, error) from error

        read_kept: list[_Kept] = [*files]  # type: ignore[list-item]
        with ThreadPoolExecutor(threads, thread_name_prefix="recent") as pool:
            for number, tables in enumerate(pool.map(read, slices)):
                read_kept[number::threads] = tables
        with self._lock:
            for file, kept in zip(files, read_kept, strict=True):
                self._kept[table, file.path, *key] = kept
                self._held += kept.size
            while self._held > _KEPT_BYTES and len(self._kept) > len(files):
                self._held -= self._kept.popitem(last=False)[1].size
        return read_kept

    def newest_moment(self, table: str, file: KnownFile, number: int) -> datetime | None:
        """Return the cycle from which on the file holds so many rows; None if it holds fewer."""
        moments = sorted((row["cycle_at"] for row in self.rows(table, [file], ("cycle_at",))), reverse=True)
        newest: datetime | None = moments[number - 1] if len(moments) >= number else None
        return newest

    def _path(self, table: str) -> str:
        return f"{canonical(self.lake).rstrip('/')}/{table}"


class _Kept:
    """Columns of one file, and the rows made of them, by their shown columns: not to be changed."""

    def __init__(self, table: Any) -> None:
        self.table, self.views = table, dict[tuple[str, ...], list[Row]]()
        self.size = 4 * table.nbytes + 1_000


def _make_views(kept: Sequence[tuple[str, _Kept]], columns: tuple[str, ...]) -> None:
    """Make rows with `cluster` and these columns, of all files that have none yet: at once, as each file has few.

    Columns that a file lacks are None.
    """
    import pyarrow as pa

    groups: dict[tuple[str, ...], list[tuple[str, _Kept]]] = {}
    for cluster, columns_of_file in kept:
        if columns not in columns_of_file.views:
            groups.setdefault(tuple(columns_of_file.table.column_names), []).append((cluster, columns_of_file))
    for names, group in groups.items():
        present = [name for name in names if name in columns]
        lacking = dict.fromkeys(name for name in columns if name not in names)
        whole = pa.concat_tables(
            [columns_of_file.table.select(present) for _, columns_of_file in group], promote_options="permissive"
        )
        rows = iter(as_rows(whole.combine_chunks()) if whole.num_rows else [])
        for cluster, columns_of_file in group:
            columns_of_file.views[columns] = [
                {"cluster": cluster, **lacking, **next(rows)} for _ in range(columns_of_file.table.num_rows)
            ]


def _read_files(root: str, system: Any, files: Sequence[KnownFile], columns: Sequence[str], where: Any) -> list[Any]:
    """Return a table per file, of the columns that it has; its rows lack columns added later."""
    reader = _SmallFiles(system, columns)
    fragments = [
        reader.read(f"{root}/{file.path}")
        if file.size <= _SMALL_BYTES
        else _read_large(f"{root}/{file.path}", system, columns, where)
        for file in files
    ]
    return fragments if where is None else _filtered(fragments, where)


class _SmallFiles:
    """Reader of whole files of one table, one after the other. A schema is analysed once: most files share it."""

    def __init__(self, system: Any, columns: Sequence[str]) -> None:
        self._system, self._columns = system, columns
        self._schema: Any = None
        self._leaves: list[int] = []
        self._in_utc: Any = None

    def read(self, path: str) -> Any:
        """Return the columns that the file has, moments in UTC."""
        with _parquet_file()(self._system.open_input_file(path)) as file:
            schema = file.metadata.schema
            if self._schema is None or not self._schema.equals(schema):
                tops = [schema.column(leaf).path.partition(".")[0] for leaf in range(len(schema))]
                self._schema, self._leaves = schema, [leaf for leaf, top in enumerate(tops) if top in self._columns]
            table = file.reader.read_all(column_indices=self._leaves, use_threads=False)
        if self._in_utc is None or not self._in_utc.equals(table.schema):
            as_read, table = table.schema, _in_utc(table)
            self._in_utc = table.schema if table.schema.equals(as_read) else None
        return table


@cache
def _parquet_file() -> Any:
    """Open a file.

    Arrow's own class lists the paths of all nested columns, and reads ahead in further threads: both take half of the
    time of a small file.
    """
    import pyarrow.parquet as pq

    class PlainFile(pq.ParquetFile):
        def _build_nested_paths(self) -> dict[str, list[int]]:
            return {}

    return partial(PlainFile, coerce_int96_timestamp_unit="us", pre_buffer=False)


def _read_large(path: str, system: Any, columns: Sequence[str], where: Any) -> Any:
    import pyarrow as pa
    import pyarrow.dataset as ds

    form = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
    # Spark's files hold moments without a zone, a table's log declares them with one.
    utc, schema = pa.timestamp("us", tz="UTC"), ds.dataset(path, filesystem=system, format=form).schema
    inside = pa.schema([field.with_type(utc) if pa.types.is_timestamp(field.type) else field for field in schema])
    dataset, present = ds.dataset(path, filesystem=system, format=form, schema=inside), set(inside.names)
    return dataset.to_table(columns=[name for name in columns if name in present], filter=where, use_threads=False)


def _filtered(tables: Sequence[Any], where: Any) -> list[Any]:
    """Return the rows of each table that meet the condition: tables of one schema are filtered at once."""
    import numpy as np
    import pyarrow as pa

    groups: list[tuple[Any, list[int]]] = []
    for place, table in enumerate(tables):
        if not groups or not groups[-1][0].equals(table.schema):
            groups.append((table.schema, []))
        groups[-1][1].append(place)
    filtered = [*tables]
    for schema, places in groups:
        whole = pa.concat_tables([tables[place] for place in places])
        numbers = np.repeat(np.arange(len(places)), [tables[place].num_rows for place in places])
        met = whole.append_column(_NUMBER, pa.array(numbers)).filter(where).combine_chunks()
        counts = np.bincount(met.column(_NUMBER).to_numpy(), minlength=len(places)).tolist()
        rows, begin = met.select(schema.names), 0
        for place, count in zip(places, counts, strict=True):
            filtered[place], begin = rows.slice(begin, count), begin + count
    return filtered


def _in_utc(table: Any) -> Any:
    import pyarrow as pa

    utc = pa.timestamp("us", tz="UTC")
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type != utc:
            table = table.set_column(place, field.name, table.column(place).cast(utc))
    return table


_TICK = timedelta(microseconds=1)
_ROWS_OF_A_CYCLE = 2
"""The rows of a cycle: the manifest and its end."""
_MORE = 4
"""Factor for the next number of rows, if those read hold too few cycles."""


@dataclass(frozen=True, slots=True)
class Newest:
    """Cycles of all clusters, by cluster and time, and whether older ones exist."""

    cycles: list[Attempt]
    has_older: bool


def newest_cycles(
    lake: str | Path | Recent,
    most: int,
    *,
    columns: Sequence[str],
    before: datetime | None = None,
    cluster: str | None = None,
) -> Newest:
    """Return the newest cycles, or the newest before a moment: about `most` of them, but all clusters' of each moment.

    `columns`: columns of their manifests to read beside `cluster`. `cluster`: only this one. An existing `Recent` is
    refreshed, and reads only new files. Raises NoSuchCycle if nothing at all is on record, or nothing of that cluster.
    """
    recent = lake if isinstance(lake, Recent) else Recent(lake)
    recent.refresh()
    clusters = clusters_of(recent, cluster)
    until = LAST_MOMENT if before is None else before - _TICK
    rows = _ROWS_OF_A_CYCLE * most
    while True:
        since = recent.files("cycles").since(clusters, until, rows)
        span = (FIRST_MOMENT if since is None else since), until
        rows_of = _rows(recent, clusters, span, columns)
        attempts = [attempt for name in clusters for attempt in _counting(recent, name, rows_of[name], span, columns)]
        if since is None or len(attempts) >= most:
            break
        rows *= _MORE
    moments = sorted((attempt.cycle_at for attempt in attempts), reverse=True)
    kept = (
        [attempt for attempt in attempts if attempt.cycle_at >= moments[most - 1]] if len(attempts) > most else attempts
    )
    return Newest(kept, since is not None or len(kept) < len(attempts))


def _rows(
    recent: Recent, clusters: Sequence[str], span: tuple[datetime, datetime], columns: Sequence[str]
) -> dict[str, list[Row]]:
    """Return for each cluster the rows of `cycles` from one moment to another."""
    import pyarrow.compute as pc

    first, last = span
    files = [file for name in clusters for file in recent.files("cycles").between(name, first, last)]
    small, large = ([file for file in files if (file.rows > MANY_ROWS) is many] for many in (False, True))
    rows: dict[str, list[Row]] = {name: [] for name in clusters}
    where = pc.field("cycle_at") >= first, f"since {first.isoformat()}"
    for row in (*recent.rows("cycles", small, columns), *recent.rows("cycles", large, columns, *where)):
        if first <= row["cycle_at"] <= last:
            rows[row["cluster"]].append(row)
    return rows


def _counting(
    recent: Recent, cluster: str, rows: Sequence[Row], span: tuple[datetime, datetime], columns: Sequence[str]
) -> list[Attempt]:
    """Return the attempts that count for a cluster's cycles, oldest first."""
    attempts = attempts_of(rows)
    if not are_told_apart_by_commands(attempts):
        return trusted(attempts)
    return Record(recent.lake).cycles(cluster, *span, ["cluster", *columns])
