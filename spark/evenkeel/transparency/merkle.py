"""Merkle trees of RFC 9162 (Certificate Transparency, version 2), with SHA-256.

The root stands for a list of entries: no two lists with equal roots can be made. Some thirty hashes at most prove that
an entry is in the list, without the other entries. As few prove that a list was made of another by adding entries at
its end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

LEAF, NODE = b"\x00", b"\x01"
"""First byte of the hashed bytes: it differs between entries and nodes, so no node can be given as an entry."""
EMPTY = hashlib.sha256(b"").digest()
"""The root of a list without entries."""


def leaf_of(entry: bytes) -> bytes:
    """Return the hash of an entry, 32 bytes."""
    return hashlib.sha256(LEAF + entry).digest()


def node_of(left: bytes, right: bytes) -> bytes:
    """Return the hash above two others, 32 bytes."""
    return hashlib.sha256(NODE + left + right).digest()


def root_above(hashes: Sequence[bytes]) -> bytes:
    """Return the root of a tree whose leaves have these hashes, 32 bytes.

    Instead of leaves the roots of its parts may be given: each of the same number of leaves, a power of two, except the
    last.
    """
    level = list(hashes)
    while len(level) > 1:
        pairs = [node_of(level[place], level[place + 1]) for place in range(0, len(level) - 1, 2)]
        level = [*pairs, *level[len(pairs) * 2 :]]  # a single hash at the end rises unchanged
    return level[0] if level else EMPTY


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return True if `proof` shows that the entry with the hash `leaf` is the one at `index` of `size` under this
    root."""
    if not 0 <= index < size or any(len(part) != len(EMPTY) for part in (leaf, *proof)):
        return False
    place, last, reached = index, size - 1, leaf
    for beside in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            reached = node_of(beside, reached)
            while not place & 1 and place:  # it rose alone
                place, last = place >> 1, last >> 1
        else:
            reached = node_of(reached, beside)
        place, last = place >> 1, last >> 1
    return last == 0 and reached == root


def inclusion_ranges(index: int, size: int) -> list[tuple[int, int]]:
    """Return the ranges (begin, end) whose roots make the inclusion proof of the entry at `index` of `size`, in order.

    RFC 9162, 2.1.3.1. Raises IndexError if there is no such entry.
    """
    if not 0 <= index < size:
        raise IndexError(f"there is no entry {index} among {size}")
    begin, end, ranges = 0, size, []
    while end - begin > 1:
        middle = begin + split_of(end - begin)
        ranges.append((middle, end) if index < middle else (begin, middle))
        begin, end = (begin, middle) if index < middle else (middle, end)
    return ranges[::-1]


def consistency_ranges(old: int, new: int) -> list[tuple[int, int]]:
    """Return the ranges (begin, end) whose roots make the consistency proof from `old` entries to `new`, in order.

    RFC 9162, 2.1.4.1; none if either tree is empty or both are equal. Raises IndexError if `old` is not among 0 …
    `new`.
    """
    if not 0 <= old <= new:
        raise IndexError(f"{old} entries are not the beginning of {new}")
    begin, end, is_whole, ranges = 0, new, True, []
    while 0 < old - begin < end - begin:
        middle = begin + split_of(end - begin)
        if old <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((begin, middle))
            begin, is_whole = middle, False
    return [*([] if is_whole else [(begin, end)]), *reversed(ranges)]


def split_of(size: int) -> int:
    """Return the number of entries in the left part of a tree: the largest power of two below `size` (2 or more)."""
    return 1 << ((size - 1).bit_length() - 1)


def is_consistent(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Return True if `proof` shows that the tree of `new` entries begins with the one of `old`. RFC 9162, 2.1.4.2.

    The empty tree is the beginning of any other; its root is `EMPTY`, and the proof is empty.
    """
    if old == new:
        return not proof and old_root == new_root and (old > 0 or old_root == EMPTY)
    if not 0 <= old < new or any(len(part) != len(EMPTY) for part in (old_root, new_root, *proof)):
        return False
    if old == 0:
        return not proof and old_root == EMPTY
    place, last = old - 1, new - 1
    while place & 1:  # up to the largest whole part that ends where the old tree ends
        place, last = place >> 1, last >> 1
    # If the old tree is such a part itself, its root is not in the proof.
    hashes = [old_root, *proof] if place == 0 else [*proof]
    if not hashes:
        return False
    reached_old = reached_new = hashes[0]
    for beside in hashes[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            reached_old, reached_new = node_of(beside, reached_old), node_of(beside, reached_new)
            while not place & 1 and place:  # it rose alone
                place, last = place >> 1, last >> 1
        else:
            reached_new = node_of(reached_new, beside)
        place, last = place >> 1, last >> 1
    return last == 0 and reached_old == old_root and reached_new == new_root
