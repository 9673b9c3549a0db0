"""The one JSON text of a value, and those of many rows at once.

Digests are taken over these texts, so their bytes never change. Rows of a table have the same columns, and most of the
time goes into naming them; so each column is put into JSON as a whole, and the rows' texts are put together from that.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

Row = Mapping[str, Any]

canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode
"""JSON with sorted names and without blanks."""

# In JSON a line feed within a text is escaped, so that between two values it cannot be mistaken for anything else.
_by_lines = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=("\n", ":")).encode
_FLAT = frozenset({str, float, int, bool, type(None)})


def canonical_rows(rows: Sequence[Row], leaving_out: Collection[str] = ()) -> list[str]:
    """`canonical` of each row, without some of its columns."""
    if not rows:
        return []
    columns = _columns(rows)
    if columns is None:
        return [canonical({name: value for name, value in row.items() if name not in leaving_out}) for row in rows]
    names = sorted(name for name in columns if name not in leaving_out)
    if not names:
        return ["{}"] * len(rows)
    form = ",".join(f"{canonical(name).replace('%', '%%')}:%s" for name in names)
    texts = [_texts(columns[name]) for name in names]
    return [f"{{{form}}}" % row for row in zip(*texts, strict=True)]


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]] | None:
    """The rows' values by column; None where not all rows have the same columns."""
    try:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
    except KeyError:
        return None
    return columns if all(len(row) == len(columns) for row in rows) else None


def _texts(values: list[Any]) -> list[str]:
    """`canonical` of each value of a column."""
    if _are_flat(values):
        return _by_lines(values)[1:-1].split("\n")
    if all(type(value) is dict for value in values) and _are_flat(chain.from_iterable(map(dict.values, values))):
        return _texts_of_maps(values)
    return ["[]" if value == [] else canonical(value) for value in values]


def _texts_of_maps(maps: list[dict[str, Any]]) -> list[str]:
    """`canonical` of maps whose values are flat: braces are then those of the maps, or within a text."""
    return _by_lines(maps)[1:-1].replace("}\n{", "}\r{").replace("\n", ",").split("\r")


def _are_flat(values: Iterable[Any]) -> bool:
    """Whether no value holds others; what only behaves like one of these types may be written otherwise."""
    return _FLAT.issuperset(map(type, values))
