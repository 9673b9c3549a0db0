"""Prefer brokers whose average usage is well below the mean of the candidates (Pulsar: LeastResourceUsageWithWeight).

This is the modular manager's. Keys: loadBalancerAverageResourceUsageDifferenceThresholdPercentage (reaching it is
enough), loadBalancerHistoryResourcePercentage. State: the moving average of usage per broker, as a fraction. It moves
with every bundle that is placed and not with time: ten placements on one report age it ten times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import compress

from evenkeel.model.load import BrokerLoadData
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

DIFFERENCE_KEY = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
HISTORY_KEY = "loadBalancerHistoryResourcePercentage"

USAGE_AVERAGE = "usage_average"


@dataclass(frozen=True, slots=True)
class BelowMean:
    """The brokers that Pulsar draws one from at random (Evenkeel: the first by name).

    `usage`: each candidate's moving average, and their `mean`; fractions. `below_mean` is False if no broker is far
    enough below the mean, so that all candidates are equally good.
    """

    brokers: tuple[str, ...]
    candidates: tuple[str, ...]
    usage: tuple[float, ...]
    mean: float
    below_mean: bool

    def after(self, state: PlacementState) -> PlacementState:
        """The state that the choice was made with, moved on by it."""
        moved = dict(zip(self.candidates, self.usage, strict=True))
        return {**state, USAGE_AVERAGE: {**state.get(USAGE_AVERAGE, {}), **moved}}


def select(
    candidates: Iterable[str], figures: Mapping[str, BrokerFigures], state: PlacementState, settings: Settings
) -> BelowMean:
    """The candidates below the mean by the difference asked for, or all of them if none is.

    `Best.after` gives the state for the next choice, with the candidates' averages moved on.
    A broker that reports no bundles, or no messages in and out, is taken to have been restarted: its past is dropped.
    """
    past = settings.loadBalancerHistoryResourcePercentage
    difference = settings.loadBalancerAverageResourceUsageDifferenceThresholdPercentage / 100.0
    history = state.get(USAGE_AVERAGE, {})
    ordered = tuple(sorted(candidates))
    if not ordered:
        return BelowMean((), (), (), 0.0, below_mean=False)
    new = 1 - past
    usage = [
        stand.usage if before is None or stand.idle else before * past + new * stand.usage
        for before, stand in zip(map(history.get, ordered), map(figures.__getitem__, ordered), strict=True)
    ]
    total = 0.0  # one after the other in name order, as the bits of the mean depend on it
    for average in usage:
        total += average
    mean = total / len(usage)
    if min(usage) + difference > mean:
        return BelowMean(ordered, ordered, tuple(usage), mean, below_mean=False)
    best = tuple(compress(ordered, [average + difference <= mean for average in usage]))
    # With a usage that is not a number the mean is none either, and no one is below it.
    return BelowMean(best or ordered, ordered, tuple(usage), mean, below_mean=bool(best))


def without_gone(state: PlacementState, brokers: Iterable[str]) -> PlacementState:
    """Return the state without brokers that are gone (Pulsar: onActiveBrokersChange)."""
    available = frozenset(brokers)
    history = state.get(USAGE_AVERAGE, {})
    return {USAGE_AVERAGE: {broker: average for broker, average in sorted(history.items()) if broker in available}}


class LeastResourceUsageWithWeight(StrategyRound):
    """The strategy in one round: the averages move on with every choice."""

    def __init__(self, figures: Mapping[str, BrokerFigures], state: PlacementState, settings: Settings) -> None:
        self._figures, self._settings = figures, settings
        self._usage = {name: dict(averages) for name, averages in without_gone(state, figures).items()}

    def choose(self, asked: Asked, candidates: tuple[str, ...]) -> Choice:
        """Choose a broker (see `StrategyRound`)."""
        best = select(candidates, self._figures, self._usage, self._settings)
        self._usage[USAGE_AVERAGE].update(zip(best.candidates, best.usage, strict=True))
        rule = BELOW_MEAN if best.below_mean else NEAR_MEAN
        numbers = {"mean_usage": best.mean}
        return Choice(best.candidates, best.brokers, best.usage, rule, "not_below_mean_usage", numbers)

    @property
    def state(self) -> PlacementState:
        """Return the state (see `StrategyRound`)."""
        return {name: dict(averages) for name, averages in self._usage.items() if averages}


BELOW_MEAN = placement_rule(
    "below_mean_usage",
    "of {others}{filters}, {usage} is well below {mean}{tie}",
    UNFILTERED + "{usage} is well below {mean}{tie}",
)
NEAR_MEAN = placement_rule(
    "near_mean_usage",
    "of {others}{filters}, none is well below {mean}{tie}",
    UNFILTERED + "none is well below {mean}{tie}",
)

STRATEGY = PlacementStrategy(
    "LeastResourceUsageWithWeight",
    LeastResourceUsageWithWeight,
    keys=(DIFFERENCE_KEY, HISTORY_KEY),
    rules=(BELOW_MEAN, NEAR_MEAN),
    remembers=(USAGE_AVERAGE,),
)


# Prefer brokers well below the mean load of the candidates (Pulsar: extensions' LeastResourceUsageWithWeight). Key:
# loadBalancerAverageResourceUsageDifferenceThresholdPercentage, in points; being exactly so far below is enough. The
# load is the moving average that a broker publishes. A broker without load data is neither part of the mean nor ever
# preferred, but may be drawn where no one is preferred.


@dataclass(frozen=True, slots=True)
class ExtensibleBest:
    """The brokers that Pulsar draws one from at random (Evenkeel: the first by name), and each known candidate's load.

    `mean` of those loads (fractions; None if none is known); `preferred`: the best ones are well below it.
    """

    brokers: tuple[str, ...]
    loads: Mapping[str, float]
    mean: float | None
    preferred: bool


def select_extensible(
    candidates: Iterable[str], loads: Mapping[str, BrokerLoadData], settings: Settings
) -> ExtensibleBest:
    """The candidates well below the mean; all candidates where none is."""
    ordered = tuple(sorted(candidates))
    known = {broker: loads[broker].weighted_max_ema for broker in ordered if broker in loads}
    if not known:
        return ExtensibleBest(ordered, known, None, False)
    total = 0.0
    for load in known.values():
        total += load
    mean = total / len(known)
    below = settings.loadBalancerAverageResourceUsageDifferenceThresholdPercentage / 100.0
    preferred = tuple(broker for broker, load in known.items() if load + below <= mean)
    return ExtensibleBest(preferred or ordered, known, mean, bool(preferred))
