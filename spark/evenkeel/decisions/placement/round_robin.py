"""Take brokers in turns (Pulsar: RoundRobinBrokerSelector, always used for shedding-excluded namespaces)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turns:
    """How many placements were made in turns so far: by the strategy, and for shedding-excluded namespaces."""

    strategy: int = 0
    excluded: int = 0


NO_TURNS = Turns()


def select(candidates: Iterable[str], turn: int) -> str | None:
    """The candidate whose turn it is, by name order; `turn` counts all placements made in turns so far."""
    ordered = sorted(candidates)
    return ordered[turn % len(ordered)] if ordered else None
