"""Conversion of pieces of blocks to the rows and columns of a picture: arrays in, arrays out."""

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
    in_order,
    overlaps,
    renamed,
    union,
)
from evenkeel.heat.scale import NOBODY, SEVERAL, UNKNOWN, Codes, Metric


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """Columns of a block with equal ranges, as stored, from the picture's column `first` on.

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
        """Return the piece on the line of other names, which hold all of its own that have ranges."""
        if names == self.names:
            return self
        lower, upper, present = renamed(self.lower, self.upper, self.names, names)
        if not present.all():
            return self._those(present, lower, upper, names)
        return StoredPiece(self.first, names, lower, upper, self.bundles, self.codes, self.owner, self.shared)

    def inside(self, first: int, last: int) -> StoredPiece:
        """Return the ranges that overlap the places from `first` to before `last`."""
        is_inside = (self.lower < last) & (self.upper > first)
        return (
            self
            if is_inside.all()
            else self._those(is_inside, self.lower[is_inside], self.upper[is_inside], self.names)
        )

    def _those(self, selected: Flags, lower: Places, upper: Places, names: Names) -> StoredPiece:
        codes, owner, shared = self.codes[:, selected], self.owner[:, selected], self.shared[:, selected]
        return StoredPiece(self.first, names, lower, upper, self.bundles[selected], codes, owner, shared)


def side_by_side(pieces: Sequence[StoredPiece]) -> list[StoredPiece]:
    """Return the pieces of namespaces, each on its own line, with those of equal columns combined on one line."""
    same: dict[tuple[int, int], dict[str, StoredPiece]] = {}
    for piece in pieces:
        same.setdefault((piece.first, len(piece.codes)), {})[piece.names[0]] = piece
    return [_joined(first, parts) for (first, _), parts in same.items()]


def _joined(first: int, pieces_by_namespace: dict[str, StoredPiece]) -> StoredPiece:
    names = in_order(pieces_by_namespace)
    parts = [pieces_by_namespace[name] for name in names]
    bases = np.repeat(np.arange(len(names), dtype=np.int64) << NAMESPACE_BITS, [len(part.lower) for part in parts])
    return StoredPiece(
        first,
        names,
        np.concatenate([part.lower for part in parts]) + bases,
        np.concatenate([part.upper for part in parts]) + bases,
        np.concatenate([part.bundles for part in parts]),
        np.concatenate([part.codes for part in parts], axis=1),
        np.concatenate([part.owner for part in parts], axis=1),
        np.concatenate([part.shared for part in parts], axis=1),
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows of a picture and the content of its cells [columns, rows]."""

    lower: Places
    upper: Places
    bundles: npt.NDArray[np.int64]
    codes: Codes
    owner: Owners
    shared: Flags

    def merged(self, groups: npt.NDArray[np.intp], metric: Metric) -> Shown:
        """Return the picture with columns merged: `groups` are the first ones of each.

        Values are means of the known ones; a cell has an owner if there is no other one.
        """
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
    """Return the rows that show all pieces, which are on one line.

    They are the ranges between all their boundaries. If these are more than `most`, they are ranges of about equal
    weight that begin where some of them do.
    """
    lower, upper = union([(piece.lower, piece.upper) for piece in pieces])
    if len(lower) <= most:
        return lower, upper
    weight = np.zeros(len(lower))
    values = metric.values()
    newest = max(piece.first + len(piece.codes) for piece in pieces)
    for piece in pieces:
        if piece.first + len(piece.codes) == newest:
            overlap = overlaps(piece.lower, piece.upper, lower, upper)
            weight += np.nan_to_num(overlap.sums(values[piece.codes[-1]]))
    begins = chosen(lower, weight, most, spare=False)
    place = np.searchsorted(lower, begins)
    # A row ends at the begin of the next one, or before it at the end of the known ranges.
    ends = upper[np.r_[place[1:], len(upper)] - 1]
    return begins, ends


def shown(pieces: Sequence[StoredPiece], columns: int, lower: Places, upper: Places, metric: Metric) -> Shown:
    """Return the cells of `columns` columns in these rows.

    Values of several ranges of a row are added up, or the largest counts, as the metric has it. A range over several
    rows is shared by width, and its cells are marked. A range that is a row keeps its code. `bundles` are those of a
    row's newest column in which it has any.
    """
    shape = (columns, len(lower))
    held, known = np.zeros(shape, np.float32), np.zeros(shape, np.bool_)
    first, last = np.full(shape, SEVERAL, np.uint16), np.zeros(shape, np.uint16)
    shared, counts = np.zeros(shape, np.bool_), np.zeros(shape, np.int32)
    values = metric.values().astype(np.float32)
    how = np.maximum if metric.largest else np.add
    for piece in pieces:
        if not len(piece.lower):
            continue
        begin, end = np.searchsorted(upper, piece.lower[0], "right"), np.searchsorted(lower, piece.upper[-1], "left")
        overlap = overlaps(piece.lower, piece.upper, lower[begin:end], upper[begin:end])
        part = np.s_[piece.first : piece.first + len(piece.codes), begin:end]
        figures = values[piece.codes]
        if not overlap.is_the_same:
            figures = (overlap.largest(figures) if metric.largest else overlap.sums(figures)).astype(np.float32)
        is_known = ~np.isnan(figures)
        held[part] = how(held[part], np.where(is_known, figures, 0.0))
        known[part] |= is_known
        owner = overlap.owners(piece.owner)
        last[part] = np.maximum(last[part], owner)
        first[part] = np.minimum(first[part], np.where(owner == NOBODY, SEVERAL, owner))
        shared[part] |= overlap.flags(piece.shared)
        counts[part] += overlap.counts(piece.bundles).astype(np.int32)
    codes = metric.codes(np.where(known, held, np.nan))
    owner = np.where((last == NOBODY) | (first == last), last, SEVERAL).astype(np.uint16)
    return Shown(lower, upper, _newest(counts), codes, owner, shared)


def _newest(counts: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return the last number of each row in [columns, rows] that is not 0; 0 if there is none."""
    if not len(counts):
        return np.zeros(counts.shape[1], np.int64)
    from_the_end = (counts[::-1] > 0).argmax(axis=0)
    newest = counts[len(counts) - 1 - from_the_end, np.arange(counts.shape[1])]
    return np.asarray(newest, np.int64)


def places_of(namespace: int, lower: int, upper: int) -> tuple[int, int]:
    """Return the places of a range of the namespace at a position, `upper` as bundles are named."""
    base = namespace << NAMESPACE_BITS
    return base + lower, base + (WIDTH if upper >= WIDTH - 1 else upper)
