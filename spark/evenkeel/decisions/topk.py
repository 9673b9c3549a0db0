"""The busiest bundles of one broker, as the extensible manager publishes them for shedding.

Pulsar: TopKBundles.update, NamespaceBundleStats.compareTo. Keys: loadBalancerMaxNumberOfBundlesInBundleLoadReport (K),
loadBalancerSheddingExcludedNamespaces, loadBalancerSheddingBundlesWithPoliciesEnabled. Figures are compared rounded, so
bundles are often equally busy. Which of them make the list then follows from how Pulsar partitions; bundles come in
name order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from evenkeel.decisions.bundles import namespace_of
from evenkeel.decisions.extensible_load import TopBundle
from evenkeel.decisions.load import BundleStats
from evenkeel.decisions.namespaces import is_heartbeat_or_sla, is_system
from evenkeel.decisions.placement.policies_present import PoliciesPresent
from evenkeel.errors import BadInput, BadName
from evenkeel.settings import Settings

THROUGHPUT_STEP = 100_000.0
"""byte/s"""
RATE_STEP = 100.0
"""msg/s"""
COUNT_STEP = 500
CACHE_STEP = 100_000
"""bytes"""
_LONG_HIGHEST = (1 << 63) - 1

Busyness = tuple[int, int, int, int, int]


def top_bundles(
    stats: Mapping[str, BundleStats], k: int, present: PoliciesPresent, settings: Settings
) -> tuple[TopBundle, ...]:
    """The `k` busiest of a broker's bundles that may be shed at all, lightest first.

    Left out: bundles without traffic, of Pulsar's own namespaces, of excluded namespaces, and of namespaces under a
    policy. `BadInput` for a `k` below 1 and two bundles or more, `BadName` for a namespace that is not two parts.
    """
    eligible = Eligible(present, settings)
    busy = [(busyness(one), bundle) for bundle, one in sorted(stats.items()) if eligible.is_listed(bundle, one)]
    if k < 1:
        return _none_of(busy, k)
    return tuple(TopBundle(bundle, stats[bundle]) for _, bundle in reversed(_busiest(busy, min(k, len(busy)))))


def busyness(stats: BundleStats) -> Busyness:
    """What bundles are compared by, most weighty first: rounded throughput in, out, rate, counts, cache."""
    return (
        rounded(stats.msg_throughput_in / THROUGHPUT_STEP),
        rounded(stats.msg_throughput_out / THROUGHPUT_STEP),
        rounded((stats.msg_rate_in + stats.msg_rate_out) / RATE_STEP),
        (stats.topics + stats.sessions) // COUNT_STEP,
        stats.cache_size_bytes // CACHE_STEP,
    )


def rounded(x: float) -> int:
    """Java's Math.round: to the nearest, halves up, not-a-number to 0, within 64 bits."""
    if not math.isfinite(x):
        return 0 if math.isnan(x) else _LONG_HIGHEST if x > 0 else -_LONG_HIGHEST - 1
    below = math.floor(x)
    return max(-_LONG_HIGHEST - 1, min(_LONG_HIGHEST, below + (x - below >= 0.5)))


class Eligible:
    """Which bundles may be in a top list; answers about namespaces are remembered."""

    def __init__(self, present: PoliciesPresent, settings: Settings) -> None:
        self._present = present
        self._settings = settings
        self._answers: dict[str, bool] = {}

    def is_listed(self, bundle: str, stats: BundleStats) -> bool:
        """Whether the bundle has traffic and its namespace may be shed."""
        if stats.msg_throughput_in + stats.msg_throughput_out == 0:
            return False
        namespace = namespace_of(bundle)
        if namespace not in self._answers:
            self._answers[namespace] = self._may_be_shed(namespace)
        return self._answers[namespace]

    def _may_be_shed(self, namespace: str) -> bool:
        if namespace.count("/") != 1:
            raise BadName(f"namespace {namespace!r} is not tenant/namespace: Pulsar 4.2 knows no other form")
        if is_system(namespace) or is_heartbeat_or_sla(namespace):
            return False
        if namespace in self._settings.loadBalancerSheddingExcludedNamespaces:
            return False
        return self._settings.loadBalancerSheddingBundlesWithPoliciesEnabled or self._present.policy(namespace) is None


def _none_of(busy: list[tuple[Busyness, str]], k: int) -> tuple[TopBundle, ...]:
    """No list; with two bundles or more Pulsar's sort fails on such a K, if not with all orders of the bundles."""
    if len(busy) > 1:
        raise BadInput(f"no top list of {k} bundles: set loadBalancerMaxNumberOfBundlesInBundleLoadReport to 1 or more")
    return ()


def _busiest(busy: list[tuple[Busyness, str]], k: int) -> list[tuple[Busyness, str]]:
    """The first `k` after Pulsar's partial sort, busiest first; changes `busy`.

    The sorted part ends where partitioning ended, which may be before `k`: what follows is as busy as the k-th.
    """
    end = _partitioned(busy, k)
    return (sorted(busy[:end], key=lambda one: one[0], reverse=True) + busy[end:])[:k]


def _partitioned(busy: list[tuple[Busyness, str]], k: int) -> int:
    """Partitions in three (busier, equal, lighter) around the last until the k-th is in place; the sorted part's end.

    Exchanges follow Pulsar's, because they decide which of several equal bundles are taken.
    """
    start, end = 0, len(busy) - 1
    while start < end:
        first, after = _three_way(busy, start, end)
        if first <= k - 1 < after:
            return first
        if k - 1 < first:
            end = first - 1
        else:
            start = after
    return end


def _three_way(busy: list[tuple[Busyness, str]], low: int, high: int) -> tuple[int, int]:
    """Around the last element's busyness: where its equals begin, and where the lighter ones do."""
    pivot = busy[high][0]
    middle = low
    while middle <= high:
        one = busy[middle]
        if one[0] > pivot:
            busy[low], busy[middle] = one, busy[low]
            low += 1
            middle += 1
        elif one[0] < pivot:
            busy[middle], busy[high] = busy[high], one
            high -= 1
        else:
            middle += 1
    return low, middle
