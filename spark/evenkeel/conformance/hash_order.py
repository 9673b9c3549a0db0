"""The order in which Java walks a HashMap of names.

Evenkeel breaks ties by name, and the cases do so too, with one exception: in `cycle` AvgShedder sorts its scores out of
a HashMap of its own, so brokers with equal scores come in this order there.
"""

from __future__ import annotations

from collections.abc import Iterable

_SMALLEST = 16


def hash_order(names: Iterable[str], *, most: int = 0) -> list[str]:
    """The names by bucket, and by name within a bucket (they are put in by name).

    `most`: so many names at most the map has held before; its table does not shrink.
    """
    ordered = sorted(names)
    buckets = _SMALLEST
    while max(len(ordered), most) > buckets * 3 // 4:
        buckets *= 2
    return sorted(ordered, key=lambda name: _spread(java_hash(name)) & (buckets - 1))


def java_hash(text: str) -> int:
    """String.hashCode as an unsigned number, of text without characters beyond 16 bits."""
    found = 0
    for character in text:
        found = (31 * found + ord(character)) & 0xFFFFFFFF
    return found


def _spread(code: int) -> int:
    return code ^ (code >> 16)
