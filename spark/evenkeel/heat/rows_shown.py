"""From pieces of blocks to the rows and columns of a picture: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenkeel.heat.key_ranges import (
    NAMESPACE_BITS,
    WIDTH,
    Flags,
    Names,
    Owners,
    Places,
    chosen,
    overlaps,
    renamed,
    union,
)
from evenkeel.heat.scale import NOBODY, SEVERAL, UNKNOWN, Codes, Metric


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """Columns of a block with the same ranges, as they are stored, from the picture's column `first` on.

    `codes`, `owner` and `shared` are [columns, ranges]; `bundles` counts them in each range. Places are on the line of
    `names`.
    """

    first: int
    names: Names
    lower: Places
    upper: Places
    bundles: npt.NDArray[np.int64]
    codes: Codes
    owner: Owners
    shared: Flags

    def on(self, names: Names) -> StoredPiece:
        """The piece on the line of other names, which hold all of its own that have ranges."""
        if names == self.names:
            return self
        lower, upper, there = renamed(self.lower, self.upper, self.names, names)
        if not there.all():
            return self._those(there, lower, upper, names)
        return StoredPiece(self.first, names, lower, upper, self.bundles, self.codes, self.owner, self.shared)

    def inside(self, first: int, last: int) -> StoredPiece:
        """The ranges that overlap the places from `first` to before `last`."""
        own = (self.lower < last) & (self.upper > first)
        return self if own.all() else self._those(own, self.lower[own], self.upper[own], self.names)

    def _those(self, own: Flags, lower: Places, upper: Places, names: Names) -> StoredPiece:
        codes, owner, shared = self.codes[:, own], self.owner[:, own], self.shared[:, own]
        return StoredPiece(self.first, names, lower, upper, self.bundles[own], codes, owner, shared)


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows of a picture and what its cells [columns, rows] show."""

    lower: Places
    upper: Places
    bundles: npt.NDArray[np.int64]
    codes: Codes
    owner: Owners
    shared: Flags

    def merged(self, groups: npt.NDArray[np.intp], metric: Metric) -> Shown:
        """The picture with columns put together: `groups` are the first ones of each. Values are means of what is
        known; a cell has an owner where there is no other one."""
        values = metric.values().astype(np.float32)[self.codes]
        known = self.codes != UNKNOWN
        counts = np.add.reduceat(known, groups, axis=0, dtype=np.int32)
        sums = np.add.reduceat(np.where(known, values, 0.0), groups, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            codes = metric.codes(np.where(counts > 0, sums / counts, np.nan))
        last = np.maximum.reduceat(self.owner, groups, axis=0)
        first = np.minimum.reduceat(np.where(self.owner == NOBODY, SEVERAL, self.owner), groups, axis=0)
        owner = np.where((last == NOBODY) | (first == last), last, SEVERAL).astype(np.uint16)
        shared = np.logical_or.reduceat(self.shared, groups, axis=0)
        return Shown(self.lower, self.upper, self.bundles, codes, owner, shared)


def rows_for(pieces: Sequence[StoredPiece], most: int, metric: Metric) -> tuple[Places, Places]:
    """The rows that show all pieces, which are on one line: the ranges between all their boundaries, or, where these
    are more than `most`, ranges of about the same weight that begin where some of them do."""
    lower, upper = union([(piece.lower, piece.upper) for piece in pieces])
    if len(lower) <= most:
        return lower, upper
    weight = np.zeros(len(lower))
    values = metric.values()
    newest = max(piece.first + len(piece.codes) for piece in pieces)
    for piece in pieces:
        if piece.first + len(piece.codes) == newest:
            own = overlaps(piece.lower, piece.upper, lower, upper)
            weight += np.nan_to_num(own.sums(values[piece.codes[-1]]))
    begins = chosen(lower, weight, most, spare=False)
    place = np.searchsorted(lower, begins)
    # A row ends where the next one begins, or at the end of what is known before that.
    ends = upper[np.r_[place[1:], len(upper)] - 1]
    return begins, ends


def shown(pieces: Sequence[StoredPiece], columns: int, lower: Places, upper: Places, metric: Metric) -> Shown:
    """The cells of `columns` columns in these rows.

    A range that lies in one row alone keeps its code; several in one row are added up, or the largest counts, as the
    metric has it; a range that reaches over several rows is shared by width, and its cells are marked.
    """
    rows = len(lower)
    codes, owner = np.zeros((columns, rows), np.uint8), np.zeros((columns, rows), np.uint16)
    shared, bundles = np.zeros((columns, rows), np.bool_), np.zeros(rows, np.int64)
    values = metric.values().astype(np.float32)
    for piece in pieces:
        own = overlaps(piece.lower, piece.upper, lower, upper)
        if not len(own.target):
            continue
        part = slice(piece.first, piece.first + len(piece.codes))
        rows_of = own.target[own.heads]
        if own.is_one_to_one:
            codes[part, rows_of] = piece.codes[:, own.source]
            owner[part, rows_of] = piece.owner[:, own.source]
            shared[part, rows_of] = piece.shared[:, own.source]
        else:
            known = values[piece.codes]
            figures = own.largest(known) if metric.largest else own.sums(known)
            codes[part, rows_of] = metric.codes(figures)[:, rows_of]
            owner[part, rows_of] = own.owners(piece.owner)[:, rows_of]
            shared[part, rows_of] = own.flags(piece.shared)[:, rows_of]
        counted = own.counts(piece.bundles)
        bundles = np.where(counted > 0, counted, bundles)
    return Shown(lower, upper, bundles, codes, owner, shared)


def places_of(namespace: int, lower: int, upper: int) -> tuple[int, int]:
    """The places of a range of the namespace at a position, `upper` as bundles are named."""
    base = namespace << NAMESPACE_BITS
    return base + lower, base + (WIDTH if upper >= WIDTH - 1 else upper)
