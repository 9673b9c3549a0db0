"""The order in which rows reach a rule: that of their content, whatever files and partitions they come from.

It is the order of the rows' JSON texts: as Spark writes them, or where a column holds a map, whose keys Spark leaves in
any order, as Python writes them with sorted keys. Sums of doubles depend on it, so it never changes. A text is made of
no more columns than it takes to tell two rows apart: those of the key, most often.
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
from evenkeel.spark.rows import Row, Values, cells, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

Text = Callable[[Any], str]
# In both texts a number is followed by a comma, or by the brace after the last column, which is above all digits.
_NEXT, _LAST = ",", "}"
_BY_KEY: Text = JSONEncoder(sort_keys=True).encode


def in_content_order(columns: Columns, table: pa.Table) -> list[Row]:
    """The rows of an Arrow table in the order of their content."""
    rows = rows_of(table, columns)
    return [rows[place] for place in content_order(columns, cells(rows, tuple(columns)))]


def content_order(columns: Columns, values: Sequence[Values]) -> list[int]:
    """The places of the rows in the order of their content; `values` are the columns, in plain form."""
    found = list(zip(columns, columns.values(), values, strict=True))
    as_python = any(map(has_map, columns.values()))
    if as_python:
        found.sort(key=lambda column: column[0])
    order = list(range(len(values[0]) if values else 0))
    ties = [(0, len(order))] if len(order) > 1 else []
    for n, (_, kind, column) in enumerate(found):
        if not ties:
            break
        end = _LAST if n == len(found) - 1 else _NEXT
        text = _followed(_BY_KEY if as_python else spark_text(kind), kind, end)
        ties = [tie for stretch in ties for tie in _told_apart(order, *stretch, column, kind, text)]
    return order


def _told_apart(
    order: list[int], begin: int, end: int, column: Values, kind: ColumnType, text: Text
) -> list[tuple[int, int]]:
    """Sorts a stretch of rows by this column, and gives the stretches in which it stands the same."""
    places = order[begin:end]
    own = [column[place] for place in places]
    if own.count(own[0] if kind.name == "string" else None) == len(own):
        return [(begin, end)]
    texts = list(map(text, own))
    sorted_ = sorted(range(len(own)), key=texts.__getitem__)
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
    """Only numbers go on where a shorter one has ended; all other texts show their own end."""
    if kind.name == "double" or kind.name in INTEGER_BITS:
        return lambda value: text(value) + end
    return text


def spark_text(kind: ColumnType) -> Text:
    """What writes a value as Spark's `to_json` does, nulls too."""
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
    """As Java writes it: with an exponent below a thousandth and from ten million on."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    exact = Decimal(repr(value))
    if len(exact.as_tuple().digits) == 1:  # of the smallest doubles Java shows a second digit: 4.9E-324
        exact = Decimal(f"{value:.1e}")
    first, *others = map(str, exact.as_tuple().digits)
    return f"{'-' if value < 0 else ''}{first}.{''.join(others).rstrip('0') or '0'}E{exact.adjusted()}"
