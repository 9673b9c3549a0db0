"""Rows of several tables come out of one packed table as they went in, whatever batches it is cut into."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import EngineError
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.schemas import TABLES
from evenkeel.spark.column_types import type_of
from evenkeel.spark.packing import Packing
from evenkeel.spark.row_order import content_order
from evenkeel.spark.rows import cells
from tests.spark.rows import rows

OBSERVED = ("bundle_load", "broker_load", "broker_reports", "namespace_bundles", "cluster_policies")
EVERYTHING = {
    "all": {"t": "timestamp", "d": "date", "b": "boolean", "n": "int", "x": "double", "s": "string"},
    "nested": {"a": "array<string>", "m": "map<string,double>", "c": "array<string>", "s": "struct<at:timestamp>"},
    "only": {"a": "array<string>"},
    "numbers": {"x": "double", "y": "double", "n": "bigint", "k": "smallint"},
}
GIVEN = {name: {column: type_of(text) for column, text in columns.items()} for name, columns in EVERYTHING.items()}


@given(st.fixed_dictionaries({name: st.lists(rows(columns), max_size=4) for name, columns in GIVEN.items()}), st.data())
def test_rows_come_back_in_the_order_of_their_content(found: dict[str, list[Any]], data: st.DataObject) -> None:
    packing = Packing(GIVEN)
    table = packing.table(found, {})
    table.validate(full=True)
    shuffled = table.take(pa.array(data.draw(st.permutations(range(table.num_rows))), pa.int64()))
    batches = shuffled.to_batches(max_chunksize=data.draw(st.integers(1, 5)))
    back = packing.rows(pa.Table.from_batches(batches, schema=table.schema))
    for name, columns in GIVEN.items():
        own = found[name]
        order = content_order(columns, cells(own, tuple(columns)) or [[] for _ in columns])
        assert repr(back[name]) == repr([own[place] for place in order])


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_table_is_packed_whole(table: str) -> None:
    packing = Packing({name: types_of(name) for name in {*OBSERVED, table}})

    @given(rows(types_of(table)))
    def check(row: Any) -> None:
        assert repr(packing.rows(packing.table({table: [row]}, {}))[table]) == repr([row])

    check()


def test_few_columns_travel_and_tables_share_them() -> None:
    packing = Packing({name: types_of(name) for name in OBSERVED})
    nested = {kind.sql for name in OBSERVED for kind in types_of(name).values() if kind.parts}
    assert list(packing.columns)[:3] == ["texts", "integers", "doubles"]
    assert {kind.sql for kind in list(packing.columns.values())[3:]} == nested
    assert packing.ddl.startswith("kind string, texts array<string>, integers array<bigint>, doubles array<double>")


def test_nothing_packed_is_a_table_with_all_columns() -> None:
    packing = Packing(GIVEN)
    empty = packing.table({}, {})
    assert empty.num_rows == 0
    assert empty.schema == packing.table({"only": [{"a": ["x"]}]}, {}).schema
    assert packing.rows(empty) == {name: [] for name in GIVEN}


def test_a_column_that_a_row_lacks_is_filled_and_a_null_stays() -> None:
    packing = Packing({"out": {"cluster": type_of("string"), "n": type_of("int")}})
    table = packing.table({"out": [{"n": 1}, {"cluster": None, "n": 2}, {"cluster": "b"}]}, {"cluster": "a", "z": 1})
    assert [*map(tuple, map(dict.values, packing.rows(table)["out"]))] == [("a", 1), ("b", None), (None, 2)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"b": "yes"}, "all.b wants a boolean, got str 'yes'."),
        ({"t": "2026-11-21"}, "all.t wants a timestamp with an offset, got str '2026-11-21'."),
        ({"other": 1}, "all has no column other; its columns are t, d, b, n, x, s."),
        (["b"], "all wants a mapping, got list \"['b']\"."),
    ],
)
def test_what_does_not_fit_is_refused(row: Any, message: str) -> None:
    with pytest.raises(EngineError) as refused:
        Packing(GIVEN).table({"all": [{}, row]}, {})
    assert str(refused.value) == message
