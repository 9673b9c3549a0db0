"""What a plan costs clients."""

from pathlib import Path

from evenkeel.lake.record import find_cycles
from evenkeel.report.plan_cost import ClientCost, client_cost, read_plan_cost
from tests.lakes.plausible import HOT, LAB, LARGE, NEXT, A, B, C, bundle_load, plausible_lake

FIRST, SECOND = "acme/ns0/0x00000000_0x80000000", "acme/ns0/0x80000000_0xffffffff"


def test_sessions_topics_and_messages_of_the_bundles_are_added_up() -> None:
    loads = [bundle_load(FIRST, "b1", 940.0), bundle_load(SECOND, "b1", 2_820.0)]
    assert client_cost({SECOND}, loads) == ClientCost(1, 9, 13, 3.0, 0.75)
    assert client_cost({FIRST, SECOND}, loads).share == 1.0
    assert client_cost(set(), loads) == ClientCost(0, 0, 0, 0.0, 0.0)


def test_what_nobody_measured_counts_as_nothing_and_has_no_share() -> None:
    unknown = {**bundle_load(FIRST, None, 0.0), "used_msg_rate_in": None, "used_msg_rate_out": None, "topics": None}
    assert client_cost({FIRST}, [unknown]) == ClientCost(1, 0, 13, 0.0, None)


def test_a_plan_costs_its_unloads_and_splits_apart(tmp_path: Path) -> None:
    lake = plausible_lake(tmp_path / "lake")
    (acting,) = find_cycles(lake, cluster=LAB, cycle="2026-11-21T08:30:23")
    cost = read_plan_cost(lake, acting)
    assert (cost.unloads.bundles, cost.unloads.topics, cost.unloads.sessions) == (2, 48, 26)
    assert (cost.splits.bundles, cost.splits.topics, cost.splits.sessions) == (1, 64, 13)
    assert cost.unloads.msg_rate > cost.splits.msg_rate > 0.0
    assert [(bundle, source) for bundle, source, _ in cost.moves] == [(NEXT, A), (HOT, A)]
    assert all(goal in (B, C) for _, _, goal in cost.moves)
    assert cost.divided == (LARGE,)
