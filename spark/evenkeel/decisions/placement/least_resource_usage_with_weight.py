"""Prefer brokers whose average usage is well below the mean of the candidates (Pulsar: LeastResourceUsageWithWeight).

This is the modular manager's. Keys: loadBalancerAverageResourceUsageDifferenceThresholdPercentage (reaching it is
enough), loadBalancerHistoryResourcePercentage. State: the moving average of usage per broker, as a fraction. It moves
with every bundle that is placed and not with time: ten placements on one report age it ten times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from evenkeel.decisions.placement.choice import PlacementState
from evenkeel.decisions.placement.standing import Standing
from evenkeel.settings import Settings

USAGE_AVERAGE = "usage_average"


@dataclass(frozen=True, slots=True)
class Best:
    """The brokers Pulsar draws one from at random (here: the first by name).

    `usage`: every candidate's moving average, `mean` of them all; fractions. `below_mean` is False where no broker is
    far enough below the mean, and so all candidates are equally good.
    """

    brokers: tuple[str, ...]
    usage: Mapping[str, float]
    mean: float
    below_mean: bool
    state: PlacementState


def select(
    candidates: Iterable[str], standing: Mapping[str, Standing], state: PlacementState, settings: Settings
) -> Best:
    """The candidates below the mean by the difference asked for, or all of them if none is; moves their averages on.

    A broker that reports no bundles, or no messages in and out, is taken to have been restarted: its past is dropped.
    """
    past = settings.loadBalancerHistoryResourcePercentage
    difference = settings.loadBalancerAverageResourceUsageDifferenceThresholdPercentage / 100.0
    history = state.get(USAGE_AVERAGE, {})
    usage = {}
    for broker in sorted(candidates):
        found, before = standing[broker], history.get(broker)
        moved = before is not None and not found.idle
        usage[broker] = before * past + (1 - past) * found.usage if moved else found.usage  # type: ignore[operator]
    if not usage:
        return Best((), {}, 0.0, below_mean=False, state=state)
    *_, total = accumulate(usage.values(), initial=0.0)
    mean = total / len(usage)
    best = tuple(broker for broker, average in usage.items() if average + difference <= mean)
    after = {USAGE_AVERAGE: {**history, **usage}}
    return Best(best or tuple(usage), usage, mean, below_mean=bool(best), state=after)


def without_gone(state: PlacementState, brokers: Iterable[str]) -> PlacementState:
    """The state without brokers that are no longer there (Pulsar: onActiveBrokersChange)."""
    here = frozenset(brokers)
    history = state.get(USAGE_AVERAGE, {})
    return {USAGE_AVERAGE: {broker: average for broker, average in sorted(history.items()) if broker in here}}
