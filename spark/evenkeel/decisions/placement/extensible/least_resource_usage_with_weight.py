"""Prefer brokers well below the mean load of the candidates (Pulsar: extensions' LeastResourceUsageWithWeight).

Key: loadBalancerAverageResourceUsageDifferenceThresholdPercentage, in points; being exactly so far below is enough. The
load is the moving average that a broker publishes. A broker without load data is neither part of the mean nor ever
preferred, but may be drawn where nobody is preferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenkeel.decisions.extensible_load import BrokerLoadData
from evenkeel.settings import Settings


@dataclass(frozen=True, slots=True)
class Best:
    """The brokers Pulsar draws one from at random (here: the first by name), and each known candidate's load.

    `mean` of those loads (fractions; None where none is known); `preferred`: whether the best ones are well below it.
    """

    brokers: tuple[str, ...]
    loads: Mapping[str, float]
    mean: float | None
    preferred: bool


def select(candidates: Iterable[str], loads: Mapping[str, BrokerLoadData], settings: Settings) -> Best:
    """The candidates well below the mean; all candidates where none is."""
    ordered = tuple(sorted(candidates))
    known = {broker: loads[broker].weighted_max_ema for broker in ordered if broker in loads}
    if not known:
        return Best(ordered, known, None, False)
    total = 0.0
    for load in known.values():
        total += load
    mean = total / len(known)
    below = settings.loadBalancerAverageResourceUsageDifferenceThresholdPercentage / 100.0
    preferred = tuple(broker for broker, load in known.items() if load + below <= mean)
    return Best(preferred or ordered, known, mean, bool(preferred))
