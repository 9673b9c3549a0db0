"""Where specified_positions_divide cuts: inside the bundle, and only where it has two topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model.bundles import BundleRange
from evenkeel.model.split_algorithms import algorithm_named, option_of, specified_positions_divide
from evenkeel.model.split_algorithms.split_option import BundleTopics, Cut, SplitOption
from evenkeel.settings import Settings


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


@pytest.mark.parametrize(
    ("positions", "cuts"), [([10, 20, 5, 25], ()), ([10, 12, 20], (12,)), ([12, 12], (12, 12)), ([-1, 1 << 40], ())]
)
def test_specified_positions_on_an_edge_are_outside_and_twice_stays_twice(
    positions: list[int], cuts: tuple[int, ...]
) -> None:
    option = option_of(BundleRange(10, 20), Settings(), BundleTopics((11, 13)), positions)
    assert algorithm_named("specified_positions_divide")(option).positions == cuts
