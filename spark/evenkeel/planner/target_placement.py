"""The desired placement of a cluster: no broker above the target, with as little moved as the search finds.

Brokers above the target give bundles to brokers that may own them and stay within the target. A saved move may cost
load that moves beyond the least. That load has a price in moves. The lowest price counts at which the whole plan stays
within `MOST_OVER_FLOOR`. A broker below the target never rises above it. So every plan is an improvement, even one that
falls short.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from evenkeel.planner.forced_moves import all_tried, place_homeless
from evenkeel.planner.idle_brokers import fill
from evenkeel.planner.placement_search import DesiredMove, DesiredPlacement, OwnedBundle, PlacementSearch
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
    usage: float,
    slack: float = 0.0,
    *,
    idle: Iterable[str] = (),
    even: float = 0.0,
    may_go_together: Callable[[Sequence[DesiredMove]], bool] | None = None,
) -> DesiredPlacement:
    """Return the moves after which no broker's usage is above `usage` (fraction).

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
