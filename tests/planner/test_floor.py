"""The floor, held against every plan of small clusters."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.planner.target import UsageLine, fewest_moves, floor_of, target_of
from tests.planner.small_clusters import SmallCluster, small_clusters

ROUNDING = 1e-9
LINES = {"b1": UsageLine(0.0, 0.01), "b2": UsageLine(0.0, 0.01), "b3": UsageLine(0.1, 0.005)}


def own(cluster: SmallCluster) -> dict[str, list[float]]:
    return {name: [load for load, _, owner in cluster.bundles if owner == name] for name in cluster.lines}


def test_what_stands_above_the_target_has_to_move() -> None:
    found = floor_of(LINES, {"b1": 60.0, "b2": 30.0, "b3": 10.0}, 0.40)
    assert found.excess == {"b1": pytest.approx(20.0)}
    assert found.load == pytest.approx(20.0)
    assert found.share == pytest.approx(0.2)
    assert fewest_moves(found.excess, {"b1": [5.0, 15.0, 12.0, 28.0]}) == 1
    assert fewest_moves(found.excess, {"b1": [5.0, 5.0, 12.0, 5.0]}) == 3


def test_a_broker_that_is_to_go_gives_everything_away() -> None:
    found = floor_of(LINES, {"b1": 20.0, "b2": 20.0, "gone": 10.0}, 0.40)
    assert found.excess == {"gone": 10.0}
    assert fewest_moves(found.excess, {"gone": [4.0, 4.0, 2.0, 0.0]}) == 3


def test_a_balanced_cluster_and_an_empty_one_have_nothing_to_move() -> None:
    assert floor_of(LINES, {"b1": 40.0, "b2": 40.0}, 0.40).excess == {}
    assert floor_of(LINES, {}, 0.40).share == 0.0
    assert floor_of(LINES, {"b1": 0.0}, 0.0).share == 0.0


@given(small_clusters(), st.one_of(st.none(), st.floats(0.0, 2.0)))
def test_no_plan_beats_the_floor(cluster: SmallCluster, usage: float | None) -> None:
    """The target of the cluster, and any other one."""
    aim = target_of(cluster.lines, cluster.kinds).usage if usage is None else usage
    found = floor_of(cluster.lines, cluster.carried, aim)
    moves = fewest_moves(found.excess, own(cluster))
    for placement in cluster.placements():
        if cluster.busiest(placement) <= aim:
            moved = cluster.moved(placement)
            assert math.fsum(moved) >= found.load * (1 - ROUNDING) - ROUNDING
            assert len(moved) >= moves


@given(small_clusters())
def test_the_floor_is_reached_where_any_load_can_be_cut(cluster: SmallCluster) -> None:
    """Exact as a bound: after just the excess has left, no broker is above the target."""
    aim = target_of(cluster.lines, cluster.kinds).usage
    found = floor_of(cluster.lines, cluster.carried, aim)
    for broker, load in cluster.carried.items():
        left = load - found.excess.get(broker, 0.0)
        line = cluster.lines[broker]
        assert line.usage(left) <= max(aim, line.base) * (1 + ROUNDING) + ROUNDING
    assert found.load <= math.fsum(cluster.carried.values()) * (1 + ROUNDING)


@given(small_clusters(), st.randoms())
def test_the_order_of_rows_changes_no_bit(cluster: SmallCluster, chance: Random) -> None:
    bundles, names = [*cluster.bundles], [*cluster.lines]
    chance.shuffle(bundles)
    chance.shuffle(names)
    other = SmallCluster({name: cluster.lines[name] for name in names}, bundles)
    aim = 0.2
    one, two = (floor_of(each.lines, each.carried, aim) for each in (cluster, other))
    assert (one, list(one.excess)) == (two, list(two.excess))
    assert fewest_moves(one.excess, own(cluster)) == fewest_moves(two.excess, own(other))
