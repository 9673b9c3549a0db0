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
    ordered = sorted(candidates)
    stands = [standing[broker] for broker in ordered]
    scores = [math.inf if s.usage > overloaded_at else s.preallocated_rate + s.long_term_rate for s in stands]
    least = min(scores, default=math.inf)
    best = tuple(broker for broker, score in zip(ordered, scores, strict=True) if score == least)
    return Best(best, dict(zip(ordered, scores, strict=True)))
