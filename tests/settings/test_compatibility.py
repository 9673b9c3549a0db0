"""Which shedder goes with which placement, and what is said of those that do not."""

from typing import Any

import pytest

from evenkeel.errors import SettingsError
from evenkeel.settings import resolve
from evenkeel.settings.compatibility import (
    PLACEMENT,
    PLACEMENTS_OF,
    SHEDDING,
    StrategyPair,
    in_force,
    refusal,
    why_undecidable,
)
from evenkeel.settings.keys.balancing import PLACEMENTS, SHEDDERS, SHEDDERS_OF

EXTENSIBLE = {"loadManagerClassName": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"}


def test_the_allowed_pairs_are_those_that_nothing_is_said_of() -> None:
    every = {StrategyPair(shedder, placement) for shedder in SHEDDERS for placement in PLACEMENTS}
    # AvgShedder places only for itself; the extensible manager has one pair.
    modular = len(SHEDDERS_OF["modular"]) * (len(PLACEMENTS) - 1) + 1
    for manager, count in (("modular", modular), ("extensible", 1)):
        fine = {pair for pair in every if refusal(pair, manager) is None}  # type: ignore[arg-type]
        own = [
            pair
            for pair in every
            if pair.shedder in SHEDDERS_OF[manager] and pair.placement in PLACEMENTS_OF[manager]  # type: ignore[index]
        ]
        assert fine == {pair for pair in own if pair.placement != "AvgShedder" or pair.shedder == "AvgShedder"}
        assert len(fine) == count
        for generation in ("4.x", "5.0"):
            assert all(in_force(pair, manager, generation) == pair for pair in fine)  # type: ignore[arg-type]


def test_avg_shedder_may_shed_while_another_strategy_places_and_not_the_other_way_round() -> None:
    assert refusal(StrategyPair("AvgShedder", "LeastLongTermMessageRate"), "modular") is None
    said = refusal(StrategyPair("ThresholdShedder", "AvgShedder"), "modular")
    assert said is not None
    assert said.text == (
        "loadBalancerLoadPlacementStrategy = AvgShedder needs loadBalancerLoadSheddingStrategy = AvgShedder, but it is "
        "ThresholdShedder: set both to AvgShedder, or loadBalancerLoadPlacementStrategy to LeastLongTermMessageRate, "
        "LeastResourceUsageWithWeight or RoundRobinBrokerSelector"
    )


def test_an_unpaired_placement_is_refused_under_4_and_falls_back_under_5() -> None:
    with pytest.raises(SettingsError, match="needs loadBalancerLoadSheddingStrategy = AvgShedder"):
        resolve(observed=None, overrides={PLACEMENT: "AvgShedder"})
    observed = {SHEDDING: "ThresholdShedder", PLACEMENT: "AvgShedder"}
    four = resolve(observed=observed, overrides=None)
    assert four.settings.loadBalancerLoadPlacementStrategy == "AvgShedder"
    assert str(why_undecidable(four.settings, "modular")).endswith(
        "LeastResourceUsageWithWeight or RoundRobinBrokerSelector"
    )
    five = resolve(observed=observed, overrides=None, generation="5.0")
    assert five.settings.loadBalancerLoadPlacementStrategy == "LeastLongTermMessageRate"
    assert five.origins[PLACEMENT] == "observed, where Pulsar falls back from AvgShedder"
    assert five.problems == (
        "loadBalancerLoadPlacementStrategy = AvgShedder does not run beside the rest of the configuration: "
        "Pulsar runs LeastLongTermMessageRate instead",
    )


def test_an_operators_shedder_on_5_leaves_placement_to_what_pulsar_falls_back_to() -> None:
    found = resolve(observed=None, overrides={SHEDDING: "ThresholdShedder"}, generation="5.0")
    assert found.settings.loadBalancerLoadPlacementStrategy == "LeastLongTermMessageRate"
    assert found.origins[PLACEMENT] == "default of Pulsar 5, where Pulsar falls back from AvgShedder"
    with pytest.raises(SettingsError, match="set both to AvgShedder"):
        resolve(observed=None, overrides={SHEDDING: "ThresholdShedder", PLACEMENT: "AvgShedder"}, generation="5.0")


def test_the_extensible_manager_runs_its_own_two_whatever_is_configured() -> None:
    observed = {**EXTENSIBLE, SHEDDING: "ThresholdShedder", PLACEMENT: "LeastLongTermMessageRate"}
    found = resolve(observed=observed, overrides=None)
    assert found.settings.loadBalancerLoadSheddingStrategy == "TransferShedder"
    assert found.settings.loadBalancerLoadPlacementStrategy == "LeastResourceUsageWithWeight"
    assert len(found.problems) == 1
    assert found.problems[0].startswith("loadBalancerLoadSheddingStrategy = ThresholdShedder does not run")


@pytest.mark.parametrize(
    ("observed", "overrides", "said"),
    [
        ({}, {SHEDDING: "TransferShedder"}, "is the extensible load manager's, but the manager is modular: set "
         f"{SHEDDING} to OverloadShedder, ThresholdShedder, .* or {SHEDDERS_OF['modular'][-1]}"),
        (EXTENSIBLE, {SHEDDING: "AvgShedder"}, f"manager is extensible: set {SHEDDING} to TransferShedder"),
        (EXTENSIBLE, {PLACEMENT: "LeastLongTermMessageRate"}, f"set {PLACEMENT} to LeastResourceUsageWithWeight"),
        ({}, {"evenkeelManager": "extensible", SHEDDING: "OverloadShedder"}, "set .* to TransferShedder"),
        ({SHEDDING: "TransferShedder", **EXTENSIBLE}, {"evenkeelManager": "modular"}, "is the extensible"),
        ({}, {SHEDDING: "transfershedder"}, "did you mean 'TransferShedder'"),
        ({}, {PLACEMENT: "LeastResourceUsage"}, "one of LeastLong.*mean 'LeastResourceUsageWithWeight"),
        ({}, {"loadBalancerLoadPlacmentStrategy": "x"}, f"nearest known key is '{PLACEMENT}'"),
        ({}, {"loadBalancerAvgShedderHitCountHighThreshold": 9}, "= 9 is above .*HitCountLowThreshold = 8"),
        (EXTENSIBLE, {"loadBalancerMaxNumberOfBundlesInBundleLoadReport": 0}, "nothing to shed: set 1 or more"),
        ({}, {"evenkeelDrainingBrokers": ["broker-1"]}, "a name in it is not a broker id: write host:port"),
    ],
)  # fmt: skip
def test_an_operator_is_told_which_key_and_what_is_allowed(
    observed: dict[str, str], overrides: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        resolve(observed=observed, overrides=overrides)
    assert next(reversed(overrides)) in str(caught.value) or "Strategy" in str(caught.value)


def test_until_the_manager_is_known_a_strategy_of_either_may_be_set() -> None:
    override = {SHEDDING: "TransferShedder"}
    early = resolve(observed=None, overrides=override)
    assert (early.settings.loadBalancerLoadSheddingStrategy, early.problems) == ("TransferShedder", ())
    assert resolve(observed=EXTENSIBLE, overrides=override).settings.manager == "extensible"
    with pytest.raises(SettingsError, match="TransferShedder is the extensible load manager's"):
        resolve(observed={"loadManagerClassName": "ModularLoadManagerImpl"}, overrides=override)
    with pytest.raises(SettingsError, match="TransferShedder is the extensible load manager's"):
        resolve(observed=None, overrides={**override, "evenkeelManager": "modular"})
