"""The placement that a cluster is to come to: no broker above the target, and as little moved for it as can be found.

Brokers above the target give bundles away, the fullest first; the heaviest go first, each to the broker with most room
among those that may own it and stay within the target with it. What fits nowhere is exchanged for something lighter, or
room is made for it: bundles of a third broker go elsewhere first. A broker below the target never comes above it, so
that every plan, also one that falls short, is better than what it began with. Loads are counted in whole units, and
ties break by name: the order of rows changes nothing.

Several resources may count. A broker's room is that of the resource that has least of it, as a share of what the broker
may carry of it at the target.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from evenkeel.planner.target import UsageCurve

_UNITS = 1 << 44
"""A cluster's load of a resource, in the units that are counted."""
_HEAVIEST_LOOKED_AT, _RECEIVERS_LOOKED_AT, _LOOKS_PER_BROKER = 64, 16, 4
"""For an exchange so many bundles of a full broker are held against those of so many receivers, and in all for so many
times the number of brokers: a cluster that cannot be balanced is given up on in time."""
_MADE_ROOM_FOR, _ASKED_FOR_ROOM, _MOST_THAT_MAKE_ROOM = 8, 4, 4
"""Room is made for so many bundles of a full broker from its excess up, and for as many below, on so many receivers, by
so many of their bundles at most."""

FILLED = 0.8
"""A broker that is to be filled is so with this part of what it carries in the evenly used cluster."""

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OwnedBundle:
    """A bundle with its `loads` by resource (each finite, at least 0).

    `owner`: None where it has none. `brokers`: those that may own it. `is_held`: it stays where it is. `traffic`:
    byte/s, which budgets count.
    """

    name: str
    owner: str | None
    loads: tuple[float, ...]
    brokers: frozenset[str]
    is_held: bool = False
    traffic: float = 0.0


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
    together: tuple[float, int] = (math.inf, _MOST_THAT_MAKE_ROOM + 1),
) -> DesiredPlacement:
    """What to move so that no broker's usage is above `usage`.

    `curves`: broker -> by resource, how its usage grows with its load; a broker that is an owner and not among them is
    to be emptied. `slack`: a broker that is no more than this above `usage` gives nothing away, or no more; nobody gets
    more than up to `usage`. `idle`: brokers that are then filled up to some `FILLED` of what they may carry at `even`.
    `together`: moves that go together have so much traffic (byte/s) and are so many at most; more would wait for ever.
    """
    search = _Search(curves, sorted(bundles, key=lambda one: one.name), usage, slack)
    search.most_traffic, search.most_moves = together
    search.relieve()
    for broker in sorted(set(idle) & curves.keys()):
        search.fill(broker, curves[broker], even)
    return search.found()


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
        self.loads: Whole = np.array(
            [[math.floor(load / unit) for load, unit in zip(one.loads, units, strict=True)] for one in bundles],
            dtype=np.int64,
        ).reshape(len(bundles), kinds)

        def limits(most: float) -> Whole:
            found = [[_limit(curves[b][r], most, units[r]) if b in curves else 0 for r in range(kinds)] for b in names]
            return np.array(found, dtype=np.int64).reshape(len(names), kinds)

        names = self.brokers
        self.limit = limits(usage)
        self.bearable = limits(usage + slack) if slack > 0 else self.limit
        self.carried: Whole = np.zeros_like(self.limit)
        self.owner = [-1 if one.owner is None else place[one.owner] for one in bundles]
        self.own: list[list[int]] = [[] for _ in self.brokers]
        for n, owner in enumerate(self.owner):
            if owner >= 0:
                self.carried[owner] += self.loads[n]
                self.own[owner].append(n)
        self.receives = np.array([broker in curves for broker in self.brokers], dtype=bool)
        self.places: dict[frozenset[str], npt.NDArray[np.int64]] = {}
        for one in bundles:
            if one.brokers not in self.places:
                found = sorted(place[b] for b in one.brokers if b in curves)
                self.places[one.brokers] = np.array(found, dtype=np.int64)
        # How heavy a bundle is: the largest of its shares of what the cluster carries.
        self.weight = self.loads.max(axis=1, initial=0) if kinds else np.zeros(len(bundles), dtype=np.int64)
        self.traffic = np.array([one.traffic for one in bundles])
        self.most_traffic, self.most_moves = math.inf, _MOST_THAT_MAKE_ROOM + 1
        self.looks_left = _LOOKS_PER_BROKER * len(self.brokers)
        self.scarce, self.heft = 0, self.weight
        self.moved: set[int] = set()
        self.moves: list[tuple[int, int, int]] = []
        self.unit: dict[int, int] = {}

    def relieve(self) -> None:
        """Bundles that must go somewhere first, the heaviest before all others; then what stands above the target."""
        homeless = [n for n, one in enumerate(self.bundles) if not one.is_held and self._must_go(n)]
        self.nowhere = [n for n in self._heaviest_first(homeless) if not self._sent(n) and not self._squeezed_in(n)]
        for broker in self._fullest_first():
            self._relieve(broker)

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

    def _relieve(self, broker: int) -> None:
        """Takes bundles from the broker until it is within what is borne, or nothing helps.

        Once light bundles have filled the others a heavy one fits nowhere: where that keeps the broker above, it is
        tried anew with the heavy ones first.
        """
        began = len(self.moves)
        self._take_from(broker)
        above = self._above(broker)
        if above <= 0 or len(self.moves) == began or not self.looks_left:
            return
        moves, units = self.moves[began:], dict(self.unit)
        self._take_back(began)
        self._take_from(broker, heavy_first=True)
        if self._above(broker) >= above:
            self._take_back(began)
            for n, _, destination in moves:
                self._move(n, destination)
            self.unit = units

    def _above(self, broker: int) -> int:
        return int((self.carried[broker] - self.bearable[broker]).max(initial=0))

    def _take_from(self, broker: int, *, heavy_first: bool = False) -> None:
        free = [n for n in self.own[broker] if n not in self.moved and not self.bundles[n].is_held]
        ladder: list[int] = []
        while self._above(broker) > 0:
            above = self.carried[broker] - self.limit[broker]
            excess, scarce = int(above.max()), int(above.argmax())
            if not ladder or scarce != self.scarce:
                # Lightest first, so that what is a little lighter than the excess is found at once.
                self.scarce, self.heft = scarce, self.loads[:, scarce]
                here = [n for n in free if n not in self.moved]
                ladder = sorted(here, key=lambda n: (self.heft[n], -n))
            if not (
                (heavy_first and self._heaviest_leaves(broker, ladder, excess))
                or self._one_leaves(broker, ladder, excess)
                or self._one_is_exchanged(broker, ladder, excess)
                or self._room_is_made(broker, ladder, excess)
            ):
                return

    def _take_back(self, began: int) -> None:
        """Undoes all moves from this one on."""
        for n, source, destination in reversed(self.moves[began:]):
            self.carried[destination] -= self.loads[n]
            self.own[destination].remove(n)
            self.owner[n] = source
            self.moved.remove(n)
            self.unit.pop(n, None)
            if source >= 0:
                self.carried[source] += self.loads[n]
                self.own[source].append(n)
        del self.moves[began:]

    def _heaviest_leaves(self, broker: int, ladder: list[int], excess: int) -> bool:
        """Sends away the lightest bundle that is enough, or the heaviest that is not, also where room has to be made
        for it."""
        if not self.looks_left:
            return False
        self.looks_left -= 1
        cut = bisect_left(ladder, excess, key=lambda n: int(self.heft[n]))
        for n in (*ladder[cut : cut + 1], *ladder[max(0, cut - 1) : cut]):
            if self.heft[n] > 0 and self._sent(n):
                ladder.remove(n)
                return True
            if self._has_room_made(broker, ladder, [n]):
                return True
        return False

    def _one_leaves(self, broker: int, ladder: list[int], excess: int) -> bool:
        """Sends away the heaviest bundle that is not heavier than the excess (but for what rounding makes of it), else
        the lightest that is."""
        cut = bisect_right(ladder, excess + len(self.bundles), key=lambda n: int(self.heft[n]))
        for at in (*range(cut - 1, -1, -1), *range(cut, len(ladder))):
            n = ladder[at]
            if self.heft[n] > 0 and self._sent(n):
                ladder.pop(at)
                return True
        return False

    def _sent(self, n: int) -> bool:
        """Whether a broker was found for the bundle: the one with most room, as a share of what it may carry."""
        places = self.places[self.bundles[n].brokers]
        places = places[places != self.owner[n]]
        left = self.limit[places] - self.carried[places] - self.loads[n]
        fits = (left >= 0).all(axis=1)
        if not fits.any():
            return False
        room = (left[fits] / np.maximum(self.limit[places[fits]], 1)).min(axis=1, initial=1.0)
        self._move(n, int(places[fits][room.argmax()]))
        return True

    def _one_is_exchanged(self, broker: int, ladder: list[int], excess: int) -> bool:
        """Exchanges a bundle for a lighter one of a broker that has no room for it alone; whether there was one.

        The exchange that takes most of the excess away, of those with as much the one that moves least.
        """
        if not self.looks_left or self.most_moves < 2:
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

    def _room_is_made(self, broker: int, ladder: list[int], excess: int) -> bool:
        """Sends a bundle where others make room for it, the lightest that is enough first; whether there was one."""
        if not self.looks_left:
            return False
        self.looks_left -= 1
        cut = bisect_left(ladder, excess, key=lambda n: int(self.heft[n]))
        enough, less = ladder[cut : cut + _MADE_ROOM_FOR], ladder[max(0, cut - _MADE_ROOM_FOR) : cut]
        return self._has_room_made(broker, ladder, [*enough, *reversed(less)])

    def _has_room_made(self, broker: int, ladder: list[int], bundles: Iterable[int]) -> bool:
        """Sends the first of the bundles that others make room for; whether there was one."""
        receivers = self._roomiest(broker)[:_ASKED_FOR_ROOM]
        for n in bundles:
            for other in receivers:
                if self.heft[n] > 0 and self.brokers[other] in self.bundles[n].brokers:
                    leaving = self._who_makes_room(other, n, broker)
                    if leaving:
                        ladder.remove(n)
                        self._move(n, other)
                        for one, destination in leaving:
                            self._move(one, destination)
                        self._together([n, *(one for one, _ in leaving)])
                        return True
        return False

    def _who_makes_room(self, other: int, n: int, broker: int) -> list[tuple[int, int]]:
        """Bundles of a receiver, with where they go, so that bundle `n` of `broker` fits there; none where few are not
        enough. They may go to `broker` as well, as long as that is less full for it in the end."""
        free = {
            m for m in self.own[other] if m not in self.moved and not self.bundles[m].is_held and self.weight[m] > 0
        }
        given = np.zeros_like(self.carried)
        given[other], given[broker] = self.loads[n], -self.loads[n]
        found: list[tuple[int, int]] = []
        lacking = self.carried[other] + given[other] - self.limit[other]
        while (lacking > 0).any():
            if not free or len(found) == min(_MOST_THAT_MAKE_ROOM, self.most_moves - 1):
                return []
            resource = int((lacking / np.maximum(self.limit[other], 1)).argmax())
            loads = {m: int(self.loads[m][resource]) for m in free}
            # The lightest that is enough, else the heaviest.
            one = min(free, key=lambda m: (1, loads[m], m) if loads[m] >= lacking[resource] else (2, -loads[m], m))
            free.remove(one)
            places = self.places[self.bundles[one].brokers]
            places = places[places != other]
            left = self.limit[places] - self.carried[places] - given[places] - self.loads[one]
            fits = (left >= 0).all(axis=1)
            if fits.any():
                room = (left[fits] / np.maximum(self.limit[places[fits]], 1)).min(axis=1, initial=1.0)
                destination = int(places[fits][room.argmax()])
                given[other] -= self.loads[one]
                given[destination] += self.loads[one]
                found.append((one, destination))
                lacking = self.carried[other] + given[other] - self.limit[other]
        carried = self.traffic[n] + math.fsum(self.traffic[one] for one, _ in found)
        return found if carried <= self.most_traffic else []

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
        can_be &= self.traffic[given][:, None] + self.traffic[taken][None, :] <= self.most_traffic
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
        self.moved.add(n)
        self.moves.append((n, source, destination))


def _limit(curve: UsageCurve, usage: float, unit: float) -> int:
    """What a broker may carry at a usage, in whole units; not more than two clusters' load."""
    room = curve.load_within(usage)
    return 2 * _UNITS if math.isinf(room) else min(2 * _UNITS, math.ceil(room / unit))
