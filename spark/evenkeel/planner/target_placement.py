"""The desired placement of a cluster: no broker above the target, with as little moved as the search finds.

Bundles that have to move go first: those without an owner, of a broker that is to be emptied, or placed against the
rules. Brokers above the target give bundles to brokers that may own them and stay within the target. A saved move may
cost load that moves beyond the least. That load has a price in moves. The lowest price counts at which the whole plan
stays within `MOST_OVER_FLOOR`. Brokers
that are new or nearly idle then get bundles of the fullest ones, also where no one is above the target. A broker below
the target never rises above it. So every plan is an improvement, even one that falls short.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter

import numpy as np

from evenkeel.planner.placement_search import (
    RECEIVERS_LOOKED_AT,
    DesiredMove,
    DesiredPlacement,
    OwnedBundle,
    PlacementSearch,
    Whole,
    limit_of,
)
from evenkeel.planner.relief import relieve
from evenkeel.planner.target import UsageCurve

_PRICES = (0.0, 3.0, 6.0, 9.0, 13.0, 18.0, 25.0, 40.0, 100.0)
"""Prices, in moves, of moving the mean load of a broker beyond the least; tried in this order."""
MOST_OVER_FLOOR = 1.25
"""A plan that moves so many times the load that has to move, or less, is good enough."""
_BUNDLES_LOOKED_AT = 1_000_000
"""Two prices side by side are tried as often as this holds the cluster's bundles."""


def desired_placement(
    curves: Mapping[str, Sequence[UsageCurve]],
    bundles: Iterable[OwnedBundle],
    usage: float | Mapping[str, float],
    slack: float | Mapping[str, float] = 0.0,
    *,
    idle: Iterable[str] = (),
    even: float = 0.0,
    may_go_together: Callable[[Sequence[DesiredMove]], bool] | None = None,
) -> DesiredPlacement:
    """Return the moves after which no broker's usage is above `usage` (fraction; of all brokers, or by broker).

    `curves`: broker -> by resource, its usage by load. An owner that is not among them is to be emptied. `slack`: a
    broker at most this far above `usage` gives nothing away; no broker is filled above `usage`. `idle`: brokers that
    are then filled to a part of their load at `even`. `may_go_together`: returns True if moves may be combined, when
    one needs the room of the others.
    """
    start = PlacementSearch(curves, sorted(bundles, key=attrgetter("name")), usage, slack)
    start.may_go_together = may_go_together
    search = _relieved(start)
    if search.excess() or any(len(search.places[search.bundles[n].brokers]) for n in search.nowhere):
        search = all_tried(start) or search
    for broker in sorted(set(idle) & curves.keys()):
        fill(search, broker, curves[broker], even)
    return search.found()


def _relieved(start: PlacementSearch) -> PlacementSearch:
    """The search with fewest moves of those that leave no broker above the target and move little more than has to;
    without such a search the one that leaves least above, of those the one that moves least.

    The lowest price counts at which that is so for all brokers. Then the next lower one is tried for as many of the
    fullest brokers as can have it while the others have the highest.
    """
    start = start.again()
    place_homeless(start)
    # Minus the possible error of rounding to whole units.
    enough = MOST_OVER_FLOOR * start.excess() - len(start.bundles)
    if enough <= 0:
        return start
    tried: list[tuple[int, bool, int, int, int, PlacementSearch]] = []

    def is_enough(price: float, fullest: int | None = None) -> bool:
        search = start.again()
        relieve(search, price, _PRICES[-1], fullest)
        moved, left = search.load_moved() - start.load_moved(), search.excess()
        is_found = not left and moved <= enough
        tried.append((left, not is_found, len(search.moves) if is_found else 0, moved, len(tried), search))
        return is_found

    if is_enough(_PRICES[0]):
        return tried[0][-1]
    if tried[0][0]:
        is_enough(_PRICES[-1])
    else:
        lowest = bisect_left(range(1, len(_PRICES)), True, key=lambda at: is_enough(_PRICES[at])) + 1
        low, high = 0, len(start.fullest_first()) if lowest < len(_PRICES) else 0
        for _ in range(_BUNDLES_LOOKED_AT // max(1, len(start.bundles))):
            if high - low < 2:
                break
            middle = (low + high) // 2
            low, high = (middle, high) if is_enough(_PRICES[lowest - 1], middle) else (low, middle)
    return min(tried, key=lambda attempt: attempt[:-1])[-1]


def place_homeless(search: PlacementSearch) -> None:
    """Place the bundles that must move before all others, the heaviest first."""
    homeless, before = search.heaviest_first(search.homeless()), -1
    while len(homeless) != before:
        # Bundles that left may have made room.
        before, homeless = len(homeless), [n for n in homeless if not _sent(search, n)]
    search.nowhere = [n for n in homeless if not _squeezed_in(search, n)]


def _sent(search: PlacementSearch, n: int) -> bool:
    """Return True if a broker was found for the bundle: the one with most room, as a share of its capacity."""
    place = search.roomiest_place(n)
    if place is not None:
        search.move(n, place)
    return place is not None


def _squeezed_in(search: PlacementSearch, n: int) -> bool:
    """Return True if a bundle without owner that fits nowhere was given to the broker that it leaves least overfull."""
    places = search.places[search.bundles[n].brokers]
    if search.owner[n] >= 0 or not len(places):
        return False
    after = (search.carried[places] + search.loads[n]) / np.maximum(search.limit[places], 1)
    search.move(n, int(places[after.max(axis=1, initial=0.0).argmin()]))
    return True


def all_tried(search: PlacementSearch) -> PlacementSearch | None:
    """Return a search that reached the target by trying every placement of the bundles that may leave.

    None if there are many such bundles, or if none of their placements reaches it. Call it on a search without moves.
    """
    other, free, nowhere = search.again(), list[int](), list[int]()
    for n, bundle in enumerate(search.bundles):
        if not bundle.is_held and (search.weight[n] or search.must_go(n)):
            (free if len(search.places[bundle.brokers]) else nowhere).append(n)
    if not 0 < len(free) <= MOST_BUNDLES:
        return None
    free, other.nowhere = search.heaviest_first(free), nowhere
    owners = [search.owner[n] for n in free]
    left = search.limit - search.carried
    for n, owner in zip(free, owners, strict=True):
        if owner >= 0:
            left[owner] += search.loads[n]
    places = [search.places[search.bundles[n].brokers].tolist() for n in free]
    placement = least_moved(search.loads[free].tolist(), places, owners, left.tolist())
    if placement is None:
        return None
    waiting = [(n, place) for n, place, owner in zip(free, placement, owners, strict=True) if place != owner]
    while waiting:
        # Bundles with room go alone, the others together.
        n, place = next((candidate for candidate in waiting if other.has_room(*candidate)), (-1, -1))
        if n < 0:
            other.move_with(*waiting[0], waiting[1:])
            break
        other.move(n, place)
        waiting.remove((n, place))
    return other


MOST_BUNDLES, MOST_STEPS = 16, 20_000
"""More bundles than that are not tried; and after so many steps the best placement so far counts."""


def least_moved(
    loads: Sequence[Sequence[int]],
    places: Sequence[Sequence[int]],
    owners: Sequence[int],
    room: Sequence[Sequence[int]],
) -> list[int] | None:
    """The broker of each bundle, such that no broker has more than its room, and least load moves; None without any.

    `loads`: of each bundle by resource. `places`: the brokers that may own it. `owners`: which one does, or none of
    them. `room`: of each broker by resource, for these bundles. Of placements that move as much the first counts:
    bundles in their order, the owner before others, those in their order.
    """
    if len(loads) > MOST_BUNDLES:
        return None
    search = _Placements(loads, places, owners, room)
    search.place(0, 0)
    return search.best


class _Placements:
    def __init__(
        self,
        loads: Sequence[Sequence[int]],
        places: Sequence[Sequence[int]],
        owners: Sequence[int],
        room: Sequence[Sequence[int]],
    ) -> None:
        self._loads, self._owners, self._left = loads, owners, [[*broker_room] for broker_room in room]
        self._places = [
            sorted(broker_room, key=lambda b: b != owner) for broker_room, owner in zip(places, owners, strict=True)
        ]
        self._steps, self._least = MOST_STEPS, -1
        self._placed: list[int] = []
        self.best: list[int] | None = None

    def place(self, n: int, moved: int) -> None:
        """Try every place of bundle `n` and those after it; `moved`: the load that moves for those before."""
        if self._steps <= 0 or 0 <= self._least <= moved:
            return
        if n == len(self._loads):
            self.best, self._least = [*self._placed], moved
            return
        for broker in self._places[n]:
            left = [room - load for room, load in zip(self._left[broker], self._loads[n], strict=True)]
            if min(left) < 0:
                continue
            self._steps -= 1
            before, self._left[broker] = self._left[broker], left
            self._placed.append(broker)
            self.place(n + 1, moved + (max(self._loads[n]) if broker != self._owners[n] else 0))
            self._placed.pop()
            self._left[broker] = before


FILLED = 0.8
"""A broker counts as filled with this part of its load in the evenly used cluster."""


def fill(search: PlacementSearch, broker: str, curves: Sequence[UsageCurve], even: float) -> None:
    """Give the broker bundles of the fullest ones, the heaviest that it has room for, until it is filled; none after
    which it would be fuller than its giver."""
    at = search.brokers.index(broker)
    most = np.array([limit_of(curve, even, unit) for curve, unit in zip(curves, search.units, strict=True)])
    while (search.carried[at] < FILLED * most).all():
        full = (search.carried / np.maximum(search.limit, 1)).max(axis=1, initial=0.0)
        order = np.argsort(-full, kind="stable").tolist()
        givers = (n for n in order if n != at and search.receives[n] and full[n] > full[at])
        destination = next(
            (n for giver in islice(givers, RECEIVERS_LOOKED_AT) for n in _spared(search, giver, at, most)), None
        )
        if destination is None:
            return
        search.move(destination, at)


def _spared(search: PlacementSearch, giver: int, at: int, most: Whole) -> Iterator[int]:
    """Return the heaviest bundle that the giver can spare for a broker with this capacity, or None."""
    for n in search.heaviest_first(search.own[giver]):
        one = search.bundles[n]
        if n in search.moved or one.is_held or not search.weight[n] or search.brokers[at] not in one.brokers:
            continue
        after, left = search.carried[at] + search.loads[n], search.carried[giver] - search.loads[n]
        share, other = (x / np.maximum(search.limit[b], 1) for x, b in ((after, at), (left, giver)))
        if (after <= most).all() and share.max() <= other.max():
            yield n
            return
