"""The busiest bundles of each broker, as the extensible manager publishes them for shedding.

Pulsar: TopKBundles.update, NamespaceBundleStats.compareTo. Keys: loadBalancerMaxNumberOfBundlesInBundleLoadReport (K),
loadBalancerSheddingExcludedNamespaces, loadBalancerSheddingBundlesWithPoliciesEnabled. Figures are compared rounded, so
bundles are often equally busy. Which of them make the list then follows from how Pulsar partitions; bundles come in
name order. Most brokers have far more bundles than are listed: what cannot be is left out by its weightiest figure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from heapq import nlargest
from itertools import compress, pairwise
from operator import itemgetter

from evenkeel.errors import BadInput, BadName
from evenkeel.filters.isolation import PoliciesPresent
from evenkeel.model.bundles import namespace_of
from evenkeel.model.load import BundleStats, TopBundle
from evenkeel.model.topics import is_heartbeat_or_sla, is_system
from evenkeel.settings import Settings

THROUGHPUT_STEP = 100_000.0
"""byte/s"""
RATE_STEP = 100.0
"""msg/s"""
COUNT_STEP = 500
CACHE_STEP = 100_000
"""bytes"""
_LONG_HIGHEST = (1 << 63) - 1
_EXACT = 1e15
"""byte/s up to which doubles tell byte from byte"""
_FEW = 40
_SLASHES = b"//"
"""of the name of a bundle in a namespace of two parts"""
_NO_SLASHES = bytes({*range(256)} - {*b"/\n"})
"""all bytes but slashes and ends of lines"""
_THROUGHPUT_IN = itemgetter(BundleStats._fields.index("msg_throughput_in"))
MOST_LISTED_KEY = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"

Busyness = tuple[int, int, int, int, int]
Bundle = tuple[str, BundleStats]


def top_bundles(
    stats: Mapping[str, BundleStats], k: int, present: PoliciesPresent, settings: Settings
) -> tuple[TopBundle, ...]:
    """The list of one broker with these bundles; see `top_lists`."""
    return top_lists({"": stats}, k, present, settings)[""]


def top_lists(
    stats: Mapping[str, Mapping[str, BundleStats]], k: int, present: PoliciesPresent, settings: Settings
) -> dict[str, tuple[TopBundle, ...]]:
    """Broker -> the `k` busiest of its bundles that may be shed at all, lightest first; `stats`: broker -> its bundles.

    Left out: bundles without traffic, of Pulsar's own namespaces, of excluded namespaces, and of namespaces under a
    policy. `BadInput` for a `k` below 1 and two bundles or more, `BadName` for a namespace that is not two parts.
    """
    eligible = TopListFilter(present, settings)
    return {broker: _top_list(own, k, eligible) for broker, own in stats.items()}


def _top_list(stats: Mapping[str, BundleStats], k: int, eligible: TopListFilter) -> tuple[TopBundle, ...]:
    # Where the busiest of all bundles may be listed, nothing need be known of the others but that they are named well.
    if k > 0 and _are_in_two_parts(stats):
        found = _plainly_busiest(stats, k)
        if found is not None and all(_has_traffic(one) and eligible.lists(bundle) for bundle, one in found):
            return _as_list(found)
    by_name = sorted(stats.items(), key=itemgetter(0))
    may_be_listed = {bundle: one for bundle, one in by_name if _has_traffic(one) and eligible.lists(bundle)}
    if k < 1:
        if len(may_be_listed) > 1:  # Pulsar's sort fails on such a K, if not with all orders of the bundles
            raise BadInput(f"no top list of {k} bundles: set {MOST_LISTED_KEY} to 1 or more")
        return ()
    found = _plainly_busiest(may_be_listed, k) if len(may_be_listed) < len(stats) else None
    return _as_list(_partially_sorted([*may_be_listed.items()], k) if found is None else found)


def _are_in_two_parts(bundles: Collection[str]) -> bool:
    """Whether each name has the two slashes of a bundle whose namespace is tenant/namespace."""
    # All names together are looked through in less than half the time that they take one by one.
    slashes = "\n".join(bundles).encode(errors="surrogatepass").translate(None, _NO_SLASHES)
    return slashes == b"\n".join([_SLASHES] * len(bundles))


def _has_traffic(stats: BundleStats) -> bool:
    """Not-a-number is traffic."""
    return stats.msg_throughput_in + stats.msg_throughput_out != 0


def _as_list(busiest: Sequence[Bundle]) -> tuple[TopBundle, ...]:
    return tuple([TopBundle(bundle, one) for bundle, one in reversed(busiest)])


def busyness(stats: BundleStats) -> Busyness:
    """What bundles are compared by, most weighty first: rounded throughput in, out, rate, counts, cache."""
    return (
        weight(stats.msg_throughput_in),
        rounded(stats.msg_throughput_out / THROUGHPUT_STEP),
        rounded((stats.msg_rate_in + stats.msg_rate_out) / RATE_STEP),
        (stats.topics + stats.sessions) // COUNT_STEP,
        stats.cache_size_bytes // CACHE_STEP,
    )


def weight(throughput_in: float) -> int:
    """The weightiest of a bundle's figures, rounded."""
    return rounded(throughput_in / THROUGHPUT_STEP)


def rounded(x: float) -> int:
    """Java's Math.round: to the nearest, halves up, not-a-number to 0, within 64 bits."""
    if -_LONG_HIGHEST < x < _LONG_HIGHEST:
        below = math.floor(x)
        return below + (x - below >= 0.5)
    return 0 if math.isnan(x) else _LONG_HIGHEST if x > 0 else -_LONG_HIGHEST - 1


class TopListFilter:
    """Which bundles may be in a top list; answers about namespaces are remembered."""

    def __init__(self, present: PoliciesPresent, settings: Settings) -> None:
        self._present = present
        self._settings = settings
        self._answers: dict[str, bool] = {}

    def lists(self, bundle: str) -> bool:
        """Whether the bundle is of a namespace of which something may be shed; `BadName` if it is not two parts."""
        answer = self._answers.get(namespace := bundle.rpartition("/")[0])
        if answer is None:
            answer = self._answers[namespace] = self._may_be_shed(namespace_of(bundle))
        return answer

    def _may_be_shed(self, namespace: str) -> bool:
        if namespace.count("/") != 1:
            raise BadName(f"namespace {namespace!r} is not tenant/namespace: Pulsar 4.2 knows no other form")
        if is_system(namespace) or is_heartbeat_or_sla(namespace):
            return False
        if namespace in self._settings.loadBalancerSheddingExcludedNamespaces:
            return False
        return self._settings.loadBalancerSheddingBundlesWithPoliciesEnabled or self._present.policy(namespace) is None


def _plainly_busiest(stats: Mapping[str, BundleStats], k: int) -> list[Bundle] | None:
    """The `k` busiest of these bundles, busiest first, or all if there are fewer; None where some of them are equally
    busy, or as busy as the next one, so that Pulsar's partial sort decides.

    No step of Python's own is taken for a bundle whose weightiest figure is too small.
    """
    figures = [*map(_THROUGHPUT_IN, stats.values())]
    # Few figures are sorted sooner than their largest are found.
    first = sorted(figures, reverse=True)[: k + 1] if len(figures) < _FEW * k else nlargest(k + 1, figures)
    if not first or math.isnan(sum(figures)):
        return None
    least, weights = first[:k][-1], [*map(weight, first)]
    shared = {one for one, lighter in pairwise(weights) if one == lighter}
    if not shared:
        near = compress(stats.items(), map(least.__le__, figures))
        return sorted(near, key=lambda bundle: bundle[1].msg_throughput_in, reverse=True)
    if not -_EXACT < least <= first[0] < _EXACT:
        return None
    # What is lighter by two steps is lighter when rounded, too, as long as figures have so many digits.
    near = compress(stats.items(), map((least - 2 * THROUGHPUT_STEP).__le__, figures))
    ranked = sorted([(_told_apart(one, shared), bundle, one) for bundle, one in near], reverse=True)[: k + 1]
    is_plain = all(one[0] != lighter[0] for one, lighter in pairwise(ranked))
    return [(bundle, one) for _, bundle, one in ranked[:k]] if is_plain else None


def _told_apart(stats: BundleStats, shared: Collection[int]) -> tuple[int, ...]:
    """The weight, and where it is among the `shared` ones all figures: as much as tells a bundle from others."""
    heaviest = weight(stats.msg_throughput_in)
    return busyness(stats) if heaviest in shared else (heaviest,)


def _partially_sorted(bundles: Sequence[Bundle], k: int) -> list[Bundle]:
    """The first `k` of these bundles after Pulsar's partial sort, busiest first; they come in name order.

    Pulsar exchanges bundles in place, and its exchanges decide which of several equally busy ones are taken. It
    partitions in three (busier, equal, lighter) around the last bundle until the k-th is in place. The sorted part ends
    where partitioning ended, which may be before `k`: what follows is as busy as the k-th.
    """
    figures = _Figures([one for _, one in bundles])
    order = [*range(len(bundles))]
    k = min(k, len(order))
    start, end = 0, len(order) - 1
    while start < end:
        equal, lighter = _partitioned(order, start, end, figures)
        if k <= equal:
            end = equal - 1
        elif k > lighter:
            start = lighter
        else:
            end = equal
            break
    ahead = sorted(order[:end], key=figures.exactly, reverse=True)
    return [bundles[number] for number in (ahead + order[end:])[:k]]


class _Figures:
    """What bundles are compared by, of each by its number; all but the weightiest figure is looked at when needed."""

    def __init__(self, stats: Sequence[BundleStats]) -> None:
        self._stats = stats
        self.weights = [weight(one.msg_throughput_in) for one in stats]

    def exactly(self, number: int) -> Busyness:
        """All figures of one bundle."""
        return busyness(self._stats[number])


def _partitioned(order: list[int], low: int, high: int, figures: _Figures) -> tuple[int, int]:
    """Puts the busier than the last of order[low..high] in front, the lighter at the end, by Pulsar's exchanges.

    Returns the places of the first equally busy one and of the first lighter one.
    """
    weights, pivot = figures.weights, order[high]
    weight_of_pivot, exact_pivot = weights[pivot], figures.exactly(pivot)
    middle = low
    while middle <= high:
        one = order[middle]
        if (difference := weights[one] - weight_of_pivot) == 0 and one != pivot:
            exact = figures.exactly(one)
            difference = (exact > exact_pivot) - (exact < exact_pivot)
        if difference < 0:
            order[middle], order[high] = order[high], one
            high -= 1
            continue
        if difference > 0:
            order[low], order[middle] = one, order[low]
            low += 1
        middle += 1
    return low, middle
