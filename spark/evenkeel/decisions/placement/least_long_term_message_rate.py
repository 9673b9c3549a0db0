"""Prefer the broker with the least long-term message rate (Pulsar: LeastLongTermMessageRate).

Key: loadBalancerBrokerOverloadedThresholdPercentage. A broker above it (strictly, by its latest report)
scores infinite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenkeel.decisions.placement.standing import Standing
from evenkeel.settings import Settings


@dataclass(frozen=True, slots=True)
class Best:
    """The brokers Pulsar draws one from at random (here: the first by name), and every candidate's score in msg/s."""

    brokers: tuple[str, ...]
    scores: Mapping[str, float]


def select(candidates: Iterable[str], standing: Mapping[str, Standing], settings: Settings) -> Best:
    """All candidates with the least score, compared exactly; all candidates if every one is overloaded."""
    overloaded_at = settings.loadBalancerBrokerOverloadedThresholdPercentage / 100.0
    scores = {}
    for broker in sorted(candidates):
        found = standing[broker]
        scores[broker] = math.inf if found.usage > overloaded_at else found.preallocated_rate + found.long_term_rate
    least = min(scores.values(), default=math.inf)
    return Best(tuple(broker for broker, score in scores.items() if score == least), scores)
