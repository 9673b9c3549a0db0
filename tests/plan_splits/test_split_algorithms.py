"""Where each algorithm cuts: what must hold for any topics, and the edges of its rules."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import BadInput
from evenkeel.model.bundles import FULL_RANGE, HIGHEST_HASH, BundleRange, apply_split
from evenkeel.settings import Settings
from evenkeel.split_algorithms import (
    FLOW,
    IMPLEMENTED,
    algorithm_named,
    cut_by_broker,
    flow_or_qps_equally_divide,
    option_of,
    specified_positions_divide,
)
from evenkeel.split_algorithms.split_option import BundleTopics, Cut, SplitOption, TopicLoads

Topic = tuple[int, float, float]

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


@given(positions=st.lists(st.integers(-5, 60), max_size=8), data=st.data())
def test_specified_positions_are_the_given_ones_strictly_inside_in_whatever_order(
    positions: list[int], data: st.DataObject
) -> None:
    option = SplitOption(10, 50, BundleTopics([11, 12]), positions)
    found = specified_positions_divide.cut(option).positions
    assert list(found) == sorted(p for p in positions if 10 < p < 50)
    mixed = data.draw(st.permutations(positions))
    assert specified_positions_divide.cut(SplitOption(10, 50, BundleTopics([11, 12]), mixed)).positions == found


def test_specified_positions_need_two_topics_and_a_position_inside() -> None:
    two = BundleTopics([11, 12])
    assert specified_positions_divide.cut(SplitOption(10, 50, two, [10, 50])) == Cut((), "no_position_inside")
    assert specified_positions_divide.cut(SplitOption(10, 50, BundleTopics([11]), [20])) == Cut((), "too_few_topics")
    for nothing in (None, []):
        assert specified_positions_divide.cut(SplitOption(10, 50, two, nothing)).failed


def test_a_4_x_broker_cuts_by_flow_only_where_that_is_its_default_and_a_5_0_broker_always() -> None:
    busy = BundleTopics([10, 20], TopicLoads.of([(10, 40_000.0, 0.0), (20, 40_000.0, 0.0)]))
    by_default = Settings(defaultNamespaceBundleSplitAlgorithm=FLOW)
    option = option_of(FULL_RANGE, Settings(), busy)
    assert cut_by_broker(FLOW, option, Settings(), "4") == Cut((), "flow_is_not_default", failed=True)
    assert cut_by_broker(FLOW, option, Settings(), "5").positions == (16,)
    assert cut_by_broker(FLOW, option, by_default, "4").positions == (16,)
    assert cut_by_broker("", option, by_default, "4").positions == (16,)


def test_an_algorithm_that_nobody_knows_is_the_default_for_a_broker_and_bad_input_by_name() -> None:
    assert cut_by_broker("by_the_moon", option_of(BundleRange(0, 4), Settings()), Settings()).positions == (2,)
    with pytest.raises(BadInput, match="by_the_moon.*" + "range_equally_divide"):
        algorithm_named("by_the_moon")
    assert len(IMPLEMENTED) == 4


def test_flow_limits_do_not_overflow_as_those_of_the_choice_do() -> None:
    settings = Settings(loadBalancerNamespaceBundleMaxBandwidthMbytes=2_048)
    assert option_of(FULL_RANGE, settings).max_throughput == 2_048 * 1_048_576
