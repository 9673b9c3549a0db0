"""Rows of several tables packed in one frame, for the transfer to a worker and back.

A grouped map takes one frame and returns one. A row of any table has a `kind`, which names its table. It has one array
for all its texts, one for all its whole numbers and one for all its doubles, each in the order of the table's columns.
Timestamps in microseconds, dates in days and booleans are whole numbers. Nested columns have columns of their own,
which tables share. So few columns travel, however many tables and columns there are, and a worker converts each to
Python values at once. A column for each of the tables' columns cost several times as much for some hundred rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from evenkeel.spark.column_types import NESTED, Columns, ColumnType, type_of
from evenkeel.spark.row_order import content_order
from evenkeel.spark.rows import (
    Row,
    Values,
    arrow_column,
    arrow_type,
    cells,
    day_of,
    day_text,
    each_once,
    misfit,
    moment_text,
    plain_column,
    read_column,
    refuse_unknown,
    rows_from,
    tick_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


KIND = "kind"
TEXTS, INTEGERS, DOUBLES = "texts", "integers", "doubles"
FAMILIES = {TEXTS: type_of("array<string>"), INTEGERS: type_of("array<bigint>"), DOUBLES: type_of("array<double>")}
_OTHER_FAMILIES = {"string": TEXTS, "double": DOUBLES}
_Makers = Mapping[str, Callable[[Any], Any]]
_FROM_INTEGERS: _Makers = {"timestamp": moment_text, "date": day_text, "boolean": bool}
_TO_INTEGERS: _Makers = {"timestamp": tick_of, "date": day_of, "boolean": int}


class Packing:
    """The place of the rows of some tables in one frame."""

    def __init__(self, tables: Mapping[str, Columns]) -> None:
        self.tables = tables
        self._nested: list[tuple[ColumnType, int]] = []
        self._places = {name: self._places_of(columns) for name, columns in tables.items()}
        # For each table: its columns in each packed column that has any.
        self._members: dict[str, dict[str, list[str]]] = {name: {} for name in tables}
        for table, places in self._places.items():
            for name, (packed, _) in places.items():
                self._members[table].setdefault(packed, []).append(name)

    def _places_of(self, columns: Columns) -> dict[str, tuple[str, int]]:
        """Return for each column the packed column that holds it, and its place in the array."""
        places: dict[str, tuple[str, int]] = {}
        counts: dict[object, int] = {}
        for name, kind in columns.items():
            family: object = kind if kind.name in NESTED else _OTHER_FAMILIES.get(kind.name, INTEGERS)
            place = counts.get(family, 0)
            counts[family] = place + 1
            places[name] = (str(family), place) if isinstance(family, str) else (self._nested_column(kind, place), 0)
        return places

    def _nested_column(self, kind: ColumnType, number: int) -> str:
        if (kind, number) not in self._nested:
            self._nested.append((kind, number))
        return f"nested_{self._nested.index((kind, number))}"

    @cached_property
    def columns(self) -> dict[str, ColumnType]:
        """The packed columns after `kind`."""
        return FAMILIES | {f"nested_{n}": kind for n, (kind, _) in enumerate(self._nested)}

    @cached_property
    def ddl(self) -> str:
        """The columns with their SQL types, `kind` first."""
        return ", ".join((f"{KIND} string", *(f"{name} {kind.sql}" for name, kind in self.columns.items())))

    def packed(self, table: str, rows: DataFrame, *more: Column) -> DataFrame:
        """Return the rows of one table as a frame with the columns `more` and those of the packing."""
        from pyspark.sql import functions as F

        columns = [*more, F.lit(table).alias(KIND)]
        for name, kind in self.columns.items():
            members = self._members[table].get(name, [])
            if not members:
                column = F.lit(None)
            elif name in FAMILIES:
                column = F.array(*(_stored(member, self.tables[table][member]) for member in members))
            else:
                column = F.col(members[0])
            columns.append(column.cast(kind.sql).alias(name))
        return rows.select(*columns)

    def unpacked(self, table: str, frame: DataFrame) -> DataFrame:
        """Return the rows of one table from a frame with the columns of the packing."""
        from pyspark.sql import functions as F

        columns = []
        for name, kind in self.tables[table].items():
            packed, place = self._places[table][name]
            value = F.col(packed)[place] if packed in FAMILIES else F.col(packed)
            columns.append(_restored(value, kind).alias(name))
        return frame.where(F.col(KIND) == F.lit(table)).select(*columns)

    def rows(self, packed: pa.Table) -> dict[str, list[Row]]:
        """Return the rows of a packed table by their table, each list in the order of its rows' content."""
        parts: dict[str, list[pa.RecordBatch]] = {}
        for batch in packed.to_batches():
            for table, part in _by_kind(batch):
                parts.setdefault(table, []).append(part.select(list(self._members[table])))
        return {table: self._rows_of(table, parts.get(table, ())) for table in self.tables}

    def _rows_of(self, table: str, parts: Iterable[pa.RecordBatch]) -> list[Row]:
        gathered: dict[str, Values] = {name: [] for name in self._members[table]}
        for part in parts:
            for name, values in gathered.items():
                column, kind = part.column(name), self.columns[name]
                values += (
                    read_column(column.flatten(), kind.parts[0][1]) if name in FAMILIES else read_column(column, kind)
                )
        values = []
        for name, kind in self.tables[table].items():
            packed, place = self._places[table][name]
            column = gathered[packed]
            if packed in FAMILIES:
                column = column[place :: len(self._members[table][packed])]
            values.append(_made(column, kind, _FROM_INTEGERS))
        rows = rows_from(tuple(self.tables[table]), values)
        return [rows[place] for place in content_order(self.tables[table], values)]

    def table(self, rows_by_table: Mapping[str, Iterable[Mapping[str, Any]]], given: Mapping[str, Any]) -> pa.Table:
        """Return the rows of rules, by table, as a packed table; raises EngineError for a value that does not fit.

        `given` holds the values of columns that a row leaves out.
        """
        import pyarrow as pa

        kinds: list[str] = []
        flat: dict[str, list[Iterable[Any]]] = {family: [] for family in FAMILIES}
        lengths: dict[str, list[int]] = {family: [] for family in FAMILIES}
        nested: dict[str, list[pa.Array]] = {name: [] for name in self.columns if name not in FAMILIES}
        for table in self.tables:
            rows = list(rows_by_table.get(table, ()))
            if not rows:
                continue
            columns = plain_columns(table, self.tables[table], rows, given)
            kinds += [table] * len(rows)
            for name, kind in self.columns.items():
                members = self._members[table].get(name, [])
                if name in FAMILIES:
                    values = [_made(columns[member], self.tables[table][member], _TO_INTEGERS) for member in members]
                    flat[name].append(chain.from_iterable(zip(*values, strict=True)))
                    lengths[name] += [len(members)] * len(rows)
                else:
                    array = (
                        arrow_column(columns[members[0]], kind) if members else pa.nulls(len(rows), arrow_type(kind))
                    )
                    nested[name].append(array)
        arrays = {KIND: pa.array(kinds, pa.string())}
        for name, kind in self.columns.items():
            if name in FAMILIES:
                ends = pa.array(accumulate(lengths[name], initial=0), pa.int32())
                inside = arrow_column(list(chain.from_iterable(flat[name])), kind.parts[0][1])
                arrays[name] = pa.ListArray.from_arrays(ends, inside, type=arrow_type(kind))
            else:
                arrays[name] = pa.concat_arrays(nested[name]) if kinds else pa.array([], arrow_type(kind))
        return pa.table(arrays)


def _stored(name: str, kind: ColumnType) -> Column:
    from pyspark.sql import functions as F

    value = F.col(name)
    match kind.name:
        case "timestamp":
            value = F.unix_micros(value)
        case "date":
            value = F.unix_date(value)
        case "boolean":
            value = value.cast("bigint")
    return value


def _restored(value: Column, kind: ColumnType) -> Column:
    from pyspark.sql import functions as F

    match kind.name:
        case "timestamp":
            return F.timestamp_micros(value)
        case "date":
            return F.date_from_unix_date(value.cast("int"))
        case "tinyint" | "smallint" | "int" | "boolean":
            return value.cast(kind.name)
    return value


def _by_kind(batch: pa.RecordBatch) -> Iterable[tuple[str, pa.RecordBatch]]:
    """Return the rows of each table."""
    import numpy as np

    coded = batch.column(KIND).dictionary_encode()
    codes = coded.indices.to_numpy()
    if (np.diff(codes) < 0).any():
        order = np.argsort(codes, kind="stable")
        batch, codes = batch.take(order), codes[order]
    begins = [*np.searchsorted(codes, range(len(coded.dictionary))).tolist(), len(codes)]
    for n, table in enumerate(coded.dictionary.to_pylist()):
        yield table, batch.slice(begins[n], begins[n + 1] - begins[n])


def _made(values: Values, kind: ColumnType, makers: _Makers) -> Values:
    """Return a column with its values made by the maker for its type; unchanged if `makers` has none."""
    make = makers.get(kind.name)
    return values if make is None else each_once(values, make)


def plain_columns(
    table: str, columns: Columns, rows: Sequence[Mapping[str, Any]], given: Mapping[str, Any]
) -> dict[str, Values]:
    """Return the rows of rules column by column in plain form; raises EngineError for a value that does not fit its
    column.

    `given` holds the values of columns that a row leaves out.
    """
    for row in rows:
        if not isinstance(row, Mapping):
            raise misfit(row, "a mapping", table)
        refuse_unknown(row, columns, table)
    values = cells(rows, tuple(columns), given)
    return {
        name: plain_column(cell_values, kind, f"{table}.{name}")
        for (name, kind), cell_values in zip(columns.items(), values, strict=True)
    }
