"""The order in which rows reach a rule: the order of their content, whatever files and partitions they come from.

Rows are ordered by their JSON texts. The texts are as Spark writes them. If a column holds a map, whose keys Spark
leaves in any order, they are as Python writes them with sorted keys. Sums of doubles depend on this order, so it never
changes. A text is made of no more columns than it takes to tell two rows apart: most often those of the key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import groupby
from json import JSONEncoder
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

from evenkeel.spark.column_types import INTEGER_BITS, Columns, ColumnType, has_map
from evenkeel.spark.rows import Row, Values, rows_from, values_of

if TYPE_CHECKING:
    import pyarrow as pa

Text = Callable[[Any], str]
# In both texts a number is followed by a comma, or by the brace after the last column, which sorts above all digits.
_NEXT, _LAST = ",", "}"
_TEXTS = ("string", "timestamp", "date")
_BY_KEY: Text = JSONEncoder(sort_keys=True).encode


def in_content_order(columns: Columns, table: pa.Table) -> list[Row]:
    """Return the rows of an Arrow table in the order of their content."""
    values = values_of(table, columns, {})
    rows = rows_from(tuple(columns), values)
    return [rows[place] for place in content_order(columns, values)]


def content_order(columns: Columns, values: Sequence[Values]) -> list[int]:
    """Return the places of the rows in the order of their content; `values` are the columns, in plain form."""
    parts = list(zip(columns, columns.values(), values, strict=True))
    as_python = any(map(has_map, columns.values()))
    if as_python:
        parts.sort(key=lambda column: column[0])
    order = list(range(len(values[0]) if values else 0))
    ties = [(0, len(order))] if len(order) > 1 else []
    for n, (_, kind, column) in enumerate(parts):
        if not ties:
            break
        end = _LAST if n == len(parts) - 1 else _NEXT
        text = _followed(_BY_KEY if as_python and kind.name not in INTEGER_BITS else spark_text(kind), kind, end)
        ties = [tie for stretch in ties for tie in _told_apart(order, *stretch, column, kind, text)]
    return order


def _told_apart(
    order: list[int], begin: int, end: int, column: Values, kind: ColumnType, text: Text
) -> list[tuple[int, int]]:
    """Sort a stretch of rows by this column, and return the stretches in which its value is equal."""
    places = order[begin:end]
    cells = [column[place] for place in places]
    if cells.count(cells[0] if kind.name in _TEXTS else None) == len(cells):
        return [(begin, end)]
    texts = list(map(text, cells))
    sorted_ = sorted(range(len(cells)), key=texts.__getitem__)
    order[begin:end] = [places[n] for n in sorted_]
    if len({*texts}) == len(texts):
        return []
    ties = []
    for _, same in groupby(sorted_, key=texts.__getitem__):
        count = sum(1 for _ in same)
        if count > 1:
            ties.append((begin, begin + count))
        begin += count
    return ties


def _followed(text: Text, kind: ColumnType, end: str) -> Text:
    """Mark the end of a text: numbers alone sort on after a shorter one has ended."""
    if kind.name == "double" or kind.name in INTEGER_BITS:
        return lambda value: text(value) + end
    return text


def spark_text(kind: ColumnType) -> Text:
    """Return the function that writes a value as Spark's `to_json` does, nulls too."""
    plain = _spark_text(kind)
    return lambda value: "null" if value is None else plain(value)


def _spark_text(kind: ColumnType) -> Text:
    match kind.name:
        case "double":
            return _double_text
        case "boolean":
            return lambda value: "true" if value else "false"
        case "array":
            element = spark_text(kind.parts[0][1])
            return lambda value: f"[{','.join(map(element, value))}]"
        case "struct":
            fields = [(name, f"{encode_basestring(name)}:", spark_text(part)) for name, part in kind.parts]
            return lambda value: f"{{{','.join(label + text(value[name]) for name, label, text in fields)}}}"
    return str if kind.name in INTEGER_BITS else encode_basestring


def _double_text(value: float) -> str:
    """Return the double as Java writes it: with an exponent below a thousandth and from ten million on."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    exact = Decimal(repr(value))
    if len(exact.as_tuple().digits) == 1:  # Java shows a second digit of the smallest doubles: 4.9E-324
        exact = Decimal(f"{value:.1e}")
    first, *others = map(str, exact.as_tuple().digits)
    return f"{'-' if value < 0 else ''}{first}.{''.join(others).rstrip('0') or '0'}E{exact.adjusted()}"
