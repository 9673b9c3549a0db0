"""Sums over topics: the same to the bit in every way that they are taken, and which row of a topic counts."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import datetime, timedelta
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from evenkeel.aggregate.inputs import topic_sums
from evenkeel.aggregate.topic_sums import (
    Namespace,
    bundle_sums,
    ranges_of,
    sums_in_thousandths,
    topics_once,
    with_bundle,
)
from evenkeel.model.exact_sums import exact_sum
from evenkeel.model.load import RATES
from evenkeel.spark.sql import arrow_of
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


LATER = NOON + timedelta(minutes=5)
LAYOUTS = {
    "acme/web": (0, 1 << 30, 1 << 31, 0xFFFFFFFF),
    "acme/odd": (0, 7, 1 << 20, (1 << 31) + 1, 0xFFFFFFFE, 0xFFFFFFFF),
    "acme/one": (0, 0xFFFFFFFF),
}
KEY = ("cluster", "cycle_at", "bundle")
UNPLACED = TEXT.removesuffix(", bundle string")


def some_topics(dice: random.Random, cluster: str, at: datetime, count: int = 300) -> list[tuple[Any, ...]]:
    """Rows of `UNPLACED` with all that sums look at, each figure known or not, and edges among the hashes."""
    edges = [edge + near for own in LAYOUTS.values() for edge in own for near in (-1, 0, 1)]
    hashes = [edge for edge in edges if 0 <= edge < 2**32]
    rows = []
    for n in range(count):
        namespace = dice.choice([*LAYOUTS, "acme/gone"])
        figures = [None if dice.random() < 0.05 else dice.randrange(10 ** dice.randrange(1, 11)) / 1000 for _ in RATES]
        place = dice.choice([dice.randrange(2**32), dice.choice(hashes)])
        rows.append(
            (
                *(
                    cluster,
                    at,
                    namespace,
                    f"persistent://{namespace}/t{n}",
                    place,
                    "b1",
                    dice.choice([None, 0, 1, 1, 2]),
                ),
                *(
                    dice.choice(["loaded", "loaded", "listed"]),
                    dice.choice(["persistent", "persistent", "non-persistent"]),
                ),
                *(dice.choice([None, 1]), dice.choice([None, 2]), dice.choice([None, 5]), *figures),
            )
        )
    return rows


@pytest.mark.parametrize("cycles", [[("shop", NOON)], [("shop", NOON), ("shop", LATER), ("hall", NOON)]])
def test_sums_in_thousandths_are_the_exact_sums(
    spark: SparkSession, cycles: list[tuple[str, datetime]], monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(3)
    spaces = [Namespace(of, at.isoformat(), name, edges) for of, at in cycles for name, edges in LAYOUTS.items()]
    if len(cycles) > 1:  # boundaries that differ from one cycle to the next
        spaces = [*spaces[:-1], spaces[-1]._replace(edges=(0, 1 << 31, 0xFFFFFFFF))]
    # Topics of another cycle, of which no boundaries are known, belong nowhere.
    rows = [row for of, at in [*cycles, ("elsewhere", LATER)] for row in some_topics(dice, of, at)]
    topics, ranges = spark.createDataFrame(rows, UNPLACED), ranges_of(spaces)
    order = [(name, "ascending") for name in KEY]
    placed = with_bundle(topics, ranges)
    exact = arrow_of(bundle_sums(placed)).sort_by(order)
    found = sums_in_thousandths(topics, ranges).sort_by(order)
    with monkeypatch.context() as patched:  # all namespaces have the number by which they are looked up
        patched.setattr(F, "xxhash64", lambda *_names: F.lit(7).cast("bigint"))
        assert arrow_of(bundle_sums(with_bundle(topics, ranges))).sort_by(order) == exact
        assert sums_in_thousandths(topics, ranges).sort_by(order) == found
    shown_twice = placed.where("seen_on > 1").select("cluster", "cycle_at", "bundle").distinct().count()
    assert sum(found.column("is_odd").to_pylist()) == shown_twice
    found = found.drop_columns(["is_odd"])
    assert found.schema.types == exact.schema.types
    assert [*map(repr, found.to_pylist())] == [*map(repr, exact.to_pylist())]
    assert len({(row["cluster"], row["cycle_at"]) for row in found.to_pylist()}) == len(cycles)


def test_of_bundles_with_other_figures_the_sums_are_exact_in_any_order_and_partitioning(spark: SparkSession) -> None:
    dice = random.Random(4)
    rows = [[*row] for row in some_topics(dice, "shop", NOON) if row[2] == "acme/web"]
    for row in rows:  # of one bundle every other figure has all the digits of a double
        row[6] = 1
        if row[4] < 1 << 30 and dice.random() < 0.5:
            row[-4] = dice.random() * 1000
    own: dict[str, list[float | None]] = defaultdict(list)
    for row in rows:
        lower, upper = next(
            (lower, upper)
            for lower, upper in zip(LAYOUTS["acme/web"], LAYOUTS["acme/web"][1:], strict=False)
            if lower <= row[4] < upper or row[4] == upper == 0xFFFFFFFF
        )
        own[f"acme/web/0x{lower:08x}_0x{upper:08x}"].append(row[-4])
    space = Namespace("shop", NOON.isoformat(), "acme/web", LAYOUTS["acme/web"])
    claims = spark.createDataFrame(
        [], "cluster string, cycle_at timestamp, bundle string, broker string, is_owned boolean"
    )
    for parts in (1, 2, 7):
        dice.shuffle(rows)
        topics = spark.createDataFrame([tuple(row) for row in rows], UNPLACED).repartition(parts)
        sums = topic_sums(topics, claims, [space])
        assert {row["bundle"]: repr(row["msg_rate_in"]) for row in sums.to_pylist()} == {
            bundle: repr(exact_sum(figures)) for bundle, figures in own.items()
        }


def test_hashes_outside_of_the_boundaries_lie_in_no_bundle(spark: SparkSession) -> None:
    space = Namespace("shop", NOON.isoformat(), "acme/web", (16, 32, 64))
    hashes = (0, 15, 16, 31, 32, 63, 64, 0xFFFFFFFF)
    rows = [("shop", NOON, "acme/web", f"t{hash_}", hash_, "b1", 1, "loaded", "persistent") for hash_ in hashes]
    topics = spark.createDataFrame([(*row, 1, 1, 1, 1.0, 1.0, 1.0, 1.0) for row in rows], UNPLACED)
    found = {row.hash: row.bundle for row in with_bundle(topics, ranges_of([space])).collect()}
    first, second = "acme/web/0x00000010_0x00000020", "acme/web/0x00000020_0x00000040"
    assert found == {16: first, 31: first, 32: second, 63: second}
    sums = sums_in_thousandths(topics, ranges_of([space])).to_pylist()
    assert {row["bundle"]: row["topics"] for row in sums} == {first: 2, second: 2}
    (only,) = sums_in_thousandths(topics, ranges_of([space], only={second})).to_pylist()
    assert (only["bundle"], only["topics"], only["msg_rate_in"]) == (second, 2, 2.0)


def test_layouts_are_held_once_for_all_namespaces_and_cycles() -> None:
    spaces = [
        Namespace("shop", (NOON + timedelta(minutes=n)).isoformat(), name, edges)
        for n in range(50)
        for name, edges in [*LAYOUTS.items(), ("acme/other", LAYOUTS["acme/web"])]
    ]
    found = ranges_of(spaces)
    assert found.namespaces.num_rows == len(spaces)
    assert found.layouts.num_rows == len(LAYOUTS)
    assert len(found.bundles) == sum(len(edges) - 1 for edges in [*LAYOUTS.values(), LAYOUTS["acme/web"]])
