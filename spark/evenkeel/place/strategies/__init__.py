"""The modular manager's placement strategy of one round, with what it remembers.

Key: loadBalancerLoadPlacementStrategy. Namespaces that are excluded from shedding are always placed in turns, by
turns of their own (Pulsar: sheddingExcludedNamespaceSelectionStrategy).
"""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.place.broker_figures import BrokerFigures
from evenkeel.place.strategies import least_long_term_message_rate, least_resource_usage_with_weight
from evenkeel.place.strategies import round_robin_broker_selector as round_robin
from evenkeel.place.strategies.least_resource_usage_with_weight import USAGE_AVERAGE
from evenkeel.place.strategy import Choice, PlacementState
from evenkeel.settings import Settings

EXCLUDED = "excluded_"


class Chooser:
    """Picks the best of some candidates, by the strategy in force or in turns; `state` is what to go on with later."""

    def __init__(self, settings: Settings, standing: Mapping[str, BrokerFigures], state: PlacementState) -> None:
        self._strategy = settings.loadBalancerLoadPlacementStrategy
        self._settings = settings
        self._standing = standing
        self._rates = {
            broker: least_long_term_message_rate.score(stand, settings) for broker, stand in standing.items()
        }
        remembered = least_resource_usage_with_weight.without_gone(state, standing)
        self._usage = {name: dict(averages) for name, averages in remembered.items()}
        self._turn = round_robin.turn_of(state)
        self._excluded_turn = round_robin.turn_of(state, EXCLUDED)

    def choose(self, candidates: tuple[str, ...]) -> Choice:
        """By the strategy in force."""
        if self._strategy == "RoundRobinBrokerSelector":
            choice, self._turn = _in_turns(candidates, self._turn)
            return choice
        if self._strategy == "LeastResourceUsageWithWeight":
            return self._least_usage(candidates)
        return self._least_rate(candidates)

    def choose_excluded(self, candidates: tuple[str, ...]) -> Choice:
        """For a namespace that is excluded from shedding: in turns, whatever the strategy."""
        choice, self._excluded_turn = _in_turns(candidates, self._excluded_turn)
        return choice

    def given(self, broker: str) -> None:
        """The broker was given a bundle: its standing has changed."""
        self._rates[broker] = least_long_term_message_rate.score(self._standing[broker], self._settings)

    @property
    def state(self) -> PlacementState:
        """What the strategy in force and the turns of excluded namespaces remember; nothing where nothing was placed
        by them yet."""
        found = dict(round_robin.state_of(self._excluded_turn, EXCLUDED))
        if self._strategy == "RoundRobinBrokerSelector":
            found |= round_robin.state_of(self._turn)
        if self._strategy == "LeastResourceUsageWithWeight":
            found |= {name: dict(averages) for name, averages in self._usage.items()}
        return {name: values for name, values in found.items() if values}

    def _least_rate(self, candidates: tuple[str, ...]) -> Choice:
        best = least_long_term_message_rate.least(candidates, self._rates)
        rules = "least_long_term_rate", "higher_long_term_rate"
        return Choice(best.candidates, best.brokers, best.scores, *rules)

    def _least_usage(self, candidates: tuple[str, ...]) -> Choice:
        best = least_resource_usage_with_weight.select(candidates, self._standing, self._usage, self._settings)
        self._usage[USAGE_AVERAGE].update(zip(best.candidates, best.usage, strict=True))
        rule = "below_mean_usage" if best.below_mean else "near_mean_usage"
        numbers = {"mean_usage": best.mean}
        return Choice(best.candidates, best.brokers, best.usage, rule, "not_below_mean_usage", numbers)


def _in_turns(candidates: tuple[str, ...], turn: round_robin.Turn) -> tuple[Choice, round_robin.Turn]:
    taken, after = round_robin.select(candidates, turn)
    return Choice(candidates, (taken,) if taken else (), (), "in_turns", "not_its_turn"), after
