"""Rows of any declared columns, for properties of rows: hostile texts, odd numbers, early and late moments."""

import math
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from hypothesis import strategies as st

from evenkeel.spark.column_types import INTEGER_BITS, ColumnType

TEXTS = st.one_of(
    st.sampled_from(
        (
            "",
            "a",
            "a/b",
            "a/b/c",
            'a"',
            "a\\",
            "a b",
            "a!",
            "a\x00",
            "a\x1f",
            "\x0b",
            "\x1b",
            "ü",
            "\u2028",
            "𝄞",
            "\uffff",
        )
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
AWKWARD_DOUBLES = (
    *(0.0, -0.0, 1.0, 10.0, 1e7, 1.5e-3, 9.99e-4, 1e22, 1e23, 5e-324, -5e-324, 2.2250738585072009e-308, 2.0**53 + 2),
    *(1.7976931348623157e308, math.inf, -math.inf, math.nan, 0.1, 1 / 3),
)
DOUBLES = st.sampled_from(AWKWARD_DOUBLES) | st.floats()


def plain(kind: ColumnType) -> st.SearchStrategy[Any]:
    """Values in plain form that are there."""
    match kind.name:
        case "string":
            return TEXTS
        case "double":
            return DOUBLES
        case "boolean":
            return st.booleans()
        case "timestamp":
            return st.datetimes(timezones=st.just(UTC)).map(lambda at: at.isoformat(timespec="microseconds"))
        case "date":
            return st.dates().map(str)
        case "array":
            return st.lists(st.none() | plain(kind.parts[0][1]), max_size=3)
        case "map":
            found = st.dictionaries(TEXTS, st.none() | plain(kind.parts[0][1]), max_size=3)
            return found.map(lambda given: {key: given[key] for key in sorted(given)})
        case "struct":
            return rows(dict(kind.parts))
    bound = 1 << INTEGER_BITS[kind.name] - 1
    return st.integers(0, 12) | st.integers(-bound, bound - 1)


def rows(columns: Mapping[str, ColumnType]) -> st.SearchStrategy[dict[str, Any]]:
    """Rows in plain form, columns in order."""
    cells = st.tuples(*(st.none() | plain(kind) for kind in columns.values()))
    return cells.map(lambda found: dict(zip(columns, found, strict=True)))
