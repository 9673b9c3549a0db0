"""Bundles that have to move: those without an owner, of a broker that is to be emptied, or placed against the rules.

Where few bundles may leave at all, every placement of them is tried in the end.
"""

from __future__ import annotations

import numpy as np

from evenkeel.planner.every_placement import MOST_BUNDLES, least_moved
from evenkeel.planner.placement_search import PlacementSearch


def place_homeless(search: PlacementSearch) -> None:
    """Place the bundles that must move before all others, the heaviest first."""
    homeless = search.heaviest_first(search.homeless())
    search.nowhere = [n for n in homeless if not _sent(search, n) and not _squeezed_in(search, n)]


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
