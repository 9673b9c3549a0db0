"""Formulas of the round and of the sums over topics: Pulsar's own answers, and Spark's against Python's, to the bit."""

from __future__ import annotations

import gzip
import json
import math
import random
import struct
import zlib
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.aggregate.broker_load import RESOURCES, percent, weighted_usage, weights_in
from evenkeel.aggregate.bundle_load import edges_of, is_broker_namespace, is_system_namespace, namespaces_in_force
from evenkeel.aggregate.topic_sums import Namespace, ranges_of, with_bundle
from evenkeel.model.exact_sums import exact_sum, exact_sums
from evenkeel.settings import resolve
from evenkeel.spark.sql import MOST_THOUSANDTHS, of_thousandths, thousandths
from evenkeel.spark.sql import exact_sum as exact_sum_in_sql
from tests.builders import NOON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
AT = NOON.isoformat(timespec="microseconds")


def golden(operation: str) -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / f"{operation}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [case for case in map(json.loads, lines) if "output" in case]


def bits(figure: float | None) -> bytes:
    """The 64 bits of a double; not-a-number has one spelling here, as in the golden answers."""
    return b"NULL" if figure is None else b"NaN" if math.isnan(figure) else struct.pack("<d", figure)


def namespace(name: str, boundaries: Iterable[str], of: str = "c") -> Namespace:
    return Namespace(of, AT, name, edges_of(boundaries))


@pytest.mark.spark
def test_topics_lie_where_pulsar_finds_them(spark: SparkSession) -> None:
    """Where Pulsar's look-up raises (hash 0xffffffff) the topic lies in the last bundle, as the range is closed."""
    namespaces, topics, expected = [], [], {}
    for case in golden("bundle_of"):
        given = case["input"]
        namespaces.append(namespace(given["namespace"], given["boundaries"], case["id"]))
        for topic, found in zip(given["topics"], case["output"]["ranges"], strict=True):
            topics.append((case["id"], NOON, given["namespace"], topic, zlib.crc32(topic.encode())))
            last = f"{given['boundaries'][-2]}_0xffffffff"
            expected[case["id"], topic] = f"{given['namespace']}/{found or last}"
    shown = spark.createDataFrame(
        sorted(set(topics)), "cluster string, cycle_at timestamp, namespace string, topic string, hash bigint"
    )
    rows = with_bundle(shown, ranges_of(namespaces)).collect()
    assert {(row.cluster, row.topic): row.bundle for row in rows} == expected
    assert len(rows) == len(expected)
    assert any(hash_ == 0xFFFFFFFF for *_, hash_ in topics)


@pytest.mark.spark
def test_very_uneven_bundles_take_every_topic_once(spark: SparkSession) -> None:
    edges = [0, 1, 2, 3, 255, 256, 1 << 20, (1 << 31) - 1, 1 << 31, 0xFFFFFFFE, 0xFFFFFFFF]
    namespaces = [namespace("t/n", [f"0x{edge:08x}" for edge in edges])]
    hashes = sorted({near for edge in edges for near in (edge - 1, edge, edge + 1) if 0 <= near <= 0xFFFFFFFF})
    topics = spark.createDataFrame(
        [("c", NOON, "t/n", hash_) for hash_ in hashes],
        "cluster string, cycle_at timestamp, namespace string, hash bigint",
    )
    found = {row.hash: row.bundle for row in with_bundle(topics, ranges_of(namespaces)).collect()}
    assert sorted(found) == hashes
    for hash_, bundle in found.items():
        lower, upper = (int(text, 16) for text in bundle.rpartition("/")[2].split("_"))
        assert lower <= hash_ < upper or (upper == hash_ == 0xFFFFFFFF)
    only = {found[hashes[0]], found[hashes[-1]]}
    some = with_bundle(topics, ranges_of(namespaces, only=only)).collect()
    assert {row.hash: row.bundle for row in some} == {hash_: name for hash_, name in found.items() if name in only}


@pytest.mark.parametrize(
    ("boundaries", "edges"),
    [
        (["0x00000000", "0x8000000A", "0xffffffff"], (0, 0x8000000A, 0xFFFFFFFF)),
        (["0x00000000", None, "1073741824", "0x4000000", "0X40000000", "0xffffffff"], (0, 0xFFFFFFFF)),
        (["0xffffffff\n", "0x00000000\r\n", "0x00000001\n\n"], (0xFFFFFFFF, 0)),
        ([], ()),
        (None, ()),
    ],
)
def test_boundaries_are_hashes_in_their_order(boundaries: list[str | None] | None, edges: tuple[int, ...]) -> None:
    assert edges_of(boundaries) == edges


def test_brokers_own_namespaces_are_in_force_where_a_broker_claims_them() -> None:
    claims = [{"namespace": name} for name in ("pulsar/b1:8080", "pulsar/b1:8080", "acme/web", "acme/b2:8080")]
    listed = [
        {"namespace": "acme/web", "boundaries": ["0x00000000", "0xffffffff"]},
        {"namespace": "acme/cut", "boundaries": ["0x00000000"]},
    ]
    full = (0, 0xFFFFFFFF)
    assert namespaces_in_force(listed, claims) == [("acme/web", full), ("pulsar/b1:8080", full)]


@pytest.mark.parametrize(
    ("name", "is_own"),
    [
        ("pulsar/b1.example:8080", True),
        ("pulsar/lab/10.0.0.1:8080", True),
        ("pulsar/[::1]:8080", True),
        ("sla-monitor/b1:8080", True),
        ("pulsar/system", False),
        ("pulsar/b1:8080x", False),
        ("acme/b1:8080", False),
    ],
)
def test_brokers_own_namespaces_are_told_by_their_name(name: str, is_own: bool) -> None:
    assert is_broker_namespace(name) is is_own
    assert is_system_namespace(name) is (is_own or name == "pulsar/system")


def test_usage_is_pulsars_to_the_bit() -> None:
    theirs = dict(zip(RESOURCES, ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut"), strict=True))
    compared = 0
    for case in golden("usage"):
        settings = resolve(observed=None, overrides=case["input"].get("config", {})).settings
        for sample, answer in zip(case["input"]["samples"], case["output"]["samples"], strict=True):
            if sample.get("clear"):
                continue
            found = {name: percent(*map(float, sample.get(key, (0.0, 0.0)))) for name, key in theirs.items()}
            for name, key in theirs.items():
                assert bits(found[name]) == bits(float(answer["percent"][key])), (case["id"], name)
            weighted = weighted_usage(
                found, weights_in(settings), ("cpu", "direct_memory", "bandwidth_in", "bandwidth_out")
            )
            assert bits(weighted) == bits(float(answer["modularWeightedMax"])), case["id"]
            compared += 1
    assert compared > 100


def test_a_resource_whose_usage_is_unknown_never_wins_and_an_unknown_cpu_makes_the_maximum_unknown() -> None:
    def weighted(*percents: float | None) -> float | None:
        weights = dict(zip(RESOURCES, (1.0, 1.0, 0.0, 1.0, 1.0), strict=True))
        return weighted_usage(dict(zip(RESOURCES, percents, strict=True)), weights, RESOURCES)

    assert weighted(10.0, 90.0, 20.0, 5.0, 5.0) == 0.9
    assert weighted(10.0, 20.0, 30.0, None, 5.0) == 0.2
    assert weighted(None, 20.0, 30.0, 5.0, 5.0) is None
    assert weighted(10.0, 20.0, None, 5.0, 5.0) == 0.2
    assert weighted(math.nan, 20.0, None, 5.0, 5.0) == 0.2


def figures(dice: random.Random) -> list[Callable[[], float]]:
    """Ways to make a double: of any size, few digits, averages, powers of two, whole numbers beyond 2^53."""
    return [
        lambda: dice.choice([1, -1]) * 10 ** dice.uniform(-22, 15),
        lambda: dice.randrange(10**6) / 10 ** dice.randrange(7),
        lambda: (dice.randrange(1, 1_000) * dice.uniform(0, 1e6) + dice.uniform(0, 1e6)) / 1_000,
        lambda: 2.0 ** dice.randrange(-70, 62),
        lambda: dice.choice([1, -1]) * 2.0 ** dice.randrange(-1074, -60),
        lambda: float(dice.randrange(2**53, 2**61)),
        lambda: dice.choice([0.0, -0.0]),
    ]


@pytest.mark.spark
def test_sums_in_python_are_those_of_spark_to_the_bit(spark: SparkSession) -> None:
    dice = random.Random(23)
    makers = figures(dice)
    groups = {n: [dice.choice(makers)() for _ in range(dice.choice([1, 1, 2, 30]))] for n in range(2_000)}
    odd = [[], [None], [None, 2.5], [1.0, math.nan], [math.inf], [1e20], [9e19, 9e19], [1e300, None], [-0.0]]
    odd += [[-5e-324], [5e-324, 1.0]]
    groups |= dict(enumerate(odd, start=10_000))
    rows = [(n, figure) for n, own in groups.items() for figure in own]
    sums = (
        spark.createDataFrame(rows, "n int, x double").groupBy("n").agg(exact_sum_in_sql("x").alias("total")).collect()
    )
    theirs = {row.n: row.total for row in sums}
    assert exact_sum([]) is None
    for n, own in groups.items():
        assert not own or bits(exact_sum(own)) == bits(theirs[n]), own
    assert [bits(x) for x in exact_sums(groups.values())] == [bits(exact_sum(own)) for own in groups.values()]
    # The binary values' own sums differ, so that the test can fail.
    assert any(bits(sum(own)) != bits(theirs[n]) for n, own in groups.items() if own and n < 10_000)


@pytest.mark.parametrize(
    ("figure", "exactly"),
    [
        pytest.param(0.1, "0.1", id="what Python writes"),
        pytest.param(9e-20, "0", id="nothing at 18 decimals"),
        pytest.param(-1.1e-19, "0", id="rounded to nothing"),
        pytest.param(5e-19, "1e-18", id="half a step is rounded up"),
        pytest.param(0.012345678901234567, "0.012345678901234567", id="18 decimals"),
        pytest.param(0.0012345678901234567, "0.001234567890123457", id="19 decimals"),
        pytest.param(-(2.0**-30), "-0.000000000931322575", id="a power of two"),
        pytest.param(2.0**53, "9007199254740992", id="the least large whole number"),
        pytest.param(2.0**57 + 32, "144115188075855904", id="a large whole number with all its digits"),
        pytest.param(-(2.0**58 + 64), "-288230376151711810", id="a large whole number without its last digit"),
        pytest.param(2.0**60, "1152921504606846980", id="a large power of two without its last digit"),
        pytest.param(2.0**61 + 512, "2305843009213694500", id="a large whole number without its last two digits"),
        pytest.param(2.0**63, "9223372036854776000", id="beyond Java's whole numbers"),
    ],
)
def test_a_figure_counts_as_the_decimal_that_java_writes(figure: float, exactly: str) -> None:
    """Without its billions, which are exact in any case, each digit shows."""
    billions = int(Decimal(exactly) / 10**9) * 10**9
    rest = float(Decimal(exactly) - billions)
    assert exact_sum([figure, -float(billions)]) == rest
    assert exact_sums([[figure, None, -float(billions)]] * 50) == [rest] * 50


@given(st.lists(st.lists(st.none() | st.floats()), max_size=5), st.integers(0, 2**32))
def test_many_sums_at_once_are_each_the_sum_alone(groups: list[list[float | None]], seed: int) -> None:
    dice = random.Random(seed)
    makers = figures(dice)
    groups += [[dice.choice(makers)() for _ in range(dice.choice([0, 1, 40]))] for _ in range(10)]
    assert [bits(found) for found in exact_sums(groups)] == [bits(exact_sum(own)) for own in groups]


@pytest.mark.spark
def test_sum_with_a_figure_that_is_none_is_not_known_and_null_is_passed_over(spark: SparkSession) -> None:
    rows = [("nan", 1.0), ("nan", float("nan")), ("huge", 1e300), ("null", None), ("null", 2.5), ("none", None)]
    sums = (
        spark.createDataFrame(rows, "name string, x double").groupBy("name").agg(exact_sum_in_sql("x").alias("total"))
    )
    assert {row.name: row.total for row in sums.collect()} == {"nan": None, "huge": None, "null": 2.5, "none": None}


@pytest.mark.spark
def test_sums_of_thousandths_are_the_exact_sums_to_the_bit(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    dice = random.Random(5)
    makers: list[Callable[[], float]] = [
        lambda: int(dice.uniform(-1, 1) * 10 ** dice.randrange(1, 12)) / 1000,
        lambda: dice.choice([1, -1]) * dice.randrange(MOST_THOUSANDTHS) / 1000,
        lambda: float(dice.randrange(10**6)),
        lambda: 2.0 ** dice.randrange(-3, 28),
        lambda: -0.0,
    ]
    groups = {n: [dice.choice(makers)() for _ in range(dice.choice([1, 2, 50]))] for n in range(2_000)}
    rows = spark.createDataFrame([(n, figure) for n, own in groups.items() for figure in own], "n int, x double")
    sums = rows.groupBy("n").agg(
        of_thousandths(F.sum(thousandths("x"))).alias("total"),
        exact_sum_in_sql("x").alias("exact"),
        F.count(thousandths("x")).alias("whole"),
    )
    for row in sums.collect():
        assert row.whole == len(groups[row.n])
        assert bits(row.total) == bits(row.exact) == bits(exact_sum(groups[row.n])), groups[row.n]


@pytest.mark.spark
def test_what_is_no_whole_number_of_thousandths_is_none_of_them(spark: SparkSession) -> None:
    most = MOST_THOUSANDTHS / 1000
    none = [0.0005, 1 / 3, 0.1 + 0.2, 1e-300, most, -most, 1e306, math.inf, -math.inf]
    expected: dict[float, int | None] = dict.fromkeys(none)
    expected |= {0.001: 1, -2.5: -2500, 0.0: 0, 0.125: 125, 1e5: 10**8}
    expected |= {(MOST_THOUSANDTHS - 1) / 1000: MOST_THOUSANDTHS - 1}
    rows = spark.createDataFrame([(x,) for x in (*expected, math.nan, None)], "x double")
    found = {row.x: row.whole for row in rows.select("x", thousandths("x").alias("whole")).collect()}
    assert {x: whole for x, whole in found.items() if x is not None and not math.isnan(x)} == expected
    assert [whole for x, whole in found.items() if x is None or math.isnan(x)] == [None, None]


@pytest.mark.spark
def test_sums_of_thousandths_of_any_size_become_the_next_double(spark: SparkSession) -> None:
    dice = random.Random(7)
    totals = [
        0,
        2**53 - 1,
        2**53,
        2**53 + 1,
        2**63 - 1,
        *(dice.randrange(2 ** dice.randrange(50, 64)) for _ in range(500)),
    ]
    signed = [(sign * total,) for total in totals for sign in (1, -1)]
    rows = spark.createDataFrame(signed, "total bigint")
    for row in rows.select("total", of_thousandths(rows["total"]).alias("double")).collect():
        assert bits(row.double) == bits(row.total / 1000 + 0.0), row.total
