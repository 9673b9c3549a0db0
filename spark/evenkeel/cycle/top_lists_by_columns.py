"""The top lists of many brokers at once, by columns of figures; see `top_lists`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, pairwise

import numpy as np
import numpy.typing as npt

from evenkeel.cycle.busyness import THROUGHPUT_STEP, Busyness, busyness, but_weight, partial_order
from evenkeel.cycle.reported_bundles import StatsOfBroker
from evenkeel.cycle.top_list_filter import TopListFilter
from evenkeel.model.load import TopBundle

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
        """Return the busiest bundles of each broker, lightest first; and the brokers without a list.

        For those only Pulsar's partial sort gives the list.
        """
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
