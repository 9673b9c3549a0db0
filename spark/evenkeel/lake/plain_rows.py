"""A row of a table as it will be read back, without writing it: columns in the table's order, values in their types.

A round gives rows that hold whole numbers in double columns, tuples, datetimes, and no column that is NULL; what went
through a table has doubles, lists, ISO-8601 text (UTC, microseconds) and every column. Whoever decides a whole cycle in
memory lets each round see what it would have seen, so that digests over rows are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime
from functools import cache, lru_cache
from typing import Any

from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.times import utc_text

Plain = Callable[[Any], Any]


def as_read(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without the stamp of a write."""
    return {name: None if (found := row.get(name)) is None else plain(found) for name, plain in _columns(table)}


def columns_as_read(table: str, names: Sequence[str], rows: Collection[Mapping[str, Any]]) -> list[list[Any]]:
    """Many rows as they will be read back, column by column; what is in that form already costs next to nothing."""
    plain = dict(_columns(table))
    return [_column(plain[name], column_of(rows, name)) for name in names]


def column_of(rows: Collection[Mapping[str, Any]], name: str) -> list[Any]:
    """What rows hold in a column, which most often all of them have."""
    try:
        return [row[name] for row in rows]
    except KeyError:
        return [row.get(name) for row in rows]


def _column(plain: Plain, cells: list[Any]) -> list[Any]:
    return cells if plain is _same else [None if cell is None else plain(cell) for cell in cells]


@cache
def _columns(table: str) -> tuple[tuple[str, Plain], ...]:
    return tuple((c.name, plain_of(c.type)) for c in TABLES[table].columns if c.name not in STAMP_NAMES)


def plain_of(kind: str) -> Plain:
    """Brings a value that is there to the form in which a column of this SQL type is read."""
    inside = kind.partition("<")[2].removesuffix(">")
    if kind.startswith("array<"):
        element = _nullable(plain_of(inside))
        return lambda found: [element(each) for each in found]
    if kind.startswith("map<string,"):
        value = _nullable(plain_of(inside.partition(",")[2]))
        return lambda found: {key: value(found[key]) for key in sorted(found)}
    if kind.startswith("struct<"):
        fields = [(name, _nullable(plain_of(type_))) for name, _, type_ in (f.partition(":") for f in _split(inside))]
        return lambda found: {name: field(found.get(name)) for name, field in fields}
    return _PLAIN.get(kind, _same)


def _split(fields: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    parts, depth = [""], 0
    for sign in fields:
        depth += (sign == "<") - (sign == ">")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _nullable(plain: Plain) -> Plain:
    return plain if plain is _same else lambda found: None if found is None else plain(found)


def _same(found: Any) -> Any:
    return found


def _moment(found: datetime | str) -> str:
    return _moment_in(found) if isinstance(found, str) else utc_text(found)


# The rows of a cycle all bear its moment. Only texts are kept: equal datetimes may be different moments (see `fold`).
@lru_cache(maxsize=64)
def _moment_in(text: str) -> str:
    return utc_text(datetime.fromisoformat(text))


def _day(found: date | str) -> str:
    return found if isinstance(found, str) else found.isoformat()


_PLAIN: dict[str, Plain] = {"double": float, "timestamp": _moment, "date": _day}
