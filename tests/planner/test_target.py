"""The lowest usage of the busiest broker, and the floor of load and moves, by every placement of small clusters."""

import math
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.judged_target import MARGIN, atomic_usage, ruled_usage, target_of
from evenkeel.planner.target import BundleKind, UsageLine, even_usage, fewest_moves, floor_of, kinds_of
from tests.examples import reached, reaching
from tests.planner.small_clusters import SmallCluster, small_clusters

EQUAL = UsageLine(0.0, 0.01)
STRONG = UsageLine(0.0, 0.005)
ROUNDING = 1e-9


def every(*names: str) -> frozenset[str]:
    return frozenset(names)


@pytest.mark.parametrize(
    ("lines", "load", "usage"),
    [
        ([EQUAL, EQUAL], 100.0, 0.5),
        ([EQUAL, STRONG], 90.0, 0.3),
        ([UsageLine(0.2, 0.01), EQUAL], 60.0, 0.4),
        ([UsageLine(0.9, 0.01), EQUAL], 60.0, 0.6),
        ([UsageLine(0.3, 0.0), EQUAL], 1_000.0, 0.3),
        ([EQUAL], 0.0, 0.0),
        ([], 10.0, 0.0),
    ],
    ids=["equal", "twice as strong", "a base", "a base above it", "load costs nothing", "no load", "no brokers"],
)
def test_the_evenly_used_cluster(lines: list[UsageLine], load: float, usage: float) -> None:
    assert even_usage(lines, load) == pytest.approx(usage, abs=1e-12)


def test_kinds_with_too_few_brokers_set_the_usage() -> None:
    lines = {"b1": EQUAL, "b2": EQUAL, "b3": EQUAL}
    free, narrow = BundleKind(every("b1", "b2", "b3"), 30.0), BundleKind(every("b1"), 50.0)
    assert ruled_usage(lines, [free, narrow]) == pytest.approx(0.5)
    assert target_of(lines, [free, narrow]).bound_by == "rules"


def test_two_kinds_that_have_room_alone_may_not_have_it_together() -> None:
    lines = {f"b{n}": EQUAL for n in range(1, 5)}
    kinds = [BundleKind(every("b1", "b2"), 50.0), BundleKind(every("b2"), 40.0), BundleKind(every("b3", "b4"), 10.0)]
    assert ruled_usage(lines, kinds) == pytest.approx(0.45)


def test_a_hot_bundle_sets_the_usage_unless_it_can_be_split() -> None:
    lines, anywhere = {"b1": EQUAL, "b2": STRONG}, every("b1", "b2")
    bundles = [(anywhere, 80.0), (anywhere, 10.0)]
    found = target_of(lines, kinds_of(bundles), bundles)
    assert (found.bound_by, found.usage, found.atomic) == ("bundle", 0.4, 0.4)
    found = target_of(lines, kinds_of(bundles), bundles[1:])
    assert found.bound_by == "margin"
    assert found.usage == MARGIN * found.even == pytest.approx(1.10 * 0.3)


def test_what_nobody_may_have_and_who_is_busy_without_load_is_named() -> None:
    lines = {"b1": EQUAL, "b2": UsageLine(0.9, 0.01)}
    shared, gone = every("b1", "b2", "gone"), every("gone")
    found = target_of(lines, [BundleKind(shared, 10.0), BundleKind(gone, 7.0)], [(shared, 5.0), (gone, 7.0)])
    assert found.nowhere == 7.0
    assert found.over_by_base == ("b2",)
    assert found.even == pytest.approx(0.1)


def test_an_empty_cluster_has_a_target_too() -> None:
    assert target_of({}, []).usage == 0.0
    assert target_of({"b1": EQUAL}, []).usage == 0.0
    assert target_of({}, [BundleKind(every("b1"), 3.0)]).nowhere == 3.0


def test_a_thousand_equal_brokers_and_loads_that_differ_by_a_billion() -> None:
    lines = {f"b{n:04}": UsageLine(0.05, 1e-9) for n in range(1_000)}
    bundles = [(every(*lines), 1.0 if n else 1e9) for n in range(1_000)]
    found = target_of(lines, kinds_of(bundles), bundles)
    assert found.bound_by == "bundle"
    assert found.usage == pytest.approx(1.05)
    assert found.even == pytest.approx(0.05 + 1e-9 * (1e9 + 999) / 1_000)


@reaching()
@given(st.one_of(small_clusters(), small_clusters(lopsided=True)))
def test_no_placement_is_better_than_the_bounds(cluster: SmallCluster) -> None:
    kinds = cluster.kinds
    best = min(cluster.busiest(placement) for placement in cluster.placements())
    reached(best > 0 and len({kind.brokers for kind in kinds}) > 1)
    bounds = (
        even_usage(cluster.lines.values(), math.fsum(kind.load for kind in kinds)),
        ruled_usage(cluster.lines, kinds),
        atomic_usage(cluster.lines, cluster.whole),
    )
    assert max(bounds) <= best * (1 + ROUNDING) + ROUNDING
    assert bounds[0] <= bounds[1] * (1 + ROUNDING) + ROUNDING


@given(small_clusters())
def test_rules_cost_what_the_worst_set_of_kinds_costs(cluster: SmallCluster) -> None:
    kinds = [kind for kind in cluster.kinds if kind.load > 0]
    worst = 0.0
    for size in range(1, len(kinds) + 1):
        for some in combinations(kinds, size):
            reached = frozenset().union(*(kind.brokers for kind in some))
            lines = [cluster.lines[broker] for broker in reached]
            worst = max(worst, even_usage(lines, math.fsum(kind.load for kind in some)))
    assert ruled_usage(cluster.lines, kinds) == pytest.approx(worst, rel=ROUNDING, abs=ROUNDING)


@given(small_clusters(), st.randoms())
def test_the_order_of_rows_changes_no_bit(cluster: SmallCluster, chance: Random) -> None:
    bundles, names = [*cluster.bundles], [*cluster.lines]
    chance.shuffle(bundles)
    chance.shuffle(names)
    other = SmallCluster({name: cluster.lines[name] for name in names}, bundles)
    assert target_of(other.lines, other.kinds, other.whole) == target_of(cluster.lines, cluster.kinds, cluster.whole)
    assert target_of(other.lines, reversed(other.kinds), other.whole) == target_of(
        cluster.lines, cluster.kinds, cluster.whole
    )


@given(small_clusters(), st.floats(0.0, 50.0))
def test_more_load_never_lowers_a_bound(cluster: SmallCluster, more: float) -> None:
    (load, allowed, owner), *rest = cluster.bundles
    fuller = SmallCluster(cluster.lines, [(load + more, allowed, owner), *rest])
    before, after = (target_of(one.lines, one.kinds, one.whole) for one in (cluster, fuller))
    for name in ("usage", "even", "ruled", "atomic"):
        assert getattr(after, name) >= getattr(before, name) * (1 - ROUNDING) - ROUNDING


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


@reaching()
@given(small_clusters(lopsided=True), st.one_of(st.none(), st.floats(0.0, 1.0)))
def test_no_plan_beats_the_floor(cluster: SmallCluster, part: float | None) -> None:
    """The target of the cluster, and any other one between the best placement and the one in force."""
    aim = target_of(cluster.lines, cluster.kinds, cluster.whole).usage
    if part is not None:
        best = min(map(cluster.busiest, cluster.placements()))
        aim = best + part * (cluster.busiest(tuple(owner for _, _, owner in cluster.bundles)) - best)
    found = floor_of(cluster.lines, cluster.carried, aim)
    moves = fewest_moves(found.excess, own(cluster))
    under = [placement for placement in cluster.placements() if cluster.busiest(placement) <= aim]
    reached(bool(moves and under))
    for moved in map(cluster.moved, under):
        assert math.fsum(moved) >= found.load * (1 - ROUNDING) - ROUNDING
        assert len(moved) >= moves


@reaching()
@given(small_clusters())
def test_the_floor_is_reached_where_any_load_can_be_cut(cluster: SmallCluster) -> None:
    """Exact as a bound: after just the excess has left, no broker is above the target."""
    aim = target_of(cluster.lines, cluster.kinds, cluster.whole).usage
    found = floor_of(cluster.lines, cluster.carried, aim)
    reached(bool(found.excess))
    for broker, load in cluster.carried.items():
        left = load - found.excess.get(broker, 0.0)
        line = cluster.lines[broker]
        assert line.usage(left) <= max(aim, line.base) * (1 + ROUNDING) + ROUNDING
    assert found.load <= math.fsum(cluster.carried.values()) * (1 + ROUNDING)


@reaching()
@given(small_clusters(), st.randoms())
def test_the_order_of_rows_changes_no_bit_of_the_floor(cluster: SmallCluster, chance: Random) -> None:
    bundles, names = [*cluster.bundles], [*cluster.lines]
    chance.shuffle(bundles)
    chance.shuffle(names)
    other = SmallCluster({name: cluster.lines[name] for name in names}, bundles)
    aim = 0.2
    one, two = (floor_of(each.lines, each.carried, aim) for each in (cluster, other))
    reached(len(one.excess) > 0)
    assert (one, list(one.excess)) == (two, list(two.excess))
    assert fewest_moves(one.excess, own(cluster)) == fewest_moves(two.excess, own(other))
