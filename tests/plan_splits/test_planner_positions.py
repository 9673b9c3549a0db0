"""Where a hot bundle is cut so that its parts can be placed: held against every way to cut small ones."""

from collections.abc import Sequence
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.plan_splits.rules.planner_positions import positions_between
from evenkeel.plan_splits.rules.planner_splits import parts_of
from tests.examples import at_most, reached, reaching

ROUNDING = 1.0 + 1e-9


def shares(most: float) -> st.SearchStrategy[float]:
    """Shares in percent: of two that differ in their last bit, the room decides by rounding alone."""
    return st.integers(5, round(100 * most)).map(lambda percent: percent / 100)


@pytest.mark.parametrize(
    ("loads", "stay", "leave", "cuts"),
    [
        ([1, 1, 1, 1], 4.0, 1.0, ()),
        ([1, 1, 1, 1], 3.0, 1.0, (36,)),
        ([1, 1, 1, 1], 2.0, 2.0, (26,)),
        ([1, 1, 1, 1], 2.0, 1.0, (26, 36)),
        ([1, 1, 1, 1], 1.0, 0.1, (16, 26, 36)),
        ([1, 9, 1], 3.0, 2.0, (16, 26)),
        ([9, 1, 1], 3.0, 2.0, (16,)),
        ([0, 9, 0, 0], 3.0, 2.0, ()),
        ([0, 0, 0], 1.0, 1.0, ()),
        ([], 1.0, 1.0, ()),
    ],
    ids=[
        "all may stay", "one leaves", "halves", "two leave", "each alone", "a hot topic alone", "at the edge",
        "idle topics", "no load", "no topics",
    ],
)  # fmt: skip
def test_as_few_cuts_as_rooms_need(loads: list[int], stay: float, leave: float, cuts: tuple[int, ...]) -> None:
    hashes = [10 * (n + 1) for n in range(len(loads))]
    assert positions_between(hashes, [float(load) for load in loads], stay, leave) == cuts


def test_parts_that_leave_are_as_even_as_their_number_allows() -> None:
    """The part that stays has all that it may; the others could have 4 and 2."""
    hashes = [10 * (n + 1) for n in range(12)]
    cuts = positions_between(hashes, [1.0] * 12, 6.0, 4.0)
    assert sorted(parts_of(hashes, [1.0] * 12, cuts)) == [3.0, 3.0, 6.0]


def fits(parts: Sequence[list[float]], stay: float, leave: float) -> bool:
    """Whether one part may stay, and each other may leave or is one topic."""
    over = [sum(part) for part in parts if len(part) > 1 and sum(part) > leave * ROUNDING]
    return len(over) <= 1 and all(load <= stay * ROUNDING for load in over)


def fewest(loads: list[float], stay: float, leave: float) -> int:
    """The fewest cuts, of all that there are."""
    count = len(loads)
    for number in range(count):
        for inner in combinations(range(1, count), number):
            edges = [0, *inner, count]
            if fits([loads[begin:end] for begin, end in pairwise(edges)], stay, leave):
                return number
    return 0


@reaching()
@given(st.integers(0, 10_000), st.integers(1, 9), shares(1.2), shares(1.0))
@at_most(300)
def test_parts_have_room_and_cuts_are_the_fewest_in_any_order_of_rows(
    seed: int, count: int, stay: float, leave: float
) -> None:
    chance = Random(seed)
    hashes = sorted(chance.sample(range(1, 3 * count + 2), count))
    loads = [chance.choice([1.0, 2.0, 5.0, 20.0]) for _ in hashes]
    most_stays, most_leaves = max(stay, leave) * sum(loads), leave * sum(loads)
    cuts = positions_between(hashes, loads, most_stays, most_leaves)
    reached(bool(cuts))
    assert list(cuts) == sorted(set(cuts))
    assert all(0 < cut <= hashes[-1] for cut in cuts)
    parts: list[list[float]] = [[] for _ in range(len(cuts) + 1)]
    for hash_, load in zip(hashes, loads, strict=True):
        parts[sum(cut <= hash_ for cut in cuts)].append(load)
    assert all(parts), "no part is without load"
    assert fits(parts, most_stays, most_leaves)
    assert len(cuts) == fewest(loads, most_stays, most_leaves)
    mixed = chance.sample([*zip(hashes, loads, strict=True)], count)
    assert positions_between([h for h, _ in mixed], [load for _, load in mixed], most_stays, most_leaves) == cuts


def test_topics_that_share_a_hash_are_never_parted() -> None:
    assert positions_between([5, 5, 9], [4.0, 4.0, 1.0], 2.0, 1.0) == (8,)
    assert positions_between([5, 5], [4.0, 4.0], 2.0, 1.0) == ()
