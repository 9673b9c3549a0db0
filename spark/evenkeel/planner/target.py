"""The lowest usage that each broker of a cluster can have, and the floor that no plan can go below.

A broker's usage grows with its load along its own curve (`UsageCurve`), so strong and weak brokers can be compared.
Load is spread like a liquid, but bundles may go to some brokers only. Anti-affinity is left out. Bundles are whole, so
the levels cannot be reached exactly. Loads are finite and at least 0. Sums are exact, so the order of rows changes no
bit.

The floor is the least load, and the fewest moves, that bring every broker below a usage: a broker above it has to give
away its excess. The bound on load is exact, except that bundles are whole. The bound on moves takes the largest bundles
first and ignores which brokers could take them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

_UNITS = 1 << 50


class UsageCurve(Protocol):
    """A broker's usage (fraction) by its load; it never falls."""

    def usage(self, load: float) -> float:
        """The usage at this load."""

    def load_within(self, usage: float) -> float:
        """The most load at this usage: 0 where the broker has more without any, infinite where none makes it busier."""


@dataclass(frozen=True, slots=True)
class UsageLine:
    """A straight line: usage `base` without load, and `slope` (at least 0) for each unit of load."""

    base: float
    slope: float

    def usage(self, load: float) -> float:
        """The usage at this load."""
        return self.base + self.slope * load

    def load_within(self, usage: float) -> float:
        """The most load at this usage."""
        if usage < self.base:
            return 0.0
        return (usage - self.base) / self.slope if self.slope > 0 else math.inf


@dataclass(frozen=True, slots=True)
class BundleKind:
    """Bundles of the same `brokers`: their `load`."""

    brokers: frozenset[str]
    load: float


def kinds_of(bundles: Iterable[tuple[frozenset[str], float]]) -> tuple[BundleKind, ...]:
    """The kinds of bundles given as (brokers that may own it, load)."""
    loads: dict[frozenset[str], list[float]] = {}
    for brokers, load in bundles:
        loads.setdefault(brokers, []).append(load)
    kinds = (BundleKind(brokers, math.fsum(kind_loads)) for brokers, kind_loads in loads.items())
    return tuple(sorted(kinds, key=lambda kind: sorted(kind.brokers)))


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A curve whose broker has a load that stays."""

    curve: UsageCurve
    load: float

    def usage(self, load: float) -> float:
        return self.curve.usage(self.load + load)

    def load_within(self, usage: float) -> float:
        return max(0.0, self.curve.load_within(usage) - self.load)


class BrokerLevel(NamedTuple):
    """The lowest usage of a broker if load is spread freely: `even` with its part of what may lie on several brokers (0
    if it may have nothing of that), `stays` with nothing but what has to stay there."""

    even: float
    stays: float


def levels_of(curves: Mapping[str, UsageCurve], kinds: Iterable[BundleKind]) -> dict[str, BrokerLevel]:
    """Return the level of each broker, the most crowded ones first.

    Load that only some brokers may have lifts the level of those brokers, and of no others.
    """
    placed = [BundleKind(kind.brokers & curves.keys(), kind.load) for kind in kinds]
    stays = dict.fromkeys(sorted(curves), 0.0)
    for kind in placed:
        if len(kind.brokers) == 1:
            stays[min(kind.brokers)] += kind.load
    left: dict[str, UsageCurve] = {broker: _Loaded(curves[broker], load) for broker, load in stays.items()}
    levels = {broker: BrokerLevel(0.0, curve.usage(0.0)) for broker, curve in left.items()}
    spread = [kind for kind in placed if len(kind.brokers) > 1 and kind.load > 0]
    while spread:
        usage, crowded = most_crowded(left, spread)
        for broker in sorted(frozenset().union(*(kind.brokers for kind in crowded))):
            levels[broker] = levels[broker]._replace(even=usage)
            del left[broker]
        kept = (kind for kind in spread if kind not in crowded)
        spread = [BundleKind(brokers, kind.load) for kind in kept if (brokers := kind.brokers & left.keys())]
    return levels


def even_usage(curves: Iterable[UsageCurve], load: float) -> float:
    """The lowest usage at which these brokers carry the load, if it could be spread at will; 0 without load."""
    every = list(curves)
    if load <= 0 or not every:
        return 0.0
    low, high = 0.0, min(curve.usage(load) for curve in every)
    while low < (middle := low + (high - low) / 2) < high:
        if math.fsum(curve.load_within(middle) for curve in every) >= load:
            high = middle
        else:
            low = middle
    return high


def most_crowded(curves: Mapping[str, UsageCurve], kinds: Sequence[BundleKind]) -> tuple[float, Sequence[BundleKind]]:
    """Return the lowest usage at which every kind's load has room on the brokers that may own it, spread freely, and
    the kinds whose brokers it fills. Each kind has load.

    From one usage to the next: a flow from kinds to brokers either carries everything, or shows kinds whose brokers
    have too little room. The load of those kinds gives the next usage. No set of kinds appears twice.
    """
    without_room, crowded = kinds, kinds
    usage = -math.inf
    while without_room:
        reached = frozenset().union(*(kind.brokers for kind in without_room))
        needed = even_usage((curves[b] for b in sorted(reached)), math.fsum(kind.load for kind in without_room))
        if needed <= usage:
            break
        usage, crowded = needed, without_room
        without_room = _without_room(curves, kinds, usage)
    return max(usage, 0.0), crowded


def _without_room(curves: Mapping[str, UsageCurve], kinds: Sequence[BundleKind], usage: float) -> list[BundleKind]:
    """Kinds that together have more load than their brokers can carry at this usage; none where all have room.

    Brokers that the same kinds may use are one. Loads are rounded down and room up to whole units: where the flow does
    not carry all, it is not for rounding.
    """
    unit = math.fsum(kind.load for kind in kinds) / _UNITS
    if unit == 0.0:
        return []
    members: dict[tuple[int, ...], list[str]] = {}
    for broker in sorted(frozenset().union(*(kind.brokers for kind in kinds))):
        members.setdefault(tuple(n for n, kind in enumerate(kinds) if broker in kind.brokers), []).append(broker)
    room = {}
    for users, brokers in members.items():
        carried = math.fsum(curves[broker].load_within(usage) for broker in brokers)
        room[users] = 2 * _UNITS if math.isinf(carried) else min(2 * _UNITS, math.ceil(carried / unit) + len(kinds))
    return [kinds[n] for n in _cut([math.floor(kind.load / unit) for kind in kinds], room)]


def _cut(left: list[int], room: dict[tuple[int, ...], int]) -> list[int]:
    """Return the numbers of the sources on the near side of a smallest cut, after the largest flow.

    `left`: load that each source has to give. `room`: of each sink, named by the sources that may use it.
    """
    sinks = sorted(room)
    sent = {(n, sink): 0 for sink in sinks for n in sink}
    while True:
        # Breadth first over the remaining capacity: from a full sink, back along the flow that others send to it.
        came_from: dict[int, tuple[int, tuple[int, ...]] | None] = {
            n: None for n, room_left in enumerate(left) if room_left > 0
        }
        seen: set[tuple[int, ...]] = set()
        queue = list(came_from)
        end: tuple[int, tuple[int, ...]] | None = None
        for n in queue:
            for sink in sinks:
                if sink in seen or n not in sink:
                    continue
                seen.add(sink)
                if room[sink] > 0:
                    end = n, sink
                    break
                for other in sink:
                    if other not in came_from and sent[other, sink] > 0:
                        came_from[other] = n, sink
                        queue.append(other)
            if end is not None:
                break
        if end is None:
            return sorted(came_from)
        _send(end, came_from, left, room, sent)


def _send(
    end: tuple[int, tuple[int, ...]],
    came_from: Mapping[int, tuple[int, tuple[int, ...]] | None],
    left: list[int],
    room: dict[tuple[int, ...], int],
    sent: dict[tuple[int, tuple[int, ...]], int],
) -> None:
    """Send as much along the path that ends at this node as its narrowest edge allows."""
    steps, n = [end], end[0]
    while (before := came_from[n]) is not None:
        steps.append(before)
        n = before[0]
    # Step k's source gives up its place at the sink of step k + 1 to that step's source.
    gives_up = [(steps[k][0], steps[k + 1][1]) for k in range(len(steps) - 1)]
    amount = min(room[end[1]], left[n], *(sent[node] for node in gives_up))
    room[end[1]] -= amount
    left[n] -= amount
    for step in steps:
        sent[step] += amount
    for node in gives_up:
        sent[node] -= amount


_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Floor:
    """The `load` that has to move (byte/s), its `share` of the cluster's load, and the excess by broker."""

    load: float
    share: float
    excess: Mapping[str, float]


def floor_of(
    curves: Mapping[str, UsageCurve], carried: Mapping[str, float], usage: float | Mapping[str, float]
) -> Floor:
    """The floor for a usage, or one for each broker, with each broker's present load; a broker without a curve is to be
    emptied."""
    usages = usage if isinstance(usage, Mapping) else dict.fromkeys(curves, usage)
    room = {broker: curves[broker].load_within(usages[broker]) if broker in curves else 0.0 for broker in carried}
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
