"""Work for brokers that are new or nearly idle: bundles of the fullest ones, also where no one is above the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from evenkeel.planner.placement_search import RECEIVERS_LOOKED_AT, PlacementSearch, Whole, limit_of
from evenkeel.planner.target import UsageCurve

FILLED = 0.8
"""A broker counts as filled with this part of its load in the evenly used cluster."""


def fill(search: PlacementSearch, broker: str, curves: Sequence[UsageCurve], even: float) -> None:
    """Give the broker bundles of the fullest ones, the heaviest that it has room for, until it is filled; none after
    which it would be fuller than its giver."""
    at = search.brokers.index(broker)
    most = np.array([limit_of(curve, even, unit) for curve, unit in zip(curves, search.units, strict=True)])
    while (search.carried[at] < FILLED * most).all():
        full = (search.carried / np.maximum(search.limit, 1)).max(axis=1, initial=0.0)
        order = np.argsort(-full, kind="stable").tolist()
        givers = (n for n in order if n != at and search.receives[n] and full[n] > full[at])
        destination = next(
            (n for giver in islice(givers, RECEIVERS_LOOKED_AT) for n in _spared(search, giver, at, most)), None
        )
        if destination is None:
            return
        search.move(destination, at)


def _spared(search: PlacementSearch, giver: int, at: int, most: Whole) -> Iterator[int]:
    """Return the heaviest bundle that the giver can spare for a broker with this capacity, or None."""
    for n in search.heaviest_first(search.own[giver]):
        one = search.bundles[n]
        if n in search.moved or one.is_held or not search.weight[n] or search.brokers[at] not in one.brokers:
            continue
        after, left = search.carried[at] + search.loads[n], search.carried[giver] - search.loads[n]
        share, other = (x / np.maximum(search.limit[b], 1) for x, b in ((after, at), (left, giver)))
        if (after <= most).all() and share.max() <= other.max():
            yield n
            return
