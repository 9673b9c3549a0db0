"""Merkle roots of many entries, with the hashes in arrays: half a microsecond a hash, where a loop takes one.

The trees are those of `merkle`. Entries come in their order, some at a time, and of those that came a hash for each
level of the tree is kept at most.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from evenkeel.transparency.merkle import EMPTY, LEAF, NODE, node_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WIDTH = len(EMPTY)


def leaves_of(entries: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The leaf hashes (n × 32 bytes) of entries of the same length (n × any number of bytes)."""
    return _hashes(LEAF, entries)


class GrowingRoot:
    """The root of a list whose leaf hashes are added in their order, some at a time."""

    def __init__(self) -> None:
        # By level, from the leaves up: the hash of a whole part of 2^level leaves that has no right neighbour yet.
        self._alone: list[bytes | None] = []

    def add(self, leaves: NDArray[np.uint8]) -> None:
        """Adds leaf hashes (n × 32 bytes) to the end of the list."""
        level, hashes = 0, leaves
        while len(hashes):
            if level == len(self._alone):
                self._alone.append(None)
            left = self._alone[level]
            if left is not None:
                hashes = np.concatenate([np.frombuffer(left, np.uint8).reshape(1, _WIDTH), hashes])
            paired = len(hashes) // 2 * 2
            self._alone[level] = bytes(hashes[-1]) if paired < len(hashes) else None
            hashes = _hashes(NODE, np.ascontiguousarray(hashes[:paired]).reshape(-1, 2 * _WIDTH))
            level += 1

    def root(self) -> bytes:
        """The root of what was added so far, 32 bytes."""
        reached: bytes | None = None
        for left in self._alone:
            if left is not None:
                reached = left if reached is None else node_of(left, reached)
        return EMPTY if reached is None else reached


def _hashes(first: bytes, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """SHA-256 of each row (of n × width bytes) with the byte `first` before it."""
    width = 1 + rows.shape[1]
    hashed = np.empty((len(rows), width), np.uint8)
    hashed[:, 0], hashed[:, 1:] = first[0], rows
    texts = hashed.view(f"V{width}").ravel().tolist()
    sha256 = hashlib.sha256
    return np.frombuffer(b"".join([sha256(text).digest() for text in texts]), np.uint8).reshape(-1, _WIDTH)
