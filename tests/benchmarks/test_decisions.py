"""The benchmark of decisions draws Java's clusters and reads what a reference harness prints."""

from pathlib import Path

import pytest

from benchmarks._java_random import JavaRandom
from benchmarks.decisions import (
    Figure,
    as_read,
    busy_topics,
    cluster,
    extensible_cluster,
    reference_figures,
    rows_of,
    top_lists,
)
from evenkeel.cycle.reported_bundles import StatsOfBroker
from evenkeel.model.bundles import FULL_RANGE
from evenkeel.model.split_algorithms import algorithm_named, option_of
from evenkeel.settings import Settings


def test_numbers_are_those_of_java() -> None:
    """`new Random(42)` gives these; gaussians may differ in the last bit, where Java has a logarithm of its own."""
    assert JavaRandom(42).double() == 0.7275636800328681
    assert JavaRandom(42).gaussian() == pytest.approx(1.1419053154730547, rel=1e-15)
    draw = JavaRandom(42)
    assert [draw.below(10) for _ in range(5)] == [0, 3, 8, 4, 0]
    assert JavaRandom(42).below(16) == 11


def test_a_brokers_totals_are_those_of_its_bundles() -> None:
    load = cluster(3, 200)
    assert sum(len(report.bundles) for report in load.brokers.values()) == len(load.histories) == 200
    for report in load.brokers.values():
        found = sum(load.histories[bundle].short_term.throughput for bundle in report.bundles)
        assert abs(report.throughput - found) < 1e-6 * found
        assert 10.0 <= report.cpu.usage < 98.0


def test_figures_are_picked_from_the_output(tmp_path: Path) -> None:
    output = tmp_path / "bench.jsonl"
    output.write_text(
        "a remark\n"
        '{"bench":"AvgShedder (hit counts 1)","shape":"100 brokers x 100000 bundles","cpu_ms_median":1700.6,'
        '"result":"468 bundles proposed"}\n'
        '{"bench":"BundleSplitterTask","shape":"100 brokers x 100000 bundles","cpu_ms_median":133.0,"result":"5 x"}\n'
    )
    assert reference_figures(output) == {
        ("AvgShedder", "100 brokers x 100000 bundles"): Figure(1.7006, 468),
        ("BundleSplitterTask", "100 brokers x 100000 bundles"): Figure(0.133, 5),
    }


def test_the_extensible_cluster_is_the_same_one_with_its_lightest_listed_bundles_first() -> None:
    load = cluster(3, 200)
    found = extensible_cluster(load, 10)
    assert {name: data.throughput for name, data in found.loads.items()} == {
        name: report.throughput for name, report in load.brokers.items()
    }
    for name, listed in found.top_bundles.items():
        assert len(listed) == 10
        assert listed[0].throughput < listed[-1].throughput
        assert {one.bundle for one in listed} <= load.brokers[name].bundles


def test_reports_are_read_from_rows_as_a_round_reads_those_of_a_large_cluster() -> None:
    load = cluster(3, 2_000)
    found = as_read(load, rows_of(load))
    assert {type(report.stats) for report in found.brokers.values()} == {StatsOfBroker}
    assert {broker: report.stats for broker, report in found.brokers.items()} == {
        broker: report.stats for broker, report in load.brokers.items()
    }
    assert top_lists(found, 10) == top_lists(load, 10)


def test_the_busy_topics_are_cut_into_several_pieces() -> None:
    topics = busy_topics(10_000)
    assert sum(topics.loads.rates) > 2 * Settings().loadBalancerNamespaceBundleMaxMsgRate
    assert len(algorithm_named("flow_or_qps_equally_divide")(option_of(FULL_RANGE, Settings(), topics)).positions) == 2
