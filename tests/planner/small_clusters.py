"""Clusters so small that every placement can be tried, and what trying all of them comes to."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from hypothesis import strategies as st

from evenkeel.planner.target import BundleKind, UsageLine, kinds_of

Placement = tuple[str, ...]
"""The broker of every bundle, in the order of the bundles."""


@dataclass(frozen=True)
class SmallCluster:
    """Brokers with their lines; bundles as (load, brokers that may own it, owner), none of which can be split."""

    lines: Mapping[str, UsageLine]
    bundles: Sequence[tuple[float, frozenset[str], str]]

    @property
    def kinds(self) -> tuple[BundleKind, ...]:
        return kinds_of(self.whole)

    @property
    def whole(self) -> list[tuple[frozenset[str], float]]:
        return [(allowed, load) for load, allowed, _ in self.bundles]

    @property
    def carried(self) -> dict[str, float]:
        return self.loads(tuple(owner for _, _, owner in self.bundles))

    def loads(self, placement: Placement) -> dict[str, float]:
        """Broker -> its load under a placement."""
        return {
            name: math.fsum(
                load for (load, _, _), broker in zip(self.bundles, placement, strict=True) if broker == name
            )
            for name in self.lines
        }

    def busiest(self, placement: Placement) -> float:
        """The largest usage under a placement."""
        return max(self.lines[broker].usage(load) for broker, load in self.loads(placement).items())

    def placements(self) -> Iterator[Placement]:
        """Every placement that keeps to the rules."""
        yield from product(*(sorted(allowed) for _, allowed, _ in self.bundles))

    def moved(self, placement: Placement) -> list[float]:
        """The loads of the bundles that are not where they were."""
        return [load for (load, _, owner), broker in zip(self.bundles, placement, strict=True) if broker != owner]


# A bound takes a load of less than 2 ** -50 of all loads for none.
loads = st.one_of(st.sampled_from([0.0, 1.0, 2.0, 3.0, 10.0]), st.floats(1e-6, 100.0))


@st.composite
def small_clusters(draw: st.DrawFn, *, lopsided: bool = False) -> SmallCluster:
    """Clusters of any kind. Where they are lopsided, the first broker has most of the bundles, and all have a load."""
    least = 2 if lopsided else 1
    names = [f"b{n}" for n in range(1, draw(st.integers(least, 3)) + 1)]
    slopes = [0.01, 0.02, 0.005, 0.013, 0.0][: -1 if lopsided else None]
    lines = {name: UsageLine(draw(st.sampled_from([0.0, 0.05, 0.2])), draw(st.sampled_from(slopes))) for name in names}
    some = st.frozensets(st.sampled_from(names), min_size=1)
    if lopsided:
        bundle = st.tuples(st.sampled_from([10.0, 2.0, 30.0]), some, st.sampled_from([names[0], names[0], names[-1]]))
    else:
        bundle = st.tuples(loads, some, st.sampled_from(names))
    return SmallCluster(lines, draw(st.lists(bundle, min_size=2 * least - 1, max_size=6)))
