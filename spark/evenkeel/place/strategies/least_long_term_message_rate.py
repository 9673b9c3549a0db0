"""Prefer the broker with the least long-term message rate (Pulsar: LeastLongTermMessageRate).

Key: loadBalancerBrokerOverloadedThresholdPercentage. A broker above it (strictly, by its latest report)
scores infinite. Before Pulsar 4.0 its usage has no weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import compress

from evenkeel.place.strategy import (
    UNFILTERED,
    Asked,
    BrokerFigures,
    Choice,
    PlacementState,
    PlacementStrategy,
    StrategyRound,
    placement_rule,
)
from evenkeel.settings import Settings
from evenkeel.settings.key import VERSION_KEY

OVERLOADED_KEY = "loadBalancerBrokerOverloadedThresholdPercentage"


@dataclass(frozen=True, slots=True)
class LeastRate:
    """The brokers that Pulsar draws one from (Evenkeel: the first by name), and every candidate's score in msg/s."""

    brokers: tuple[str, ...]
    candidates: tuple[str, ...]
    scores: tuple[float, ...]


def select(candidates: Iterable[str], figures: Mapping[str, BrokerFigures], settings: Settings) -> LeastRate:
    """All candidates with the least score, compared exactly; all candidates if every one is overloaded."""
    wanted = tuple(candidates)
    return least(wanted, {broker: score(figures[broker], settings) for broker in wanted})


def score(stand: BrokerFigures, settings: Settings) -> float:
    """Return a broker's score: its long-term rate in msg/s, with bundles given to it; infinite if overloaded."""
    if stand.overload_usage > settings.loadBalancerBrokerOverloadedThresholdPercentage / 100.0:
        return math.inf
    return stand.preallocated_rate + stand.long_term_rate


def least(candidates: Iterable[str], scores: Mapping[str, float]) -> LeastRate:
    """All candidates with the least of known scores. A score that is not a number is never the least."""
    ordered = tuple(sorted(candidates))
    values = tuple(map(scores.__getitem__, ordered))
    lowest = min(values, default=math.inf)
    if math.isnan(lowest):  # as it is if the first one is; later ones do not show in a minimum
        lowest = min((figure for figure in values if not math.isnan(figure)), default=math.inf)
    best = tuple(compress(ordered, [figure == lowest for figure in values]))
    return LeastRate(best or ordered, ordered, values)


class LeastLongTermMessageRate(StrategyRound):
    """The strategy in one round: every broker's score is worked out once, and again when it was given a bundle."""

    def __init__(self, figures: Mapping[str, BrokerFigures], state: PlacementState, settings: Settings) -> None:
        self._figures, self._settings = figures, settings
        self._scores = {broker: score(figure, settings) for broker, figure in figures.items()}

    def choose(self, asked: Asked, candidates: tuple[str, ...]) -> Choice:
        """Choose a broker (see `StrategyRound`)."""
        best = least(candidates, self._scores)
        return Choice(best.candidates, best.brokers, best.scores, LEAST_RATE, "higher_long_term_rate")

    def given(self, broker: str) -> None:
        """Count the bundle (see `StrategyRound`)."""
        self._scores[broker] = score(self._figures[broker], self._settings)


LEAST_RATE = placement_rule(
    "least_long_term_rate", "of {others}{filters}, it {rate}{tie}", UNFILTERED + "it {rate}{tie}"
)

STRATEGY = PlacementStrategy(
    "LeastLongTermMessageRate", LeastLongTermMessageRate, keys=(OVERLOADED_KEY, VERSION_KEY), rules=(LEAST_RATE,)
)
