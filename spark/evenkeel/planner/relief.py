"""Relief of brokers above the target: the fullest first, by bundles that leave.

A broker gives one bundle that is enough, or the heaviest one that has room, or one for which its receiver makes room.
The choice is the one that saves most moves for the load moved beyond the least. Bundles take the tightest place, so
that wide places are left for heavy bundles. In the end they are spread over the receivers. If a bundle fits nowhere,
a receiver gives a bundle back, or sends some of its own to others. Such moves are marked, since one has no room without
the other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.planner.placement_search import UNITS, PlacementSearch, Whole


def relieve(search: PlacementSearch, price: float, of_others: float = 0.0, fullest: int | None = None) -> None:
    """Move the excess above the target at this price of load; brokers beyond `fullest` have the price `of_others`."""
    before, per_price = len(search.moves), len(search.brokers) / UNITS
    for n, broker in enumerate(search.fullest_first()):
        _relieve(search, broker, (price if fullest is None or n < fullest else of_others) * per_price)
    _spread(search, search.moves[before:])


def _relieve(search: PlacementSearch, broker: int, price: float) -> None:
    """Take bundles from the broker until it is within its limit, or nothing helps; `price`: moves per unit."""
    resource, ladder = -1, list[int]()
    while (search.carried[broker] > search.bearable[broker]).any():
        above = search.carried[broker] - search.limit[broker]
        if above.argmax() != resource:
            resource = int(above.argmax())
            ladder = search.ladder(broker, resource)
        excess = int(above[resource])
        if not (
            _is_worth_it(search, broker, ladder, excess, resource, price)
            or _one_leaves(search, ladder, excess, resource)
            or room_is_made(search, broker, ladder, excess, resource)
        ):
            return


def _is_worth_it(
    search: PlacementSearch, broker: int, ladder: list[int], excess: int, resource: int, price: float
) -> bool:
    """Send away a bundle whose receiver has or makes room, if the saved moves are worth the extra load moved."""
    loads = search.loads[ladder, resource]
    cut, fits = int(loads.searchsorted(excess)), search.fit_alone(broker, ladder, resource)
    saved = _Saved(loads[:cut][fits[:cut]][::-1].cumsum(), excess, price)
    options: list[tuple[float, int, int, int, list[tuple[int, int]]]] = []
    if fits[cut : cut + MADE_ROOM_FOR].any() and saved.by(int(loads[cut]), int(loads[cut]), 1) >= 0:
        for n in ladder[cut : cut + MADE_ROOM_FOR]:
            if (place := search.tightest(n)) is not None:
                moving = int(search.weight[n])
                options.append((-saved.by(int(search.loads[n, resource]), moving, 1), moving, n, place, []))
                break
    if saved.moves(excess) > 2 and search.savings_left:
        search.savings_left -= 1
        above = range(cut, min(len(ladder), cut + MADE_ROOM_FOR))
        for at in (*above, *reversed(range(max(0, cut - MADE_ROOM_FOR), cut))):
            n, relief = ladder[at], int(loads[at])
            if fits[at] or saved.by(relief, relief, 2) <= 0:
                continue
            for other, leaving in who_make_room(search, n, broker):
                moving = int(search.weight[n] + sum(search.weight[leaver] for leaver, _ in leaving))
                worth = saved.by(relief, moving, 1 + len(leaving))
                if worth > 0 and search.is_allowed([(n, other), *leaving]):
                    options.append((-worth, moving, n, other, leaving))
    if not options or min(options)[0] > 0:
        return False
    *_, n, place, leaving = min(options)
    ladder.remove(n)
    search.move_with(n, place, leaving)
    return True


def _one_leaves(search: PlacementSearch, ladder: list[int], excess: int, resource: int) -> bool:
    """Send away the heaviest bundle within the excess (apart from rounding), else the lightest heavier one."""
    cut = bisect_right(ladder, excess + len(search.bundles), key=lambda n: int(search.loads[n, resource]))
    for at in (*range(cut - 1, -1, -1), *range(cut, len(ladder))):
        place = search.tightest(ladder[at])
        if place is not None:
            search.move(ladder.pop(at), place)
            return True
    return False


def _spread(search: PlacementSearch, moves: Sequence[tuple[int, int, int]]) -> None:
    """Give bundles that go alone other destinations, the heaviest first to the broker with most room, if all of them
    find one: receivers are then less full, and none fuller than before."""
    alone = [(n, source, place) for n, source, place in moves if n not in search.unit]
    before = search.carried.copy()
    for n, source, place in alone:
        search.carried[place] -= search.loads[n]
        search.owner[n] = source
    places: dict[int, int] = {}
    for n in search.heaviest_first(n for n, *_ in alone):
        roomiest = search.roomiest_place(n)
        if roomiest is None:
            search.carried, places = before, {leaver: place for leaver, _, place in alone}
            break
        places[n] = roomiest
        search.carried[roomiest] += search.loads[n]
    for n, _, place in alone:
        search.own[place].remove(n)
        search.own[places[n]].append(n)
        search.owner[n] = places[n]
    search.moves = [(n, source, places.get(n, place)) for n, source, place in search.moves]


@dataclass(frozen=True, slots=True)
class _Saved:
    """The value of sending one bundle away instead of lighter ones.

    `lighter`: cumulated loads of the lighter bundles that have room somewhere, the heaviest first.
    """

    lighter: Whole
    excess: int
    price: float

    def moves(self, relief: int) -> int:
        """Return the number of lighter bundles whose moves remove this much load."""
        return int(self.lighter.searchsorted(min(relief, self.excess))) + 1

    def by(self, relief: int, moving: int, moves: int) -> float:
        """Return the number of moves saved, minus the price of the load that moves beyond the least."""
        return self.moves(relief) - moves - self.price * max(0, moving - min(relief, self.excess))


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
