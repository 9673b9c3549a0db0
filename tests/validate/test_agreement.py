"""Great Expectations and our own filters find the same number of offenders, over pandas and over Spark."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.validate.facts import by_row, is_broken
from evenkeel.validate.suites import SUITES, read_suites, run_suite
from tests.builders import NOON, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# What a record may hold instead of what it should: each value goes once into each column of its type.
BAD: dict[str, tuple[Any, ...]] = {
    "double": (math.nan, math.inf, -math.inf, -1.0, -0.5, -0.0, 0.0, 7.25, 1e12, 2e12, 5e-324, None),
    "bigint": (-1, 0, 5, 2**40, 2**62, None),
    "int": (-1, 0, 1, 2, 2_000_000_000, None),
    "string": (
        "",
        "persistent",
        "x:y",
        "a/b",
        "b1:8080",
        "reported",
        'it\'s <b>"odd"</b>\nü',
        "a/b/0x00000000_0x80000000",
    ),
    "boolean": (True, False),
    "timestamp": (NOON, None),
    "array<string>": ([], ["a"], None),
    "map<string,string>": ({}, None),
    "map<string,array<string>>": ({}, None),
}


def rows_of(table: str) -> list[dict[str, Any]]:
    """Rows that run through the bad values of every column side by side, the first one twice."""
    from evenkeel.lake.schemas import TABLES

    body = TABLES[table].body_columns()
    rows = []
    for n in range(12):
        row: dict[str, Any] = {}
        for column in body:
            values = BAD[column.type]
            value = values[n % len(values)]
            row[column.name] = values[0] if value is None and not column.nullable else value
        rows.append(row | {"cluster": "lab", "cycle_at": NOON})
    return [*rows, rows[0]]


@pytest.mark.parametrize("table", SUITES)
def test_counts_agree_between_the_library_and_our_filters(spark: SparkSession, table: str) -> None:
    from pyspark.sql import functions as F

    suite = read_suites()[table]
    rows = frame(spark, table, rows_of(table)).select(*suite.columns())
    ours = rows.agg(*[F.count_if(is_broken(rule)).alias(rule.name) for rule in by_row(suite.rules)]).first()
    over_pandas = {verdict.rule.name: verdict for verdict in run_suite(suite, rows.toArrow())}
    over_spark = {verdict.rule.name: verdict for verdict in run_suite(suite, rows)}
    assert ours is not None
    assert {name: over_pandas[name].failed for name in ours.asDict()} == ours.asDict()
    assert {name: over_spark[name].failed for name in ours.asDict()} == ours.asDict()
    assert {name: verdict.failed for name, verdict in over_spark.items()} == {
        name: verdict.failed for name, verdict in over_pandas.items()
    }
    assert all(verdict.passed == (verdict.failed == 0) for verdict in over_pandas.values())
    assert any(ours.asDict().values()) or table == "cluster_policies"
