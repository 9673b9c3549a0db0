"""Cut positions between a hot bundle's topics, for specified_positions_divide: its parts can be placed apart."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

EVENED = 20
"""So often the most that a part which leaves may have is halved in, to even out the parts."""


def positions_between(hashes: Sequence[int], loads: Sequence[float], stay: float, leave: float) -> tuple[int, ...]:
    """Return the fewest cuts, ascending, that leave one part with at most `stay` and all others with at most `leave`.

    `hashes`, `loads`: of each topic, in any order; loads, `stay` and `leave` are in one unit. Topics without load are
    ignored, and a topic above the limit of a part is a separate part. Of equally few cuts, those with the lightest
    parts beside the staying one are taken, of these the first by position. () if one part is enough.
    """
    loads_at: dict[int, list[float]] = {}
    for hash_, load in zip(hashes, loads, strict=True):
        if load > 0:
            loads_at.setdefault(hash_, []).append(load)
    busy = sorted(loads_at)
    sums = [0.0, *accumulate(math.fsum(sorted(loads_at[hash_])) for hash_ in busy)]
    ends = _ends(sums, stay, leave)
    low, high = 0.0, leave
    for _ in range(EVENED if len(ends) > 1 else 0):
        middle = 0.5 * (low + high)
        part_ends = _ends(sums, stay, middle)
        low, high, ends = (middle, high, ends) if len(part_ends) > len(ends) else (low, middle, part_ends)
    return tuple(left + (right - left) // 2 + 1 for left, right in ((busy[end - 1], busy[end]) for end in ends[:-1]))


def _ends(sums: Sequence[float], stay: float, leave: float) -> list[int]:
    """Return the end of each of the fewest parts, as a number of topics. `sums`: load of the first n topics."""
    before = [0, *_steps(sums, leave)]
    after = [0, *_steps([sums[-1] - total for total in reversed(sums)], leave)]
    count = len(sums) - 1
    ends: list[int] | None = None
    for number, begin in enumerate(before):
        end = _reach(sums, begin, stay)
        right = bisect_left(after, count - end)
        if ends is None or number + 1 + right < len(ends):
            ends = sorted({*before[1 : number + 1], end, *(count - total for total in after[:right])})
    return ends or []


def _steps(sums: Sequence[float], most: float) -> Iterator[int]:
    """Return the ends of parts that are as long as possible, from the first topic on."""
    at = 0
    while at < len(sums) - 1:
        at = _reach(sums, at, most)
        yield at


def _reach(sums: Sequence[float], begin: int, most: float) -> int:
    """Return the end of a part that begins at this topic: at least one topic, if there is one."""
    return min(len(sums) - 1, max(begin + 1, bisect_right(sums, sums[begin] + most, begin) - 1))
