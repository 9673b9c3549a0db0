"""LeastResourceUsageWithWeight: who is well below the mean, and averages that go on from round to round."""

from typing import Any

import pytest

from evenkeel.model.load import BrokerReport, LoadData, Policies
from evenkeel.place.modular_placement import PlacementRound
from evenkeel.place.strategies import least_resource_usage_with_weight as least_usage_strategy
from evenkeel.place.strategy import PlacementState, broker_figures
from evenkeel.settings import Settings
from tests.place.clusters import NEW, best, standing, used


def least_usage(
    reports: dict[str, BrokerReport], state: PlacementState, **values: Any
) -> least_usage_strategy.BelowMean:
    settings = Settings().with_values(values)
    return least_usage_strategy.select(reports, broker_figures(LoadData(reports), settings), state, settings)


def test_usage_that_lies_exactly_the_difference_below_the_mean_is_enough() -> None:
    assert least_usage(used({"b1:1": 50.0, "b2:1": 70.0}), {}).brokers == ("b1:1",)
    assert least_usage(used({"b1:1": 50.0, "b2:1": 69.5}), {}).brokers == ("b1:1", "b2:1")
    kept = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
    assert not least_usage(used({"b1:1": 50.0, "b2:1": 70.0}), {}, **{kept: 11}).below_mean


def test_average_usage_moves_with_every_choice_and_drops_the_past_of_a_restarted_broker() -> None:
    before = {"usage_average": {"b1:1": 0.5, "gone:1": 0.9}}
    busy = least_usage(used({"b1:1": 10.0, "b2:1": 20.0}), before)
    assert dict(zip(busy.candidates, busy.usage, strict=True)) == {"b1:1": 0.5 * 0.9 + (1 - 0.9) * 0.1, "b2:1": 0.2}
    assert busy.after(before)["usage_average"]["gone:1"] == 0.9
    assert least_usage_strategy.without_gone(before, ["b1:1"]) == {"usage_average": {"b1:1": 0.5}}
    assert least_usage(used({"b1:1": 10.0}, bundles=frozenset()), before).usage == (0.1,)
    assert least_usage(used({"b1:1": 10.0}, msg_rate_in=0.0), before).usage == (0.1,)
    assert least_usage(used({"b1:1": 10.0}, msg_rate_in=0.0, msg_rate_out=1.0), before).usage != (0.1,)


def test_nobody_is_best_among_no_candidates() -> None:
    assert least_usage({}, {}).brokers == ()


def test_least_usage_says_where_the_chosen_broker_stands_and_goes_on_from_round_to_round() -> None:
    load = LoadData(used({"b1:1": 10.0, "b2:1": 30.0, "b3:1": 80.0}))
    settings = Settings(loadBalancerLoadPlacementStrategy="LeastResourceUsageWithWeight")
    placing = PlacementRound(load, Policies(), settings)
    found = placing.assign(NEW)
    assert found.considered.sentence() == (
        f"{NEW} goes to b1:1: of 3 candidates, its average usage of 10.0 % is well below the candidates' mean of "
        "40.0 %."
    )
    assert {a.name: a.rule for a in found.candidates} == {
        "b1:1": "below_mean_usage", "b2:1": "not_below_mean_usage", "b3:1": "not_below_mean_usage",
    }  # fmt: skip
    later = LoadData(used({"b1:1": 80.0, "b2:1": 30.0}))
    again = PlacementRound(later, Policies(), settings, state=placing.state)
    assert again.place_shed(NEW, "x:1").considered.rule == "near_mean_usage"
    assert again.state["usage_average"] == {"b1:1": 0.1 * 0.9 + (1 - 0.9) * 0.8, "b2:1": pytest.approx(0.3)}


def test_configuration_least_resource_usage_at_10_30_80_percent() -> None:
    """The text beside loadBalancerAverageResourceUsageDifferenceThresholdPercentage: mean 40 %, so brokers 1 and 2.

    In 32 bits 30 % is 0.30000001, which with 0.1 is above the mean: only broker 1 is left.
    """
    load = standing({"broker1:1": 10.0, "broker2:1": 30.0, "broker3:1": 80.0}, {})
    assert best(load, loadBalancerLoadPlacementStrategy="LeastResourceUsageWithWeight") == ("broker1:1",)
