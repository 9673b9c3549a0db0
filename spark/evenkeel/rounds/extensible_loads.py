"""The load of a cluster as the extensible manager's leader sees it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from evenkeel.errors import BadInput, BadName
from evenkeel.filters.isolation import PoliciesPresent
from evenkeel.model.bundles import namespace_of
from evenkeel.model.load import BrokerLoadData, BrokerReport, BundleStats, ExtensibleLoad, TopBundle, milliseconds
from evenkeel.model.past_commands import recently_unloaded
from evenkeel.model.topics import is_heartbeat_or_sla, is_system
from evenkeel.model.usage import ExtensibleAverages
from evenkeel.rounds import reading, state
from evenkeel.rounds.reading import Row, Rows, acts_before
from evenkeel.settings import Settings

SHEDDER = "TransferShedder"
LOAD_AVERAGE = state.LOAD_AVERAGE
THROUGHPUT_AVERAGE = "msg_throughput_ema"
AVERAGED_AT = "averaged_at"

Remembered = Mapping[str, Mapping[str, float]]
"""Name of what is remembered -> broker (or the cluster) -> value; times are epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything read of one cluster: the load, who owns what, and the averages to be remembered."""

    load: ExtensibleLoad
    owners: Mapping[str, tuple[str, ...]]
    averages: Remembered


def see(rows: Rows, remembered: Remembered, settings: Settings) -> Seen:
    """The load of this cycle. Brokers that cannot be decided on are available and have no load data."""
    reports = reading.broker_reports(rows)
    given = {row["broker"]: row for row in rows["broker_reports"]}
    at = milliseconds(datetime.fromisoformat(reading.the_cycle(rows)["cycle_at"]))
    loads = {broker: _load_data(report, given[broker], at, remembered, settings) for broker, report in reports.items()}
    listed = [
        row["broker"] for row in rows["broker_load"] if given.get(row["broker"], {}).get("is_listed") is not False
    ]
    load = ExtensibleLoad(
        brokers={broker: reports.get(broker, BrokerReport(broker)) for broker in sorted(listed)},
        loads=loads,
        top_bundles=_top_bundles(rows, reports, settings),
        not_owned=frozenset(row["subject"] for row in rows["split_decisions"] if row["outcome"] == "split"),
        recently_unloaded=state.assumed_unloaded(rows.get("state", ()))
        | recently_unloaded(acts_before(reading.the_cycle(rows))),
    )
    silent = {row["broker"] for row in rows["broker_load"]} - loads.keys()
    return Seen(load, _owners(rows), _averages(loads, _of_brokers(silent, remembered)))


def _load_data(report: BrokerReport, row: Row, at: int, remembered: Remembered, settings: Settings) -> BrokerLoadData:
    measured_at = at if row.get("report_at") is None else milliseconds(datetime.fromisoformat(row["report_at"]))
    moved = _advanced(report, measured_at, remembered, settings)
    published, flow = row.get(LOAD_AVERAGE), row.get(THROUGHPUT_AVERAGE)
    return BrokerLoadData(
        weighted_max_ema=moved.weighted_maximum if published is None else published,
        msg_throughput_ema=moved.msg_throughput if flow is None else flow,
        msg_throughput_in=report.msg_throughput_in,
        msg_throughput_out=report.msg_throughput_out,
        topics=report.topics,
        updated_at=measured_at,
    )


def _advanced(report: BrokerReport, measured_at: int, remembered: Remembered, settings: Settings) -> ExtensibleAverages:
    """What the broker's averages will be by now; a broker without remembered ones starts with what it reports."""
    name = report.broker
    before = remembered.get(AVERAGED_AT, {}).get(name)
    past = ExtensibleAverages()
    if before is not None:
        load, flow = remembered[LOAD_AVERAGE][name], remembered[THROUGHPUT_AVERAGE][name]
        past = ExtensibleAverages(load, flow, started=True)
    elapsed_s = (measured_at - (before or 0.0)) / 1_000
    return past.advanced(report, elapsed_s, settings)


def _averages(loads: Mapping[str, BrokerLoadData], waiting: Remembered) -> Remembered:
    return {
        LOAD_AVERAGE: {**waiting[LOAD_AVERAGE], **{b: data.weighted_max_ema for b, data in loads.items()}},
        THROUGHPUT_AVERAGE: {
            **waiting[THROUGHPUT_AVERAGE],
            **{b: data.msg_throughput_ema for b, data in loads.items()},
        },
        AVERAGED_AT: {**waiting[AVERAGED_AT], **{b: float(data.updated_at) for b, data in loads.items()}},
    }


def _of_brokers(brokers: Collection[str], remembered: Remembered) -> Remembered:
    return {
        name: {broker: value for broker, value in remembered.get(name, {}).items() if broker in brokers}
        for name in (LOAD_AVERAGE, THROUGHPUT_AVERAGE, AVERAGED_AT)
    }


def _top_bundles(
    rows: Rows, reports: Mapping[str, BrokerReport], settings: Settings
) -> dict[str, tuple[TopBundle, ...]]:
    """Each broker's list as it would publish it; none at all where K is below 1, on which Pulsar's brokers fail."""
    k = settings.loadBalancerMaxNumberOfBundlesInBundleLoadReport
    if k < 1:
        return {}
    present = PoliciesPresent(reading.policies(rows))
    return {broker: top_bundles(report.stats, k, present, settings) for broker, report in reports.items()}


def _owners(rows: Rows) -> dict[str, tuple[str, ...]]:
    owned: dict[str, list[str]] = {}
    for row in rows["bundle_load"]:
        if row["owner"] is not None:
            owned.setdefault(row["owner"], []).append(row["bundle"])
    return {broker: tuple(sorted(bundles)) for broker, bundles in sorted(owned.items())}


# The busiest bundles of one broker, as the extensible manager publishes them for shedding.
#
# Pulsar: TopKBundles.update, NamespaceBundleStats.compareTo. Keys: loadBalancerMaxNumberOfBundlesInBundleLoadReport
# (K), loadBalancerSheddingExcludedNamespaces, loadBalancerSheddingBundlesWithPoliciesEnabled. Figures are compared
# rounded, so bundles are often equally busy. Which of them make the list then follows from how Pulsar partitions;
# bundles come in name order.

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
    eligible = TopListFilter(present, settings)
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


class TopListFilter:
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
