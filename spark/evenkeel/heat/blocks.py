"""A block of the heat map: its columns as bytes, in pieces with equal ranges, and as rows of `heat_blocks`.

Bytes of a piece are stored column after column, so a new column is appended without reading the others. A rebuilt
column in the middle takes the block apart and puts it together again: either way the rows are equal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenkeel.heat.columns import HeatColumn
from evenkeel.heat.key_ranges import NAMESPACE_BITS, WIDTH, Names, Places
from evenkeel.heat.scale import METRICS, OWNER, Layer

FORMAT = 1
"""Version of the meaning of the bytes; a reader refuses rows of a newer one."""
OVERVIEW, NAMESPACES = "overview", "namespaces"
"""The grains of rows: the whole cluster in few ranges, and each namespace with all its bundles."""
COLUMNS = "columns"
"""The `metric` of the row with the columns of a block."""
STORED = (*METRICS, OWNER)
BlockRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Slice:
    """A column's part of one namespace, or of the overview (namespace ""): bytes as stored."""

    namespace: str
    boundaries: bytes
    names: Names
    bundles: bytes
    cells: tuple[bytes, ...]
    shared: bytes

    def goes_on(self, piece: Piece) -> bool:
        """Return True if the slice has the ranges of the piece."""
        return self.boundaries == piece.boundaries and self.names == piece.names


@dataclass(slots=True)
class Piece:
    """Consecutive columns with equal ranges; `cells` per metric of STORED and `shared`: the bytes of each column."""

    first: int
    boundaries: bytes
    names: Names
    bundles: bytes
    cells: tuple[list[bytes], ...]
    shared: list[bytes]
    count: int

    @property
    def ranges(self) -> int:
        """The number of ranges of the piece."""
        return len(self.boundaries) // 16


@dataclass(slots=True)
class Block:
    """The columns of a layer from `start` on, as far as it has cycles, each with the digest of its source."""

    layer: Layer
    start: int
    starts: list[int] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    brokers: list[str] = field(default_factory=list)
    pieces: dict[str, list[Piece]] = field(default_factory=dict)

    def put(self, start: int, digest: str, column: HeatColumn, overview: HeatColumn, brokers: Names) -> None:
        """Take a column, replacing one of that moment. `brokers`: the broker ids behind both owner codes, from 1."""
        slices = [_whole_slice(overview, self._codes(overview, brokers))]
        slices += _slices(column, self._codes(column, brokers))
        if self.starts and start <= self.starts[-1]:
            columns = self._taken_apart()
            place = bisect_left(self.starts, start)
            again = place < len(self.starts) and self.starts[place] == start
            columns[place : place + again] = [(start, digest, slices)]
            self._put_together(columns)
        else:
            self._append(start, digest, slices)

    def drop(self, start: int) -> None:
        """Forget a column, if the block has it."""
        if start in self.starts:
            self._put_together([column for column in self._taken_apart() if column[0] != start])

    def digest_of(self, start: int) -> str | None:
        """Return the digest of a column's source; None if the block does not have the column."""
        place = bisect_left(self.starts, start)
        return self.digests[place] if place < len(self.starts) and self.starts[place] == start else None

    def overview_before(self) -> tuple[Names, Places] | None:
        """Return names and begins of the ranges of the newest overview; None if there is none."""
        if "" not in self.pieces:
            return None
        piece = self.pieces[""][-1]
        return piece.names, np.frombuffer(piece.boundaries, np.int64)[: piece.ranges]

    def _codes(self, column: HeatColumn, brokers: Names) -> bytes:
        """Return the owners as codes of the block's own brokers, to which new ones are added."""
        known = {name: code for code, name in enumerate(self.brokers, 1)}
        table = np.zeros(1 << 16, np.uint16)
        table[-1] = (1 << 16) - 1
        for code in np.unique(column.owner).tolist():
            if 0 < code < (1 << 16) - 1:
                name = brokers[code - 1]
                if name not in known:
                    self.brokers.append(name)
                    known[name] = len(self.brokers)
                table[code] = known[name]
        return table[column.owner].tobytes()

    def _append(self, start: int, digest: str, slices: Iterable[Slice]) -> None:
        place = len(self.starts)
        self.starts.append(start)
        self.digests.append(digest)
        for part in slices:
            pieces = self.pieces.setdefault(part.namespace, [])
            last = pieces[-1] if pieces else None
            if last is not None and last.first + last.count == place and part.goes_on(last):
                for cells, more in zip(last.cells, part.cells, strict=True):
                    cells.append(more)
                last.shared.append(part.shared)
                last.bundles = part.bundles
                last.count += 1
            else:
                cells_of = tuple([cells_of_metric] for cells_of_metric in part.cells)
                pieces.append(Piece(place, part.boundaries, part.names, part.bundles, cells_of, [part.shared], 1))

    def _taken_apart(self) -> list[tuple[int, str, list[Slice]]]:
        columns: list[tuple[int, str, list[Slice]]] = [
            (start, digest, []) for start, digest in zip(self.starts, self.digests, strict=True)
        ]
        for namespace, pieces in self.pieces.items():
            for piece in pieces:
                cells = [_cut(parts, piece.count) for parts in piece.cells]
                shared = _cut(piece.shared, piece.count)
                for n in range(piece.count):
                    column_cells = tuple(cells_of_part[n] for cells_of_part in cells)
                    part = Slice(namespace, piece.boundaries, piece.names, piece.bundles, column_cells, shared[n])
                    columns[piece.first + n][2].append(part)
        return columns

    def _put_together(self, columns: Iterable[tuple[int, str, list[Slice]]]) -> None:
        self.starts, self.digests, self.pieces = [], [], {}
        for start, digest, slices in columns:
            self._append(start, digest, slices)

    def rows(self) -> Iterator[BlockRow]:
        """Yield rows of `heat_blocks`, without cluster: the overview first, then metric by metric all namespaces."""
        base = {"layer_seconds": self.layer.seconds, "block_start": self.start, "format": FORMAT}
        head = {"namespace": "", "metric": COLUMNS, "piece": 0}
        common = {"starts": self.starts, "digests": self.digests, "brokers": self.brokers}
        yield {**base, "grain": OVERVIEW, **head, **common}
        names = sorted(self.pieces)
        for grain, grain_names in (
            (OVERVIEW, names[:1] if "" in self.pieces else []),
            (NAMESPACES, [n for n in names if n]),
        ):
            for place, metric in enumerate(STORED):
                for namespace in grain_names:
                    for number, piece in enumerate(self.pieces[namespace]):
                        shared = b"".join(piece.shared)
                        row = {**base, "grain": grain, "namespace": namespace, "metric": metric, "piece": number}
                        row |= {"first_column": piece.first, "columns": piece.count, "ranges": piece.ranges}
                        row |= {"boundaries": piece.boundaries, "cells": b"".join(piece.cells[place])}
                        row["shared"] = shared if shared.strip(b"\0") else None
                        if grain == OVERVIEW:
                            row |= {"names": list(piece.names), "bundles": piece.bundles}
                        yield row

    @classmethod
    def from_rows(cls, layer: Layer, start: int, rows: Iterable[Mapping[str, Any]]) -> Block:
        """Return the block in rows of `heat_blocks`, given in any order."""
        block, rows_by_piece = cls(layer, start), dict[tuple[str, int], dict[str, Mapping[str, Any]]]()
        for row in rows:
            if row["metric"] == COLUMNS:
                block.starts, block.digests = list(row["starts"]), list(row["digests"])
                block.brokers = list(row["brokers"])
            else:
                rows_by_piece.setdefault((row["namespace"], row["piece"]), {})[row["metric"]] = row
        for (namespace, _), metrics in sorted(rows_by_piece.items(), key=lambda item: item[0]):
            owner_row, count = metrics[OWNER], metrics[OWNER]["columns"]
            shared = owner_row["shared"] or bytes(count * _bits(owner_row["ranges"]))
            cells = tuple([metrics[name]["cells"]] for name in STORED)
            names, bundles = tuple(owner_row.get("names") or ()), owner_row.get("bundles") or b""
            piece = Piece(owner_row["first_column"], owner_row["boundaries"], names, bundles, cells, [shared], count)
            block.pieces.setdefault(namespace, []).append(piece)
        return block


def _bits(ranges: int) -> int:
    return (ranges + 7) // 8


def _cut(parts: list[bytes], count: int) -> list[bytes]:
    """Return the bytes of so many columns, one by one."""
    whole = b"".join(parts)
    each = len(whole) // count
    return [whole[n * each : (n + 1) * each] for n in range(count)]


def _whole_slice(column: HeatColumn, owners: bytes) -> Slice:
    return Slice(
        "",
        np.concatenate((column.lower, column.upper)).tobytes(),
        column.names,
        column.bundles.astype(np.int32).tobytes(),
        (*(codes.tobytes() for codes in _codes_of(column)), owners),
        np.packbits(column.shared).tobytes(),
    )


def _codes_of(column: HeatColumn) -> list[Any]:
    return [metric.codes(figures) for metric, figures in zip(METRICS.values(), column.figures, strict=True)]


def _slices(column: HeatColumn, owners: bytes) -> Iterator[Slice]:
    """Yield the column namespace by namespace."""
    codes = [row.tobytes() for row in _codes_of(column)]
    ranks = column.lower >> NAMESPACE_BITS
    heads = np.flatnonzero(np.diff(ranks, prepend=-1))
    ends = [*heads[1:].tolist(), len(ranks)]
    lower = column.lower & (WIDTH - 1)
    upper = column.upper - (ranks << NAMESPACE_BITS)
    any_shared = bool(column.shared.any())
    for rank, begin, end in zip(ranks[heads].tolist(), heads.tolist(), ends, strict=True):
        shared = np.packbits(column.shared[begin:end]).tobytes() if any_shared else bytes(_bits(end - begin))
        yield Slice(
            column.names[rank],
            lower[begin:end].tobytes() + upper[begin:end].tobytes(),
            (),
            b"",
            (*(row[begin:end] for row in codes), owners[2 * begin : 2 * end]),
            shared,
        )
