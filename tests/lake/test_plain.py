"""Rows that were never written look as if they had been."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.lake.plain_rows import as_read, plain_of
from evenkeel.spark.bodies import decoder, encoder

DECIDED = (
    "split_decisions",
    "unload_decisions",
    "placement_decisions",
    "guard_decisions",
    "strategy_state",
    "commands",
)
_NUMBERS = st.one_of(st.floats(allow_nan=False), st.integers(-(2**53), 2**53))


def value_of(kind: str) -> st.SearchStrategy[Any]:
    """What a round may put into a column of this type."""
    if kind.startswith("array<struct"):
        names = st.fixed_dictionaries({}, optional={"name": st.text(), "broker": st.text(), "measured": _NUMBERS})
        fields = {part.partition(":")[0] for part in kind[13:-2].split(",")}
        return st.lists(names.map(lambda found: {k: v for k, v in found.items() if k in fields}), max_size=2)
    if kind.startswith("array<"):
        return st.lists(value_of(kind[6:-1]), max_size=3).map(tuple)
    if kind.startswith("map<"):
        return st.dictionaries(st.text(max_size=3), _NUMBERS, max_size=3)
    return {
        "double": _NUMBERS,
        "timestamp": st.datetimes(timezones=st.just(UTC)),
        "boolean": st.booleans(),
        "int": st.integers(0, 99),
        "bigint": st.integers(0, 2**40),
    }.get(kind, st.text(max_size=5))


@st.composite
def rows(draw: Any) -> tuple[str, dict[str, Any]]:
    from evenkeel.lake.schemas import TABLES

    table = draw(st.sampled_from(DECIDED))
    columns = [column for column in TABLES[table].columns if column.name not in ("cycle_date", "write_id")]
    return table, {c.name: draw(st.none() | value_of(c.type)) for c in columns if draw(st.booleans())}


@pytest.mark.spark
def test_a_row_as_read_is_the_row_that_went_through_spark(spark: Any) -> None:
    """Every table's schema is parsed by Spark; values go its way through JSON."""
    from evenkeel.lake.schemas import TABLES

    ways = {}
    for table in DECIDED:
        schema = TABLES[table].body_type()
        ways[table] = (encoder(schema, table), decoder(schema))

    @given(rows())
    def check(found: tuple[str, dict[str, Any]]) -> None:
        table, row = found
        write, read = ways[table]
        assert as_read(table, row) == read(write(row))

    check()


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        ("double", 3, 3.0),
        ("array<bigint>", (1, 2), [1, 2]),
        ("map<string,double>", {"b": 1, "a": 2}, {"a": 2.0, "b": 1.0}),
        ("array<struct<name:string,measured:double>>", ({"measured": 1},), [{"name": None, "measured": 1.0}]),
        ("date", date(2026, 3, 1), "2026-03-01"),
        (
            "timestamp",
            datetime(2026, 3, 1, 13, tzinfo=timezone(timedelta(hours=1))),
            "2026-03-01T12:00:00.000000+00:00",
        ),
    ],
)
def test_each_type_has_the_form_in_which_it_is_read(kind: str, given: Any, read: Any) -> None:
    found = plain_of(kind)(given)
    assert found == read
    assert str(found) == str(read)
