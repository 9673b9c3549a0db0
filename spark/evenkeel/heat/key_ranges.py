"""Key ranges on one line, and conversion of figures from one set of ranges to another.

All bundles of a cluster are on one line: its namespaces in the order of tenant and name, 2^32 hashes each. A place is
2^32 times the position of the namespace among the known names, plus the hash. Ranges are two arrays of places, `lower`
and the `upper` after the range, sorted and without overlaps. Between them there may be gaps, of which nothing is known.
The last bundle of a namespace, which Pulsar closes at 4294967295, ends at 2^32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenkeel.heat.scale import NOBODY, SEVERAL

Places = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Owners = npt.NDArray[np.uint16]
Numbers = npt.NDArray[np.floating]
Names = tuple[str, ...]

NAMESPACE_BITS = 32
WIDTH = 1 << NAMESPACE_BITS
HIGHEST = WIDTH - 1
_LEFT, _UNEVEN = 4, 4.0


def in_order(namespaces: Iterable[str]) -> Names:
    """Return the names once each, in the order of tenant and name."""
    return tuple(sorted(set(namespaces), key=lambda name: name.partition("/")[::2]))


def renamed(lower: Places, upper: Places, names: Names, to: Names) -> tuple[Places, Places, Flags]:
    """Return the ranges on the line of other names, and True for each range whose namespaces are among them.

    A range goes where its first and its last namespace are. `names` and `to` are in order.
    """
    if names == to:
        return lower, upper, np.ones(len(lower), np.bool_)
    known = {name: rank for rank, name in enumerate(to)}
    ranks = np.array([known.get(name, -1) for name in names], np.int64)
    first, last = lower >> NAMESPACE_BITS, (upper - 1) >> NAMESPACE_BITS
    present = (ranks[first] >= 0) & (ranks[last] >= 0)
    moved_lower = lower + ((ranks[first] - first) << NAMESPACE_BITS)
    moved_upper = upper + ((ranks[last] - last) << NAMESPACE_BITS)
    return moved_lower[present], moved_upper[present], present


def union(ranges: Sequence[tuple[Places, Places]]) -> tuple[Places, Places]:
    """Return the ranges between all boundaries inside any of the given ranges: each given one is a union of some."""
    bounds = np.unique(np.concatenate([part for pair in ranges for part in pair]))
    lower, upper = bounds[:-1], bounds[1:]
    inside = np.zeros(len(lower), np.bool_)
    for low, high in ranges:
        inside |= _index(low, high, lower, upper) >= 0
    return lower[inside], upper[inside]


def _index(lower: Places, upper: Places, part_lower: Places, part_upper: Places) -> Indices:
    """Return for each part the range that holds all of it; -1 if none does."""
    if not len(lower):
        return np.full(len(part_lower), -1, np.intp)
    candidates = np.searchsorted(lower, part_lower, "right") - 1
    inside = (candidates >= 0) & (part_upper <= upper[np.maximum(candidates, 0)])
    held: Indices = np.where(inside, candidates, -1)
    return held


@dataclass(frozen=True, slots=True)
class Overlaps:
    """Overlaps of ranges with other ones: one entry per overlapping pair, in the order of the line.

    `share` is the part of the source's width that is in the target; `sources` and `targets` are the numbers of both.
    """

    source: Indices
    target: Indices
    share: npt.NDArray[np.float64]
    sources: int
    targets: int

    @property
    def heads(self) -> Indices:
        """Return the places in the entries at which those of another target begin."""
        begins: Indices = (
            np.flatnonzero(np.r_[True, self.target[1:] != self.target[:-1]]) if len(self.target) else self.target
        )
        return begins

    @property
    def is_the_same(self) -> bool:
        """Return True if sources and targets are equal ranges."""
        return self.targets == self.sources == len(self.source) and bool((self.share == 1.0).all())

    def sums(self, figures: Numbers) -> npt.NDArray[np.float64]:
        """Return figures [..., sources] shared by width and added up [..., targets].

        Unknown figures are left out of a sum; a sum of no known figure is unknown (NaN).
        """
        shared = figures[..., self.source] * self.share
        missing = np.isnan(shared)
        return self._placed(np.add, np.where(missing, 0.0, shared), missing)

    def largest(self, figures: Numbers) -> npt.NDArray[np.float64]:
        """Return figures [..., sources] shared by width, the largest in each target [..., targets]; NaN if unknown."""
        shared = figures[..., self.source] * self.share
        missing = np.isnan(shared)
        return self._placed(np.maximum, np.where(missing, -np.inf, shared), missing)

    def _placed(self, how: np.ufunc, shared: Numbers, missing: Flags) -> npt.NDArray[np.float64]:
        placed = np.full((*shared.shape[:-1], self.targets), np.nan)
        if len(self.source):
            heads = self.heads
            gathered = how.reduceat(shared, heads, axis=-1)
            known = ~np.logical_and.reduceat(missing, heads, axis=-1)
            placed[..., self.target[heads]] = np.where(known, gathered, np.nan)
        return placed

    def counts(self, numbers: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Return whole numbers of the sources, added up in each target that they overlap."""
        return np.bincount(self.target, numbers[self.source], self.targets).astype(np.int64)

    def owners(self, codes: Owners) -> Owners:
        """Return each target's [..., targets] owner by its sources [..., sources]: NOBODY, SEVERAL or its code."""
        owners = np.zeros((*codes.shape[:-1], self.targets), np.uint16)
        if len(self.source):
            given, heads = codes[..., self.source], self.heads
            last = np.maximum.reduceat(given, heads, axis=-1)
            first = np.minimum.reduceat(np.where(given == NOBODY, SEVERAL, given), heads, axis=-1)
            owners[..., self.target[heads]] = np.where((last == NOBODY) | (first == last), last, SEVERAL)
        return owners

    def flags(self, flags: Flags) -> Flags:
        """Return for each target [..., targets] whether a source is flagged [..., sources], or is only partly in it."""
        flagged = np.zeros((*flags.shape[:-1], self.targets), np.bool_)
        if len(self.source):
            heads = self.heads
            given = flags[..., self.source] | (self.share < 1.0)
            flagged[..., self.target[heads]] = np.logical_or.reduceat(given, heads, axis=-1)
        return flagged


def overlaps(lower: Places, upper: Places, to_lower: Places, to_upper: Places) -> Overlaps:
    """Return the overlaps of ranges with other ones."""
    if len(lower) == len(to_lower) and (lower == to_lower).all() and (upper == to_upper).all():
        same = np.arange(len(lower), dtype=np.intp)
        return Overlaps(same, same, np.ones(len(lower)), len(lower), len(lower))
    bounds = np.unique(np.concatenate([lower, upper, to_lower, to_upper]))
    part_lower, part_upper = bounds[:-1], bounds[1:]
    source, target = _index(lower, upper, part_lower, part_upper), _index(to_lower, to_upper, part_lower, part_upper)
    both = (source >= 0) & (target >= 0)
    source, target = source[both], target[both]
    share = (part_upper - part_lower)[both] / (upper - lower)[source]
    return Overlaps(source, target, share, len(lower), len(to_lower))


def chosen(lower: Places, weight: Numbers, most: int, *, spare: bool = True) -> Places:
    """Return the begins of ranges that together hold all bundles, `most` at most: first places of some bundles.

    If there are no more bundles than that, each is a range. Else ranges have about equal weight, half of which is that
    of the bundles (`weight`, not negative; NaN counts as 0) and half their number. A namespace begins a range as long
    as that takes no more than half of the ranges. With `spare` a quarter of the ranges is left for bundles that become
    heavy later.
    """
    if len(lower) <= most:
        return lower
    begins = _namespace_begins(lower, most)
    room = max(1, most - (most // _LEFT if spare else 0) - int(begins.sum()) + 1)
    return lower[begins | _parts(_shares(weight), room)]


def chosen_again(lower: Places, weight: Numbers, most: int, before: Places) -> Places:
    """Return the begins of ranges, as before as far as possible: pictures over time then share rows.

    `before` are places on the line of today's names. Earlier ranges stay as long as bundles begin at their place, new
    namespaces begin one, and ranges of several bundles that hold four times the average are cut. All are chosen again
    if that makes too many.
    """
    if len(lower) <= most:
        return lower
    kept = np.isin(lower, before)
    if not kept.any():
        return chosen(lower, weight, most)
    begins = kept | _namespace_begins(lower, most)
    begins[0] = True
    shares, heads = _shares(weight), np.flatnonzero(begins)
    sizes = np.diff(np.r_[heads, len(lower)])
    is_heavy = (np.add.reduceat(shares, heads) > _UNEVEN / most) & (sizes > 1)
    begins |= np.repeat(is_heavy, sizes) & _parts(shares, most)
    return lower[begins] if int(begins.sum()) <= most else chosen(lower, weight, most)


def _parts(shares: Numbers, count: int) -> Flags:
    """Return the bundles that begin one of `count` parts of about equal weight; one heavier than two begins one by
    itself.

    There are no more than `count`: each such heavy bundle leaves at least one part without a begin.
    """
    buckets = np.floor(np.minimum(np.cumsum(shares) - shares, 1.0 - 1e-12) * count)
    begins: Flags = (np.diff(buckets, prepend=buckets[:1]) != 0) | (shares >= 2.0 / count)
    return begins


def _namespace_begins(lower: Places, most: int) -> Flags:
    begins = np.zeros(len(lower), np.bool_)
    begins[0] = True
    first = np.diff(lower >> NAMESPACE_BITS, prepend=-1) != 0
    return first if int(first.sum()) <= most // 2 else begins


def _shares(weight: Numbers) -> npt.NDArray[np.float64]:
    known = np.nan_to_num(np.asarray(weight, np.float64), nan=0.0, posinf=0.0)
    whole = float(known.sum())
    even = np.full(len(known), 1.0 / len(known))
    return even if whole <= 0 else (even + known / whole) / 2


def between(begins: Places, end: int) -> tuple[Places, Places]:
    """Return the ranges from each begin to the next one, the last one to the `end`."""
    return begins, np.r_[begins[1:], np.int64(end)]
