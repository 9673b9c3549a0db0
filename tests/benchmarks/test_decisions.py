"""The benchmark of decisions draws Java's clusters and reads what a reference harness prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._java_random import JavaRandom
from benchmarks.decisions import Figure, cluster, reference_figures


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


def test_figures_of_shedders_are_picked_from_the_output(tmp_path: Path) -> None:
    output = tmp_path / "bench.jsonl"
    output.write_text(
        "a remark\n"
        '{"bench":"AvgShedder (hit counts 1)","shape":"100 brokers x 100000 bundles","cpu_ms_median":1700.6,'
        '"result":"468 bundles proposed"}\n'
        '{"bench":"BundleSplitterTask","shape":"100 brokers x 100000 bundles","cpu_ms_median":133.0,"result":"5 x"}\n'
    )
    assert reference_figures(output) == {("AvgShedder", 100): Figure(1.7006, 468)}
