"""What placement remembers travels as rows, and only to the strategy that it belongs to."""

from hypothesis import given
from hypothesis import strategies as st

from evenkeel.place import round as place_round
from evenkeel.place.rows import KEEPERS, placement_rows, placement_state, remembers
from evenkeel.place.strategies.round_robin_broker_selector import FIRST_TURN, Turn, select, state_of, turn_of
from evenkeel.settings import Settings
from tests.cycle.rows import BUNDLES, HOT, MIB, bundle, cycle, rows

BROKERS = ["b1:8080", "b2:8080", "b3:8080"]
states = st.dictionaries(
    st.sampled_from(sorted(KEEPERS)), st.dictionaries(st.sampled_from(BROKERS), st.floats(0, 1e9), min_size=1)
)


@given(states)
def test_state_comes_back_from_its_rows(state: dict[str, dict[str, float]]) -> None:
    assert placement_state(placement_rows(state)[::-1]) == state


def test_figures_of_shedders_and_of_other_strategies_are_not_placements() -> None:
    foreign = {"strategy": "ThresholdShedder", "subject": "b1:8080", "name": "usage_average", "value": 0.5, "at": None}
    assert placement_state([foreign, {**foreign, "strategy": "frame", "name": "shed_at", "value": None}]) == {}


@given(st.lists(st.sets(st.sampled_from(BROKERS)), max_size=6))
def test_a_turn_comes_back_from_its_figures(calls: list[set[str]]) -> None:
    turn = FIRST_TURN
    for candidates in calls:
        _, turn = select(candidates, turn)
    assert turn_of(state_of(turn)) == turn
    assert turn_of({}) == Turn()


def test_only_strategies_with_a_memory_are_worth_a_write() -> None:
    assert not remembers(Settings())
    assert remembers(Settings(loadBalancerLoadPlacementStrategy="LeastResourceUsageWithWeight"))
    assert remembers(Settings(loadBalancerLoadPlacementStrategy="RoundRobinBrokerSelector"))
    assert remembers(Settings(loadBalancerSheddingExcludedNamespaces=frozenset(["t/n"])))
    extensible = Settings(
        loadManagerClassName="ExtensibleLoadManagerImpl",
        loadBalancerLoadPlacementStrategy="LeastResourceUsageWithWeight",
    )
    assert not remembers(extensible)


def test_a_round_goes_on_from_what_the_one_before_remembered_and_hands_it_on_where_nothing_is_placed() -> None:
    least = {
        "loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight",
        "loadBalancerDistributeBundlesEvenlyEnabled": False,
    }
    lost = bundle(6, None, MIB, last_owner="dead:8080")
    first = place_round.decide_modular({}, rows(HOT, [*BUNDLES, lost], cycle=[cycle(**least)]))["strategy_state"]
    kept = {row["subject"]: row["value"] for row in first if row["name"] == "usage_average"}
    assert {row["strategy"] for row in first} == {"LeastResourceUsageWithWeight"}
    assert kept.keys() >= {"b2:8080", "b3:8080"}
    idle = place_round.decide_modular({}, rows(HOT, BUNDLES, cycle=[cycle(**least)], state=first))["strategy_state"]
    assert {row["subject"]: row["value"] for row in idle} == kept


def test_turns_go_on_over_shed_bundles_and_those_without_owner() -> None:
    turns = {"loadBalancerLoadPlacementStrategy": "RoundRobinBrokerSelector"}
    even = {"loadBalancerDistributeBundlesEvenlyEnabled": False}
    shed = {"subject_kind": "bundle", "outcome": "unload", "subject": BUNDLES[0]["bundle"], "broker": "b1:8080",
            "numbers": {"rank": 1.0}, "alternatives": [], "strategy": "ThresholdShedder"}  # fmt: skip
    lost = [bundle(n, None, MIB, last_owner="dead:8080") for n in (6, 7)]
    known = rows(HOT, [*BUNDLES, *lost], cycle=[cycle(**turns, **even)], unload_decisions=[shed])
    made = place_round.decide_modular({}, known)
    assert [row["best"] for row in made["placement_decisions"]] == [["b1:8080"], ["b2:8080"], ["b3:8080"]]
    assert [r["value"] for r in made["strategy_state"] if r["name"] == "turn"] == [3.0]
    again = place_round.decide_modular({}, {**known, "state": made["strategy_state"]})["placement_decisions"]
    assert again[0]["best"] == ["b1:8080"]
    assert [r["outcome"] for r in again] == ["kept", "placed", "placed"]
