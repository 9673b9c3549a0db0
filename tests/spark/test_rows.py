"""Plain rows come back from Arrow to the bit, and what does not fit its column is refused with its place."""

import math
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import EngineError
from evenkeel.lake.schemas import TABLES
from evenkeel.spark.column_types import type_of
from evenkeel.spark.rows import (
    arrow_column,
    arrow_type,
    cells,
    day_text,
    moment_text,
    plain_column,
    plain_of,
    read_column,
    rows_of,
    tick_of,
)
from tests.spark.rows import plain

DECLARED = sorted({column.type for table in TABLES.values() for column in table.columns})
OTHERS = ["tinyint", "smallint", "struct<a:double,b:map<string,timestamp>>", "array<struct<a:date,b:array<double>>>"]
NANS = [struct.unpack(">d", bytes.fromhex(bits))[0] for bits in ("fff8000000000000", "7ff8000000000001")]
NAIVE = datetime(2026, 3, 1)


def bits(value: float) -> str:
    return struct.pack(">d", value).hex()


@pytest.mark.parametrize("type_", [*DECLARED, *OTHERS])
def test_every_type_comes_back_from_arrow_as_it_was(type_: str) -> None:
    kind = type_of(type_)
    assert kind.sql == type_

    @given(st.lists(st.none() | plain(kind), max_size=6), st.integers(0, 3))
    def check(values: list[Any], cut: int) -> None:
        column = arrow_column(values, kind)
        column.validate(full=True)
        assert column.type == arrow_type(kind)
        assert repr(read_column(column, kind)) == repr(values)
        assert repr(read_column(column.slice(cut), kind)) == repr(values[cut:])
        assert repr(read_column(pa.chunked_array([column[:cut], column[cut:]]), kind)) == repr(values)
        assert repr(plain_column(values, kind)) == repr(values)

    check()


@pytest.mark.parametrize("given_", [*NANS, -math.nan])
def test_every_nan_becomes_the_one_nan(given_: float) -> None:
    kind = type_of("double")
    (read,) = read_column(pa.array([given_]), kind)
    (written,) = arrow_column([given_], kind).to_pylist()
    inside = read_column(pa.array([[given_]], pa.list_(pa.float64())), type_of("array<double>"))
    assert {bits(read), bits(written), bits(inside[0][0]), bits(plain_column([given_], kind)[0])} == {bits(math.nan)}


@pytest.mark.parametrize(
    ("type_", "returned", "plain_"),
    [
        ("double", 3, 3.0),
        ("double", 2**60, 2.0**60),
        ("array<bigint>", (1, 2), [1, 2]),
        ("map<string,double>", {"b": 1, "a": 2}, {"a": 2.0, "b": 1.0}),
        ("array<struct<name:string,measured:double>>", ({"measured": 1},), [{"name": None, "measured": 1.0}]),
        ("date", date(2026, 3, 1), "2026-03-01"),
        ("timestamp", "2026-03-01T12:00:00+01:00", "2026-03-01T11:00:00.000000+00:00"),
        ("timestamp", datetime(2026, 3, 1, 13, 0, 0, 7, UTC), "2026-03-01T13:00:00.000007+00:00"),
        ("timestamp", datetime(2026, 3, 1, tzinfo=timezone(timedelta(hours=1))), "2026-02-28T23:00:00.000000+00:00"),
    ],
)
def test_what_rules_return_is_brought_to_plain_form(type_: str, returned: Any, plain_: Any) -> None:
    kind = type_of(type_)
    assert repr(plain_of(kind)(returned)) == repr(plain_)
    assert repr(plain_column([returned, None], kind)) == repr([plain_, None])


@pytest.mark.parametrize(
    ("type_", "returned", "message"),
    [
        ("int", "not a number", "out.x wants an integer of 32 bits, got str 'not a number'."),
        ("int", 2**31, "out.x wants an integer of 32 bits, got int '2147483648'."),
        ("bigint", -(2**63) - 1, "out.x wants an integer of 64 bits, got int '-9223372036854775809'."),
        ("tinyint", True, "out.x wants an integer of 8 bits, got bool 'True'."),
        ("bigint", 1.0, "out.x wants an integer of 64 bits, got float '1.0'."),
        ("double", 2**53 + 1, "out.x wants a double, got int '9007199254740993'."),
        ("double", "1.0", "out.x wants a double, got str '1.0'."),
        ("boolean", 1, "out.x wants a boolean, got int '1'."),
        ("string", 7, "out.x wants a text, got int '7'."),
        ("timestamp", "yesterday", "out.x wants a timestamp, got str 'yesterday'."),
        ("timestamp", date(2026, 3, 1), "out.x wants a timestamp, got date '2026-03-01'."),
        ("timestamp", NAIVE, "out.x wants a timestamp with an offset, got datetime '2026-03-01 00:00:00'."),
        ("timestamp", "2026-03-01", "out.x wants a timestamp with an offset, got str '2026-03-01'."),
        ("date", NAIVE, "out.x wants a date, got datetime '2026-03-01 00:00:00'."),
        ("date", "2026-13-01", "out.x wants a date, got str '2026-13-01'."),
        ("array<int>", "12", "out.x wants a list, got str '12'."),
        ("array<int>", [1, "2"], "out.x wants an integer of 32 bits, got str '2'."),
        ("map<string,int>", {1: 2}, "out.x wants a mapping with text keys, got dict '{1: 2}'."),
        ("array<struct<a:int>>", [{"a": 1, "c": 1, "b": 2}], "out.x has no column b, c; its columns are a."),
        ("array<struct<a:int>>", [[1]], "out.x wants a mapping, got list '[1]'."),
        ("struct<a:int>", {"a": "1"}, "out.x.a wants an integer of 32 bits, got str '1'."),
    ],
)
def test_what_does_not_fit_its_column_is_refused(type_: str, returned: Any, message: str) -> None:
    with pytest.raises(EngineError) as refused:
        plain_column([None, returned], type_of(type_), "out.x")
    assert str(refused.value) == message


@pytest.mark.parametrize("type_", ["decimal(38,9)", "array<float>", "map<int,string>", "struct<a:binary>"])
def test_a_type_without_plain_form_is_refused(type_: str) -> None:
    with pytest.raises(EngineError, match="is not a type that rules take: use string, boolean, an integer type"):
        type_of(type_)


def test_half_a_surrogate_is_no_text_that_arrow_takes() -> None:
    with pytest.raises(UnicodeEncodeError):
        arrow_column(["\ud800"], type_of("string"))


def test_bytes_that_are_not_utf_8_become_what_java_makes_of_them() -> None:
    column = pa.array([b"a\xffb", None, "ü".encode(), b"\xed\xa0\x80", b"\xe2\x82"], pa.binary()).view(pa.string())
    assert read_column(column, type_of("string")) == ["a\ufffdb", None, "ü", "\ufffd\ufffd\ufffd", "\ufffd"]


@pytest.mark.parametrize(
    ("tick", "text"),
    [
        (0, "1970-01-01T00:00:00.000000+00:00"),
        (-1, "1969-12-31T23:59:59.999999+00:00"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999+00:00"),
        (253_402_300_800_000_000, "+10000-01-01T00:00:00.000000+00:00"),
        (-62_135_596_800_000_001, "0000-12-31T23:59:59.999999+00:00"),
        (-62_167_219_200_000_001, "-0001-12-31T23:59:59.999999+00:00"),
        (2**63 - 1, "+294247-01-10T04:00:54.775807+00:00"),
        (-(2**63), "-290308-12-21T19:59:05.224192+00:00"),
    ],
)
def test_moments_beyond_the_years_of_python_have_their_text(tick: int, text: str) -> None:
    assert moment_text(tick) == text
    assert read_column(pa.array([tick]).cast(pa.timestamp("us")), type_of("timestamp")) == [text]
    if text[0].isdigit() and text > "0001":
        assert tick_of(text) == tick


def test_dates_beyond_the_years_of_python_have_their_text() -> None:
    assert [day_text(day) for day in (0, -719_529, 2_932_897)] == ["1970-01-01", "-0001-12-31", "+10000-01-01"]


def test_texts_that_arrow_holds_as_codes_are_texts() -> None:
    coded = pa.array(["b", None, "a", "b"]).dictionary_encode()
    assert read_column(coded, type_of("string")) == ["b", None, "a", "b"]
    assert read_column(coded[2:], type_of("string")) == ["a", "b"]


def test_rows_have_every_column_in_order() -> None:
    columns = {name: type_of("bigint") for name in ("b", "a", "c")}
    assert [*map(list, rows_of(pa.table({"a": [1], "b": [2], "z": [3]}), columns))] == [["b", "a", "c"]]
    assert rows_of(pa.table({"a": [1, None], "b": [2, 3]}), columns)[1] == {"b": 3, "a": None, "c": None}


def test_a_column_that_a_row_lacks_is_what_is_given_for_it() -> None:
    rows = [{"a": 1, "b": None}, {"b": 2}]
    assert cells(rows, ("a", "b", "c"), {"a": 7, "b": 8}) == [[1, 7], [None, 2], [None, None]]
    assert cells(rows, ("b",)) == [[None, 2]]
    assert cells([], ("a", "b")) == [[], []]
