"""Where flow_or_qps_equally_divide cuts: what must hold for any topics, its edges, and the pages' examples."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model.bundles import FULL_RANGE, HIGHEST_HASH, BundleRange, apply_split
from evenkeel.model.split_algorithms import algorithm_named, flow_or_qps_equally_divide, option_of
from evenkeel.model.split_algorithms.split_option import BundleTopics, Cut, SplitOption, TopicLoads
from evenkeel.settings import Settings

Topic = tuple[int, float, float]

MIB = 1_048_576.0
MAX_RATE, MAX_THROUGHPUT = 1_000.0, 4_096.0
hashes = st.one_of(st.integers(1, HIGHEST_HASH - 1), st.integers(1, 40))
rates = st.sampled_from([0.0, 1.0, 250.0, 500.0, 999.5, 1_000.0, 1_000.5, 5_000.0])
throughputs = st.sampled_from([0.0, 1.0, 2_048.0, 4_096.0, 4_097.0])
topics = st.lists(st.tuples(hashes, rates, throughputs), max_size=25, unique_by=lambda topic: topic[0])


def flow(found: list[Topic], difference: float = 0.1, bundle: BundleRange = FULL_RANGE) -> Cut:
    known = BundleTopics(sorted(topic for topic, _, _ in found), TopicLoads.of(found))
    limits = {"max_rate": MAX_RATE, "max_throughput": MAX_THROUGHPUT, "difference": difference}
    return flow_or_qps_equally_divide.cut(SplitOption(bundle.lower, bundle.upper, known, **limits))


@given(found=topics, difference=st.sampled_from([0.0, 0.1, 0.5]))
def test_flow_cuts_lie_between_topics_ascending_and_make_children_that_cover_the_parent(
    found: list[Topic], difference: float
) -> None:
    positions = flow(found, difference).positions
    assert all(left < right for left, right in pairwise(positions))
    busy = sorted(topic for topic, rate, throughput in found if rate > 0 or throughput > 0)
    assert all(busy[0] < position <= busy[-1] for position in positions)
    if positions:
        split = apply_split((0, HIGHEST_HASH), FULL_RANGE, positions)
        assert split is not None
        assert split.boundaries == (0, *positions, HIGHEST_HASH)


@given(found=topics)
def test_flow_leaves_no_piece_above_a_limit_but_one_of_a_single_topic(found: list[Topic]) -> None:
    positions = flow(found).positions
    if not positions:
        return
    for lower, upper in pairwise((0, *positions, HIGHEST_HASH)):
        piece = [topic for topic in found if lower <= topic[0] < upper and (topic[1] > 0 or topic[2] > 0)]
        assert piece
        fits = sum(rate for _, rate, _ in piece) <= MAX_RATE and sum(thr for _, _, thr in piece) <= MAX_THROUGHPUT
        assert fits or len(piece) == 1


@given(found=topics)
def test_flow_stays_below_the_gate_only_where_both_totals_are_below_it(found: list[Topic]) -> None:
    rate, throughput = sum(topic[1] for topic in found), sum(topic[2] for topic in found)
    below = rate < MAX_RATE * (1 + 0.1) and throughput < MAX_THROUGHPUT * (1 + 0.1)
    busy = [topic for topic in found if topic[1] > 0 or topic[2] > 0]
    if len(busy) >= 2:
        assert (flow(found).rule == "traffic_below_gate") == below


def test_flow_reaches_a_limit_and_does_not_pass_it() -> None:
    assert flow([(10, 500.0, 0.0), (20, 500.0, 0.0)], 0.0).rule == "one_piece"
    assert flow([(10, 500.0, 0.0), (20, 500.1, 0.0)], 0.0).positions == (16,)
    assert flow([(10, 550.0, 0.0), (20, 549.9, 0.0)]).rule == "traffic_below_gate"
    assert flow([(10, 550.0, 0.0), (20, 550.0, 0.0)]).positions == (16,)


def test_flow_puts_the_left_one_of_two_neighbours_left() -> None:
    assert flow([(10, 900.0, 0.0), (11, 900.0, 0.0)]).positions == (11,)


def test_flow_takes_the_later_figures_of_topics_that_share_a_hash() -> None:
    assert flow([(10, 100.0, 0.0), (30, 700.0, 0.0), (30, 900.0, 0.0)]).positions == (31,)
    assert flow([(10, 100.0, 0.0), (30, 900.0, 0.0), (30, 950.0, 0.0)]).positions == (21, 31)


def test_flow_does_not_count_topics_without_traffic_or_without_figures() -> None:
    assert flow([(10, 5_000.0, 0.0), (20, 0.0, 0.0)]).rule == "too_few_busy_topics"
    assert flow([(10, 5_000.0, 0.0)]).rule == "too_few_topics"
    unloaded = BundleTopics([10, 20, 30], TopicLoads.of([(10, 5_000.0, 0.0)]))
    assert flow_or_qps_equally_divide.cut(SplitOption(0, 100, unloaded, None, 1.0, 1.0)).rule == "too_few_busy_topics"


def test_flow_limits_do_not_overflow_as_those_of_the_choice_do() -> None:
    settings = Settings(loadBalancerNamespaceBundleMaxBandwidthMbytes=2_048)
    assert option_of(FULL_RANGE, settings).max_throughput == 2_048 * 1_048_576


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308, -1.0], ids=str)
def test_flow_cuts_whatever_the_figures_of_topics(bad: float) -> None:
    for figure_of in ([bad, 40_000.0, 40_000.0], [40_000.0, bad, 40_000.0], [bad, bad, bad]):
        topics = BundleTopics((1, 50, 99), TopicLoads((1, 50, 99), figure_of, figure_of))
        found = algorithm_named("flow_or_qps_equally_divide")(option_of(BundleRange(0, 100), Settings(), topics))
        assert list(found.positions) == sorted(set(found.positions))
        assert all(0 < position < 100 for position in found.positions)


@pytest.mark.parametrize(
    ("max_rate", "max_mib", "cuts"),
    [
        (450.0, 200, (0x1C800001, 0x2E800001, 0x48800001, 0x67000001)),
        (1900.0, 90, (0x2E800001, 0x67000001)),
        (1100.0, 110, (0x48800001,)),
    ],
    ids=["case 1, by rate", "case 2, by throughput", "case 3, both"],
)
def test_concepts_flow_or_qps_equally_divide(max_rate: float, max_mib: int, cuts: tuple[int, ...]) -> None:
    """The places are those of the page. Its numbers are not: it takes the mean of hexadecimal digits as if they were
    decimal (0x19500000, 0x31500000, …), and Pulsar adds 1. Nor are there rounds of splitting: one call gives all cuts.
    """
    hashes = [0x10000000, 0x15000000, 0x24000000, 0x39000000, 0x58000000, 0x76000000]
    loads = TopicLoads(hashes, [100.0 * n for n in range(1, 7)], [10.0 * MIB * n for n in range(1, 7)])
    option = SplitOption(0, 0xFFFFFFFF, BundleTopics(hashes, loads), None, max_rate, max_mib * MIB, 0.1)
    assert flow_or_qps_equally_divide.cut(option).positions == cuts


def test_concepts_flow_or_qps_leaves_a_bundle_alone_that_is_hardly_too_busy() -> None:
    """The page knows no tolerance; 1,050 msg/s are within 110 % of a limit of 1,000."""
    loads = TopicLoads([0x10000000, 0x20000000], [500.0, 550.0], [0.0, 0.0])
    option = SplitOption(0, 0xFFFFFFFF, BundleTopics(list(loads.hashes), loads), None, 1000.0, 100 * MIB, 0.1)
    assert flow_or_qps_equally_divide.cut(option).positions == ()
    assert flow_or_qps_equally_divide.cut(replace(option, max_rate=950.0)).positions == (0x18000001,)
