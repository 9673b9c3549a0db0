"""The placement that a cluster is to come to: no broker above the target, and as little moved for it as can be found.

Brokers above the target give bundles away, the fullest first, to brokers that may own them and stay within the target
with them. A broker gives one bundle that is enough, or the heaviest one that has room, or one for which its receiver
makes room: what saves most moves for the load that moves beyond what has to. That load has a price in moves, and the
lowest price counts at which the plan as a whole stays within `MOST_OVER_FLOOR`. Bundles take the tightest place, so
that wide ones are left for heavy bundles, and are spread over the receivers in the end. What fits nowhere is exchanged
for something lighter. A broker below the target never comes above it, so that every plan, also one that falls short, is
better than what it began with. Loads are counted in whole units, and ties break by name: the order of rows changes
nothing.

Several resources may count. A broker's room is that of the resource that has least of it, as a share of what the broker
may carry of it at the target.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from evenkeel.planner.every_placement import MOST_BUNDLES, least_moved
from evenkeel.planner.target import UsageCurve

_UNITS = 1 << 44
"""A cluster's load of a resource, in the units that are counted."""
_HEAVIEST_LOOKED_AT, _RECEIVERS_LOOKED_AT, _LOOKS_PER_BROKER = 64, 16, 4
"""For an exchange so many bundles of a full broker are held against those of so many receivers, and in all for so many
times the number of brokers: a cluster that cannot be balanced is given up on in time."""
_SAVINGS_PER_BROKER = 2
"""So many times the number of brokers room is made just to save moves."""
_MADE_ROOM_FOR, _ASKED_FOR_ROOM, _MOST_THAT_MAKE_ROOM = 8, 8, 4
"""Room is made for so many bundles of a full broker from its excess up, and for as many below, on so many receivers, by
so many of their bundles at most."""
_PRICES = (0.0, 3.0, 6.0, 9.0, 13.0, 18.0, 25.0, 40.0, 100.0)
"""What it costs to move the mean load of a broker beyond what has to move, in moves: tried one after the other."""
MOST_OVER_FLOOR = 1.2
"""A plan that moves so many times the load that has to move, or less, is good enough."""

FILLED = 0.8
"""A broker that is to be filled is so with this part of what it carries in the evenly used cluster."""

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OwnedBundle:
    """A bundle with its `loads` by resource (each finite, at least 0).

    `owner`: None where it has none. `brokers`: those that may own it. `is_held`: it stays where it is.
    """

    name: str
    owner: str | None
    loads: tuple[float, ...]
    brokers: frozenset[str]
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class DesiredMove:
    """A bundle that changes its owner; `source` is None where it had none.

    `unit`: the number of the moves that go together, as one has no room without the other; 0 for one that goes alone.
    """

    bundle: str
    source: str | None
    destination: str
    unit: int = 0


@dataclass(frozen=True, slots=True)
class DesiredPlacement:
    """The `moves`, in the order in which they were found, and what no plan of this kind mends: `over`, the brokers that
    stay above the target, and `nowhere`, bundles that no broker may own, or that are to leave theirs and fit nowhere. A
    bundle without owner that fits nowhere goes where it does least harm."""

    moves: tuple[DesiredMove, ...]
    over: tuple[str, ...]
    nowhere: tuple[str, ...]


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
    more than up to `usage`. `idle`: brokers that are then filled up to some `FILLED` of what they may carry at `even`.
    `may_go_together`: whether moves that save others may be asked for, since one needs the room that the others make.
    """
    start = _Search(curves, sorted(bundles, key=lambda one: one.name), usage, slack)
    start.may_go_together = may_go_together
    search = _relieved(start)
    if search.excess() or any(len(search.places[search.bundles[n].brokers]) for n in search.nowhere):
        search = start.all_tried() or search
    for broker in sorted(set(idle) & curves.keys()):
        search.fill(broker, curves[broker], even)
    return search.found()


def _relieved(start: _Search) -> _Search:
    """The search at the lowest price at which no broker is left above the target and little more than has to moves;
    without such a price the one that leaves least above, of those the one that moves least."""
    start = start.again()
    start.place_homeless()
    enough = MOST_OVER_FLOOR * start.excess()
    if not enough:
        return start
    tried: list[tuple[int, int, int, _Search]] = []

    def is_enough(at: int) -> bool:
        search = start.again()
        search.relieve(_PRICES[at])
        moved, left = search.load_moved() - start.load_moved(), search.excess()
        is_found = not left and moved <= enough
        tried.append((left, 0 if is_found else moved, at, search))
        return is_found

    if not is_enough(0):
        if tried[0][0]:
            is_enough(len(_PRICES) - 1)
        else:
            bisect_left(range(1, len(_PRICES)), True, key=is_enough)
    return min(tried, key=lambda one: one[:3])[3]


class _Search:
    """The placement as it stands, and the moves that led to it."""

    def __init__(
        self, curves: Mapping[str, Sequence[UsageCurve]], bundles: Sequence[OwnedBundle], usage: float, slack: float
    ) -> None:
        self.bundles = bundles
        self.brokers = sorted(curves.keys() | {one.owner for one in bundles if one.owner is not None})
        place = {broker: n for n, broker in enumerate(self.brokers)}
        kinds = len(next(iter(curves.values()), ()))
        totals = [math.fsum(one.loads[r] for one in bundles) for r in range(kinds)]
        self.units = units = [total / _UNITS if total > 0 else 1.0 for total in totals]
        self.nowhere: list[int] = []
        loads = np.array([one.loads for one in bundles], dtype=np.float64).reshape(len(bundles), kinds)
        self.loads: Whole = np.floor(loads / np.array(units)).astype(np.int64)

        def limits(most: float) -> Whole:
            found = [[_limit(curves[b][r], most, units[r]) if b in curves else 0 for r in range(kinds)] for b in names]
            return np.array(found, dtype=np.int64).reshape(len(names), kinds)

        names = self.brokers
        self.limit = limits(usage)
        self.bearable = limits(usage + slack) if slack > 0 else self.limit
        self.carried: Whole = np.zeros_like(self.limit)
        self.owner = [-1 if one.owner is None else place[one.owner] for one in bundles]
        self.own: list[list[int]] = [[] for _ in self.brokers]
        owned = [n for n, owner in enumerate(self.owner) if owner >= 0]
        np.add.at(self.carried, [self.owner[n] for n in owned], self.loads[owned])
        for n in owned:
            self.own[self.owner[n]].append(n)
        self.receives = np.array([broker in curves for broker in self.brokers], dtype=bool)
        self.places: dict[frozenset[str], npt.NDArray[np.int64]] = {}
        for one in bundles:
            if one.brokers not in self.places:
                found = sorted(place[b] for b in one.brokers if b in curves)
                self.places[one.brokers] = np.array(found, dtype=np.int64)
        # How heavy a bundle is: the largest of its shares of what the cluster carries.
        self.weight = self.loads.max(axis=1, initial=0) if kinds else np.zeros(len(bundles), dtype=np.int64)
        self.by_resource = [self.loads[:, r].tolist() for r in range(kinds)]
        self.may_go_together: Callable[[Sequence[DesiredMove]], bool] | None = None
        self.ladders: dict[tuple[int, int], list[int]] = {}
        self.looks_left = _LOOKS_PER_BROKER * len(self.brokers)
        self.savings_left = _SAVINGS_PER_BROKER * len(self.brokers)
        self.moved: set[int] = set()
        self.moves: list[tuple[int, int, int]] = []
        self.unit: dict[int, int] = {}

    def again(self) -> _Search:
        """A search of its own that begins where this one stands."""
        other = object.__new__(_Search)
        vars(other).update(vars(self))
        other.carried, other.owner = self.carried.copy(), [*self.owner]
        other.own = [[*own] for own in self.own]
        other.ladders = {**self.ladders}
        other.moved, other.moves, other.unit = {*self.moved}, [*self.moves], {**self.unit}
        return other

    def excess(self) -> int:
        """The load above the target of all brokers that have to give bundles away."""
        is_over = self.receives & (self.carried > self.bearable).any(axis=1)
        return int((self.carried - self.limit)[is_over].max(axis=1, initial=0).sum())

    def load_moved(self) -> int:
        """The load that was moved."""
        return int(sum(self.weight[n] for n, *_ in self.moves))

    def place_homeless(self) -> None:
        """Bundles that must go somewhere before all others, the heaviest first."""
        homeless = [n for n, one in enumerate(self.bundles) if not one.is_held and self._must_go(n)]
        self.nowhere = [n for n in self._heaviest_first(homeless) if not self._sent(n) and not self._squeezed_in(n)]

    def relieve(self, price: float) -> None:
        """Moves what stands above the target, at this price of load."""
        before = len(self.moves)
        of_unit = price * max(1, len(self.brokers)) / _UNITS
        for broker in self._fullest_first():
            self._relieve(broker, of_unit)
        self._spread(self.moves[before:])

    def all_tried(self) -> _Search | None:
        """A search that has come to the target by trying every placement of the bundles that may leave; None where they
        are many, or none of their placements does. It is asked of one that has moved nothing."""
        other, free, nowhere = self.again(), list[int](), list[int]()
        for n, one in enumerate(self.bundles):
            if not one.is_held and (self.weight[n] or self._must_go(n)):
                (free if len(self.places[one.brokers]) else nowhere).append(n)
        if not 0 < len(free) <= MOST_BUNDLES:
            return None
        free, other.nowhere = self._heaviest_first(free), nowhere
        owners = [self.owner[n] for n in free]
        left = self.limit - self.carried
        for n, owner in zip(free, owners, strict=True):
            if owner >= 0:
                left[owner] += self.loads[n]
        places = [self.places[self.bundles[n].brokers].tolist() for n in free]
        found = least_moved(self.loads[free].tolist(), places, owners, left.tolist())
        if found is None:
            return None
        waiting = [(n, place) for n, place, owner in zip(free, found, owners, strict=True) if place != owner]
        while waiting:
            # What has room goes alone, the others together.
            n, place = next((one for one in waiting if other.has_room(*one)), (-1, -1))
            if n < 0:
                other._move_with(*waiting[0], waiting[1:])
                break
            other._move(n, place)
            waiting.remove((n, place))
        return other

    def has_room(self, n: int, place: int) -> bool:
        """Whether the broker has room for the bundle."""
        return bool((self.carried[place] + self.loads[n] <= self.limit[place]).all())

    def found(self) -> DesiredPlacement:
        """What was found."""
        over = [
            b for n, b in enumerate(self.brokers) if self.receives[n] and (self.carried[n] > self.bearable[n]).any()
        ]
        moves = (
            DesiredMove(
                self.bundles[n].name,
                self.brokers[a] if a >= 0 else None,
                self.brokers[b],
                self.unit.get(n, 0),
            )
            for n, a, b in self.moves
        )
        return DesiredPlacement(tuple(moves), tuple(over), tuple(sorted(self.bundles[n].name for n in self.nowhere)))

    def fill(self, broker: str, curves: Sequence[UsageCurve], even: float) -> None:
        """Gives the broker bundles of the fullest ones, the heaviest that it has room for, until it is filled; none
        after which it would be fuller than its giver."""
        at = self.brokers.index(broker)
        most = np.array([_limit(curve, even, unit) for curve, unit in zip(curves, self.units, strict=True)])
        while (self.carried[at] < FILLED * most).all():
            full = (self.carried / np.maximum(self.limit, 1)).max(axis=1, initial=0.0)
            order = np.argsort(-full, kind="stable").tolist()
            givers = (n for n in order if n != at and self.receives[n] and full[n] > full[at])
            found = next(
                (n for giver in islice(givers, _RECEIVERS_LOOKED_AT) for n in self._spared(giver, at, most)), None
            )
            if found is None:
                return
            self._move(found, at)

    def _spared(self, giver: int, at: int, most: Whole) -> Iterator[int]:
        """The heaviest bundle that the giver can spare for a broker that may carry so much, if there is one."""
        for n in self._heaviest_first(self.own[giver]):
            one = self.bundles[n]
            if n in self.moved or one.is_held or not self.weight[n] or self.brokers[at] not in one.brokers:
                continue
            after, left = self.carried[at] + self.loads[n], self.carried[giver] - self.loads[n]
            share, other = (x / np.maximum(self.limit[b], 1) for x, b in ((after, at), (left, giver)))
            if (after <= most).all() and share.max() <= other.max():
                yield n
                return

    def _must_go(self, n: int) -> bool:
        owner = self.owner[n]
        return owner < 0 or not self.receives[owner] or self.brokers[owner] not in self.bundles[n].brokers

    def _heaviest_first(self, found: Iterable[int]) -> list[int]:
        return sorted(found, key=lambda n: (-self.weight[n], n))

    def _fullest_first(self) -> list[int]:
        """Brokers above the target, those with most above it first."""
        above = (self.carried - self.bearable).max(axis=1, initial=0)
        return sorted(
            (n for n in range(len(self.brokers)) if self.receives[n] and above[n] > 0), key=lambda n: -above[n]
        )

    def _relieve(self, broker: int, price: float) -> None:
        """Takes bundles from the broker until it is within what is borne, or nothing helps; `price`: moves per unit."""
        resource, ladder = -1, list[int]()
        while (self.carried[broker] > self.bearable[broker]).any():
            above = self.carried[broker] - self.limit[broker]
            if above.argmax() != resource:
                resource = int(above.argmax())
                ladder = self._ladder(broker, resource)
            excess = int(above[resource])
            if not (
                self._is_worth_it(broker, ladder, excess, resource, price)
                or self._one_leaves(ladder, excess, resource)
                or self._one_is_exchanged(broker, ladder, excess)
                or self._room_is_made(broker, ladder, excess, resource)
            ):
                return

    def _ladder(self, broker: int, resource: int) -> list[int]:
        """The bundles that may leave the broker, the lightest first, so that what is just enough is found at once."""
        known = self.ladders.get((broker, resource))
        if known is None:
            load = self.by_resource[resource]
            free = (n for n in self.own[broker] if n not in self.moved and not self.bundles[n].is_held)
            known = sorted((n for n in free if load[n] > 0), key=lambda n: (load[n], -n))
            self.ladders[broker, resource] = known
        return [*known]

    def _is_worth_it(self, broker: int, ladder: list[int], excess: int, resource: int, price: float) -> bool:
        """Sends away a bundle that saves moves, for its receiver has room or makes it, if the moves that it saves are
        worth what it moves too much."""
        loads = self.loads[ladder, resource]
        cut, room = int(loads.searchsorted(excess)), self._widest(broker)
        lighter = loads[: min(cut, int(loads.searchsorted(room, side="right")))][::-1].cumsum()
        saved = _Saved(lighter, excess, price)
        found: list[tuple[float, int, int, int, list[tuple[int, int]]]] = []
        if len(ladder) > cut and loads[cut] <= room and saved.by(int(loads[cut]), int(loads[cut]), 1) >= 0:
            for n in ladder[cut : cut + _MADE_ROOM_FOR]:
                if (place := self._tightest(n)) is not None:
                    moving = int(self.weight[n])
                    found.append((-saved.by(int(self.loads[n, resource]), moving, 1), moving, n, place, []))
                    break
        if saved.moves(excess) > 2 and self.savings_left:
            self.savings_left -= 1
            for n in (*ladder[cut : cut + _MADE_ROOM_FOR], *ladder[max(0, cut - _MADE_ROOM_FOR) : cut][::-1]):
                relief = int(self.loads[n, resource])
                if relief <= room or saved.by(relief, relief, 2) <= 0:
                    continue
                for other, leaving in self._who_make_room(n, broker):
                    moving = int(self.weight[n] + sum(self.weight[one] for one, _ in leaving))
                    worth = saved.by(relief, moving, 1 + len(leaving))
                    if worth > 0 and self._is_allowed([(n, other), *leaving]):
                        found.append((-worth, moving, n, other, leaving))
        if not found or min(found)[0] > 0:
            return False
        *_, n, place, leaving = min(found)
        ladder.remove(n)
        self._move_with(n, place, leaving)
        return True

    def _is_allowed(self, moves: Sequence[tuple[int, int]]) -> bool:
        """Whether these bundles may move in one cycle."""
        if self.may_go_together is None:
            return True
        return self.may_go_together(
            [DesiredMove(self.bundles[n].name, self.brokers[self.owner[n]], self.brokers[place]) for n, place in moves]
        )

    def _one_leaves(self, ladder: list[int], excess: int, resource: int) -> bool:
        """Sends away the heaviest bundle that is not heavier than the excess (but for what rounding makes of it), else
        the lightest that is."""
        cut = bisect_right(ladder, excess + len(self.bundles), key=lambda n: int(self.loads[n, resource]))
        for at in (*range(cut - 1, -1, -1), *range(cut, len(ladder))):
            place = self._tightest(ladder[at])
            if place is not None:
                self._move(ladder.pop(at), place)
                return True
        return False

    def _widest(self, broker: int) -> int:
        """The most room that any other broker has."""
        room = np.where(self.receives, (self.limit - self.carried).min(axis=1, initial=2 * _UNITS), 0)
        room[broker] = 0
        return int(room.max(initial=0))

    def _tightest(self, n: int, given: Whole | None = None, but: int = -1) -> int | None:
        """Of the brokers with room for the bundle the one that has least; None where none has. `given`: what they are
        to carry beside what they do. `but`: one that is not asked."""
        places = self.places[self.bundles[n].brokers]
        places = places[(places != self.owner[n]) & (places != but)]
        left = self.limit[places] - self.carried[places] - self.loads[n]
        if given is not None:
            left -= given[places]
        room = left.min(axis=1, initial=2 * _UNITS)
        room[room < 0] = 3 * _UNITS
        if not len(room) or room.min() == 3 * _UNITS:
            return None
        return int(places[room.argmin()])

    def _sent(self, n: int) -> bool:
        """Whether a broker was found for the bundle: the one with most room, as a share of what it may carry."""
        place = self._roomiest_place(n)
        if place is not None:
            self._move(n, place)
        return place is not None

    def _roomiest_place(self, n: int) -> int | None:
        places = self.places[self.bundles[n].brokers]
        places = places[places != self.owner[n]]
        left = self.limit[places] - self.carried[places] - self.loads[n]
        fits = (left >= 0).all(axis=1)
        if not fits.any():
            return None
        room = (left[fits] / np.maximum(self.limit[places[fits]], 1)).min(axis=1, initial=1.0)
        return int(places[fits][room.argmax()])

    def _spread(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """Gives bundles that go alone other destinations, the heaviest first to the broker with most room, if all of
        them find one: receivers are then less full, and none fuller than before."""
        alone = [(n, source, place) for n, source, place in moves if n not in self.unit]
        before = self.carried.copy()
        for n, source, place in alone:
            self.carried[place] -= self.loads[n]
            self.owner[n] = source
        places: dict[int, int] = {}
        for n in self._heaviest_first(n for n, *_ in alone):
            roomiest = self._roomiest_place(n)
            if roomiest is None:
                self.carried, places = before, {one: place for one, _, place in alone}
                break
            places[n] = roomiest
            self.carried[roomiest] += self.loads[n]
        for n, _, place in alone:
            self.own[place].remove(n)
            self.own[places[n]].append(n)
            self.owner[n] = places[n]
        self.moves = [(n, source, places.get(n, place)) for n, source, place in self.moves]

    def _one_is_exchanged(self, broker: int, ladder: list[int], excess: int) -> bool:
        """Exchanges a bundle for a lighter one of a broker that has no room for it alone; whether there was one.

        The exchange that takes most of the excess away, of those with as much the one that moves least.
        """
        if not self.looks_left:
            return False
        self.looks_left -= 1
        mine = ladder[-_HEAVIEST_LOOKED_AT:]
        found = [one for other in self._roomiest(broker) if (one := self._best_exchange(broker, mine, other, excess))]
        if not found:
            return False
        *_, n, back = min(found)
        other = self.owner[back]
        ladder.remove(n)
        self._move(n, other)
        self._move(back, broker)
        self._together([n, back])
        return True

    def _room_is_made(self, broker: int, ladder: list[int], excess: int, resource: int) -> bool:
        """Sends a bundle where others make room for it, the lightest that is enough first; whether there was one."""
        if not self.looks_left:
            return False
        self.looks_left -= 1
        cut = bisect_left(ladder, excess, key=self.by_resource[resource].__getitem__)
        enough, less = ladder[cut : cut + _MADE_ROOM_FOR], ladder[max(0, cut - _MADE_ROOM_FOR) : cut]
        for n in (*enough, *reversed(less)):
            for other, leaving in self._who_make_room(n, broker):
                ladder.remove(n)
                self._move_with(n, other, leaving)
                return True
        return False

    def _who_make_room(self, n: int, broker: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Receivers for bundle `n` of `broker`, each with the bundles that have to leave it for that."""
        for other in self._roomiest(broker)[:_ASKED_FOR_ROOM]:
            if self.brokers[other] in self.bundles[n].brokers and (leaving := self._leaving(other, n, broker)):
                yield other, leaving

    def _leaving(self, other: int, n: int, broker: int) -> list[tuple[int, int]]:
        """Bundles of a receiver, with where they go, so that bundle `n` of `broker` fits there; none where few are not
        enough. They may go to `broker` as well, as long as that is less full for it in the end."""
        given = np.zeros_like(self.carried)
        given[other], given[broker] = self.loads[n], -self.loads[n]
        found: list[tuple[int, int]] = []
        lacking = self.carried[other] + given[other] - self.limit[other]
        resource, ladder = -1, list[int]()
        while (lacking > 0).any():
            most = int((lacking / np.maximum(self.limit[other], 1)).argmax())
            if most != resource:
                taken = {one for one, _ in found}
                resource, ladder = most, [one for one in self._ladder(other, most) if one not in taken]
            if not ladder or len(found) == _MOST_THAT_MAKE_ROOM:
                return []
            # The lightest that is enough, else the heaviest.
            at = bisect_left(ladder, int(lacking[resource]), key=self.by_resource[resource].__getitem__)
            one = ladder.pop(min(at, len(ladder) - 1))
            destination = self._tightest(one, given)
            if destination is not None:
                given[other] -= self.loads[one]
                given[destination] += self.loads[one]
                found.append((one, destination))
                lacking = self.carried[other] + given[other] - self.limit[other]
        return found

    def _roomiest(self, broker: int) -> list[int]:
        """The receivers within the target, those with most room first; not all of them."""
        room = ((self.limit - self.carried) / np.maximum(self.limit, 1)).min(axis=1, initial=1.0)
        order = np.argsort(-room, kind="stable").tolist()
        within = (n for n in order if n != broker and self.receives[n] and room[n] >= 0)
        return [*islice(within, _RECEIVERS_LOOKED_AT)]

    def _best_exchange(
        self, broker: int, mine: Sequence[int], other: int, excess: int
    ) -> tuple[int, int, int, int] | None:
        """The best exchange of one of `mine` for a bundle of the other broker: what is not gained, what is moved, and
        both bundles; None where there is none."""
        here, there = self.brokers[broker], self.brokers[other]
        given = [n for n in mine if there in self.bundles[n].brokers]
        taken = [
            n
            for n in sorted(self.own[other])
            if n not in self.moved and not self.bundles[n].is_held and here in self.bundles[n].brokers
        ]
        if not given or not taken:
            return None
        less = self.loads[given][:, None, :] - self.loads[taken][None, :, :]
        can_be = (self.carried[other] + less <= self.limit[other]).all(axis=2)
        # Of another resource the broker may well get more than it gives, as long as that has room.
        left = (self.carried[broker] - less - self.limit[broker]).max(axis=2, initial=0)
        gain = np.where(can_be, excess - left, 0)
        most = int(gain.max())
        if most <= 0:
            return None
        moved = self.weight[given][:, None] + self.weight[taken][None, :]
        least = int(moved[gain == most].min())
        return min(
            (-most, least, given[i], taken[k]) for i, k in np.argwhere((gain == most) & (moved == least)).tolist()
        )

    def _squeezed_in(self, n: int) -> bool:
        """Whether a bundle without owner that fits nowhere was given to the broker that it leaves least overfull."""
        places = self.places[self.bundles[n].brokers]
        if self.owner[n] >= 0 or not len(places):
            return False
        after = (self.carried[places] + self.loads[n]) / np.maximum(self.limit[places], 1)
        self._move(n, int(places[after.max(axis=1, initial=0.0).argmin()]))
        return True

    def _move_with(self, n: int, place: int, leaving: Sequence[tuple[int, int]]) -> None:
        """Moves the bundle, and those that make room for it."""
        self._move(n, place)
        for one, destination in leaving:
            self._move(one, destination)
        if leaving:
            self._together([n, *(one for one, _ in leaving)])

    def _together(self, moved: Iterable[int]) -> None:
        """Marks moves that go together."""
        number = 1 + max(self.unit.values(), default=0)
        self.unit |= dict.fromkeys(moved, number)

    def _move(self, n: int, destination: int) -> None:
        source = self.owner[n]
        if source >= 0:
            self.carried[source] -= self.loads[n]
            self.own[source].remove(n)
        self.carried[destination] += self.loads[n]
        self.own[destination].append(n)
        self.owner[n] = destination
        for resource in range(len(self.by_resource)):
            self.ladders.pop((source, resource), None)
        self.moved.add(n)
        self.moves.append((n, source, destination))


@dataclass(frozen=True, slots=True)
class _Saved:
    """What it is worth to send one bundle away and not lighter ones. `lighter`: their loads added up, the heaviest
    first, of those that have room somewhere."""

    lighter: Whole
    excess: int
    price: float

    def moves(self, relief: int) -> int:
        """The lighter ones that it takes to take so much away."""
        return int(self.lighter.searchsorted(min(relief, self.excess))) + 1

    def by(self, relief: int, moving: int, moves: int) -> float:
        """The moves saved, without the price of what moves beyond what has to."""
        return self.moves(relief) - moves - self.price * max(0, moving - min(relief, self.excess))


def _limit(curve: UsageCurve, usage: float, unit: float) -> int:
    """What a broker may carry at a usage, in whole units; not more than two clusters' load."""
    room = curve.load_within(usage) / unit
    return 2 * _UNITS if room >= 2 * _UNITS else math.ceil(room)
