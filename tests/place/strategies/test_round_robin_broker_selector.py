"""RoundRobinBrokerSelector: turns over a remembered list, and their count."""

from typing import Any

from evenkeel.model.load import Policies
from evenkeel.place.modular_placement import PlacementRound
from evenkeel.place.strategies.round_robin_broker_selector import Turn
from evenkeel.place.strategies.round_robin_broker_selector import select as select_in_turns
from evenkeel.settings import Settings
from tests.place.clusters import rated, report


def test_turns_run_over_a_remembered_list_until_it_no_longer_fits() -> None:
    three, other = ["b1", "b2", "b3"], ["b2", "b3", "b4"]
    turn, taken = Turn(), []
    for candidates in (three, three, three, other, other, [], three[:1]):
        broker, turn = select_in_turns(candidates, turn)
        taken.append(broker)
    assert taken == ["b1", "b2", "b3", "b2", "b3", None, "b1"]
    kept, _ = select_in_turns(["b2", "b3", "b9"], Turn(1, ("b1", "b2", "b3")))
    assert kept == "b2"


def test_turns_of_the_strategy_and_of_excluded_namespaces_are_counted_apart() -> None:
    load = rated([report("b1:1"), report("b2:1"), report("b3:1")], [0.0] * 3)
    values: dict[str, Any] = {
        "loadBalancerLoadPlacementStrategy": "RoundRobinBrokerSelector",
        "loadBalancerSheddingExcludedNamespaces": frozenset(["t/kept"]),
    }
    settings = Settings().with_values(values)
    bundles = ["t/a/0x0_0x1", "t/kept/0x0_0x1", "t/b/0x0_0x1", "t/kept2/0x0_0x1"]
    placing = PlacementRound(load, Policies(), settings)
    assert [placing.place_shed(bundle, "x:1").destination for bundle in bundles[:3]] == ["b1:1", "b1:1", "b2:1"]
    assert placing.state["turn"] == {"cluster": 2.0}
    assert placing.state["excluded_turn"] == {"cluster": 1.0}
    again = PlacementRound(load, Policies(), settings, state=placing.state)
    assert again.place_shed(bundles[3], "x:1").destination == "b3:1"


def test_the_count_of_turns_starts_again_where_java_s_int_ends() -> None:
    last = 2_147_483_647
    taken, after = select_in_turns(["b1", "b2"], Turn(last, ("b1", "b2")))
    assert (taken, after) == ("b2", Turn(0, ("b1", "b2")))
