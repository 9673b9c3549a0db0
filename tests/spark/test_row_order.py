"""Rows stand in the order of their whole JSON texts, of which no more is made than is needed."""

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.lake.schemas import TABLES
from evenkeel.spark.column_types import ColumnType, has_map, type_of
from evenkeel.spark.row_order import content_order, spark_text
from tests.spark.rows import TEXTS, rows

Row = dict[str, Any]
FEW_TEXTS = st.sampled_from(("a/b", "a/b/c", "a/b c", 'a/b"', "a/b\\", "a/b\x1f", "a/b\x7f", "a/bü", "a/b𝄞", None))
STAMP = {"cluster": "lab", "cycle_at": "2026-11-21T09:15:00.000000+00:00", "cycle_date": "2026-11-21", "write_id": "w"}


def columns_of(table: str) -> dict[str, ColumnType]:
    return {column.name: type_of(column.type) for column in TABLES[table].columns}


def whole_text(columns: Mapping[str, ColumnType], row: Row) -> str:
    """The text of a whole row, by which rows were sorted while they travelled as JSON."""
    if any(map(has_map, columns.values())):
        return json.dumps(row, sort_keys=True)
    return spark_text(ColumnType("struct", tuple(columns.items())))(row)


def in_order(columns: Mapping[str, ColumnType], found: list[Row]) -> list[Row]:
    return [found[place] for place in content_order(columns, [[row[name] for row in found] for name in columns])]


@pytest.mark.parametrize("table", sorted(TABLES))
def test_the_order_is_that_of_whole_texts(table: str) -> None:
    """Rows with the stamp of one write, whose names and numbers are few, so that later columns have to decide too."""
    columns = columns_of(table)
    stamp = {name: value for name, value in STAMP.items() if name in columns}
    alike = {name: FEW_TEXTS for name, kind in columns.items() if kind.name == "string" and name not in stamp}
    pools = st.tuples(rows(columns), rows(columns))

    @given(pools, st.lists(st.fixed_dictionaries(alike), max_size=8), st.data())
    def check(pool: tuple[Row, Row], named: list[Row], data: st.DataObject) -> None:
        found = []
        for names in named:
            picked = {name: data.draw(st.sampled_from(pool))[name] for name in list(columns)[-3:]}
            found.append({**pool[0], **names, **picked, **stamp})
        made = in_order(columns, found)
        assert repr(made) == repr(sorted(found, key=lambda row: whole_text(columns, row)))

    check()


@given(st.lists(st.lists(st.none() | TEXTS, min_size=2, max_size=2), max_size=12), st.booleans())
def test_hostile_names_are_ordered_as_their_texts(cells: list[list[str | None]], with_map: bool) -> None:
    columns = {"b": type_of("string"), "a": type_of("string")} | ({"c": type_of("map<string,int>")} if with_map else {})
    found = [dict(zip(columns, [*row, None][: len(columns)], strict=True)) for row in cells]
    assert in_order(columns, found) == sorted(found, key=lambda row: whole_text(columns, row))


@given(st.lists(rows({"n": type_of("bigint"), "x": type_of("double"), "m": type_of("int")}), max_size=9))
def test_numbers_are_ordered_as_their_texts(found: list[Row]) -> None:
    columns = {"n": type_of("bigint"), "x": type_of("double"), "m": type_of("int")}
    assert repr(in_order(columns, found)) == repr(sorted(found, key=lambda row: whole_text(columns, row)))


def test_the_last_column_ends_with_a_brace() -> None:
    """`10}` stands before `1}`, as a digit stands before a brace, but `1,` before `10,`."""
    found = [{"n": 1, "m": 1}, {"n": 1, "m": 10}, {"n": 10, "m": 1}]
    columns = {"n": type_of("int"), "m": type_of("int")}
    assert in_order(columns, found) == [found[1], found[0], found[2]]


def test_rows_that_are_the_same_stay_and_none_are_none() -> None:
    columns = {"a": type_of("string"), "x": type_of("double")}
    assert in_order(columns, [{"a": "b", "x": 1.0}, {"a": "a", "x": 1.0}, {"a": "b", "x": 1.0}])[0]["a"] == "a"
    assert content_order(columns, [[], []]) == []
    assert content_order({}, []) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"), (-0.0, "-0.0"), (1e7, "1.0E7"), (9999999.0, "9999999.0"), (0.001, "0.001"), (0.00099, "9.9E-4"),
        (123456789.125, "1.23456789125E8"), (-1e22, "-1.0E22"), (5e-324, "4.9E-324"), (1e16, "1.0E16"),
        (math.nan, '"NaN"'), (math.inf, '"Infinity"'), (-math.inf, '"-Infinity"'), (None, "null"),
    ],
)  # fmt: skip
def test_doubles_are_written_as_java_writes_them(value: float | None, text: str) -> None:
    assert spark_text(type_of("double"))(value) == text


@pytest.mark.parametrize("table", ["bundle_load", "broker_load", "broker_reports", "strategy_state", "topic_stats"])
def test_no_double_stands_before_the_end_of_a_key(table: str) -> None:
    """What doubles look like in a text depends on the version of Java; it may count for equal keys only."""
    names = list(columns_of(table))
    up_to_key = names[: 1 + max(names.index(name) for name in TABLES[table].key)]
    assert "double" not in {columns_of(table)[name].name for name in up_to_key}
