"""A row of a table as it will be read back, without writing it: every column, in plain form (see `spark.rows`).

A cycle that is decided whole in memory gives each round the rows that it would have read, so that digests over rows are
the same. A value that does not fit its column is refused as if it were written.
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
"""What rounds give of these types is in plain form; the table refuses anything else."""


@cache
def types_of(table: str) -> dict[str, ColumnType]:
    """The columns of a table, in order, with the stamp of a write."""
    return {column.name: type_of(column.type) for column in TABLES[table].columns}


def as_read(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without the stamp of a write."""
    return {
        name: found if plain is None or found is None else plain(found)
        for name, plain in _columns(table)
        for found in (row.get(name),)
    }


def columns_as_read(table: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[Values]:
    """Many rows as they will be read back, column by column; what is in that form already costs next to nothing."""
    kinds = types_of(table)
    return [plain_column(found, kinds[name]) for name, found in zip(names, cells(rows, names), strict=True)]


@cache
def _columns(table: str) -> tuple[tuple[str, Plain | None], ...]:
    own = {name: kind for name, kind in types_of(table).items() if name not in STAMP_NAMES}
    return tuple((name, None if k.name in _ONE_FORM else plain_of(k, f"{table}.{name}")) for name, k in own.items())
