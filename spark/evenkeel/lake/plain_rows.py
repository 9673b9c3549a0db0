"""A row of a table as a read will return it, without writing it: every column, in plain form (see `spark.rows`).

A cycle decided wholly in memory gives each round the rows that it would have read, so that digests over rows are equal.
A value that does not fit its column is refused as if it were written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.spark.column_types import ColumnType, type_of
from evenkeel.spark.rows import Plain, Values, cells, plain_column, plain_of

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
