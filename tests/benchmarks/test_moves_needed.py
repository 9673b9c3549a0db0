"""The bound on moves holds for every plan of small clusters, and is reached where it can be."""

import math
from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.moves_needed import moves_needed

quarters = st.integers(0, 24).map(lambda count: count / 4)
"""Loads of which sums are exact."""
clusters = st.lists(st.lists(quarters, max_size=3), min_size=1, max_size=3)


def plans(limits: Sequence[float], bundles: Sequence[Sequence[float]]) -> Iterator[tuple[int, float]]:
    """Moves and moved load of every placement within the limits."""
    every = [(broker, load) for broker, own in enumerate(bundles) for load in own]
    for placement in product(range(len(bundles)), repeat=len(every)):
        carried = [
            math.fsum(one for (_, one), at in zip(every, placement, strict=True) if at == broker)
            for broker in range(len(bundles))
        ]
        if all(one <= limit for one, limit in zip(carried, limits, strict=True)):
            moved = [one for (owner, one), at in zip(every, placement, strict=True) if owner != at]
            yield len(moved), math.fsum(moved)


def rooms(limits: Sequence[float], bundles: Sequence[Sequence[float]]) -> list[float]:
    return [limit - math.fsum(own) for limit, own in zip(limits, bundles, strict=True)]


@given(
    clusters,
    st.integers(0, 48).map(lambda count: count / 4),
    st.sampled_from([0.0, 1.0, 1.5]),
    st.sampled_from([1.0, 1.25, 2.0, math.inf]),
)
def test_no_plan_has_fewer_moves_than_the_bound(
    bundles: list[list[float]], limit: float, step: float, times: float
) -> None:
    limits = [limit + step * broker for broker in range(len(bundles))]
    room = rooms(limits, bundles)
    floor = math.fsum(max(0.0, -one) for one in room)
    most = times * floor if times < math.inf else math.inf
    counts = [moves for moves, load in plans(limits, bundles) if load <= most]
    assert moves_needed(room, bundles, most) <= min(counts, default=math.inf)


@pytest.mark.parametrize(
    ("limits", "bundles", "most", "bound"),
    [
        pytest.param((6, 6), ((3, 3), (2, 2)), math.inf, 0, id="nobody is above its limit"),
        pytest.param((6, 6), ((5, 3), (1,)), math.inf, 1, id="one bundle is enough"),
        pytest.param((6, 9, 9), ((3, 3, 3, 3), (), ()), math.inf, 2, id="as many as it takes"),
        pytest.param((10, 10), ((9, 1, 1), (4,)), 4, 1, id="the lightest that is enough"),
        pytest.param((8, 7), ((7, 3), (1, 1)), 2, math.inf, id="nothing that light is enough"),
        pytest.param((6, 6, 6), ((5, 5), (2, 2), (2,)), math.inf, 2, id="a second one makes room"),
        pytest.param((4, 4), ((5,), ()), math.inf, math.inf, id="no broker can have it"),
        pytest.param((10, 4), ((5, 2, 2, 2), (1,)), 2.5, 1, id="one of the light ones"),
        pytest.param((7, 5), ((6, 2, 1), (1,)), 2.5, 1, id="within the load"),
        pytest.param((6, 9), ((6, 1.5, 1.5), ()), 4, 2, id="two light ones, as the heavy one is more than may move"),
    ],
)
def test_the_bound_is_what_the_best_plan_takes(
    limits: Sequence[float], bundles: Sequence[Sequence[float]], most: float, bound: float
) -> None:
    counts = [moves for moves, load in plans(limits, bundles) if load <= most]
    assert min(counts, default=math.inf) == bound
    assert moves_needed(rooms(limits, bundles), bundles, most) == bound
