"""The busiest bundles of each broker, as the extensible manager publishes them for shedding.

Pulsar: TopKBundles.update, NamespaceBundleStats.compareTo. Keys: loadBalancerMaxNumberOfBundlesInBundleLoadReport (K),
loadBalancerSheddingExcludedNamespaces, loadBalancerSheddingBundlesWithPoliciesEnabled. Figures are compared rounded, so
bundles are often equally busy. Which of them make the list then follows from how Pulsar partitions; bundles come in
name order. Most brokers have far more bundles than are listed: what cannot be is left out by its weightiest figure. The
bundles of a large cluster are looked through together, by columns (`top_lists_by_columns`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from heapq import nlargest
from itertools import compress, pairwise
from operator import itemgetter

from evenkeel.errors import BadInput
from evenkeel.filters.isolation import PoliciesPresent
from evenkeel.model.bundles import are_in_two_parts
from evenkeel.model.load import BundleStats, TopBundle
from evenkeel.rounds.busyness import EXACT, THROUGHPUT_STEP, busyness, partial_order, weight
from evenkeel.rounds.reported_bundles import StatsOfBroker
from evenkeel.rounds.top_list_filter import TopListFilter
from evenkeel.settings import Settings

_FEW = 40
_THROUGHPUT_IN = itemgetter(BundleStats._fields.index("msg_throughput_in"))
MOST_LISTED_KEY = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"

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
    found = _by_columns(stats, k, eligible) if k > 0 else {}
    return {
        broker: _top_list(own, k, eligible) if (listed := found.get(broker)) is None else listed
        for broker, own in stats.items()
    }


def _by_columns(
    stats: Mapping[str, Mapping[str, BundleStats]], k: int, eligible: TopListFilter
) -> dict[str, tuple[TopBundle, ...] | None]:
    """The lists of the brokers whose figures are there as columns; None of a broker for which columns do not do."""
    many = {
        broker: (own, own.throughputs)
        for broker, own in stats.items()
        if own and isinstance(own, StatsOfBroker) and own.are_in_two_parts and own.throughputs is not None
    }
    if not many:
        return {}
    from evenkeel.rounds.top_lists_by_columns import TopListsByColumns

    together, throughputs = zip(*many.values(), strict=True)
    return dict(zip(many, TopListsByColumns(together, k, eligible).lists(throughputs), strict=True))


def _top_list(stats: Mapping[str, BundleStats], k: int, eligible: TopListFilter) -> tuple[TopBundle, ...]:
    # Where the busiest of all bundles may be listed, nothing need be known of the others but that they are named well.
    if k > 0 and are_in_two_parts(stats):
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


def _has_traffic(stats: BundleStats) -> bool:
    """Not-a-number is traffic."""
    return stats.msg_throughput_in + stats.msg_throughput_out != 0


def _as_list(busiest: Sequence[Bundle]) -> tuple[TopBundle, ...]:
    return tuple([TopBundle(bundle, one) for bundle, one in reversed(busiest)])


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
    least, weights = float(first[:k][-1]), [*map(weight, first)]
    shared = {one for one, lighter in pairwise(weights) if one == lighter}
    if not shared:
        near = compress(stats.items(), map(least.__le__, figures))
        return sorted(near, key=lambda bundle: bundle[1].msg_throughput_in, reverse=True)
    if not -EXACT < least <= first[0] < EXACT:
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
    stats = [one for _, one in bundles]
    weights = [weight(one.msg_throughput_in) for one in stats]
    return [bundles[place] for place in partial_order(weights, lambda place: busyness(stats[place]), k)]
