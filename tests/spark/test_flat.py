"""What is put together over many clusters can be sent to the server however many they are."""

from __future__ import annotations

import pytest

from evenkeel.spark.sql import any_of, first_of, united

MANY = 300


@pytest.mark.spark
def test_conditions_cases_and_unions_over_many_clusters_can_be_sent(spark) -> None:
    from pyspark.sql import functions as F

    numbers = spark.range(2 * MANY)
    odd = any_of((F.col("id") == 2 * n + 1) & F.lit(True) for n in range(MANY))
    assert numbers.where(odd).count() == MANY
    assert numbers.where(any_of([])).count() == 0
    name = first_of(((F.col("id") == n, f"number {n}") for n in range(MANY)), F.lit("another"))
    named = {row["id"]: row["name"] for row in numbers.select("id", name.alias("name")).collect()}
    assert named == {n: f"number {n}" if n < MANY else "another" for n in range(2 * MANY)}
    parts = united(spark.range(n, n + 1) for n in range(60))
    assert sorted(row["id"] for row in parts.collect()) == list(range(60))


def test_a_union_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        united([])
