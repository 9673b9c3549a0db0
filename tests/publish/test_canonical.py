"""Texts of many rows at once are those of each row alone, to the byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.publish.commands import canonical, canonical_rows

TEXTS = st.text(max_size=4) | st.sampled_from(("a\nb", "}\n{", "}\r{", '"},{"', "\\", "%s", "ü", "\u2028"))
FLAT = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
MAPS = st.dictionaries(TEXTS, FLAT, max_size=3)
COLUMNS = st.sampled_from((FLAT, MAPS, st.lists(FLAT, max_size=2), st.lists(MAPS, max_size=2), FLAT | MAPS))


@st.composite
def rows_of_a_table(draw: st.DrawFn) -> list[dict[str, Any]]:
    columns = draw(st.dictionaries(TEXTS, COLUMNS, max_size=4))
    return draw(st.lists(st.fixed_dictionaries(columns), max_size=5))


def one_by_one(rows: list[dict[str, Any]], leaving_out: set[str]) -> list[str]:
    decided = [{name: value for name, value in row.items() if name not in leaving_out} for row in rows]
    return [json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":")) for row in decided]


@given(rows_of_a_table() | st.lists(MAPS, max_size=3), st.sets(TEXTS, max_size=2), st.data())
def test_rows_at_once_are_rows_one_by_one(rows: list[dict[str, Any]], other: set[str], data: st.DataObject) -> None:
    names = sorted({name for row in rows for name in row})
    leaving_out = other | (data.draw(st.sets(st.sampled_from(names))) if names else set())
    assert canonical_rows(rows, leaving_out) == one_by_one(rows, leaving_out)


@pytest.mark.parametrize("value", [{"b": 1, "a": [None, True, -0.0]}, "ü\n", float("nan")])
def test_a_value_is_written_with_sorted_names_and_without_blanks(value: Any) -> None:
    assert canonical(value) == json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
