"""The current placement during a search for a better one: owners, free room and moves so far.

Loads are whole units, so that sums are exact. Ties break by name, so the order of rows changes nothing. Several
resources may count. A broker's room is the room of its scarcest resource.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt

from evenkeel.planner.target import UsageCurve

UNITS = 1 << 44
"""A cluster's load of a resource, in the units that are counted."""
RECEIVERS_LOOKED_AT = 16
"""So many brokers at most are looked at, as receivers that make room or as givers to an idle one."""
_LOOKS_PER_BROKER = 4
"""Room is looked for so many times the number of brokers in all: a cluster that cannot be balanced is given up on
in time."""
_SAVINGS_PER_BROKER = 2
"""So many times the number of brokers room is made just to save moves."""

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OwnedBundle:
    """A bundle with its `loads` by resource (each finite, at least 0).

    `owner`: None without one. `brokers`: the brokers that may own it. `is_held`: it stays where it is.
    """

    name: str
    owner: str | None
    loads: tuple[float, ...]
    brokers: frozenset[str]
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class DesiredMove:
    """A bundle that changes its owner; `source` is None if it had none.

    `unit`: the number of the moves that go together, since one needs the room of the other; 0 for a move that goes
    alone.
    """

    bundle: str
    source: str | None
    destination: str
    unit: int = 0


@dataclass(frozen=True, slots=True)
class DesiredPlacement:
    """The `moves`, in search order, and problems that no plan of this kind solves.

    `over`: brokers that stay above the target. `nowhere`: bundles that no broker may own, or that must leave theirs and
    fit nowhere. A bundle without owner that fits nowhere goes to the broker where it does least harm.
    """

    moves: tuple[DesiredMove, ...]
    over: tuple[str, ...]
    nowhere: tuple[str, ...]


class PlacementSearch:
    """The current placement and the moves that led to it."""

    def __init__(
        self,
        curves: Mapping[str, Sequence[UsageCurve]],
        bundles: Sequence[OwnedBundle],
        usage: float | Mapping[str, float],
        slack: float | Mapping[str, float],
    ) -> None:
        slacks = slack if isinstance(slack, Mapping) else dict.fromkeys(curves, slack)
        usages = usage if isinstance(usage, Mapping) else dict.fromkeys(curves, usage)
        self.bundles = bundles
        self.brokers = sorted(curves.keys() | {bundle.owner for bundle in bundles if bundle.owner is not None})
        place = {broker: n for n, broker in enumerate(self.brokers)}
        kinds = len(next(iter(curves.values()), ()))
        loads = np.array([bundle.loads for bundle in bundles], dtype=np.float64).reshape(len(bundles), kinds)
        totals = [math.fsum(loads[:, r].tolist()) for r in range(kinds)]
        self.units = units = [total / UNITS if total > 0 else 1.0 for total in totals]
        self.nowhere: list[int] = []
        self.loads: Whole = np.floor(loads / np.array(units)).astype(np.int64)

        def limits(more: Mapping[str, float]) -> Whole:
            found = [
                [
                    limit_of(curves[b][r], usages[b] + more.get(b, 0.0), units[r]) if b in curves else 0
                    for r in range(kinds)
                ]
                for b in names
            ]
            return np.array(found, dtype=np.int64).reshape(len(names), kinds)

        names = self.brokers
        self.limit = limits({})
        self.bearable = limits(slacks) if any(slacks.values()) else self.limit
        self.carried: Whole = np.zeros_like(self.limit)
        self.owner = [-1 if bundle.owner is None else place[bundle.owner] for bundle in bundles]
        owners = np.array(self.owner, dtype=np.int64)
        by_owner = np.argsort(owners, kind="stable")
        begins = np.searchsorted(owners[by_owner], np.arange(len(self.brokers) + 1))
        np.add.at(self.carried, owners[owners >= 0], self.loads[owners >= 0])
        self.own: list[list[int]] = [by_owner[begin:end].tolist() for begin, end in pairwise(begins.tolist())]
        self.held = np.array([bundle.is_held for bundle in bundles], dtype=bool)
        self.receives = np.array([broker in curves for broker in self.brokers], dtype=bool)
        self.places: dict[frozenset[str], npt.NDArray[np.int64]] = {}
        for bundle in bundles:
            if bundle.brokers not in self.places:
                found = sorted(place[b] for b in bundle.brokers if b in curves)
                self.places[bundle.brokers] = np.array(found, dtype=np.int64)
        kinds_of_places = {brokers: n for n, brokers in enumerate(self.places)}
        self.kind = np.array([kinds_of_places[bundle.brokers] for bundle in bundles], dtype=np.int64)
        # Weight of a bundle: the largest of its shares of the cluster's load.
        self.weight = self.loads.max(axis=1, initial=0) if kinds else np.zeros(len(bundles), dtype=np.int64)
        self.by_resource = [self.loads[:, r].tolist() for r in range(kinds)]
        self.may_go_together: Callable[[Sequence[DesiredMove]], bool] | None = None
        self.ladders: dict[tuple[int, int], list[int]] = {}
        self.looks_left = _LOOKS_PER_BROKER * len(self.brokers)
        self.savings_left = _SAVINGS_PER_BROKER * len(self.brokers)
        self.moved: set[int] = set()
        self.moves: list[tuple[int, int, int]] = []
        self.unit: dict[int, int] = {}

    def again(self) -> PlacementSearch:
        """Return an independent copy of this search."""
        other = copy(self)
        other.carried, other.owner = self.carried.copy(), [*self.owner]
        other.own = [[*loads] for loads in self.own]
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

    def found(self) -> DesiredPlacement:
        """Return the moves so far and the unsolved problems."""
        over = [
            b for n, b in enumerate(self.brokers) if self.receives[n] and (self.carried[n] > self.bearable[n]).any()
        ]
        moves = (
            DesiredMove(self.bundles[n].name, self.brokers[a] if a >= 0 else None, self.brokers[b], self.unit.get(n, 0))
            for n, a, b in self.moves
        )
        return DesiredPlacement(tuple(moves), tuple(over), tuple(sorted(self.bundles[n].name for n in self.nowhere)))

    def has_room(self, n: int, place: int) -> bool:
        """Return True if the broker has room for the bundle."""
        return bool((self.carried[place] + self.loads[n] <= self.limit[place]).all())

    def must_go(self, n: int) -> bool:
        """Return True if the bundle has no owner, or one that may not have it any more."""
        owner = self.owner[n]
        return owner < 0 or not self.receives[owner] or self.brokers[owner] not in self.bundles[n].brokers

    def homeless(self) -> list[int]:
        """The bundles that must go and may."""
        brokers, receives = self.brokers, self.receives.tolist()
        return [
            n
            for n, (bundle, owner) in enumerate(zip(self.bundles, self.owner, strict=True))
            if (owner < 0 or not receives[owner] or brokers[owner] not in bundle.brokers) and not bundle.is_held
        ]

    def heaviest_first(self, indices: Iterable[int]) -> list[int]:
        """Bundles, the heaviest first."""
        return sorted(indices, key=lambda n: (-self.weight[n], n))

    def fullest_first(self) -> list[int]:
        """Brokers above the target, those with most above it first."""
        above = (self.carried - self.bearable).max(axis=1, initial=0)
        return sorted(
            (n for n in range(len(self.brokers)) if self.receives[n] and above[n] > 0), key=lambda n: -above[n]
        )

    def ladder(self, broker: int, resource: int) -> list[int]:
        """Return the bundles that may leave the broker, lightest first: the smallest sufficient one comes first."""
        known = self.ladders.get((broker, resource))
        if known is None:
            loads = np.array(self.own[broker], dtype=np.int64)
            loads = loads[(self.loads[loads, resource] > 0) & ~self.held[loads]]
            lightest_first = loads[np.lexsort((-loads, self.loads[loads, resource]))].tolist()
            known = [n for n in lightest_first if n not in self.moved]
            self.ladders[broker, resource] = known
        return [*known]

    def fit_alone(self, broker: int, indices: Sequence[int], resource: int) -> npt.NDArray[np.bool_]:
        """Mark the bundles that fit into the largest free room of any other allowed broker, in this resource."""
        room = (self.limit - self.carried).min(axis=1, initial=2 * UNITS)
        room[broker] = 0
        widest = np.array([room[places].max(initial=0) for places in self.places.values()], dtype=np.int64)
        fits: npt.NDArray[np.bool_] = self.loads[indices, resource] <= widest[self.kind[indices]]
        return fits

    def tightest(self, n: int, given: Whole | None = None, but: int = -1) -> int | None:
        """Return the broker with least room of those with room for the bundle; None without any.

        `given`: load that the brokers carry beside their current load. `but`: a broker to skip.
        """
        places = self.places[self.bundles[n].brokers]
        places = places[(places != self.owner[n]) & (places != but)]
        left = self.limit[places] - self.carried[places] - self.loads[n]
        if given is not None:
            left -= given[places]
        room = left.min(axis=1, initial=2 * UNITS)
        room[room < 0] = 3 * UNITS
        if not len(room) or room.min() == 3 * UNITS:
            return None
        return int(places[room.argmin()])

    def roomiest_place(self, n: int) -> int | None:
        """Return the broker with room for the bundle that keeps most of its own room; None if no broker has room."""
        places = self.places[self.bundles[n].brokers]
        places = places[places != self.owner[n]]
        left = self.limit[places] - self.carried[places] - self.loads[n]
        fits = (left >= 0).all(axis=1)
        if not fits.any():
            return None
        room = (left[fits] / np.maximum(self.limit[places[fits]], 1)).min(axis=1, initial=1.0)
        return int(places[fits][room.argmax()])

    def roomiest(self, broker: int) -> list[int]:
        """The receivers within the target, those with most room first; not all of them."""
        room = ((self.limit - self.carried) / np.maximum(self.limit, 1)).min(axis=1, initial=1.0)
        order = np.argsort(-room, kind="stable").tolist()
        within = (n for n in order if n != broker and self.receives[n] and room[n] >= 0)
        return [*islice(within, RECEIVERS_LOOKED_AT)]

    def is_allowed(self, moves: Sequence[tuple[int, int]]) -> bool:
        """Return True if these bundles may move in one cycle."""
        if self.may_go_together is None:
            return True
        return self.may_go_together(
            [DesiredMove(self.bundles[n].name, self.brokers[self.owner[n]], self.brokers[place]) for n, place in moves]
        )

    def move_with(self, n: int, place: int, leaving: Sequence[tuple[int, int]]) -> None:
        """Move the bundle, and those that make room for it."""
        self.move(n, place)
        for leaver, destination in leaving:
            self.move(leaver, destination)
        if leaving:
            self.together([n, *(leaver for leaver, _ in leaving)])

    def together(self, moved: Iterable[int]) -> None:
        """Mark moves that go together."""
        number = 1 + max(self.unit.values(), default=0)
        self.unit |= dict.fromkeys(moved, number)

    def move(self, n: int, destination: int) -> None:
        """Move the bundle to a broker."""
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


def limit_of(curve: UsageCurve, usage: float, unit: float) -> int:
    """Return the load of a broker at a usage, in whole units; at most twice the cluster's load."""
    room = curve.load_within(usage) / unit
    return 2 * UNITS if room >= 2 * UNITS else math.ceil(room)
