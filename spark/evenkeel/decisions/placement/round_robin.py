"""Take brokers in turns (Pulsar: RoundRobinBrokerSelector), as shedding-excluded namespaces are always placed.

The turns run over a remembered list of candidates. It is replaced only where the number of candidates has changed, or
where the broker whose turn it is is no longer a candidate; so a list may be out of date for a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """How many placements were made in turns, and the candidates the turns run over."""

    count: int = 0
    remembered: tuple[str, ...] = ()


FIRST_TURN = Turn()


def select(candidates: Iterable[str], turn: Turn) -> tuple[str | None, Turn]:
    """The candidate whose turn it is (None if there is none), and the turn after it. New lists are in name order."""
    ordered = tuple(sorted(candidates))
    if not ordered:
        return None, turn
    index = turn.count % len(ordered)
    stale = len(turn.remembered) != len(ordered) or turn.remembered[index] not in ordered
    remembered = ordered if stale else turn.remembered
    return remembered[index], Turn(turn.count + 1, remembered)
