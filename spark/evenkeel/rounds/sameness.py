"""Whether rows decided now are those that were recorded, to the bit, in whatever order."""

from __future__ import annotations

import marshal
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from evenkeel.lake.plain import as_read, column_of, columns_as_read
from evenkeel.lake.tables import TABLES

Row = Mapping[str, Any]

# The last version of the format in which a value's bytes do not depend on which other values are the same object.
_BY_VALUE = 2


def same(table: str, columns: Sequence[str], recorded: Collection[Row], made: Collection[Row]) -> bool:
    """Compares these columns of a table: `recorded` as they were read, `made` as a round gave them."""
    return len(recorded) == len(made) and (
        _same_by_key(table, columns, recorded, made) or _same_row_by_row(table, columns, recorded, made)
    )


def _same_by_key(table: str, columns: Sequence[str], recorded: Collection[Row], made: Collection[Row]) -> bool:
    """Whether the rows are pairwise the same once both are in the order of their keys.

    If so, they are the same in any order. If not, keys may have been given twice, or not at all, and nothing is said.
    """
    key = itemgetter(*_sure_keys(table))
    try:
        found, now = sorted(recorded, key=key), sorted(made, key=key)
    except (KeyError, TypeError):
        return False
    texts = _texts(table)
    plain = [name for name in columns if name in texts]
    others = [name for name in columns if name not in texts]
    return all([row[name] for row in found] == column_of(now, name) for name in plain) and marshal.dumps(
        [[row[name] for row in found] for name in others], _BY_VALUE
    ) == marshal.dumps(columns_as_read(table, others, now), _BY_VALUE)


@cache
def _texts(table: str) -> frozenset[str]:
    """The columns of text: what is read of them is text or nothing, and nothing else is equal to either."""
    return frozenset(column.name for column in TABLES[table].columns if column.type == "string")


def _sure_keys(table: str) -> list[str]:
    """The columns of the table's key that no row goes without."""
    declared = TABLES[table]
    return [column.name for column in declared.columns if column.name in declared.key and not column.nullable]


def _same_row_by_row(table: str, columns: Sequence[str], recorded: Iterable[Row], made: Iterable[Row]) -> bool:
    return _contents(columns, recorded) == _contents(columns, (as_read(table, row) for row in made))


def _contents(columns: Sequence[str], rows: Iterable[Row]) -> list[bytes]:
    """Bytes that are equal for equal rows only: -0.0 is not 0.0, and a NaN is itself."""
    return sorted(marshal.dumps([row[name] for name in columns], _BY_VALUE) for row in rows)
