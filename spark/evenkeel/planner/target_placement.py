"""The placement that a cluster is to come to: no broker above the target, and as little moved for it as can be found.

Brokers above the target give bundles away to brokers that may own them and stay within the target with them. A move
that is saved may cost load that moves beyond what has to. That load has a price in moves, and the lowest price counts
at which the plan as a whole stays within `MOST_OVER_FLOOR`. A broker below the target never comes above it, so that
every plan, also one that falls short, is better than what it began with.
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
"""What it costs to move the mean load of a broker beyond what has to move, in moves: tried one after the other."""
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
    """What to move so that no broker's usage is above `usage`.

    `curves`: broker -> by resource, how its usage grows with its load; a broker that is an owner and not among them is
    to be emptied. `slack`: a broker that is no more than this above `usage` gives nothing away, or no more; nobody gets
    more than up to `usage`. `idle`: brokers that are then filled up to some part of what they may carry at `even`.
    `may_go_together`: whether moves that save others may be asked for, since one needs the room that the others make.
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
    # Less what rounding to whole units may make of it.
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
    return min(tried, key=lambda one: one[:-1])[-1]
