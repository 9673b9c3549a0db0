"""Merkle trees as RFC 9162 (Certificate Transparency, version 2) has them, with SHA-256.

The root stands for a list of entries: no two lists with the same root can be made. That an entry is in the list is
shown by some thirty hashes at most, without the other entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

LEAF, NODE = b"\x00", b"\x01"
"""The first byte of what is hashed: it differs between entries and nodes, so no node can be given as an entry."""
EMPTY = hashlib.sha256(b"").digest()
"""The root of a list without entries."""


def leaf_of(entry: bytes) -> bytes:
    """The hash of an entry, 32 bytes."""
    return hashlib.sha256(LEAF + entry).digest()


def node_of(left: bytes, right: bytes) -> bytes:
    """The hash above two others, 32 bytes."""
    return hashlib.sha256(NODE + left + right).digest()


def root_of(entries: Iterable[bytes]) -> bytes:
    """The root of the entries in their order, 32 bytes."""
    return root_above([leaf_of(entry) for entry in entries])


def root_above(hashes: Sequence[bytes]) -> bytes:
    """The root of a tree whose leaves have these hashes, 32 bytes.

    In the place of leaves the roots of its parts may be given: each of so many leaves, a power of two, but the last of
    as many as are left.
    """
    level = list(hashes)
    while len(level) > 1:
        level = _above(level)
    return level[0] if level else EMPTY


def _above(level: Sequence[bytes]) -> list[bytes]:
    """What is left over at the end rises as it is."""
    pairs = [node_of(level[place], level[place + 1]) for place in range(0, len(level) - 1, 2)]
    return [*pairs, *level[len(pairs) * 2 :]]


def inclusion_proof(entries: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes beside the way from the entry at `index` up to the root. Raises IndexError where there is none."""
    if not 0 <= index < len(entries):
        raise IndexError(f"there is no entry {index} among {len(entries)}")
    level, proof = [leaf_of(entry) for entry in entries], []
    while len(level) > 1:
        if (beside := index ^ 1) < len(level):
            proof.append(level[beside])
        level, index = _above(level), index >> 1
    return proof


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether `proof` shows that the entry with the hash `leaf` is the one at `index` of `size` under this root."""
    if not 0 <= index < size or any(len(one) != len(EMPTY) for one in (leaf, *proof)):
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
