"""Rows through real Spark and its workers: every bit, and the order of the texts that Spark itself writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from evenkeel.errors import DecideFailed
from evenkeel.spark.column_types import type_of
from evenkeel.spark.grouped import grouped_map
from evenkeel.spark.packing import Packing
from evenkeel.spark.rows import TIMESTAMP_FORMAT, rows_of
from tests.spark import deciders
from tests.spark.rows import AWKWARD_DOUBLES, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TEXT = StructType([StructField("text", StringType())])
ORDER = StructType([StructField("ids", ArrayType(IntegerType()))])
COLUMNS = {
    "cluster": "string", "at": "timestamp", "name": "string", "x": "double", "n": "bigint", "few": "tinyint",
    "yes": "boolean", "day": "date", "list": "array<double>", "inner": "struct<a:double,b:array<string>,c:timestamp>",
    "id": "int",
}  # fmt: skip
WITH_MAP = {"cluster": "string", "m": "map<string,double>", "a": "double", "name": "string", "id": "int"}
JSON_OPTIONS = {"ignoreNullFields": "false", "timestampFormat": TIMESTAMP_FORMAT, "timeZone": "UTC"}


@pytest.mark.parametrize("types", [COLUMNS, WITH_MAP], ids=["without-map", "with-map"])
def test_rows_of_every_kind_come_back_and_arrive_in_the_order_of_their_texts(
    spark: SparkSession, types: dict[str, str]
) -> None:
    """Few names and numbers, so that all columns have to tell rows apart; texts are those that Spark itself writes."""
    columns = {name: type_of(text) for name, text in types.items()}
    few = st.fixed_dictionaries(
        {"x": st.sampled_from(AWKWARD_DOUBLES), "name": st.sampled_from(("a/b", "a/b c", 'a"'))}
    )

    @settings(max_examples=4, deadline=None)
    @given(st.lists(st.tuples(rows(columns), few), min_size=1, max_size=60))
    def check(made: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        alike = [{**row, **{name: value for name, value in more.items() if name in columns}} for row, more in made]
        found = [{**row, "cluster": "c", "id": place} for place, row in enumerate(alike)]
        packing = Packing({"in": columns})
        frame = packing.unpacked("in", spark.createDataFrame(packing.table({"in": found}, {})))
        outputs = {"out": frame.schema, "order": ORDER}
        back = grouped_map({"in": frame}, by=["cluster"], decide=deciders.echo_and_order, outputs=outputs)
        came = sorted(rows_of(back["out"].toArrow(), columns), key=lambda row: row["id"])
        assert repr(came) == repr(found)
        if types is WITH_MAP:
            texts = {row["id"]: json.dumps(row, sort_keys=True) for row in found}
        else:
            texts = dict(frame.select("id", F.to_json(F.struct(*columns), JSON_OPTIONS)).collect())
        assert back["order"].collect()[0].ids == sorted(texts, key=texts.__getitem__)

    check()


@pytest.mark.parametrize("years", [-290_000, -1, 0, 1, 9_999, 10_000, 290_000])
def test_moments_and_days_beyond_the_years_of_python_arrive_as_spark_writes_them(
    spark: SparkSession, years: int
) -> None:
    at = F.timestamp_micros(F.lit(years * 31_556_952_000_000 - 62_167_219_200_000_000 + 7))
    frame = spark.range(1).select(at.alias("at"), at.cast("date").alias("day"))
    written = frame.select(F.to_json(F.struct("at", "day"), JSON_OPTIONS).alias("text")).collect()[0].text
    out = grouped_map({"in": frame}, by=["at"], decide=deciders.describe, parameters={}, outputs={"out": TEXT})[
        "out"
    ].collect()
    seen = json.loads(written)
    assert out[0].text == repr(({"at": seen["at"]}, {"in": [seen]}, {}))


def test_half_a_surrogate_is_refused_and_bytes_that_are_no_text_arrive_as_java_reads_them(spark: SparkSession) -> None:
    frame = spark.range(1).select(F.unhex(F.lit("61FF62")).cast("string").alias("cluster"))
    outputs = {"out": TEXT}
    text = grouped_map({"in": frame}, by=["cluster"], decide=deciders.describe, parameters={}, outputs=outputs)["out"]
    assert "a\ufffdb" in text.collect()[0].text
    with pytest.raises(DecideFailed, match="UnicodeEncodeError: 'utf-8' codec can't encode character"):
        grouped_map({"in": frame}, by=["cluster"], decide=deciders.half, outputs=outputs)
