"""The busiest bundles of each broker, as the extensible manager publishes them for shedding.

Pulsar: TopKBundles.update, NamespaceBundleStats.compareTo. Keys: loadBalancerMaxNumberOfBundlesInBundleLoadReport (K),
loadBalancerSheddingExcludedNamespaces, loadBalancerSheddingBundlesWithPoliciesEnabled. Figures are compared rounded, so
bundles are often equally busy. Which of them make the list then follows from how Pulsar partitions; bundles come in
name order. Most brokers have far more bundles than are listed: what cannot be is left out by its weightiest figure.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import nlargest
from itertools import compress, repeat
from operator import attrgetter, itemgetter

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
_SLASHES = 2
"""of the name of a bundle in a namespace of two parts"""
_THROUGHPUT_IN = attrgetter("msg_throughput_in")
MOST_LISTED_KEY = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"

Busyness = tuple[int, int, int, int, int]


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
    found = None
    if k > 0 and {*map(str.count, stats, repeat("/"))} <= {_SLASHES}:
        found = _plainly_busiest(stats, k)
        # Where the busiest of all bundles may be listed, nothing need be known of the others.
        if found is not None and all(_has_traffic(stats[bundle]) for bundle in found) and eligible.lists_all(found):
            return _as_list(found, stats)
    listed = eligible.listed({bundle: one for bundle, one in stats.items() if _has_traffic(one)})
    if k < 1:
        if len(listed) > 1:  # Pulsar's sort fails on such a K, if not with all orders of the bundles
            raise BadInput(f"no top list of {k} bundles: set {MOST_LISTED_KEY} to 1 or more")
        return ()
    if len(listed) < len(stats):
        found = _plainly_busiest(listed, k)
    return _as_list(_partially_sorted(listed, k) if found is None else found, stats)


def _has_traffic(stats: BundleStats) -> bool:
    """Not-a-number is traffic."""
    return stats.msg_throughput_in + stats.msg_throughput_out != 0


def _as_list(busiest: Sequence[str], stats: Mapping[str, BundleStats]) -> tuple[TopBundle, ...]:
    return tuple([TopBundle(bundle, stats[bundle]) for bundle in reversed(busiest)])


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
    if not math.isfinite(x):
        return 0 if math.isnan(x) else _LONG_HIGHEST if x > 0 else -_LONG_HIGHEST - 1
    below = math.floor(x)
    return max(-_LONG_HIGHEST - 1, min(_LONG_HIGHEST, below + (x - below >= 0.5)))


class TopListFilter:
    """Which bundles may be in a top list; answers about namespaces are remembered."""

    def __init__(self, present: PoliciesPresent, settings: Settings) -> None:
        self._present = present
        self._settings = settings
        self._answers: dict[str, bool] = {}

    def lists_all(self, bundles: Sequence[str]) -> bool:
        """Whether none of these bundles is of a namespace of which nothing may be shed."""
        return len(self.listed(dict.fromkeys(bundles, BundleStats()))) == len(bundles)

    def listed(self, busy: Mapping[str, BundleStats]) -> Mapping[str, BundleStats]:
        """The bundles without those of namespaces of which nothing may be shed."""
        namespaces = [bundle.rpartition("/")[0] for bundle in busy]
        if not self._answers.keys() >= {*namespaces}:
            for namespace, bundle in sorted(zip(namespaces, busy, strict=True), key=itemgetter(1)):
                if namespace not in self._answers:
                    self._answers[namespace] = self._may_be_shed(namespace_of(bundle))
        if all(map(self._answers.__getitem__, namespaces)):
            return busy
        return dict(compress(busy.items(), map(self._answers.__getitem__, namespaces)))

    def _may_be_shed(self, namespace: str) -> bool:
        if namespace.count("/") != 1:
            raise BadName(f"namespace {namespace!r} is not tenant/namespace: Pulsar 4.2 knows no other form")
        if is_system(namespace) or is_heartbeat_or_sla(namespace):
            return False
        if namespace in self._settings.loadBalancerSheddingExcludedNamespaces:
            return False
        return self._settings.loadBalancerSheddingBundlesWithPoliciesEnabled or self._present.policy(namespace) is None


def _plainly_busiest(stats: Mapping[str, BundleStats], k: int) -> list[str] | None:
    """The `k` busiest of these bundles, busiest first, or all if there are fewer; None where some of them are equally
    busy, or as busy as the next one, so that Pulsar's partial sort decides.

    No step of Python's own is taken for a bundle whose weightiest figure is too small.
    """
    figures = [*map(_THROUGHPUT_IN, stats.values())]
    # Few figures are sorted sooner than their largest are found.
    largest = sorted(figures, reverse=True) if len(figures) < _FEW * k else nlargest(k + 1, figures)
    first = largest[: k + 1]
    if not first or math.isnan(sum(figures)):
        return None
    least = first[:k][-1]
    if len({weight(figure) for figure in first}) == len(first):
        near = compress(stats.items(), map(least.__le__, figures))
        return [bundle for _, bundle in sorted([(one.msg_throughput_in, bundle) for bundle, one in near], reverse=True)]
    if not -_EXACT < least <= first[0] < _EXACT:
        return None
    # What is lighter by two steps is lighter when rounded, too, as long as figures have so many digits.
    near = compress(stats.items(), map((least - 2 * THROUGHPUT_STEP).__le__, figures))
    ranked = sorted([(busyness(one), bundle) for bundle, one in near], reverse=True)[: k + 1]
    return [bundle for _, bundle in ranked[:k]] if len({busy for busy, _ in ranked}) == len(ranked) else None


def _partially_sorted(stats: Mapping[str, BundleStats], k: int) -> list[str]:
    names = sorted(stats)
    weights = [weight(stats[bundle].msg_throughput_in) for bundle in names]
    numbers = _Partition(weights, lambda number: busyness(stats[names[number]])).busiest(k)
    return [names[number] for number in numbers]


class _Partition:
    """Pulsar's partial sort of bundles, here numbers. `weights`: of each its `weight`; `exactly`: its `busyness`.

    Pulsar exchanges bundles in place, and its exchanges decide which of several equally busy ones are taken. Here it is
    worked out where they leave everything, without making them.
    """

    def __init__(self, weights: Sequence[int], exactly: Callable[[int], Busyness]) -> None:
        self._weights, self._exactly = weights, exactly

    def busiest(self, k: int) -> list[int]:
        """The first `k` after the partial sort, busiest first.

        Partitions in three (busier, equal, lighter) around the last bundle until the k-th is in place. The sorted part
        ends where partitioning ended, which may be before `k`: what follows is as busy as the k-th.
        """
        bundles = [*range(len(self._weights))]
        k = min(k, len(bundles))
        ahead: list[int] = []
        while len(bundles) > 1:
            not_lighter, equal = self._sides(bundles)
            arranged = _arranged(bundles, not_lighter)
            busier = [one for one in arranged if one not in equal]
            wanted = k - len(ahead)
            if wanted <= len(busier):
                bundles = busier
                continue
            ahead += busier
            if wanted <= len(busier) + len(equal):
                bundles = _rotated(arranged, equal)
                break
            ahead += _rotated(arranged, equal)
            bundles = _lighter(bundles, not_lighter)
        return (self._sorted(ahead) + bundles)[:k]

    def _sides(self, bundles: Sequence[int]) -> tuple[list[int], set[int]]:
        """The places of those that are not lighter than the last bundle, and the bundles that are as busy as it is."""
        weights, last = self._weights, bundles[-1]
        weight = weights[last]
        places = [place for place, one in enumerate(bundles) if weights[one] >= weight]
        alike = [bundles[place] for place in places if weights[bundles[place]] == weight]
        if len(alike) == 1:
            return places, {last}
        pivot = self._exactly(last)
        known = {one: self._exactly(one) for one in alike}
        places = [place for place in places if known.get(bundles[place], pivot) >= pivot]
        return places, {one for one, busy in known.items() if busy == pivot}

    def _sorted(self, bundles: list[int]) -> list[int]:
        """Busiest first; equally busy ones stay in their order."""
        of = self._weights.__getitem__
        if len({*map(of, bundles)}) == len(bundles):
            return sorted(bundles, key=of, reverse=True)
        return sorted(bundles, key=self._exactly, reverse=True)


def _arranged(bundles: Sequence[int], not_lighter: Sequence[int]) -> list[int]:
    """Those that are not lighter, in the order in which partitioning comes to them.

    They end up in front. One that is there already keeps its place; a lighter one there is exchanged with what stands
    last and has not been looked at, until that is none of the lighter.
    """
    there = bisect_left(not_lighter, len(not_lighter))
    last = [*not_lighter[there:]]
    found: list[int] = []
    for place in not_lighter[:there]:
        while len(found) < place:
            found.append(bundles[last.pop()])
        found.append(bundles[place])
    return found + [bundles[place] for place in reversed(last)]


def _rotated(arranged: Sequence[int], equal: Collection[int]) -> list[int]:
    """The equally busy ones: each busier one that comes after them changes places with the first of them."""
    found: deque[int] = deque()
    for one in arranged:
        if one in equal:
            found.append(one)
        else:
            found.rotate(-1)
    return [*found]


def _lighter(bundles: Sequence[int], not_lighter: Sequence[int]) -> list[int]:
    """The lighter ones: they fill the end from the last place on, in the order in which partitioning comes to them."""
    front, heavy, right = len(not_lighter), {*not_lighter}, len(bundles) - 1
    found: list[int] = []
    for place in range(front):
        if place in heavy:
            continue
        found.append(bundles[place])
        while right not in heavy:
            found.append(bundles[right])
            right -= 1
        right -= 1
    if right >= front:
        found += [bundles[front], *bundles[right:front:-1]]
    return found[::-1]
