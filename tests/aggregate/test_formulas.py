"""Spark's formulas against Pulsar's own answers and against the same rules in Python, to the bit."""

from __future__ import annotations

import gzip
import json
import math
import random
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.aggregate.broker_load import RESOURCES, percent, weighted_usage
from evenkeel.aggregate.bundle_load import AVERAGES, MOST_SAMPLES, SAMPLES, started_from_quotas, with_averages
from evenkeel.aggregate.topic_sums import FIGURES, bundles_in_force, is_broker_namespace, with_bundle
from evenkeel.model.averages import history_of_quota, updated
from evenkeel.model.load import BundleHistory, BundleStats, MessageAverages
from evenkeel.settings import resolve
from evenkeel.spark.sql import exact_sum
from tests.builders import NOON, cluster, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def golden(operation: str) -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / f"{operation}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [case for case in map(json.loads, lines) if "output" in case]


def bits(figure: float) -> bytes:
    """The 64 bits of a double; not-a-number has one spelling here, as in the golden answers."""
    return b"NaN" if math.isnan(figure) else struct.pack("<d", figure)


def test_topics_lie_where_pulsar_finds_them(spark: SparkSession) -> None:
    """Where Pulsar's look-up raises (hash 0xffffffff) the topic lies in the last bundle, as the range is closed."""
    namespaces, topics, expected = [], [], {}
    for case in golden("bundle_of"):
        given = case["input"]
        key = {"cluster": case["id"], "cycle_at": NOON, "namespace": given["namespace"]}
        namespaces.append({**key, "boundaries": given["boundaries"], "bundles": len(given["boundaries"]) - 1})
        for topic, found in zip(given["topics"], case["output"]["ranges"], strict=True):
            topics.append((case["id"], NOON, given["namespace"], topic, zlib.crc32(topic.encode())))
            last = f"{given['boundaries'][-2]}_0xffffffff"
            expected[case["id"], topic] = f"{given['namespace']}/{found or last}"
    bundles = bundles_in_force(frame(spark, "namespace_bundles", namespaces), frame(spark, "bundle_ownership", []))
    shown = spark.createDataFrame(
        sorted(set(topics)), "cluster string, cycle_at timestamp, namespace string, topic string, hash bigint"
    )
    rows = with_bundle(shown, bundles).collect()
    assert {(row.cluster, row.topic): row.bundle for row in rows} == expected
    assert len(rows) == len(expected)
    assert any(hash_ == 0xFFFFFFFF for *_, hash_ in topics)


def test_very_uneven_bundles_take_every_topic_once(spark: SparkSession) -> None:
    edges = [0, 1, 2, 3, 255, 256, 1 << 20, (1 << 31) - 1, 1 << 31, 0xFFFFFFFE, 0xFFFFFFFF]
    boundaries = [f"0x{edge:08x}" for edge in edges]
    rows = [{"cluster": "c", "cycle_at": NOON, "namespace": "t/n", "boundaries": boundaries, "bundles": len(edges) - 1}]
    bundles = bundles_in_force(frame(spark, "namespace_bundles", rows), frame(spark, "bundle_ownership", []))
    hashes = sorted({near for edge in edges for near in (edge - 1, edge, edge + 1) if 0 <= near <= 0xFFFFFFFF})
    topics = spark.createDataFrame(
        [("c", NOON, "t/n", hash_) for hash_ in hashes],
        "cluster string, cycle_at timestamp, namespace string, hash bigint",
    )
    found = {row.hash: row.bundle for row in with_bundle(topics, bundles).collect()}
    assert sorted(found) == hashes
    for hash_, bundle in found.items():
        lower, upper = (int(text, 16) for text in bundle.rpartition("/")[2].split("_"))
        assert lower <= hash_ < upper or (upper == hash_ == 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("namespace", "is_own"),
    [
        ("pulsar/b1.example:8080", True),
        ("pulsar/lab/10.0.0.1:8080", True),
        ("sla-monitor/b1:8080", True),
        ("pulsar/system", False),
        ("acme/b1:8080", False),
    ],
)
def test_brokers_own_namespaces_are_told_by_their_name(spark: SparkSession, namespace: str, is_own: bool) -> None:
    from pyspark.sql import functions as F

    (row,) = spark.createDataFrame([(namespace,)], "name string").select(is_broker_namespace(F.col("name"))).collect()
    assert row[0] is is_own


def test_usage_is_pulsars_to_the_bit(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    theirs = dict(zip(RESOURCES, ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut"), strict=True))
    rows, expected = [], {}
    for case in golden("usage"):
        settings = resolve(observed=None, overrides=case["input"].get("config", {})).settings
        weights = (
            settings.loadBalancerCPUResourceWeight,
            settings.loadBalancerMemoryResourceWeight,
            settings.loadBalancerDirectMemoryResourceWeight,
            settings.bandwidth_in_weight,
            settings.bandwidth_out_weight,
        )
        for n, (sample, answer) in enumerate(zip(case["input"]["samples"], case["output"]["samples"], strict=True)):
            if sample.get("clear"):
                continue
            figures = [float(x) for key in theirs.values() for x in sample.get(key, (0.0, 0.0))]
            rows.append((case["id"], n, *figures, *weights))
            expected[case["id"], n] = answer
    columns = [f"{name}_{part} double" for name in theirs for part in ("usage", "limit")]
    columns += [f"{name}_weight double" for name in theirs]
    samples = spark.createDataFrame(rows, ", ".join(["id string", "n int", *columns]))
    samples = samples.withColumns(
        {f"{name}_percent": percent(F.col(f"{name}_usage"), F.col(f"{name}_limit")) for name in RESOURCES}
    ).withColumn("weighted", weighted_usage(F.lit(False)))
    found = samples.collect()
    assert len(found) == len(expected) > 100
    for row in found:
        answer = expected[row.id, row.n]
        for name, key in theirs.items():
            assert bits(row[f"{name}_percent"]) == bits(float(answer["percent"][key])), (row.id, name)
        assert bits(row.weighted) == bits(float(answer["modularWeightedMax"])), row.id


def test_heap_counts_for_the_extensible_manager_only_and_unknown_usage_stays_unknown(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    columns = [f"{name}_percent double" for name in RESOURCES] + [f"{name}_weight double" for name in RESOURCES]
    weights = (1.0, 1.0, 0.0, 1.0, 1.0)
    rows = [
        (10.0, 90.0, 20.0, 5.0, 5.0, *weights),
        (10.0, 20.0, 30.0, None, 5.0, *weights),
        (10.0, 20.0, None, 5.0, 5.0, *weights),
    ]
    loads = spark.createDataFrame(rows, ", ".join(columns))
    found = loads.select(weighted_usage(F.lit(False)).alias("modular"), weighted_usage(F.lit(True)).alias("extensible"))
    assert [tuple(row) for row in found.collect()] == [(0.1, 0.9), (None, None), (0.1, 0.2)]


def test_averages_are_those_of_the_rule_in_python_to_the_bit(spark: SparkSession) -> None:
    dice = random.Random(7)
    histories: dict[str, BundleHistory] = {}
    for n, samples in enumerate([0, 1, 5, 9, 10, 11, 500, 999, 1_000, 1_200]):
        short, long = (
            MessageAverages(most, min(samples, most), *[dice.uniform(0, 1e9) for _ in range(4)])
            for most in MOST_SAMPLES.values()
        )
        histories[f"b{n}"] = BundleHistory(short, long, 0)
    sample = {name: [dice.uniform(0, 1e8) for _ in FIGURES] for name in histories}
    sample["silent"], sample["new"] = [None] * 4, [1.5, 0.1, 3e5, 0.0]
    rows = []
    for name, figures in sample.items():
        history = histories.get(name)
        terms = (history.short_term, history.long_term) if history else (None, None)
        before = [getattr(term, figure) if term else None for term in terms for figure in FIGURES]
        rows.append((name, None, *figures, *[term.samples if term else None for term in terms], *before))
    # Upset figures are shown, and are not a sample.
    silent = next(row for row in rows if row[0] == "silent")
    rows.append(("upset", "unsettled", 7.0, 7.0, 7.0, 7.0, *silent[6:]))
    types = ["bundle string", "measured_gap string", *[f"measured_{figure} double" for figure in FIGURES]]
    types += [f"{name} int" for name in SAMPLES] + [f"{name} double" for name in AVERAGES]
    before_it = spark.createDataFrame(rows, ", ".join(types)).selectExpr("*", "bigint(null) as samples_since_quota")
    found = {row.bundle: row for row in with_averages(before_it).collect()}

    silent = found["silent"]
    assert [silent[name] for name in SAMPLES] == [0, 0]
    assert [silent[f"long_{figure}"] for figure in FIGURES] == [50.0, 50.0, 50_000.0, 50_000.0]
    for name, figures in sample.items():
        if name == "silent":
            continue
        stats = BundleStats(**dict(zip(FIGURES, figures, strict=True)))
        after = updated(histories.get(name), stats)
        for term, expected in (("short", after.short_term), ("long", after.long_term)):
            assert found[name][f"{term}_samples"] == expected.samples
            for figure in FIGURES:
                assert bits(found[name][f"{term}_{figure}"]) == bits(getattr(expected, figure)), (name, term, figure)


def test_averages_begin_from_a_quota_only_where_there_is_no_history(spark: SparkSession) -> None:
    """Two bundles were never seen, one was seen and never measured, one began from another quota, one has a sample."""
    quota = dict(zip(FIGURES, (5_000.0, 0.1, 1e6, 3e5), strict=True))
    sample = BundleStats(**dict.fromkeys(FIGURES, 7.7))
    default, own = [50.0, 50.0, 5e4, 5e4] * 2, [1.0] * 8
    given = {
        "new": (True, None, None, None, [None] * 8),
        "silent": (False, None, None, None, [None] * 8),
        "unmeasured": (True, 0, 0, None, default),
        "other quota": (True, 10, 1_000, 0, own),
        "measured": (True, 1, 1, None, own),
        "since": (True, 10, 1_000, 3, own),
    }
    rows = [
        ("c", name, *[7.7 if is_told else None] * 4, *counts, *before)
        for name, (is_told, *counts, before) in given.items()
    ]
    types = ["cluster string", "bundle string", *[f"measured_{figure} double" for figure in FIGURES]]
    types += [*[f"{name} int" for name in SAMPLES], "samples_since_quota bigint"]
    types += [f"{name} double" for name in AVERAGES]
    bundles = spark.createDataFrame(rows, ", ".join(types)).selectExpr("*", "string(null) as measured_gap")
    told = [("c", name, *quota.values()) for name in given] + [("other", "new", 1.0, 1.0, 1.0, 1.0)]
    quotas = spark.createDataFrame(
        told, ", ".join(["cluster string", "bundle string", *[f"{x} double" for x in FIGURES]])
    )
    found = {row.bundle: row for row in with_averages(started_from_quotas(bundles, quotas)).collect()}
    begun = history_of_quota(BundleStats(**quota))
    assert found["silent"].samples_since_quota == 0
    fresh = dict.fromkeys(("new", "unmeasured", "other quota"), updated(begun, sample))
    for name, after in ({"silent": begun} | fresh).items():
        row = found[name]
        assert row.samples_since_quota == after.samples_since_quota, name
        for term, expected in (("short", after.short_term), ("long", after.long_term)):
            assert row[f"{term}_samples"] == expected.samples, name
            for figure in FIGURES:
                assert bits(row[f"{term}_{figure}"]) == bits(getattr(expected, figure)), (name, term, figure)
    assert (found["measured"].long_samples, found["measured"].samples_since_quota) == (2, None)
    assert found["measured"].long_msg_rate_in == (1.0 + 7.7) / 2.0
    assert (found["since"].samples_since_quota, found["since"].long_msg_rate_in) == (4, (999.0 * 1.0 + 7.7) / 1_000.0)


def test_sums_are_the_same_bits_in_any_order_and_partitioning(spark: SparkSession) -> None:
    dice = random.Random(11)
    figures = [dice.choice([1e-3, 1.0, 1e9]) * dice.random() for _ in range(3_000)]
    found = set()
    for parts in (1, 2, 7):
        dice.shuffle(figures)
        rows = spark.createDataFrame([(x,) for x in figures], "x double").repartition(parts)
        found.add(bits(rows.select(exact_sum("x").alias("total")).collect()[0].total))
    assert len(found) == 1
    # The doubles' own sums differ by order, so that the test can fail.
    assert len({bits(sum(figures)), bits(sum(sorted(figures))), bits(sum(sorted(figures, reverse=True)))}) > 1


def test_sum_with_a_figure_that_is_none_is_not_known_and_null_is_passed_over(spark: SparkSession) -> None:
    rows = [("nan", 1.0), ("nan", float("nan")), ("huge", 1e300), ("null", None), ("null", 2.5), ("none", None)]
    sums = spark.createDataFrame(rows, "name string, x double").groupBy("name").agg(exact_sum("x").alias("total"))
    assert {row.name: row.total for row in sums.collect()} == {"nan": None, "huge": None, "null": 2.5, "none": None}


def test_built_cluster_of_the_builder_is_mapped_as_the_builder_maps(spark: SparkSession) -> None:
    built = cluster().namespace("acme/web", bundles=8)
    for n in range(40):
        built.topic(f"persistent://acme/web/t{n}")
    rows = built.rows()
    bundles = bundles_in_force(
        frame(spark, "namespace_bundles", rows["namespace_bundles"]), frame(spark, "bundle_ownership", [])
    )
    found = with_bundle(frame(spark, "topic_stats", rows["topic_stats"]), bundles).select("topic", "bundle").collect()
    assert {row.topic: row.bundle for row in found} == {
        row["topic"]: built.bundle_of_topic(row["topic"]) for row in rows["topic_stats"]
    }
