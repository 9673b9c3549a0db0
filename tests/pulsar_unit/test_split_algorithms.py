"""Restates the tests of the split algorithms (Pulsar 4.2.4)."""

import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

from evenkeel.errors import BadInput
from evenkeel.model.bundles import FULL_RANGE, BundleRange, topic_hash
from evenkeel.model.split_algorithms import algorithm_named, option_of
from evenkeel.model.split_algorithms.split_option import BundleTopics, Cut, TopicLoads
from tests.pulsar_unit.given import MIB, settings
from tests.pulsar_unit.mirror import mirrors

FLOW = "FlowOrQpsEquallyDivideBundleSplitAlgorithmTest"
SPECIFIED = "SpecifiedPositionsBundleSplitAlgorithmTest"
COUNT = "TopicCountEquallyDivideBundleSplitAlgorithmTest"
LIMITS = settings(
    loadBalancerNamespaceBundleMaxMsgRate=1010,
    loadBalancerNamespaceBundleMaxBandwidthMbytes=100,
    flowOrQpsDifferenceThresholdPercentage=10,
)


def topics_of(names: Sequence[str], loads: Mapping[str, tuple[float, float]] | None = None) -> BundleTopics:
    """Topics of a bundle; `loads`: topic -> (msg/s, byte/s), in and out together."""
    loaded = [(topic_hash(name), *(loads or {})[name]) for name in names if name in (loads or {})]
    return BundleTopics(sorted(map(topic_hash, names)), TopicLoads.of(loaded))


def cut(
    algorithm: str, topics: BundleTopics, found: BundleRange = FULL_RANGE, positions: list[int] | None = None
) -> Cut:
    return algorithm_named(algorithm)(option_of(found, LIMITS, topics, positions))


@mirrors(FLOW, "testSplitBundleByFlowOrQps")
def test_flow_or_qps_cuts_no_part_above_a_limit() -> None:
    prefix = "persistent://test-tenant1/test-namespace1/test"
    loads: dict[str, tuple[float, float]] = {}
    for i in range(1, 13):
        rate = 24.5 + 25.0 if i < 6 else 25.5 + 25.0
        loads |= {f"{prefix}{i}-partition-{j}": (rate, 2000.0) for j in range(20)}
    loads[f"{prefix}695-partition-0"] = (25.0 + 35.0, 2000.0)
    found = cut("flow_or_qps_equally_divide", topics_of(list(loads), loads))
    by_hash = {topic_hash(name): figures for name, figures in loads.items()}
    assert found.positions
    for low, high in pairwise((0, *found.positions)):
        piece = [figures for number, figures in by_hash.items() if low <= number < high]
        assert sum(rate for rate, _ in piece) < 1010
        assert sum(flow for _, flow in piece) < 100 * MIB


@mirrors(FLOW, "testFirstPositionIsOverLoad")
def test_flow_or_qps_cuts_off_a_first_topic_above_the_limit() -> None:
    names = [f"persistent://test-tenant1/test-namespace1/test-partition-{i}" for i in range(5)]
    ordered = sorted(names, key=topic_hash)
    loads = {name: (2000.0, 2000.0) if name == ordered[0] else (49.5, 2000.0) for name in names}
    found = cut("flow_or_qps_equally_divide", topics_of(names, loads))
    left, right = topic_hash(ordered[0]), topic_hash(ordered[1])
    assert found.positions[0] == left + (right - left) // 2 + 1


@mirrors("NamespaceBundleSplitAlgorithmTest", "testOfMethodReturnCorrectValue")
@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("range_equally_divide", "range_equally_divide"),
        ("topic_count_equally_divide", "topic_count_equally_divide"),
        ("specified_positions_divide", "specified_positions_divide"),
        ("flow_or_qps_equally_divide", "flow_or_qps_equally_divide"),
        ("whatever", None),
    ],
)
def test_algorithms_by_name(name: str, module: str | None) -> None:
    """Pulsar answers null for an unknown name, Evenkeel refuses it."""
    if module is None:
        with pytest.raises(BadInput):
            algorithm_named(name)
    else:
        assert algorithm_named(name).__module__.rpartition(".")[2] == module


@mirrors("RangeEquallyDivideBundleSplitAlgorithmTest", "testGetSplitBoundaryMethodReturnCorrectResult")
def test_range_equally_divide_cuts_at_the_middle() -> None:
    found = cut("range_equally_divide", BundleTopics(), BundleRange(10, 0xFFFFFFFF))
    assert found.positions[0] == 10 + (0xFFFFFFFF - 10) // 2


@mirrors(SPECIFIED, "testTotalTopicsSizeLessThan1")
def test_specified_positions_cut_no_bundle_with_one_topic() -> None:
    found = cut("specified_positions_divide", topics_of(["a"]), positions=[1, 2])
    assert not found.positions
    assert not found.failed


@mirrors(SPECIFIED, "testSpecifiedPositionsLessThan1")
@pytest.mark.parametrize("positions", [None, []])
def test_specified_positions_fail_without_positions(positions: list[int] | None) -> None:
    """Pulsar raises an exception, Evenkeel marks the cut as failed."""
    assert cut("specified_positions_divide", topics_of(["topic", "topic2"]), positions=positions).failed


@mirrors(SPECIFIED, "testAlgorithmReturnCorrectResult")
def test_specified_positions_inside_the_bundle() -> None:
    asked = [-1, 0, 1, 100, 200, 500, 800, 1000, 1100]
    found = cut("specified_positions_divide", topics_of(["topic", "topic2"]), BundleRange(1, 1000), asked)
    assert sorted(found.positions) == [100, 200, 500, 800]


@mirrors(COUNT, "testTopicsSizeLessThan1")
def test_topic_count_cuts_no_bundle_with_one_topic() -> None:
    found = cut("topic_count_equally_divide", topics_of(["a"]))
    assert not found.positions
    assert not found.failed


@mirrors(COUNT, "testAlgorithmReturnCorrectResult")
def test_topic_count_cuts_between_the_middle_topics() -> None:
    hashes = sorted(zlib.crc32(name.encode()) for name in ("a", "b", "c"))
    left, right = hashes[max(len(hashes) // 2 - 1, 0)], hashes[len(hashes) // 2]
    assert cut("topic_count_equally_divide", topics_of(["a", "b", "c"])).positions[0] == left + (right - left) // 2
