"""The fewest moves in which any plan can bring every broker down to its limit: a bound that no planner is below.

In any such plan a broker's own bundles that leave weigh at least what stands above its limit, and what it receives on
top of that. Bundles of at least a threshold are *heavy*. As many heavy ones are received as leave, and a broker that
receives n of them receives at least n times the threshold. So each broker is one of several `_Option`s: how many leave,
how many more heavy ones leave than may be received, and the least load that leaves with that. The best choice of one
option per broker, with no heavy bundle left over and no more load than allowed, is a whole-number program; what its
solver proves as a bound is one for every plan. Thresholds around the widest rooms say most: what is heavier than the
widest room fits nowhere unless another bundle leaves for it. Where bundles may go is left out: rules need more moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

SECONDS = 20.0
"""The most that the solver may take for a threshold: what it has proven until then is a bound all the same."""
ROUNDING = 1e-9
FEW_COMBINATIONS = 200
"""More choices of heavy bundles are not looked at one by one."""

Loads = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Option:
    """`moves` bundles leave a broker; `heavy`: the heavy ones among them, without those that may come; `load`: the
    least that they can weigh together, or less."""

    moves: int
    heavy: int
    load: float


def moves_needed(rooms: Sequence[float], bundles: Sequence[Sequence[float]], most_load: float = math.inf) -> float:
    """A bound on the moves of every plan that moves at most this load; infinite where there is no such plan.

    `rooms`: by broker what it may carry beyond what it does, below 0 where it stands above its limit. `bundles`: by
    broker the loads of its own.
    """
    return max(_bound(rooms, bundles, most_load, threshold) for threshold in _thresholds(rooms, bundles))


def _thresholds(rooms: Sequence[float], bundles: Sequence[Sequence[float]]) -> Iterator[float]:
    """The infinite one, by which none is heavy; the least loads above the widest room, the fourth widest, the 16th …"""
    yield math.inf
    widest, every = sorted(rooms, reverse=True), np.sort([load for own in bundles for load in own])
    found, at = set(), 1
    while at <= len(widest) and widest[at - 1] > 0:
        place = int(every.searchsorted(widest[at - 1] * (1.0 + ROUNDING), side="right"))
        if place < len(every):
            found.add(float(every[place]))
        at *= 4
    yield from sorted(found, reverse=True)


def _bound(rooms: Sequence[float], bundles: Sequence[Sequence[float]], most_load: float, threshold: float) -> float:
    """The bound with this threshold."""
    choices = [_options(room, own, threshold) for room, own in zip(rooms, bundles, strict=True)]
    if not all(choices):
        return math.inf
    every = [option for own in choices for option in own]
    of_broker = np.repeat(np.arange(len(choices)), [len(own) for own in choices])
    one_each = sparse.csr_array((np.ones(len(every)), (of_broker, np.arange(len(every)))))
    scale = max(1.0, max(option.load for option in every))
    limits = [LinearConstraint(one_each, 1, 1), LinearConstraint(np.array([[o.heavy for o in every]]), -np.inf, 0)]
    if most_load < math.inf:
        loads = np.array([[option.load / scale for option in every]])
        limits.append(LinearConstraint(loads, -np.inf, most_load / scale * (1.0 + ROUNDING)))
    found = milp(
        np.array([float(option.moves) for option in every]),
        constraints=limits,
        integrality=np.ones(len(every)),
        bounds=Bounds(0, 1),
        options={"time_limit": SECONDS},
    )
    if found.status == 2:
        return math.inf
    bound = found.mip_dual_bound
    return 0.0 if bound is None or not math.isfinite(bound) else float(math.ceil(bound - 1e-6))


def _options(room: float, own: Sequence[float], threshold: float) -> list[_Option]:
    """What a broker may come to, but for what is worse than another in all three; none where it cannot get down."""
    heavy = sorted((load for load in own if load >= threshold), reverse=True)
    light = sorted((load for load in own if 0 < load < threshold), reverse=True)
    limit = room + math.fsum(own)
    most = math.floor(limit / threshold * (1.0 + ROUNDING)) if limit > 0 else 0
    found: dict[tuple[int, int], float] = {}
    for received in range(most + 1):
        needed = received * threshold - room if received else -room
        for leaving, moves, load in _leaving(heavy, light, needed):
            key = moves, leaving - received
            found[key] = min(load, found.get(key, math.inf))
    return _undominated(found)


def _undominated(found: Mapping[tuple[int, int], float]) -> list[_Option]:
    every = [_Option(moves, heavy, load) for (moves, heavy), load in sorted(found.items())]
    return [
        one
        for one in every
        if not any(
            other is not one and other.moves <= one.moves and other.heavy <= one.heavy and other.load <= one.load
            for other in every
        )
    ]


def _leaving(heavy: Sequence[float], light: Sequence[float], needed: float) -> Iterator[tuple[int, int, float]]:
    """Sets of bundles that weigh at least what is needed: how many heavy ones, how many in all, the least load."""
    needed *= 1.0 - ROUNDING if needed > 0 else 1.0
    if needed <= 0:
        yield 0, 0, 0.0
        return
    sums, ascending = np.cumsum([0.0, *light]), np.array(light[::-1], dtype=np.float64)
    for count in range(len(heavy) + 1):
        least = math.fsum(heavy[len(heavy) - count :])
        short = needed - math.fsum(heavy[:count])
        fewest = int(sums.searchsorted(short)) if short > 0 else 0
        for more in range(fewest, len(light) + 1):
            load = _least_load(heavy, ascending, count, more, needed)
            yield count, count + more, load
            if load <= max(needed, least):
                break
        if least >= needed:
            return


def _least_load(heavy: Sequence[float], ascending: Loads, count: int, more: int, needed: float) -> float:
    """The least load of so many heavy bundles and so many others that weigh what is needed; what is needed itself
    where that would take too long to find."""
    least = max(needed, math.fsum(heavy[len(heavy) - count :]))
    if more > 2 or math.comb(len(heavy), count) > FEW_COMBINATIONS:
        return least
    found = math.inf
    for chosen in combinations(heavy, count):
        weight = math.fsum(chosen)
        found = min(found, weight + _lightest(ascending, more, needed - weight))
    return max(least, found)


def _lightest(ascending: Loads, count: int, needed: float) -> float:
    """The least that none, one or two of the bundles weigh that have what is needed; one may be counted twice."""
    if count == 0:
        return 0.0 if needed <= 0 else math.inf
    first = np.zeros(1) if count == 1 else ascending
    place = ascending.searchsorted(needed - first)
    here = place < len(ascending)
    return float((first[here] + ascending[place[here]]).min(initial=math.inf))
