"""Which row of a topic counts, whatever the order of rows."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.aggregate.topic_sums import topics_once
from tests.builders import NOON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TEXT = (
    "cluster string, cycle_at timestamp, namespace string, topic string, hash bigint, broker string, seen_on int, "
    "observation string, domain string, producers bigint, consumers bigint, msg_backlog bigint, msg_rate_in double, "
    "msg_rate_out double, msg_throughput_in double, msg_throughput_out double, bundle string"
)


def shown(broker: str, namespace: str = "acme/web", producers: int | None = 1, out: float = 1.0) -> tuple[Any, ...]:
    """A row of `TEXT`: what one broker shows of the same topic, with the same sum of its figures."""
    topic = "persistent://acme/web/a"
    figures = (1.0, out, 2.0 - out, out)
    return (
        *("shop", NOON, namespace, topic, 7, broker, 2, "loaded", "persistent", producers, 1, None),
        *(*figures, f"{namespace}/0x00000000_0xffffffff"),
    )


def test_of_a_topic_that_a_broker_shows_several_times_the_same_counts_in_any_order(spark: SparkSession) -> None:
    rows = [shown("b1"), shown("b1", producers=None), shown("b1", out=0.5), shown("b1", namespace="acme/other")]
    none = spark.createDataFrame([], "cluster string, cycle_at timestamp, bundle string, owner string")
    chosen = set()
    for number, order in enumerate(permutations(rows)):
        frame = spark.createDataFrame(list(order), TEXT).repartition(1 + number % 3)
        (row,) = topics_once(frame, none).collect()
        chosen.add(tuple(row))
    assert len(chosen) == 1
