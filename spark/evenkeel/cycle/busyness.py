"""Relative load of bundles, and Pulsar's partial sort by it.

Pulsar: NamespaceBundleStats.compareTo, TopKBundles.partitionSort. Figures are compared rounded, so bundles are often
equally busy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from evenkeel.model.load import BundleStats

THROUGHPUT_STEP = 100_000.0
"""byte/s"""
RATE_STEP = 100.0
"""msg/s"""
COUNT_STEP = 500
CACHE_STEP = 100_000
"""bytes"""
_LONG_HIGHEST = (1 << 63) - 1

Busyness = tuple[int, int, int, int, int]


def busyness(stats: BundleStats) -> Busyness:
    """Return the figures by which bundles are compared, most weighty first: rounded throughput in, out, rate, counts,
    cache."""
    return weight(stats.msg_throughput_in), *but_weight(stats)


def but_weight(stats: BundleStats) -> tuple[int, int, int, int]:
    """Return the figures by which bundles of one weight are compared: all but the first of `busyness`."""
    return (
        rounded(stats.msg_throughput_out / THROUGHPUT_STEP),
        rounded((stats.msg_rate_in + stats.msg_rate_out) / RATE_STEP),
        (stats.topics + stats.sessions) // COUNT_STEP,
        stats.cache_size_bytes // CACHE_STEP,
    )


def weight(throughput_in: float) -> int:
    """Return the weightiest of a bundle's figures, rounded."""
    return rounded(throughput_in / THROUGHPUT_STEP)


def rounded(x: float) -> int:
    """Return Java's Math.round: to the nearest, halves up, NaN to 0, within 64 bits."""
    if -_LONG_HIGHEST < x < _LONG_HIGHEST:
        below = math.floor(x)
        return below + (x - below >= 0.5)
    return 0 if math.isnan(x) else _LONG_HIGHEST if x > 0 else -_LONG_HIGHEST - 1


def partial_order(weights: Sequence[float], exactly: Callable[[int], Busyness], k: int) -> list[int]:
    """Return the places of the first `k` after Pulsar's partial sort, busiest first; the bundles come in name order.

    `weights` is compared first; `exactly` gives all compared figures of a place. Pulsar exchanges bundles in place, and
    its exchanges decide which of several equally busy ones are taken. It partitions in three (busier, equal, lighter)
    around the last bundle until the k-th is in place. The sorted part ends where partitioning ended, which may be
    before `k`: the rest is as busy as the k-th.
    """
    exactly = cache(exactly)
    order = [*range(len(weights))]
    k = min(k, len(order))
    start, end = 0, len(order) - 1
    while start < end:
        equal, lighter = _partitioned(order, start, end, weights, exactly)
        if k <= equal:
            end = equal - 1
        elif k > lighter:
            start = lighter
        else:
            end = equal
            break
    counted = Counter([weights[at] for at in order[:end]])
    ahead = sorted(
        order[:end],
        key=lambda at: (weights[at],) if counted[weights[at]] == 1 else exactly(at),
        reverse=True,
    )
    return (ahead + order[end:])[:k]


def _partitioned(
    order: list[int], low: int, high: int, weights: Sequence[float], exactly: Callable[[int], Busyness]
) -> tuple[int, int]:
    """Move bundles busier than the last of order[low..high] to the front, lighter ones to the end, by Pulsar's
    exchanges.

    Returns the places of the first equally busy one and of the first lighter one.
    """
    pivot = order[high]
    of_pivot = weights[pivot]
    middle = low
    while middle <= high:
        place = order[middle]
        difference = weights[place] - of_pivot
        if difference == 0 and place != pivot:
            exact, exact_pivot = exactly(place), exactly(pivot)
            difference = (exact > exact_pivot) - (exact < exact_pivot)
        if difference < 0:
            order[middle], order[high] = order[high], place
            high -= 1
            continue
        if difference > 0:
            order[low], order[middle] = place, order[low]
            low += 1
        middle += 1
    return low, middle
