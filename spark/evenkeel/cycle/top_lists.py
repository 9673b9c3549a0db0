"""The busiest bundles of each broker, as the extensible manager publishes them for shedding.

Pulsar: TopKBundles.update, TopKBundles.partitionSort, NamespaceBundleStats.compareTo. Keys:
loadBalancerMaxNumberOfBundlesInBundleLoadReport (K), loadBalancerSheddingExcludedNamespaces,
loadBalancerSheddingBundlesWithPoliciesEnabled. Figures are compared rounded, so bundles are often equally busy. Which
of them make the list then follows from how Pulsar partitions; bundles come in name order. The bundles of a large
cluster are looked through together, by columns (`TopListsByColumns`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import compress, pairwise
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from evenkeel.cycle.reported_bundles import StatsOfBroker
from evenkeel.errors import BadInput, BadName
from evenkeel.model.bundles import namespace_of
from evenkeel.model.filters.isolation import PoliciesPresent
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

Busyness = tuple[int, int, int, int, int]


def busyness(stats: BundleStats) -> Busyness:
    """Return the figures that order bundles, most weighty first: rounded throughput in, out, rate, counts, cache."""
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
        order[:end], key=lambda at: (weights[at],) if counted[weights[at]] == 1 else exactly(at), reverse=True
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


class TopListFilter:
    """Filter of the bundles that may be in a top list; answers about namespaces are cached."""

    def __init__(self, present: PoliciesPresent, settings: Settings) -> None:
        self._present = present
        self._settings = settings
        self._answers: dict[str, bool] = {}

    def lists(self, bundle: str) -> bool:
        """Return True if bundles of the bundle's namespace may be shed; raises `BadName` if it is not two parts."""
        answer = self._answers.get(namespace := bundle.rpartition("/")[0])
        if answer is None:
            answer = self._answers[namespace] = self._may_be_shed(namespace_of(bundle))
        return answer

    def lists_all(self, bundles: Iterable[str]) -> bool:
        """Return True if all bundles are of such namespaces."""
        namespaces = {bundle.rpartition("/")[0]: bundle for bundle in bundles}
        # Most often all answers are known.
        return all(map(self._answers.get, namespaces)) or all(map(self.lists, namespaces.values()))

    def _may_be_shed(self, namespace: str) -> bool:
        if is_system(namespace) or is_heartbeat_or_sla(namespace, three_part=self._settings.is_before("4.x")):
            return False
        if namespace.count("/") != 1:
            raise BadName(f"namespace {namespace!r} is not tenant/namespace: Pulsar 4.2 knows no other form")
        if namespace in self._settings.loadBalancerSheddingExcludedNamespaces:
            return False
        return self._settings.loadBalancerSheddingBundlesWithPoliciesEnabled or self._present.policy(namespace) is None


_Floats = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.int64]
_EXACT = 1e15
"""Rate in byte/s up to which doubles tell single bytes apart."""
_MOST_SHORT = 1 << 16
"""Most brokers that are numbered with 16 bits, which sort faster."""


class TopListsByColumns:
    """The bundles of some brokers, all of namespaces of two parts, processed together.

    A bundle is known by its place among the bundles of all brokers, later by its place among those of its broker; a
    broker by its place among the brokers.
    """

    def __init__(self, stats: Sequence[StatsOfBroker], k: int, eligible: TopListFilter) -> None:
        self._stats, self._k, self._eligible = stats, k, eligible
        counts = [len(broker_stats) for broker_stats in stats]
        self._offsets = np.cumsum([0, *counts])
        numbered = np.arange(len(counts), dtype=np.uint16 if len(counts) <= _MOST_SHORT else np.int64)
        self._brokers: npt.NDArray[np.integer] = np.repeat(numbered, counts)

    def lists(self, throughputs: Sequence[tuple[_Floats, _Floats]]) -> list[tuple[TopBundle, ...] | None]:
        """Return the list of every broker; None for a broker with figures that columns cannot handle.

        `throughputs`: of every broker's bundles, in and out, byte/s.
        """
        flow_in, flow_out = (np.concatenate(flows) for flows in zip(*throughputs, strict=True))
        with np.errstate(invalid="ignore", over="ignore"):
            is_odd = ~((np.abs(flow_in) < _EXACT) & (np.abs(flow_out) < _EXACT))
            has_traffic = flow_in + flow_out != 0
            weights = _weights(flow_in)
        odd = {*np.unique(self._brokers[is_odd]).tolist()}
        listed_places, unsettled = self._busiest(has_traffic, weights)
        listed = [*map(_listed, self._stats, listed_places)]
        refused = self._refused(listed)
        if refused:
            may_be_listed = has_traffic & np.isin(self._brokers, [*refused])
            for place in refused:
                may_be_listed[self._of(place)] &= [*map(self._eligible.lists, self._stats[place])]
            listed_places, still_unsettled = self._busiest(may_be_listed, weights)
            unsettled = (unsettled - refused) | still_unsettled
            for place in refused - unsettled:
                listed[place] = _listed(self._stats[place], listed_places[place])
        for place in unsettled - odd:
            broker_stats = self._stats[place]
            with_traffic = compress(range(len(broker_stats)), has_traffic[self._of(place)].tolist())
            numbers = self._partially_sorted(broker_stats, with_traffic, weights[self._of(place)].tolist())
            listed[place] = _listed(broker_stats, numbers)
        return [None if place in odd else top_list for place, top_list in enumerate(listed)]

    def _of(self, place: int) -> slice:
        """Return the places of a broker's bundles among all bundles."""
        return slice(*self._offsets[place : place + 2].tolist())

    def _busiest(self, may_be_listed: _Flags, weights: _Floats) -> tuple[list[list[int]], set[int]]:
        """Return each broker's busiest bundles, lightest first, and the brokers that need Pulsar's partial sort."""
        k = self._k
        ranked, begins, ends = self._ranked(self._near(may_be_listed, weights), weights)
        owners, heavy = self._brokers[ranked], weights[ranked]
        lasts = np.minimum(begins + k, ends)
        # Bundles as heavy as the next one are told apart by their other figures, down to the first that is not listed.
        alike = (heavy[1:] == heavy[:-1]) & (owners[1:] == owners[:-1])
        breaks = np.append(np.flatnonzero(~alike), len(alike))
        firsts = np.flatnonzero(alike)
        firsts = firsts[firsts < begins[owners[firsts]] + k]
        stops = breaks[np.searchsorted(breaks, firsts)] + 1
        places = owners[firsts]
        groups = zip(*(column.tolist() for column in (firsts, stops, places, lasts[places])), strict=True)
        numbers: list[int] = (ranked - self._offsets[owners]).tolist()
        unsettled: set[int] = set()
        done = 0
        for first, stop, place, last in groups:
            if first < done or place in unsettled:
                continue
            done, group = stop, numbers[first:stop]
            figures = [but_weight(column) for _, column in self._stats[place].listed(group)]
            exact = sorted(zip(figures, group, strict=True), reverse=True)
            if any(column[0] == lighter[0] for column, lighter in pairwise(exact[: last - first + 1])):
                unsettled.add(place)
            else:
                numbers[first:stop] = [number for _, number in exact]
        spans = zip(begins.tolist(), lasts.tolist(), strict=True)
        return [
            [] if place in unsettled else numbers[begin:last][::-1] for place, (begin, last) in enumerate(spans)
        ], unsettled

    def _near(self, may_be_listed: _Flags, weights: _Floats) -> _Numbers:
        """Return every bundle that may be among the first of its broker or as heavy as one of them, and few others."""
        # In groups of four bundles: if one more group than bundles are listed has a bundle of some weight, lighter ones
        # are not among the first.
        heavy = np.where(may_be_listed, weights, -np.inf)
        fours = np.flatnonzero((np.arange(len(weights)) - self._offsets[self._brokers]) & 3 == 0)
        heaviest = np.maximum.reduceat(heavy, fours)
        ranked, begins, ends = self._ranked(np.arange(len(fours)), heaviest, self._brokers[fours])
        lasts = begins + self._k
        are_enough = lasts < ends
        least = np.full(len(begins), -np.inf)
        least[are_enough] = heaviest[ranked[lasts[are_enough]]]
        return np.flatnonzero((heavy >= least[self._brokers]) & may_be_listed)

    def _ranked(
        self, numbers: _Numbers, weights: _Floats, brokers: npt.NDArray[np.integer] | None = None
    ) -> tuple[_Numbers, _Numbers, _Numbers]:
        """Return these by broker, the heaviest of a broker first, and the start and end of each broker's."""
        brokers = self._brokers if brokers is None else brokers
        ranked = numbers[np.argsort(-weights[numbers])]
        ranked = ranked[np.argsort(brokers[ranked], kind="stable")]
        ends = np.searchsorted(brokers[ranked], np.arange(len(self._stats)), side="right")
        return ranked, np.concatenate(([0], ends[:-1])), ends

    def _refused(self, listed: Sequence[Sequence[TopBundle]]) -> set[int]:
        """Return the brokers with a bundle in these lists that may not be shed."""
        lists_all = self._eligible.lists_all
        if lists_all(bundle for numbers_of_list in listed for bundle, _ in numbers_of_list):
            return set()
        return {
            place
            for place, numbers_of_list in enumerate(listed)
            if not lists_all(bundle for bundle, _ in numbers_of_list)
        }

    def _partially_sorted(
        self, broker_stats: StatsOfBroker, with_traffic: Iterable[int], weights: Sequence[float]
    ) -> list[int]:
        """Return the bundles of one broker's list by Pulsar's partial sort, lightest first."""
        names, lists = broker_stats.names(), self._eligible.lists
        numbers = sorted(with_traffic, key=names.__getitem__)
        if not self._eligible.lists_all(names):
            numbers = [number for number in numbers if lists(names[number])]

        def exactly(at: int) -> Busyness:
            [(_, stats)] = broker_stats.listed([numbers[at]])
            return busyness(stats)

        order = partial_order([weights[number] for number in numbers], exactly, self._k)
        return [numbers[at] for at in reversed(order)]


def _listed(broker_stats: StatsOfBroker, numbers: Sequence[int]) -> tuple[TopBundle, ...]:
    return tuple(broker_stats.listed(numbers))


def _weights(flow_in: _Floats) -> _Floats:
    """Return the `weight` of each throughput; exact for those below `_EXACT`."""
    steps = flow_in / THROUGHPUT_STEP
    below = np.floor(steps)
    rounded_steps: _Floats = below + (steps - below >= 0.5)
    return rounded_steps


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

    Left out: bundles without traffic (from Pulsar 3.3 on), of Pulsar's own namespaces, of excluded namespaces, and of
    namespaces under a policy. Raises `BadInput` for a `k` below 1 and two bundles or more, `BadName` for a namespace
    that is not two parts.
    """
    eligible = TopListFilter(present, settings)
    idle = settings.is_before("3.3")
    lists = _by_columns(stats, k, eligible) if k > 0 and not idle else {}
    return {
        broker: _top_list(broker_stats, k, eligible, idle) if (listed := lists.get(broker)) is None else listed
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

    together, throughputs = zip(*many.values(), strict=True)
    return dict(zip(many, TopListsByColumns(together, k, eligible).lists(throughputs), strict=True))


def _top_list(stats: Mapping[str, BundleStats], k: int, eligible: TopListFilter, idle: bool) -> tuple[TopBundle, ...]:
    by_name = sorted(stats.items(), key=itemgetter(0))
    bundles = [
        TopBundle(bundle, each)
        for bundle, each in by_name
        if (idle or each.msg_throughput_in + each.msg_throughput_out != 0)
        and eligible.lists(bundle)  # NaN counts as traffic
    ]
    if k < 1:
        if len(bundles) > 1:  # Pulsar's sort fails on such a K, if not with all orders of the bundles
            raise BadInput(f"no top list of {k} bundles: set {MOST_LISTED_KEY} to 1 or more")
        return ()
    weights = [weight(each.stats.msg_throughput_in) for each in bundles]
    busiest = partial_order(weights, lambda place: busyness(bundles[place].stats), k)
    return tuple([bundles[place] for place in reversed(busiest)])
