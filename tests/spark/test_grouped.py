from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from evenkeel.errors import DecideFailed, EngineError, StaleCode
from evenkeel.spark import worker
from evenkeel.spark.grouped import grouped_map, import_path
from tests.spark import deciders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

AWKWARD_DOUBLES = [
    *(0.0, -0.0, 5e-324, -5e-324, 2.2250738585072009e-308, 2.2250738585072014e-308, 1.7976931348623157e308),
    *(math.inf, -math.inf, math.nan, 0.1, 1 / 3, 2.0**53 + 2, 1e22, 1e23, 9007199254740993.0, 2e-323, 1.0e-5),
]


def schema(ddl: str) -> StructType:
    from pyspark.sql.types import _parse_datatype_string

    parsed = _parse_datatype_string(ddl)
    assert isinstance(parsed, StructType)
    return parsed


def rows_of(spark: SparkSession, rows: list[tuple[Any, ...]], ddl: str) -> DataFrame:
    return spark.createDataFrame(rows, schema(ddl))


def bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def test_every_double_survives_both_ways_bit_for_bit(spark: SparkSession) -> None:
    given = rows_of(
        spark,
        [("c", place, value) for place, value in enumerate(AWKWARD_DOUBLES)],
        "cluster string, id int, value double",
    )
    out = grouped_map(
        {"in": given},
        by=["cluster"],
        decide=deciders.double_bits,
        outputs={"out": schema("id int, value double, bits string")},
    )["out"]
    seen = {row.id: (row.bits, bits(row.value)) for row in out.collect()}
    assert seen == {place: (bits(value), bits(value)) for place, value in enumerate(AWKWARD_DOUBLES)}


def test_long_integers_null_and_nested_values_survive(spark: SparkSession) -> None:
    ddl = (
        "cluster string, big bigint, small tinyint, word string, yes boolean, none double, "
        "list array<double>, map map<string,bigint>, inner struct<a:bigint,b:array<string>>, day date"
    )
    moment = datetime(2026, 11, 21).date()
    row = (
        "c",
        2**63 - 1,
        -128,
        'ü "<script>"\n\t\u2028𝄞',
        False,
        None,
        [1.5, None, math.inf],
        {"b": -(2**63), "a": 1},
        (2**53 + 1, ["x", None]),
        moment,
    )
    given = rows_of(spark, [row], ddl)
    back = grouped_map({"in": given}, by=["cluster"], decide=deciders.echo, outputs={"out": schema(ddl)})["out"]
    assert [found.asDict(recursive=True) for found in back.collect()] == [
        found.asDict(recursive=True) for found in given.collect()
    ]


def test_timestamps_arrive_as_utc_text_with_microseconds(spark: SparkSession) -> None:
    ddl = "cluster string, at timestamp"
    moment = datetime(2026, 11, 21, 9, 15, 0, 7, tzinfo=UTC)
    given = rows_of(spark, [("c", moment)], ddl)
    text = (
        grouped_map(
            {"in": given}, by=["cluster"], decide=deciders.echo, outputs={"out": schema("cluster string, at string")}
        )["out"]
        .collect()[0]
        .at
    )
    assert text == "2026-11-21T09:15:00.000007+00:00"
    back = grouped_map({"in": given}, by=["at"], decide=deciders.echo, outputs={"out": schema(ddl)})["out"]
    assert back.collect() == given.collect()


def test_a_function_gets_key_rows_of_every_kind_and_parameters(spark: SparkSession) -> None:
    given = {
        "brokers": rows_of(spark, [("c", 7, "b1")], "cluster string, cycle bigint, broker string"),
        "bundles": rows_of(spark, [("c", 7, None)], "cluster string, cycle bigint, owner string"),
    }
    out = grouped_map(
        given,
        by=["cluster", "cycle"],
        decide=deciders.describe,
        outputs={"out": schema("cluster string, text string")},
        parameters={"limit": 10.0},
    )
    key = {"cluster": "c", "cycle": 7}
    rows = {"brokers": [{**key, "broker": "b1"}], "bundles": [{**key, "owner": None}]}
    assert [tuple(row) for row in out["out"].collect()] == [("c", repr((key, rows, {"limit": 10.0})))]


def test_a_key_that_only_one_input_has_gets_no_rows_of_the_other(spark: SparkSession) -> None:
    given = {
        "brokers": rows_of(spark, [("a", 1), ("a", 2), ("b", 1)], "cluster string, n int"),
        "bundles": rows_of(spark, [("b", 1), ("c", 1)], "cluster string, n int"),
    }
    sizes = schema("cluster string, brokers int, bundles int")
    out = grouped_map(given, by=["cluster"], decide=deciders.count, outputs={"sizes": sizes, "empty": sizes})
    assert sorted(map(tuple, out["sizes"].collect())) == [("a", 2, 0), ("b", 1, 1), ("c", 0, 1)]
    assert out["empty"].collect() == []
    assert out["empty"].schema.names == ["cluster", "brokers", "bundles"]


def test_the_order_and_the_partitions_of_the_input_do_not_matter(spark: SparkSession) -> None:
    ids = [f"b{place}" for place in range(40)]
    ddl = "cluster string, id string, tags map<string,int>"
    forwards = rows_of(spark, [("c", each, {"x": 1, "y": 2}) for each in ids], ddl).repartition(7)
    backwards = rows_of(spark, [("c", each, {"y": 2, "x": 1}) for each in reversed(ids)], ddl).coalesce(1)
    outputs = {"out": schema("ids array<string>")}
    answers = [
        grouped_map({"in": given}, by=["cluster"], decide=deciders.order, outputs=outputs)["out"].collect()
        for given in (forwards, backwards)
    ]
    assert answers[0] == answers[1]
    assert sorted(answers[0][0].ids) == sorted(ids)


def test_an_error_in_the_function_arrives_as_one_line(spark: SparkSession) -> None:
    given = rows_of(spark, [("c1", 1)], "cluster string, id int")
    with pytest.raises(DecideFailed) as caught:
        grouped_map({"in": given}, by=["cluster"], decide=deciders.fail, outputs={"out": schema("id int")})
    assert str(caught.value) == (
        'tests.spark.deciders:fail on {"cluster":"c1"}: BadInput: bundle t/n/0x00000000_0x00000000 is empty'
    )


@pytest.mark.parametrize(
    ("decide", "expected"),
    [
        (deciders.misfit, "out.id wants an integer of 32 bits, got str 'not a number'."),
        (deciders.stray, "returned rows for elsewhere, which is not an output of this call"),
        (deciders.echo, "out has no column cluster; its columns are id."),
    ],
    ids=lambda case: case.__name__ if callable(case) else "",
)
def test_an_answer_that_does_not_fit_the_output_is_refused(
    spark: SparkSession, decide: Callable[..., Any], expected: str
) -> None:
    given = rows_of(spark, [("c1", 1)], "cluster string, id int")
    with pytest.raises(EngineError) as caught:
        grouped_map({"in": given}, by=["cluster"], decide=decide, outputs={"out": schema("id int")})
    assert expected in str(caught.value)


def test_a_worker_with_other_code_refuses_to_decide(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    given = rows_of(spark, [("c1", 1)], "cluster string, id int")
    original = worker.Job
    monkeypatch.setattr("evenkeel.spark.grouped.Job", lambda **fields: replace(original(**fields), code="0" * 64))
    with pytest.raises(StaleCode, match=r"run other code than this client: restart the server \(`make stop`\)"):
        grouped_map({"in": given}, by=["cluster"], decide=deciders.echo, outputs={"out": given.schema})


def test_a_type_without_plain_form_is_refused_before_anything_runs(spark: SparkSession) -> None:
    given = rows_of(spark, [("c1", None)], "cluster string, sum decimal(38,9)")
    with pytest.raises(EngineError, match=r"column sum of input in: decimal\(38,9\) is not a type"):
        grouped_map({"in": given}, by=["cluster"], decide=deciders.echo, outputs={"out": schema("id int")})


def test_only_functions_at_module_level_can_decide() -> None:
    assert import_path(deciders.echo) == "tests.spark.deciders:echo"
    with pytest.raises(EngineError, match="must be a function at module level"):
        import_path(lambda key, rows: {})
