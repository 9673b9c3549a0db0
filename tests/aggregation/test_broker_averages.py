"""The extensible manager's averages, carried on from cycle to cycle by elapsed time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.aggregation.broker_averages import with_averages

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
LOADS = (
    "cluster string, broker string, cycle_at timestamp, weighted_usage double, published_ema double, "
    "reported_msg_throughput_in double, reported_msg_throughput_out double, is_extensible boolean, history double"
)
BEFORE = "cluster string, broker string, cycle_at timestamp, weighted_max_ema double, msg_throughput_ema double"


def averages(spark, loads: list[tuple], before: list[tuple]) -> dict[str, tuple]:
    rows = [
        ("lab", broker, NOW, usage, published, 30.0, 10.0, extensible, 0.9)
        for broker, usage, published, extensible in loads
    ]
    frame = with_averages(spark.createDataFrame(rows, LOADS), spark.createDataFrame(before, BEFORE))
    return {row.broker: (row.weighted_max_ema, row.ema_origin, row.msg_throughput_ema) for row in frame.collect()}


def test_a_minute_counts_as_twelve_ticks_of_the_same_figure(spark) -> None:
    seen = averages(spark, [("b1", 0.8, None, True)], [("lab", "b1", NOW - timedelta(minutes=1), 0.2, 100.0)])
    usage, throughput = 0.2, 100.0
    for _tick in range(12):
        usage, throughput = usage * 0.9 + (1 - 0.9) * 0.8, throughput * 0.9 + (1 - 0.9) * 40.0
    assert seen["b1"] == (pytest.approx(usage, rel=1e-12), "averaged", pytest.approx(throughput, rel=1e-12))


def test_what_a_broker_publishes_counts_and_a_broker_first_seen_starts_from_what_is_seen(spark) -> None:
    loads = [("b1", 0.8, 0.31, True), ("b2", 0.8, None, True), ("b3", None, None, True), ("b4", 0.8, None, False)]
    before = [("lab", "b1", NOW - timedelta(minutes=1), 0.2, 100.0), ("other", "b2", NOW, 0.5, 1.0)]
    seen = averages(spark, loads, before)
    assert seen["b1"][:2] == (0.31, "published")
    assert seen["b1"][2] == pytest.approx(100.0 * 0.9**12 + (1 - 0.9**12) * 40.0, rel=1e-12)
    assert seen["b2"] == (0.8, "first", 40.0)
    assert seen["b3"] == (None, None, None), "no report, no load data"
    assert seen["b4"] == (None, None, None), "the modular manager keeps no such averages"


def test_without_an_extensible_cluster_the_columns_are_there_and_empty(spark) -> None:
    rows = [("lab", "b1", NOW, 0.8, 0.3, 1.0, 1.0, False, 0.9)]
    (row,) = with_averages(spark.createDataFrame(rows, LOADS), None).collect()
    assert (row.weighted_max_ema, row.ema_origin, row.msg_throughput_ema) == (None, None, None)
