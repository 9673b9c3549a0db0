"""Files of a Merkle tree: tiles of 256 hashes, bundles of 256 entries (C2SP tlog-tiles), and reading them.

A hash of level 0 is that of a leaf; one of level n stands for a full tile of level n - 1. The tiles at the right edge
of a tree (`edge_of`) lead to its root by themselves. Every read tile is checked against the root, the edge at once and
a full tile by its hash in the tile above. So a file that was cut or replaced is named, and no proof is made of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from evenkeel.errors import BadInput, DamagedLog, LogError
from evenkeel.transparency.merkle import (
    EMPTY,
    consistency_ranges,
    inclusion_ranges,
    leaf_of,
    node_of,
    root_above,
    split_of,
)
from evenkeel.transparency.storage import LogStorage

WIDTH = 256
"""Hashes in a full tile, entries in a full bundle."""
MOST_ENTRY_BYTES = 65_535
"""Longest entry: its length is stored in two bytes."""

_BITS = 8  # levels of the tree within a tile
_HASH = len(EMPTY)
_LENGTH = struct.Struct(">H")


def tile_name(level: int, index: int, width: int = WIDTH) -> str:
    """Return the name of a tile: level 0 … 63, index within the level, and how many hashes it has."""
    return f"tile/{level}/{_path_of(index, width)}"


def bundle_name(index: int, width: int = WIDTH) -> str:
    """Return the name of a bundle of entries: its index, and how many entries it has."""
    return f"tile/entries/{_path_of(index, width)}"


def partial_folders(level: int, index: int) -> list[str]:
    """Return the folders of the partial forms of a tile, and at level 0 also those of its bundle."""
    names = [tile_name(level, index)] + ([bundle_name(index)] if level == 0 else [])
    return [f"{name}.p" for name in names]


def _path_of(index: int, width: int) -> str:
    digits = str(index)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    threes = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    path = "/".join([*(f"x{three}" for three in threes[:-1]), threes[-1]])
    return path if width == WIDTH else f"{path}.p/{width}"


def edge_of(size: int) -> list[tuple[int, int, int]]:
    """Return (level, index, width) of the partial tiles of a tree, the lowest level first."""
    tiles = []
    for level in range(0, size.bit_length(), _BITS):
        index, width = divmod(size >> level, WIDTH)
        if width:
            tiles.append((level // _BITS, index, width))
    return tiles


def root_of_edge(levels: Sequence[Sequence[bytes]]) -> bytes:
    """Return the root of a tree by the hashes of its partial tiles, level by level from the lowest."""
    parts: list[bytes] = []
    for hashes in levels:
        parts = [root_above([*hashes, *parts])] if hashes or parts else []
    return parts[0] if parts else EMPTY


def bundle_of(entries: Sequence[bytes]) -> bytes:
    """Return the content of a bundle; raises BadInput if an entry is longer than `MOST_ENTRY_BYTES`."""
    if any(len(entry) > MOST_ENTRY_BYTES for entry in entries):
        raise BadInput(f"an entry of a transparency log has at most {MOST_ENTRY_BYTES:,} bytes")
    return b"".join(_LENGTH.pack(len(entry)) + entry for entry in entries)


def entries_of(data: bytes) -> list[bytes] | None:
    """Return the entries of a bundle; None if it is cut."""
    entries, at = [], 0
    while at < len(data):
        begin = at + _LENGTH.size
        if begin > len(data):
            return None
        at = begin + _LENGTH.unpack_from(data, at)[0]
        entries.append(data[begin:at])
    return entries if at == len(data) else None


class Tree:
    """The tree of a given size and root, from its files.

    Proofs and entries are returned only if they lead to the root; each method raises DamagedLog, which names the file,
    if a file does not.
    """

    def __init__(self, storage: LogStorage, size: int, root: bytes) -> None:
        self._storage = storage
        self.size = size
        self.root = root
        self._tiles: dict[tuple[int, int], list[bytes]] = {}
        edge = edge_of(size)
        for level, index, width in edge:
            self._tiles[level, index] = self._hashes(level, index, width)
        levels = [self.edge(level) for level in range(edge[-1][0] + 1)] if edge else []
        if root_of_edge(levels) != root:
            names = ", ".join(tile_name(*tile) for tile in edge)
            raise DamagedLog(
                f"the tree of {size} leaves has not the root that its checkpoint names: "
                f"{f'one of {names} was' if names else 'the checkpoint was'} changed; restore it from a copy"
            )

    def edge(self, level: int) -> list[bytes]:
        """Return the hashes of the partial tile of a level; none if that level has no partial tile."""
        index, width = divmod(self.size >> level * _BITS, WIDTH)
        return [*self._tiles[level, index]] if width else []

    def root_at(self, size: int) -> bytes:
        """Return the root that the tree had at a size up to its own; raises LogError beyond it."""
        self._demand_size(size)
        return self._range(0, size) if size else EMPTY

    def inclusion(self, index: int, size: int | None = None) -> list[bytes]:
        """Return the hashes that lead from the leaf at an index to the root at a size, by default the tree's own."""
        size = self.size if size is None else size
        self._demand_size(size)
        if not 0 <= index < size:
            raise LogError(f"the log has no leaf {index}: its {size} leaves are counted from 0")
        return [self._range(*span) for span in inclusion_ranges(index, size)]

    def consistency(self, old: int, new: int | None = None) -> list[bytes]:
        """Return the hashes that show that the tree of size `new`, by default the whole, begins with the one of size
        `old`."""
        new = self.size if new is None else new
        self._demand_size(new)
        if not 0 <= old <= new:
            raise LogError(f"a tree of {old} leaves is not the beginning of one of {new}")
        return [self._range(*span) for span in consistency_ranges(old, new)]

    def entry(self, index: int) -> bytes:
        """Return the entry at an index below the size."""
        if not 0 <= index < self.size:
            raise LogError(f"the log has no leaf {index}: its {self.size} leaves are counted from 0")
        return self.bundle(index // WIDTH)[index % WIDTH]

    def entries(self, begin: int, end: int) -> Iterator[bytes]:
        """Yield the entries from one index up to another, bundle by bundle."""
        for number in range(begin // WIDTH, -(-min(end, self.size) // WIDTH)):
            first = number * WIDTH
            yield from self.bundle(number)[max(begin - first, 0) : max(end - first, 0)]

    def find(self, part: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield index and entry of the entries that hold these bytes, the newest first.

        Only bundles with a match are checked against their leaves. So a missing match shows only that the present files
        do not hold it; `entries` reads them strictly.
        """
        for number in reversed(range(-(-self.size // WIDTH))):
            if part in self._bundle_file(number)[1]:
                for place, entry in reversed([*enumerate(self.bundle(number))]):
                    if part in entry:
                        yield number * WIDTH + place, entry

    def bundle(self, index: int) -> list[bytes]:
        """Return the entries of a bundle, each checked against its leaf."""
        width = min(WIDTH, self.size - index * WIDTH)
        name, data = self._bundle_file(index)
        entries = entries_of(data)
        if entries is None or len(entries) != (width if name.endswith(f".p/{width}") else WIDTH):
            raise DamagedLog(f"{name}: the bundle was cut, or holds something else; restore it from a copy")
        for place, (entry, leaf) in enumerate(zip(entries, self._tile(0, index), strict=False)):
            if leaf_of(entry) != leaf:
                raise DamagedLog(f"{name}: the entry of leaf {index * WIDTH + place} was changed; restore the file")
        return entries[:width]

    def _bundle_file(self, index: int) -> tuple[str, bytes]:
        width = min(WIDTH, self.size - index * WIDTH)
        return self._found(bundle_name(index), bundle_name(index, width))

    def _demand_size(self, size: int) -> None:
        if not 0 <= size <= self.size:
            raise LogError(f"the log has {self.size} leaves: it has no tree of {size} yet")

    def _range(self, begin: int, end: int) -> bytes:
        """Return the root over leaves that are under one node of a tree that begins at 0."""
        width = end - begin
        if width & (width - 1) == 0:
            bits = width.bit_length() - 1
            return self._whole(bits, begin >> bits)
        middle = begin + split_of(width)
        return node_of(self._range(begin, middle), self._range(middle, end))

    def _whole(self, bits: int, index: int) -> bytes:
        """Return the root over the `index`-th 2^bits leaves."""
        level, height = divmod(bits, _BITS)
        tile, first = divmod(index << height, WIDTH)
        return root_above(self._tile(level, tile)[first : first + (1 << height)])

    def _tile(self, level: int, index: int) -> list[bytes]:
        if (known := self._tiles.get((level, index))) is not None:
            return known
        hashes = self._hashes(level, index, WIDTH)
        above = self._tile(level + 1, index // WIDTH)[index % WIDTH]
        if root_above(hashes) != above:
            raise DamagedLog(f"{tile_name(level, index)}: the tile was changed; restore it from a copy")
        return self._tiles.setdefault((level, index), hashes)

    def _hashes(self, level: int, index: int, width: int) -> list[bytes]:
        name, data = self._found(tile_name(level, index), tile_name(level, index, width))
        if len(data) != _HASH * (width if name.endswith(f".p/{width}") else WIDTH):
            raise DamagedLog(f"{name}: the tile was cut, or holds something else; restore it from a copy")
        return [data[at : at + _HASH] for at in range(0, width * _HASH, _HASH)]

    def _found(self, full: str, wanted: str) -> tuple[str, bytes]:
        """Return name and content of a file; if a partial one is gone, the full one holds its beginning."""
        for name in dict.fromkeys((wanted, full)):
            if (data := self._storage.get(name)) is not None:
                return name, data
        raise DamagedLog(f"{wanted}: the file is missing; restore it from a copy")
