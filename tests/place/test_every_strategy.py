"""What holds for every placement strategy, by the registry: names, keys, rules, state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import SettingsError
from evenkeel.model.consideration import by_name
from evenkeel.place.modular_placement import PlacementRound, strategy_in_force
from evenkeel.place.rows import KEEPERS
from evenkeel.place.strategies import MODULAR, avg_shedder, strategy_named
from evenkeel.place.strategies.round_robin_broker_selector import EXCLUDED, IN_TURNS
from evenkeel.settings import registry
from evenkeel.settings.keys.balancing import PLACEMENTS
from tests.cycle.clusters import Cluster, clusters
from tests.examples import reached, reaching


def test_the_registry_is_what_an_operator_may_name() -> None:
    assert tuple(MODULAR) == PLACEMENTS


def test_a_name_that_is_given_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match="AvgShedder: two placement strategies have this name"):
        by_name("placement strategies", avg_shedder.STRATEGY, avg_shedder.STRATEGY)


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SettingsError, match=r"ThresholdShedder: not a placement strategy .* set it to LeastLongTerm"):
        strategy_named("ThresholdShedder")


@pytest.mark.parametrize("name", MODULAR)
def test_declared_keys_exist_and_what_is_remembered_belongs_to_the_strategy(name: str) -> None:
    strategy = MODULAR[name]
    assert set(strategy.keys) <= registry().keys()
    assert {KEEPERS[figure] for figure in strategy.remembers} <= {name}
    names = [rule.name for rule in strategy.rules]
    assert len(names) == len(set(names))


@reaching()
@given(cluster=clusters(), name=st.sampled_from([*MODULAR]))
def test_its_verdicts_are_given_by_its_own_rules_and_its_state_has_its_own_figures(cluster: Cluster, name: str) -> None:
    settings = cluster.settings.with_values({"loadBalancerLoadPlacementStrategy": name})
    strategy = MODULAR[strategy_in_force(settings)]
    placing = PlacementRound(cluster.load, cluster.policies, settings)
    rules = (*strategy.rules, IN_TURNS)  # namespaces excluded from shedding are always placed in turns
    own = {rule for pair in rules for rule in (pair.filtered, pair.of_all_allowed)}
    placed = placing.place_ownerless(cluster.ownerless)
    reached(any(placement.considered.by in own for placement in placed))
    for placement in placed:
        assert placement.considered.outcome in ("refused", "skipped") or placement.considered.by in own
    assert {figure for figure in placing.state if not figure.startswith(EXCLUDED)} <= set(strategy.remembers)
