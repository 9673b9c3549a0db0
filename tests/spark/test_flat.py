"""What is put together over many clusters can be sent to the server however many they are."""

import pytest

from evenkeel.spark.sql import any_of, first_of, in_spans, is_one_of, united

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


@pytest.mark.spark
def test_cycles_are_found_by_their_cluster_and_moment_or_span(spark) -> None:
    from pyspark.sql import functions as F

    def at(minute: int) -> str:
        return f"2026-11-21T08:{minute:02d}:00.000000+00:00"

    rows = [(cluster, at(minute)) for cluster in ("a", "b", "c") for minute in range(6)]
    frame = spark.createDataFrame(rows, "cluster string, at string").withColumn("cycle_at", F.to_timestamp("at"))

    def found(condition) -> set[tuple[str, int]]:
        kept = frame.where(condition).select("cluster", "at").collect()
        return {(row["cluster"], int(row["at"][14:16])) for row in kept}

    assert found(is_one_of([("a", at(1)), ("b", at(1)), ("a", at(2))])) == {("a", 1), ("b", 1), ("a", 2)}
    spans = [("a", at(2), at(3)), ("b", at(2), at(3)), ("c", None, at(1)), ("a", at(5), at(5))]
    assert found(in_spans(spans)) == {("a", 2), ("a", 3), ("b", 2), ("b", 3), ("c", 0), ("a", 5)}
    assert found(in_spans([])) == set()
    same = in_spans((f"cluster {n}", None, at(1)) for n in range(MANY))
    assert str(same).count("cycle_at") == 1, "one condition for all"


def test_a_union_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        united([])
