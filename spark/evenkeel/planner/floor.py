"""The least load and the fewest moves that bring every broker below a target: a lower bound for every plan.

Every broker above the target has to give away its excess. The bound on load is exact, except that bundles are whole.
The bound on moves takes the largest bundles first and ignores which brokers could take them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenkeel.planner.target import UsageCurve

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Floor:
    """The `load` that has to move (byte/s), its `share` of the cluster's load, and the excess by broker."""

    load: float
    share: float
    excess: Mapping[str, float]


def floor_of(curves: Mapping[str, UsageCurve], carried: Mapping[str, float], usage: float) -> Floor:
    """The floor for a usage, with the load that each broker carries now.

    A broker without a curve is to be emptied: all of its load has to move.
    """
    room = {broker: curves[broker].load_within(usage) if broker in curves else 0.0 for broker in carried}
    excess = {broker: load - room[broker] for broker, load in sorted(carried.items()) if load > room[broker]}
    total, moving = math.fsum(carried.values()), math.fsum(excess.values())
    return Floor(moving, moving / total if total > 0 else 0.0, excess)


def fewest_moves(excess: Mapping[str, float], bundles: Mapping[str, Iterable[float]]) -> int:
    """The fewest bundles that bring every broker down to its target; `bundles`: the loads of each broker's own."""
    return sum(_fewest(bundles.get(broker, ()), above) for broker, above in excess.items())


def _fewest(loads: Iterable[float], above: float) -> int:
    """Return the number of largest loads that make up this sum; all of them if they do not reach it."""
    heap = [-load for load in loads if load > 0]
    heapq.heapify(heap)
    enough, given, count = above * (1.0 - _ROUNDING), 0.0, 0
    while heap and given < enough:
        given -= heapq.heappop(heap)
        count += 1
    return count
