"""Room for a bundle that fits nowhere: a receiver gives a bundle back, or sends some of its own to others.

Moves that go together are marked, since one has no room without the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from evenkeel.planner.placement_search import PlacementSearch

MADE_ROOM_FOR, _ASKED_FOR_ROOM, _MOST_THAT_MAKE_ROOM = 8, 8, 4
"""Limits of the search: bundles of a full broker from its excess up, bundles below it, receivers, and bundles per
receiver."""


def room_is_made(search: PlacementSearch, broker: int, ladder: list[int], excess: int, resource: int) -> bool:
    """Send a bundle to a receiver that makes room, the lightest sufficient one first; return True if there was one."""
    if not search.looks_left:
        return False
    search.looks_left -= 1
    cut = bisect_left(ladder, excess, key=search.by_resource[resource].__getitem__)
    enough, less = ladder[cut : cut + MADE_ROOM_FOR], ladder[max(0, cut - MADE_ROOM_FOR) : cut]
    for n in (*enough, *reversed(less)):
        for other, leaving in who_make_room(search, n, broker):
            ladder.remove(n)
            search.move_with(n, other, leaving)
            return True
    return False


def who_make_room(search: PlacementSearch, n: int, broker: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield receivers for bundle `n` of `broker`, each with the bundles that have to leave it first."""
    for other in search.roomiest(broker)[:_ASKED_FOR_ROOM]:
        if search.brokers[other] in search.bundles[n].brokers and (leaving := _leaving(search, other, n, broker)):
            yield other, leaving


def _leaving(search: PlacementSearch, other: int, n: int, broker: int) -> list[tuple[int, int]]:
    """Return bundles of a receiver with their destinations, so that bundle `n` of `broker` fits there.

    Empty if a few bundles are not enough. They may also go to `broker`, as long as that leaves it less full in the end.
    """
    given = np.zeros_like(search.carried)
    given[other], given[broker] = search.loads[n], -search.loads[n]
    leavers: list[tuple[int, int]] = []
    lacking = search.carried[other] + given[other] - search.limit[other]
    resource, ladder = -1, list[int]()
    while (lacking > 0).any():
        most = int((lacking / np.maximum(search.limit[other], 1)).argmax())
        if most != resource:
            taken = {leaver for leaver, _ in leavers}
            resource, ladder = most, [candidate for candidate in search.ladder(other, most) if candidate not in taken]
        if not ladder or len(leavers) == _MOST_THAT_MAKE_ROOM:
            return []
        # The lightest that is enough, else the heaviest.
        at = bisect_left(ladder, int(lacking[resource]), key=search.by_resource[resource].__getitem__)
        one = ladder.pop(min(at, len(ladder) - 1))
        destination = search.tightest(one, given)
        if destination is not None:
            given[other] -= search.loads[one]
            given[destination] += search.loads[one]
            leavers.append((one, destination))
            lacking = search.carried[other] + given[other] - search.limit[other]
    return leavers
