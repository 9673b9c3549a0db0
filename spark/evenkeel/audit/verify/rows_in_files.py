"""Rows of a few known files as rounds take them, without a JVM: plain values, moments and dates as text.

Column by column, since a value at a time took ten times as long as to decide with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from evenkeel.lake.plain import plain_of
from evenkeel.lake.tables import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Values = list[Any]


def rows_in(files: Sequence[str], table: str, columns: Sequence[str], cluster: str) -> list[Row]:
    """The rows of these files, all of one cluster's, in the order of the table's key.

    `columns` without the stamp of a write; one that the files lack is None in every row.
    """
    found: list[Row] = []
    for file in files:
        found += _rows(_read(file, table, columns), table, columns, cluster)
    found.sort(key=_in_order(table, tuple(columns)))
    return found


@cache
def _in_order(table: str, columns: tuple[str, ...]) -> Callable[[Row], Any]:
    names = [name for name in TABLES[table].key if name in columns]
    return lambda row: [str(row[name]) for name in names]


def _read(file: str, table: str, columns: Sequence[str]) -> pa.Table:
    from pyarrow.parquet import ParquetFile, read_metadata

    about = read_metadata(file)
    there = {about.schema.column(number).path.partition(".")[0] for number in range(about.num_columns)}
    # Asked to code a column that it lacks, Arrow refuses the file.
    coded = [name for name in _texts(table) if name in there]
    with ParquetFile(file, metadata=about, read_dictionary=coded, coerce_int96_timestamp_unit="us") as opened:
        return opened.read(columns=[name for name in columns if name in there], use_threads=False)


@cache
def _texts(table: str) -> list[str]:
    """Columns that are read as codes of the few texts in them; those that name a folder are in no file."""
    return [c.name for c in TABLES[table].columns if c.type == "string" and c.name not in TABLES[table].partition]


def _rows(found: pa.Table, table: str, columns: Sequence[str], cluster: str) -> list[Row]:
    types = {column.name: column.type for column in TABLES[table].columns}
    count = found.num_rows
    there = set(found.column_names)
    values: list[Sequence[Any]] = []
    for name in columns:
        if name == "cluster":
            values.append([cluster] * count)
        elif name in there:
            values.append(values_of(found.column(name), types[name]))
        else:
            values.append([None] * count)
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def values_of(column: pa.ChunkedArray, kind: str) -> Values:
    """A column's values, of an SQL type, in the form in which rounds read them."""
    import pyarrow as pa

    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # of no chunk at all
        return []
    if kind in ("double", "int", "bigint", "boolean"):
        return whole.to_pylist() if whole.null_count else _numbers(whole)
    if kind in ("string", "timestamp", "date"):
        return _few_values(whole, kind)
    if whole.null_count == len(whole):
        return [None] * len(whole)
    if kind.startswith("array<") and not whole.null_count and not len(whole.flatten()):
        return [[] for _ in range(len(whole))]
    if kind == "map<string,double>":
        return _maps(whole)
    if kind == "array<string>" and not whole.null_count:
        return _lists(whole)
    return _nested(whole, kind)


def _numbers(column: pa.Array) -> Values:
    values: Values = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _few_values(column: pa.Array, kind: str) -> Values:
    """Most texts and all moments of a cycle's rows are the same few: each is made once."""
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    known = _as_text(coded.dictionary, kind)
    if coded.indices.null_count:
        return [None if index is None else known[index] for index in coded.indices.to_pylist()]
    return [known[index] for index in coded.indices.to_numpy().tolist()]


def _as_text(found: pa.Array, kind: str) -> Values:
    import pyarrow as pa

    if kind == "timestamp":  # some writers leave out that it is UTC
        found = found.cast(pa.timestamp("us", tz="UTC"))
    plain = plain_of(kind)
    return [plain(value) for value in found.to_pylist()]


def _maps(column: pa.Array) -> Values:
    if column.null_count:
        return _nested(column, "map<string,double>")
    names, figures = _few_values(column.keys, "string"), column.items.to_pylist()
    ends = column.offsets.to_numpy().tolist()
    first = column.offset and ends[0]
    found = []
    in_order: Values = []  # most rows of a table name the same figures
    for begin, end in pairwise(ends):
        own = names[begin - first : end - first]
        made = dict(zip(own, figures[begin - first : end - first], strict=True))
        if own != in_order:
            in_order = sorted(own)
        found.append(made if own == in_order else {name: made[name] for name in in_order})
    return found


def _lists(column: pa.Array) -> Values:
    found, lengths = _few_values(column.flatten(), "string"), column.value_lengths().to_pylist()
    ends = [0, *accumulate(lengths)]
    return [found[begin:end] for begin, end in pairwise(ends)]


def _nested(column: pa.Array, kind: str) -> Values:
    plain = plain_of(kind)
    found = column.to_pylist(maps_as_pydicts="lossy")
    return [None if value is None else plain(value) for value in found]
