"""The busiest bundles of each broker, as the extensible manager publishes them for shedding.

Pulsar: TopKBundles.update, NamespaceBundleStats.compareTo. Keys: loadBalancerMaxNumberOfBundlesInBundleLoadReport (K),
loadBalancerSheddingExcludedNamespaces, loadBalancerSheddingBundlesWithPoliciesEnabled. Figures are compared rounded, so
bundles are often equally busy. Which of them make the list then follows from how Pulsar partitions; bundles come in
name order. The bundles of a large cluster are looked through together, by columns (`top_lists_by_columns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

from evenkeel.cycle.busyness import busyness, partial_order, weight
from evenkeel.cycle.reported_bundles import StatsOfBroker
from evenkeel.cycle.top_list_filter import TopListFilter
from evenkeel.errors import BadInput
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.load import BundleStats, TopBundle
from evenkeel.settings import Settings

MOST_LISTED_KEY = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"


def top_bundles(
    stats: Mapping[str, BundleStats], k: int, present: PoliciesPresent, settings: Settings
) -> tuple[TopBundle, ...]:
    """Return the list of one broker with these bundles; see `top_lists`."""
    return top_lists({"": stats}, k, present, settings)[""]


def top_lists(
    stats: Mapping[str, Mapping[str, BundleStats]], k: int, present: PoliciesPresent, settings: Settings
) -> dict[str, tuple[TopBundle, ...]]:
    """Return each broker's `k` busiest bundles that may be shed at all, lightest first; `stats`: broker -> its bundles.

    Left out: bundles without traffic, of Pulsar's own namespaces, of excluded namespaces, and of namespaces under a
    policy. Raises `BadInput` for a `k` below 1 and two bundles or more, `BadName` for a namespace that is not two
    parts.
    """
    eligible = TopListFilter(present, settings)
    lists = _by_columns(stats, k, eligible) if k > 0 else {}
    return {
        broker: _top_list(broker_stats, k, eligible) if (listed := lists.get(broker)) is None else listed
        for broker, broker_stats in stats.items()
    }


def _by_columns(
    stats: Mapping[str, Mapping[str, BundleStats]], k: int, eligible: TopListFilter
) -> dict[str, tuple[TopBundle, ...] | None]:
    """Return the lists of the brokers with figures in columns; None for a broker that columns cannot handle."""
    many = {
        broker: (broker_stats, broker_stats.throughputs)
        for broker, broker_stats in stats.items()
        if broker_stats
        and isinstance(broker_stats, StatsOfBroker)
        and broker_stats.are_in_two_parts
        and broker_stats.throughputs is not None
    }
    if not many:
        return {}
    from evenkeel.cycle.top_lists_by_columns import TopListsByColumns

    together, throughputs = zip(*many.values(), strict=True)
    return dict(zip(many, TopListsByColumns(together, k, eligible).lists(throughputs), strict=True))


def _top_list(stats: Mapping[str, BundleStats], k: int, eligible: TopListFilter) -> tuple[TopBundle, ...]:
    by_name = sorted(stats.items(), key=itemgetter(0))
    bundles = [TopBundle(bundle, each) for bundle, each in by_name if _has_traffic(each) and eligible.lists(bundle)]
    if k < 1:
        if len(bundles) > 1:  # Pulsar's sort fails on such a K, if not with all orders of the bundles
            raise BadInput(f"no top list of {k} bundles: set {MOST_LISTED_KEY} to 1 or more")
        return ()
    weights = [weight(each.stats.msg_throughput_in) for each in bundles]
    busiest = partial_order(weights, lambda place: busyness(bundles[place].stats), k)
    return tuple([bundles[place] for place in reversed(busiest)])


def _has_traffic(stats: BundleStats) -> bool:
    """Return True if the bundle has traffic; NaN counts as traffic."""
    return stats.msg_throughput_in + stats.msg_throughput_out != 0
