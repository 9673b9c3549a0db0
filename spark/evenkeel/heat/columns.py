"""Content of a column of the heat map: the mean of its cycles, bundle by bundle, its overview, and changes of owner.

Changes of bundles' owners are found by comparing one cycle with the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenkeel.heat.key_ranges import (
    HIGHEST,
    NAMESPACE_BITS,
    Flags,
    Names,
    Owners,
    Places,
    between,
    chosen,
    chosen_again,
    in_order,
    overlaps,
    renamed,
    union,
)
from evenkeel.heat.scale import METRICS, NOBODY, SEVERAL, Figures
from evenkeel.model.bundles import BundleRange
from evenkeel.model.past_commands import FormerOwners

MOST_RANGES = 1_536
"""Most key ranges of an overview: rows that a picture shows."""
_LARGEST = np.array([metric.largest for metric in METRICS.values()])


@dataclass(frozen=True, slots=True)
class CycleLoad:
    """The bundles of one cycle.

    `figures` [metrics, bundles] are in the order of METRICS, NaN for unknown ones; `owner` is a code per bundle, 0 if
    unknown.
    """

    names: Names
    lower: Places
    upper: Places
    figures: Figures
    owner: Owners


@dataclass(frozen=True, slots=True)
class HeatColumn:
    """Figures, owner, and if a figure was shared by width, per range. `bundles`: the number of bundles in each."""

    names: Names
    lower: Places
    upper: Places
    figures: Figures
    owner: Owners
    shared: Flags
    bundles: npt.NDArray[np.int64]


class ColumnMean:
    """Mean of a column's cycles, taken one after the other; it holds as much as one of them.

    If bundles differ between cycles, figures are shared by width onto the ranges between all boundaries.
    """

    def __init__(self) -> None:
        self._names: Names = ()
        self._lower = self._upper = np.zeros(0, np.int64)
        self._sums = self._counts = np.zeros((len(METRICS), 0))
        self._owner = np.zeros(0, np.uint16)
        self._shared = np.zeros(0, np.bool_)

    def add(self, cycle: CycleLoad) -> None:
        """Take one more cycle."""
        if not len(self._lower):
            self._begin(cycle)
            return
        lower, upper = cycle.lower, cycle.upper
        if cycle.names != self._names:
            names = in_order((*self._names, *cycle.names))
            self._lower, self._upper, _ = renamed(self._lower, self._upper, self._names, names)
            lower, upper, _ = renamed(lower, upper, cycle.names, names)
            self._names = names
        figures, owner, shared = cycle.figures, cycle.owner, np.zeros(len(lower), np.bool_)
        if len(lower) != len(self._lower) or (lower != self._lower).any() or (upper != self._upper).any():
            to_lower, to_upper = union([(self._lower, self._upper), (lower, upper)])
            overlap = overlaps(lower, upper, to_lower, to_upper)
            figures, owner, shared = overlap.sums(figures), overlap.owners(owner), overlap.flags(shared)
            self._spread(to_lower, to_upper)
        known = ~np.isnan(figures)
        self._sums = self._sums + np.where(known, figures, 0.0)
        self._counts = self._counts + known
        self._owner = _one_owner(self._owner, owner)
        self._shared = self._shared | shared

    def _begin(self, cycle: CycleLoad) -> None:
        known = ~np.isnan(cycle.figures)
        self._names, self._lower, self._upper = cycle.names, cycle.lower, cycle.upper
        self._sums, self._counts = np.where(known, cycle.figures, 0.0), known.astype(np.float64)
        self._owner, self._shared = cycle.owner, np.zeros(len(cycle.lower), np.bool_)

    def _spread(self, lower: Places, upper: Places) -> None:
        overlap = overlaps(self._lower, self._upper, lower, upper)
        # Each new range is inside one old one, so its cycles are those of that one.
        self._sums = np.nan_to_num(overlap.sums(self._sums))
        counts = np.zeros((len(METRICS), len(lower)))
        counts[:, overlap.target] = self._counts[:, overlap.source]
        self._counts, self._owner, self._shared = counts, overlap.owners(self._owner), overlap.flags(self._shared)
        self._lower, self._upper = lower, upper

    def column(self) -> HeatColumn | None:
        """Return the mean of the known figures in the cycles so far; None if there was no bundle."""
        if not len(self._lower):
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            figures = np.where(self._counts > 0, self._sums / self._counts, np.nan)
        count = np.ones(len(self._lower), np.int64)
        return HeatColumn(self._names, self._lower, self._upper, figures, self._owner, self._shared, count)


def _one_owner(first: Owners, second: Owners) -> Owners:
    owner: Owners = np.where(first == NOBODY, second, np.where((second == NOBODY) | (first == second), first, SEVERAL))
    return owner.astype(np.uint16)


def overview_of(column: HeatColumn, before: tuple[Names, Places] | None, most: int = MOST_RANGES) -> HeatColumn:
    """Return the column in `most` ranges at most, each of whole bundles if possible.

    `before`: names and begins of the ranges of the previous overview; ranges stay unchanged as far as possible. Values
    are sums of the known figures; for some metrics the largest one. A range has an owner if all its bundles have that
    one.
    """
    lower, weight = column.lower, column.figures[0]
    if before is None:
        begins = chosen(lower, weight, most)
    else:
        # A begin counts as a range of its own, so that one moves by itself.
        places, _, _ = renamed(before[1], before[1] + 1, before[0], column.names)
        begins = chosen_again(lower, weight, most, places)
    if len(begins) == len(lower):
        return column
    end = ((int(lower[-1]) >> NAMESPACE_BITS) + 1) << NAMESPACE_BITS
    to_lower, to_upper = between(begins, end)
    overlap = overlaps(lower, column.upper, to_lower, to_upper)
    figures = np.where(_LARGEST[:, None], overlap.largest(column.figures), overlap.sums(column.figures))
    flags, counts = overlap.flags(column.shared), overlap.counts(column.bundles)
    return HeatColumn(column.names, to_lower, to_upper, figures, overlap.owners(column.owner), flags, counts)


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
    """Detector of changed owners, given cycles in order of time. An unknown owner is no change, nor is a new bundle."""

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
