"""Changes of bundles' owners, found by comparing one cycle with the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.heat.columns import CycleLoad
from evenkeel.heat.key_ranges import HIGHEST, NAMESPACE_BITS, Names, Owners, Places, renamed
from evenkeel.heat.scale import NOBODY
from evenkeel.model.bundles import BundleRange
from evenkeel.model.past_commands import FormerOwners

Bundle = tuple[str, int, int]
"""Namespace, first hash, hash after the range as bundles are named."""


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """A bundle that a cycle (epoch µs) shows with another owner than the last known one."""

    at: int
    bundle: Bundle
    left: str
    came_to: str

    @property
    def name(self) -> str:
        """The bundle's name."""
        namespace, lower, upper = self.bundle
        return f"{namespace}/{BundleRange(lower, upper)}"


class OwnerWatch:
    """Detector of changed owners, given cycles in the order of time.

    A cycle that knows no owner of a bundle changes nothing; a new bundle has no earlier owner.
    """

    def __init__(self) -> None:
        self._names: Names = ()
        self._lower = self._upper = np.zeros(0, np.int64)
        self._owner = np.zeros(0, np.uint16)

    def look(self, at: int, cycle: CycleLoad, brokers: Sequence[str]) -> list[OwnerChange]:
        """Return the changes in a cycle at `at` (epoch µs); owner codes count `brokers` from 1."""
        before = self._before(cycle.names, cycle.lower, cycle.upper)
        changed = np.flatnonzero((before != NOBODY) & (cycle.owner != NOBODY) & (before != cycle.owner))
        self._names, self._lower, self._upper = cycle.names, cycle.lower, cycle.upper
        self._owner = np.where(cycle.owner == NOBODY, before, cycle.owner)
        return [
            OwnerChange(
                at,
                bundle_at(cycle.names, int(cycle.lower[n]), int(cycle.upper[n])),
                brokers[int(before[n]) - 1],
                brokers[int(cycle.owner[n]) - 1],
            )
            for n in changed.tolist()
        ]

    def _before(self, names: Names, lower: Places, upper: Places) -> Owners:
        own_lower, own_upper, present = renamed(self._lower, self._upper, self._names, names)
        owner = self._owner[present]
        if len(own_lower) == len(lower) and (own_lower == lower).all() and (own_upper == upper).all():
            return owner
        owners = np.zeros(len(lower), np.uint16)
        if len(own_lower):
            place = np.minimum(np.searchsorted(own_lower, lower), len(own_lower) - 1)
            same = (own_lower[place] == lower) & (own_upper[place] == upper)
            owners[same] = owner[place[same]]
        return owners


def bundle_at(names: Names, lower: int, upper: int) -> Bundle:
    """Return the bundle of a range on the line of these names."""
    rank = lower >> NAMESPACE_BITS
    base = rank << NAMESPACE_BITS
    return names[rank], lower - base, min(upper - base, HIGHEST)


def bounces_among(
    changes: Iterable[OwnerChange], earlier: Mapping[str, Iterable[tuple[int, str]]]
) -> list[tuple[OwnerChange, int]]:
    """Return the changes that bring a bundle back to a broker that it left in the hour before, with the microseconds
    since.

    `changes` are in the order of time; `earlier`: name of a bundle -> its owners before the first of them, with the
    moments (epoch µs) at which they were seen, in the order of time.
    """
    former = FormerOwners()
    for bundle, owners in earlier.items():
        last = ""
        for at, owner in owners:
            if last not in ("", owner):
                former.left(bundle, last, at // 1_000)
            last = owner
    bounces = []
    for change in changes:
        if former.is_bounce(change.name, change.came_to, change.at // 1_000):
            bounces.append((change, change.at - 1_000 * former.known[change.name][change.came_to]))
        former.left(change.name, change.left, change.at // 1_000)
    return bounces
