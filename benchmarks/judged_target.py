"""The lowest usage that a cluster's busiest broker can have: the judge's target for every variant.

Three bounds hold for every placement:

- `even_usage`: the load is spread like a liquid.
- `ruled_usage`: the same, but bundles may go to some brokers only.
- `atomic_usage`: the heaviest bundle is alone on the best broker that may own it.

Each bound is for one resource; the largest of several counts. Bundles are whole, so the bounds cannot be reached
exactly: the target is `MARGIN` above them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evenkeel.planner.target import BundleKind, UsageCurve, even_usage, most_crowded

MARGIN = 1.10
"""A cluster counts as balanced where the busiest broker has so many times the least usage that the rules allow."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target: the busiest broker at `usage`.

    `even`, `ruled`, `atomic`: the three bounds. `bound_by`: the bound that lifts the target above the evenly used
    cluster by more than the margin. `over_by_base`: brokers above the target without any load. `nowhere`: load that no
    broker may have; it is left out.
    """

    usage: float
    even: float
    ruled: float
    atomic: float
    bound_by: Literal["margin", "rules", "bundle"]
    over_by_base: tuple[str, ...] = ()
    nowhere: float = 0.0


def target_of(
    curves: Mapping[str, UsageCurve],
    kinds: Iterable[BundleKind],
    whole: Iterable[tuple[frozenset[str], float]] = (),
    margin: float = MARGIN,
) -> Target:
    """Return the target for these brokers and bundles; brokers that may receive nothing are not among the curves.

    `whole`: bundles that cannot be split, as (brokers that may own it, load).
    """
    placed = [BundleKind(kind.brokers & curves.keys(), kind.load) for kind in kinds]
    placeable = [kind for kind in placed if kind.brokers]
    even = even_usage(curves.values(), math.fsum(kind.load for kind in placeable))
    ruled, atomic = ruled_usage(curves, placeable), atomic_usage(curves, whole)
    usage = max(margin * even, margin * ruled, atomic)
    bound: Literal["margin", "rules", "bundle"] = "margin"
    if usage > margin * even:
        bound = "bundle" if usage == atomic else "rules"
    return Target(
        usage,
        even,
        ruled,
        atomic,
        bound,
        tuple(sorted(broker for broker, curve in curves.items() if curve.usage(0.0) > usage)),
        math.fsum(kind.load for kind in placed if not kind.brokers),
    )


def atomic_usage(curves: Mapping[str, UsageCurve], whole: Iterable[tuple[frozenset[str], float]]) -> float:
    """The usage that the worst of these bundles causes on the best broker it may go to, alone."""
    loads = ((brokers & curves.keys(), load) for brokers, load in whole if load > 0)
    return max((min(curves[b].usage(load) for b in brokers) for brokers, load in loads if brokers), default=0.0)


def ruled_usage(curves: Mapping[str, UsageCurve], kinds: Sequence[BundleKind]) -> float:
    """Return the lowest usage at which every kind's load has room on the brokers that may own it, spread freely."""
    return most_crowded(curves, [kind for kind in kinds if kind.load > 0])[0]
