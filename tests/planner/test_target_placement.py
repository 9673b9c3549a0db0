"""The desired placement, on small clusters of every kind and on one large enough to be balanced."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.judged_target import target_of
from evenkeel.planner.placement_search import UNITS, DesiredMove, DesiredPlacement, OwnedBundle, PlacementSearch
from evenkeel.planner.target import BundleKind, UsageLine, floor_of
from evenkeel.planner.target_placement import desired_placement, least_moved
from tests.examples import reached, reaching
from tests.planner.fixed_clusters import EXPECTED, desired, written
from tests.planner.small_clusters import SmallCluster, small_clusters

ROUNDING = 1e-9
ALIKE = {name: (UsageLine(0.0, 0.01),) for name in ("b1", "b2", "b3")}


def bundle(
    name: str, owner: str | None, *loads: float, brokers: Sequence[str] = ("b1", "b2", "b3"), is_held: bool = False
) -> OwnedBundle:
    return OwnedBundle(name, owner, loads, frozenset(brokers), is_held)


def of(cluster: SmallCluster) -> list[OwnedBundle]:
    return [
        bundle(f"n{n}", owner, load, brokers=[*allowed]) for n, (load, allowed, owner) in enumerate(cluster.bundles)
    ]


def after(bundles: Sequence[OwnedBundle], found: DesiredPlacement) -> dict[str, str | None]:
    return {one.name: one.owner for one in bundles} | {move.bundle: move.destination for move in found.moves}


def carried(bundles: Sequence[OwnedBundle], owners: dict[str, str | None], broker: str, resource: int = 0) -> float:
    return math.fsum(one.loads[resource] for one in bundles if owners[one.name] == broker)


def test_the_heaviest_that_is_not_too_heavy_goes_to_the_broker_with_most_room() -> None:
    bundles = [
        *(bundle(f"n{load:g}", "b1", load) for load in (30.0, 20.0, 14.0, 6.0)),
        bundle("m", "b2", 25.0), bundle("l", "b3", 10.0),
    ]  # fmt: skip
    found = desired_placement(ALIKE, bundles, 0.50)
    assert found == DesiredPlacement((DesiredMove("n20", "b1", "b3"),), (), ())


def test_nothing_moves_where_no_broker_is_above_the_target() -> None:
    assert desired_placement(ALIKE, [bundle("n", "b1", 50.0)], 0.50).moves == ()
    assert desired_placement(ALIKE, [], 0.50) == DesiredPlacement((), (), ())


def test_a_bundle_that_fits_nowhere_is_exchanged_for_a_lighter_one() -> None:
    two = {name: (UsageLine(0.0, 0.01),) for name in ("b1", "b2")}
    bundles = [
        bundle("n1", "b1", 30.0, brokers=["b1", "b2"]), bundle("n2", "b1", 25.0, brokers=["b1", "b2"]),
        bundle("m1", "b2", 26.0, brokers=["b1", "b2"]), bundle("m2", "b2", 21.0, brokers=["b1", "b2"]),
    ]  # fmt: skip
    found = desired_placement(two, bundles, 0.51)
    assert {(move.bundle, move.destination) for move in found.moves} == {("n2", "b2"), ("m2", "b1")}
    assert found.over == ()


def test_heavy_bundles_go_first_where_light_ones_would_fill_the_others() -> None:
    bundles = [
        bundle("heavy-1", "b1", 25.0), bundle("heavy-2", "b1", 25.0),
        *(bundle(f"n{n}", "b1", 2.5) for n in range(6)),
        *(bundle(f"m{n}", broker, 2.5) for broker in ("b2", "b3") for n in range(7)),
    ]  # fmt: skip
    bundles = [replace(one, name=f"{one.name}-{one.owner}") for one in bundles]
    found = desired_placement(ALIKE, bundles, 0.355)
    assert found.over == ()
    owners = after(bundles, found)
    assert sum(owner == "b1" for name, owner in owners.items() if name.startswith("heavy")) == 1
    assert max(carried(bundles, owners, broker) for broker in ALIKE) <= 35.5
    assert len({move.bundle for move in found.moves}) == len(found.moves) <= 8


def test_a_broker_that_goes_is_emptied_and_bundles_without_owner_or_against_the_rules_find_one() -> None:
    bundles = [
        bundle("a", "gone", 10.0), bundle("b", None, 20.0), bundle("c", "b1", 5.0, brokers=["b2"]),
        bundle("d", "gone", 5.0, is_held=True), bundle("e", None, 1.0, brokers=["gone"]),
    ]  # fmt: skip
    found = desired_placement(ALIKE, bundles, 0.40)
    assert found.moves == (DesiredMove("b", None, "b2"), DesiredMove("a", "gone", "b3"), DesiredMove("c", "b1", "b2"))
    assert found.nowhere == ("e",)


def test_a_bundle_that_is_too_heavy_for_every_broker_is_left_and_its_broker_named() -> None:
    found = desired_placement(ALIKE, [bundle("hot", "b1", 70.0), bundle("n", "b1", 1.0)], 0.50)
    assert found.over == ("b1",)
    assert all(move.bundle != "hot" for move in found.moves)


def test_a_cluster_that_cannot_be_balanced_gets_better_and_its_full_brokers_are_named() -> None:
    chance = Random(7)
    lines = {f"b{n:03}": (UsageLine(0.0, 0.01),) for n in range(30)}
    bundles = [
        OwnedBundle(f"n{n}", chance.choice([*lines]), (chance.uniform(1.0, 9.0),), frozenset(lines)) for n in range(600)
    ]
    mean = math.fsum(one.loads[0] for one in bundles) / len(lines)
    found = desired_placement(lines, bundles, 0.01 * mean * 0.99)
    owners: dict[str, str | None] = {one.name: one.owner for one in bundles}
    before = max(carried(bundles, owners, name) for name in lines)
    assert max(carried(bundles, after(bundles, found), name) for name in lines) < before
    assert 0 < len(found.over) < len(lines)


def test_the_resource_that_has_least_room_counts() -> None:
    lines = {name: (UsageLine(0.0, 0.01), UsageLine(0.0, 0.02)) for name in ("b1", "b2", "b3")}
    bundles = [bundle("n1", "b1", 10.0, 20.0), bundle("n2", "b1", 10.0, 19.0), bundle("m", "b2", 1.0, 20.0)]
    found = desired_placement(lines, bundles, 0.50)
    assert [move.destination for move in found.moves] == ["b3"]


@reaching()
@given(small_clusters(lopsided=True), st.floats(0.0, 1.5), st.randoms(use_true_random=False))
def test_rules_hold_no_broker_is_pushed_above_the_target_and_the_order_of_rows_changes_nothing(
    cluster: SmallCluster, usage: float, chance: Random
) -> None:
    holds_every_rule(cluster, usage, chance)


@reaching()
@given(small_clusters(lopsided=True))
@settings(deadline=None)
def test_where_a_placement_reaches_the_target_the_plan_does(cluster: SmallCluster) -> None:
    reaches_what_can_be_reached(cluster)


@pytest.mark.exhaustive
@given(small_clusters(), st.floats(0.0, 1.5), st.randoms(use_true_random=False))
@settings(max_examples=1_000, deadline=None)
def test_a_thousand_clusters_hold_every_rule_and_reach_what_can_be_reached(
    cluster: SmallCluster, usage: float, chance: Random
) -> None:
    holds_every_rule(cluster, usage, chance)
    reaches_what_can_be_reached(cluster)


def reaches_what_can_be_reached(cluster: SmallCluster) -> None:
    """Held against every placement that there is, at the target that the planner aims for."""
    bundles, usage = of(cluster), target_of(cluster.lines, cluster.kinds, cluster.whole, 1.07).usage
    can_be = min(cluster.busiest(placement) for placement in cluster.placements()) <= usage * (1 - ROUNDING)
    reached(can_be and cluster.busiest(tuple(owner for _, _, owner in cluster.bundles)) > usage)
    if not can_be:
        return
    found = desired_placement({name: (line,) for name, line in cluster.lines.items()}, bundles, usage)
    assert (found.over, found.nowhere) == ((), ())
    owners = after(bundles, found)
    busiest = max(line.usage(carried(bundles, owners, name)) for name, line in cluster.lines.items())
    assert busiest <= usage * (1 + ROUNDING) + ROUNDING
    assert all(owners[one.name] in one.brokers or not one.loads[0] for one in bundles)


def holds_every_rule(cluster: SmallCluster, usage: float, chance: Random) -> None:
    bundles = of(cluster)
    curves = {name: (line,) for name, line in cluster.lines.items()}
    found = desired_placement(curves, bundles, usage)
    reached(bool(found.moves))
    assert desired_placement(curves, chance.sample(bundles, len(bundles)), usage) == found
    assert len({move.bundle for move in found.moves}) == len(found.moves), "each moves once at most"
    owners, allowed = after(bundles, found), {one.name: one.brokers for one in bundles}
    assert all(move.destination in allowed[move.bundle] and move.destination != move.source for move in found.moves)
    loaded = {name: carried(bundles, owners, name) for name in cluster.lines}
    # What is less than a unit of the cluster's load is no load to the planner.
    whole = math.fsum(loaded.values())
    over = {
        name
        for name, load in loaded.items()
        if load > 1e-12 * whole and cluster.lines[name].usage(load) > usage + ROUNDING
    }
    assert over <= set(found.over)
    began = {name for name, line in cluster.lines.items() if line.usage(cluster.carried[name]) > usage - ROUNDING}
    assert over <= began
    for name in over:
        assert carried(bundles, owners, name) <= cluster.carried[name] * (1 + ROUNDING) + ROUNDING


def test_a_cluster_of_many_bundles_comes_to_its_target_with_little_more_than_the_floor() -> None:
    chance = Random(19)
    lines = {f"b{n:03}": UsageLine(0.05 * (n % 3), 0.01 / (1 + n % 2)) for n in range(40)}
    drawn = [chance.paretovariate(1.5) for _ in range(2_000)]
    most = 0.5 * math.fsum(drawn) / len(lines)
    loads = [min(load, most) for load in drawn]
    scale = 40 * 60 / math.fsum(loads)
    every = frozenset(lines)
    bundles = [OwnedBundle(f"n{n}", chance.choice([*lines]), (load * scale,), every) for n, load in enumerate(loads)]
    now = {name: math.fsum(one.loads[0] for one in bundles if one.owner == name) for name in lines}
    target = target_of(lines, [BundleKind(every, 40 * 60)])
    found = desired_placement({name: (line,) for name, line in lines.items()}, bundles, target.usage)
    assert (found.over, found.nowhere) == ((), ())
    owners, load = after(bundles, found), {one.name: one.loads[0] for one in bundles}
    busiest = max(line.usage(carried(bundles, owners, name)) for name, line in lines.items())
    assert busiest <= target.usage + ROUNDING
    floor = floor_of(lines, now, target.usage)
    assert math.fsum(load[move.bundle] for move in found.moves) <= 1.25 * floor.load
    assert floor.load == pytest.approx(floor.share * 40 * 60)


def test_an_idle_broker_is_filled_by_the_fullest_though_nobody_is_above_the_target() -> None:
    names = [f"b{n:02}" for n in range(21)]
    lines = {name: (UsageLine(0.0, 0.01),) for name in names}
    bundles = [bundle(f"n{n:03}", names[n % 20], 2.0 + n % 3 / 10, brokers=names) for n in range(400)]
    even = 0.01 * math.fsum(one.loads[0] for one in bundles) / len(names)
    assert desired_placement(lines, bundles, 1.06 * even).moves == ()
    found = desired_placement(lines, bundles, 1.06 * even, idle=["b20"], even=even)
    got = carried(bundles, after(bundles, found), "b20")
    assert 0.8 * even <= 0.01 * got <= even
    assert {move.destination for move in found.moves} == {"b20"}
    assert max(sum(move.source == name for move in found.moves) for name in names) == 1


def test_an_idle_broker_gets_no_bundle_after_which_it_would_be_fuller_than_its_giver() -> None:
    found = desired_placement(ALIKE, [bundle("only", "b1", 50.0)], 0.60, idle=["b2", "b3"], even=0.17)
    assert found.moves == ()


def test_room_is_made_by_a_third_broker() -> None:
    bundles = [
        bundle("hot", "b1", 40.0, brokers=["b1", "b2"]), bundle("small", "b1", 15.0, brokers=["b1"]),
        bundle("old", "b2", 30.0, brokers=["b2"]), bundle("light", "b2", 12.0, brokers=["b2", "b3"]),
    ]  # fmt: skip
    lines = {"b1": (UsageLine(0.0, 0.01),), "b2": (UsageLine(0.0, 0.007),), "b3": (UsageLine(0.0, 0.03),)}
    found = desired_placement(lines, bundles, 0.50)
    assert [(move.bundle, move.destination) for move in found.moves] == [("hot", "b2"), ("light", "b3")]
    assert found.over == ()


TWO_RESOURCES = {name: (UsageLine(0.0, 0.01), UsageLine(0.0, 0.01)) for name in ("b1", "b2")}
BOTH = ("b1", "b2")


def test_room_is_made_where_only_a_broker_that_may_not_have_the_bundle_has_room() -> None:
    """Else ten light bundles would go in its place."""
    here, everywhere = ["b1", "b2", "b3"], ["b1", "b2", "b3", "b4"]
    bundles = [
        bundle("heavy", "b1", 20.0, brokers=here), *(bundle(f"n{n:02}", "b1", 2.0, brokers=here) for n in range(25)),
        bundle("m", "b2", 3.0, brokers=everywhere), bundle("m1", "b2", 30.0, brokers=here),
        bundle("l", "b3", 40.0, brokers=here),
    ]  # fmt: skip
    found = desired_placement({**ALIKE, "b4": ALIKE["b1"]}, bundles, 0.50)
    assert {(move.bundle, move.destination) for move in found.moves} == {("heavy", "b2"), ("m", "b3")}
    assert found.over == ()


def test_a_broker_takes_more_of_a_resource_that_it_has_for_less_of_the_one_it_lacks() -> None:
    bundles = [
        bundle("cpu", "b1", 30.0, 5.0, brokers=BOTH), bundle("cpu too", "b1", 28.0, 5.0, brokers=BOTH, is_held=True),
        bundle("net", "b2", 10.0, 40.0, brokers=BOTH), bundle("net too", "b2", 22.0, 2.0, brokers=BOTH, is_held=True),
    ]  # fmt: skip
    found = desired_placement(TWO_RESOURCES, bundles, 0.53)
    assert {(move.bundle, move.destination) for move in found.moves} == {("cpu", "b2"), ("net", "b1")}
    assert found.over == ()


def test_no_bundles_are_exchanged_for_a_resource_that_the_broker_has_enough_of() -> None:
    bundles = [
        bundle("n", "b1", 20.0, 5.0, brokers=BOTH), bundle("n too", "b1", 10.0, 50.0, brokers=BOTH, is_held=True),
        bundle("m", "b2", 5.0, 5.0, brokers=BOTH), bundle("m too", "b2", 5.0, 43.0, brokers=BOTH, is_held=True),
    ]  # fmt: skip
    assert desired_placement(TWO_RESOURCES, bundles, 0.50) == DesiredPlacement((), ("b1",), ())


def test_the_bundles_that_leave_are_heavy_in_the_resource_that_their_broker_lacks() -> None:
    bundles = [
        bundle("cpu", "b1", 15.0, 4.0, brokers=BOTH), bundle("net 1", "b1", 3.0, 15.0, brokers=BOTH),
        bundle("net 2", "b1", 3.0, 10.0, brokers=BOTH), bundle("rest", "b1", 10.0, 25.0, brokers=BOTH, is_held=True),
        bundle("other", "b2", 10.0, 2.0, brokers=BOTH),
    ]  # fmt: skip
    found = desired_placement(TWO_RESOURCES, bundles, 0.29)
    assert found == DesiredPlacement((DesiredMove("net 1", "b1", "b2"), DesiredMove("net 2", "b1", "b2")), (), ())


@pytest.mark.parametrize("load", [5, 6])
def test_a_broker_with_room_for_five_units_has_none_for_six(load: int) -> None:
    bundles = [bundle("n", "b1", load, brokers=BOTH), bundle("rest", "b1", UNITS - load, brokers=BOTH, is_held=True)]
    search = PlacementSearch({name: (UsageLine(0.0, 1.0),) for name in BOTH}, bundles, 5.0, 0.0)
    place = 1 if load == 5 else None
    assert search.limit.tolist() == [[5], [5]]
    assert (search.tightest(0), search.roomiest_place(0)) == (place, place)
    assert (search.has_room(0, 1), search.fit_alone(0, [0], 0).tolist()) == (load == 5, [load == 5])
    search.move(0, 1)
    assert (search.roomiest(0), search.fullest_first()) == (([1], [0]) if load == 5 else ([], [0, 1]))
    assert search.excess() == UNITS - load - 5 + (load - 5)


@pytest.mark.parametrize(("brokers", "found"), [(19_995, [1, 2, 0]), (19_996, None)])
def test_of_a_limited_number_of_tries_the_last_one_counts(brokers: int, found: list[int] | None) -> None:
    """The first bundle fits on both brokers, but leaves the third no room on one; the second fits everywhere."""
    places = [[0, 1], [*range(2, 2 + brokers)], [0]]
    assert least_moved([[1]] * 3, places, [0, -1, -1], [[1]] * (2 + brokers)) == found


def test_of_placements_that_move_as_much_the_first_counts_and_of_others_the_one_that_moves_least() -> None:
    room = [[2], [2], [2]]
    assert least_moved([[1], [1]], [[1, 2], [0, 2]], [-1, 0], room) == [1, 0]
    assert least_moved([[0]], [[1, 2]], [-1], room) == [1]
    assert least_moved([[2], [1]], [[0, 1], [0]], [0, -1], room) == [1, 0]
    assert least_moved([[2], [1]], [[0, 1], [0, 2]], [0, -1], room) == [0, 2]
    assert least_moved([[3]], [[0, 1]], [0], room) is None
    for first, found in ((3, [1, 0, 0]), (4, [0, 1, 1])):
        assert least_moved([[first], [2], [2]], [[0, 1]] * 3, [0] * 3, [[4], [9]]) == found


@pytest.mark.parametrize(("count", "found"), [(16, [0] * 16), (17, None)])
def test_placements_of_more_bundles_than_the_limit_are_not_tried(count: int, found: list[int] | None) -> None:
    assert least_moved([[1]] * count, [[0]] * count, [0] * count, [[count]]) == found


@pytest.mark.parametrize("number", json.loads(EXPECTED.read_text()))
def test_a_fixed_cluster_gets_the_moves_on_file(number: str) -> None:
    """A search that finds other moves decides otherwise, though they may hold every rule too."""
    assert written(desired(int(number))) == json.loads(EXPECTED.read_text())[number]
