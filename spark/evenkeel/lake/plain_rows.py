"""Rows of tables in plain form (see `spark.rows`), with no question to Spark: as a read returns them, or from files.

A cycle decided wholly in memory gives each round the rows that it would have read, so that digests over rows are equal.
A value that does not fit its column is refused as if it were written. Where few rows are asked for, they are read from
the data files of the lake in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from evenkeel.handover import Write
from evenkeel.lake.delta_log import written_files
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.table_files import arrow_source
from evenkeel.spark.column_types import ColumnType, type_of
from evenkeel.spark.row_order import in_content_order
from evenkeel.spark.rows import Plain, Row, Values, cells, plain_column, plain_of

if TYPE_CHECKING:
    import pyarrow as pa

    from evenkeel.lake.store import Lake


_ONE_FORM = frozenset({"string", "boolean", "int", "bigint"})
"""Types whose values from rounds are in plain form already; the table refuses anything else."""


@cache
def types_of(table: str) -> dict[str, ColumnType]:
    """Return the columns of a table, in order, with the stamp of a write."""
    return {column.name: type_of(column.type) for column in TABLES[table].columns}


def as_read(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row without the stamp of a write."""
    return {
        name: value if plain is None or value is None else plain(value)
        for name, plain in _columns(table)
        for value in (row.get(name),)
    }


def columns_as_read(table: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[Values]:
    """Return many rows as a read will return them, column by column; values in that form already cost next to
    nothing."""
    kinds = types_of(table)
    return [
        plain_column(column_values, kinds[name]) for name, column_values in zip(names, cells(rows, names), strict=True)
    ]


@cache
def _columns(table: str) -> tuple[tuple[str, Plain | None], ...]:
    kinds = {name: kind for name, kind in types_of(table).items() if name not in STAMP_NAMES}
    return tuple((name, None if k.name in _ONE_FORM else plain_of(k, f"{table}.{name}")) for name, k in kinds.items())


def read_file(file: str, table: str, columns: Sequence[str]) -> pa.Table:
    """Return the rows of a data file, with those of the columns that it has; texts are dictionary codes.

    Moments have one type, in UTC: Spark's files give them without a zone, other writers' files with one.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile, read_metadata

    source = arrow_source(file)
    about = read_metadata(source)
    present = {about.schema.column(number).path.partition(".")[0] for number in range(about.num_columns)}
    # Arrow refuses a file that lacks a column for which codes are requested.
    coded = [name for name in _texts(table) if name in present]
    with ParquetFile(source, metadata=about, read_dictionary=coded, coerce_int96_timestamp_unit="us") as opened:
        rows = opened.read(columns=[name for name in columns if name in present], use_threads=False)
    moment = pa.timestamp("us", "UTC")
    return rows.cast(pa.schema([f.with_type(moment) if pa.types.is_timestamp(f.type) else f for f in rows.schema]))


@cache
def _texts(table: str) -> list[str]:
    """Return the columns to read as codes; those that name a folder are in no file."""
    return [c.name for c in TABLES[table].columns if c.type == "string" and c.name not in TABLES[table].partition]


def with_cluster(rows: pa.Table, cluster: str) -> pa.Table:
    """Return the rows with their cluster: most often it is the folder's name, and not in the file."""
    import pyarrow as pa

    other_columns = [name for name in rows.column_names if name != "cluster"]
    return rows.select(other_columns).append_column("cluster", pa.repeat(cluster, rows.num_rows))


_ID = "write_id"
RowsByWrite = Callable[[str, str, tuple[str, ...]], "Mapping[str, pa.Table]"]
"""Reads a data file (full name) of a table with some columns; returns write id -> rows."""


def rows_by_write(file: str, table: str, columns: tuple[str, ...]) -> Mapping[str, pa.Table]:
    """Return write id -> its rows in a data file, with as many of the columns as the file has."""
    import pyarrow.compute as pc

    found = read_file(file, table, (*columns, _ID)).unify_dictionaries().combine_chunks()
    ids = found.column(_ID).cast("string")
    found = found.drop_columns(_ID)
    counts = {str(one["values"]): int(one["counts"]) for one in pc.value_counts(ids).to_pylist()}
    if len(counts) < 2:
        return dict.fromkeys(counts, found)
    found = found.take(pc.sort_indices(ids)).combine_chunks()
    parts, begin = {}, 0
    for name in sorted(counts):
        parts[name] = found.slice(begin, counts[name])
        begin += counts[name]
    return parts


def rows_at_hand(
    lake: Lake, table: str, writes: Sequence[Write], columns: Sequence[str] = (), read: RowsByWrite = rows_by_write
) -> list[Row] | None:
    """Return the rows of these writes, in the order of their content, as workers get them.

    `columns`: by default all but the stamp of a write. None where a file of a write is gone, as after an upkeep, or
    does not hold what was written: then Spark finds the rows in the table.
    """
    import pyarrow as pa

    written = [write for write in writes if write.rows]
    if not written:
        return []
    types = types_of(table)
    wanted = {name: types[name] for name in columns or types if name not in STAMP_NAMES}
    parts = []
    for write in written:
        found = found_rows(lake, write, tuple(wanted), read)
        if found is None:
            return None
        parts.append(found)
    return in_content_order(wanted, pa.concat_tables(parts, promote_options="default"))


def found_rows(lake: Lake, write: Write, columns: Sequence[str], read: RowsByWrite = rows_by_write) -> pa.Table | None:
    """Return the rows of a write that has rows, with as many of the columns as its files have; None as for
    `rows_at_hand`."""
    import pyarrow as pa

    files = written_files(lake.path(write.table), [write])
    inside = tuple(name for name in columns if name not in TABLES[write.table].partition)
    parts = [read(file, write.table, inside).get(write.write_id) for file in files or ()]
    found = [part for part in parts if part is not None]
    if not found or sum(part.num_rows for part in found) != write.rows:
        return None
    return with_cluster(pa.concat_tables(found, promote_options="default"), write.cluster)
