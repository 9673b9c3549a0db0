"""Small clusters of any kind, for properties. Figures are few and round, so that ties and limits are met often."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st

from evenkeel.model.averages import broker_averages, updated
from evenkeel.model.bundles import bundle_name, initial_boundaries, namespace_of, ranges_of
from evenkeel.model.consideration import Considered
from evenkeel.model.load import BrokerReport, BundleStats, IsolationPolicy, LoadData, Policies, ResourceUsage
from evenkeel.place.strategies import MODULAR
from evenkeel.settings import Settings

T = TypeVar("T")

NOW = 1_700_000_000_000
MIB = 1_048_576.0
SHEDDERS = ["ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder"]

throughputs = st.sampled_from([0.0, 1.0 * MIB, 20.0 * MIB, 20.0 * MIB + 1, 60.0 * MIB])
stats = st.builds(
    BundleStats,
    topics=st.sampled_from([0, 1, 2, 3, 1_000, 1_001]),
    consumers=st.sampled_from([0, 5, 1_001]),
    producers=st.sampled_from([0, 5]),
    msg_rate_in=st.sampled_from([0.0, 10.0, 30_001.0]),
    msg_rate_out=st.sampled_from([0.0, 10.0]),
    msg_throughput_in=throughputs,
    msg_throughput_out=throughputs,
)


@dataclass(frozen=True)
class Cluster:
    """A cluster as the leader sees it; `ownerless` are bundles that no broker reports."""

    load: LoadData
    policies: Policies
    boundaries: Mapping[str, tuple[int, ...]]
    ownerless: tuple[str, ...]
    settings: Settings


@st.composite
def clusters(draw: st.DrawFn, *, lopsided: bool = False) -> Cluster:
    """Clusters of any kind. Where they are lopsided, the first broker is the busiest and has half of the bundles."""
    brokers = [f"b{i}.eu:8080" for i in range(1, draw(st.sampled_from([4, 3, 2, 5, 1][: 4 if lopsided else 5])) + 1)]
    sizes = [8, 5, 6] if lopsided else [3, 5, 4, 2, 1]
    counts = {f"t/n{i}": draw(st.sampled_from(sizes)) for i in range(draw(st.sampled_from([2, 3, 1])))}
    boundaries = {namespace: initial_boundaries(count) for namespace, count in counts.items()}
    bundles = [bundle_name(ns, found) for ns, bounds in boundaries.items() for found in ranges_of(bounds)]
    choices = [*brokers[:1] * len(brokers), *brokers[1:]] if lopsided else [*brokers, None]
    owners = {bundle: draw(st.sampled_from(choices)) for bundle in bundles}
    figures = {bundle: draw(stats) for bundle in bundles}
    histories = {bundle: updated(None, figures[bundle]) for bundle in bundles if draw(st.integers(0, 9)) > 0}
    reports = {
        broker: _report(draw, broker, {b: figures[b] for b, owner in owners.items() if owner == broker})
        for broker in brokers
    }
    if lopsided:
        reports[brokers[0]] = replace(reports[brokers[0]], cpu=ResourceUsage(97.0, 100.0))
    recent = {bundle: NOW - 60_000 for bundle in bundles if draw(st.integers(0, 4)) == 0}
    load = LoadData(
        brokers=reports,
        histories=histories,
        recently_unloaded=recent,
        averages={broker: broker_averages(report.bundles, histories) for broker, report in reports.items()},
    )
    ownerless = tuple(bundle for bundle, owner in owners.items() if owner is None)
    return Cluster(load, _policies(draw, brokers, list(counts)), boundaries, ownerless, _settings(draw))


def shuffled(draw_order: st.DataObject, cluster: Cluster) -> Cluster:
    """The same cluster with every map in another order."""

    def mix(mapping: Mapping[str, T]) -> dict[str, T]:
        return {name: mapping[name] for name in draw_order.draw(st.permutations(sorted(mapping)))}

    load = cluster.load
    reports = {name: replace(report, stats=mix(report.stats)) for name, report in mix(load.brokers).items()}
    return Cluster(
        load=LoadData(
            brokers=reports,
            histories=mix(load.histories),
            recently_unloaded=mix(load.recently_unloaded),
            averages=mix(load.averages),
        ),
        policies=replace(
            cluster.policies, groups=mix(cluster.policies.groups), isolation=mix(cluster.policies.isolation)
        ),
        boundaries=mix(cluster.boundaries),
        ownerless=tuple(draw_order.draw(st.permutations(cluster.ownerless))),
        settings=cluster.settings,
    )


def owner_of(cluster: Cluster, bundle: str) -> str | None:
    return next((name for name, report in cluster.load.brokers.items() if bundle in report.bundles), None)


def _report(draw: st.DrawFn, broker: str, figures: dict[str, BundleStats]) -> BrokerReport:
    return BrokerReport(
        broker=broker,
        cpu=ResourceUsage(draw(st.sampled_from([0.0, 10.0, 30.0, 60.0, 85.0, 95.0])), 100.0),
        bandwidth_in=ResourceUsage(draw(st.sampled_from([0.0, 40.0])), 100.0),
        msg_rate_in=sum(s.msg_rate_in for s in figures.values()),
        msg_rate_out=sum(s.msg_rate_out for s in figures.values()),
        msg_throughput_in=sum(s.msg_throughput_in for s in figures.values()),
        msg_throughput_out=sum(s.msg_throughput_out for s in figures.values()),
        topics=draw(st.sampled_from([10, 50_000, 50_001])),
        bundles=frozenset(figures),
        stats=figures,
        version=draw(st.sampled_from(["4.2.4", "4.2.4", "4.2.3", None])),
        load_manager=draw(st.sampled_from(["ModularLoadManagerImpl"] * 4 + ["ExtensibleLoadManagerImpl"])),
    )


def _policies(draw: st.DrawFn, brokers: list[str], namespaces: list[str]) -> Policies:
    groups = {namespace: "g" for namespace in namespaces if draw(st.booleans())}
    domains = {f"d{i}": tuple(b for n, b in enumerate(brokers) if n % 2 == i) for i in range(2)}
    isolation = {}
    if draw(st.booleans()):
        isolation["p"] = IsolationPolicy(("t/n0",), ("b1.*", "b2.*"), ("b3.*",), draw(st.integers(1, 3)))
    return Policies(groups=groups, domains=domains, isolation=isolation)


def _settings(draw: st.DrawFn) -> Settings:
    return Settings().with_values(
        {
            "failureDomainsEnabled": draw(st.booleans()),
            "preferLaterVersions": draw(st.booleans()),
            "lowerBoundarySheddingEnabled": draw(st.booleans()),
            "loadBalancerDistributeBundlesEvenlyEnabled": draw(st.booleans()),
            "loadBalancerBundleUnloadMinThroughputThreshold": draw(st.sampled_from([0.0, 10.0])),
            "loadBalancerNamespaceMaximumBundles": draw(st.sampled_from([3, 128])),
            "loadBalancerLoadSheddingStrategy": draw(st.sampled_from(SHEDDERS)),
            "loadBalancerLoadPlacementStrategy": draw(st.sampled_from([*MODULAR])),
            "evenkeelPulsarVersion": draw(st.sampled_from(["4.x", "5.0"])),
            "loadBalancerAvgShedderHitCountHighThreshold": draw(st.sampled_from([1, 2])),
            "loadBalancerAvgShedderHitCountLowThreshold": draw(st.sampled_from([1, 8])),
            "maxUnloadPercentage": draw(st.sampled_from([1.0, 0.2])),
            "maxUnloadBundleNumPerShedding": draw(st.sampled_from([-1, 1])),
            "minUnloadMessage": draw(st.sampled_from([0, 1_000, 100_000])),
            "minUnloadMessageThroughput": draw(st.sampled_from([0, 1_048_576])),
            "evenkeelDrainingBrokers": draw(st.sampled_from([frozenset(), frozenset(["b2.eu:8080", "gone:8080"])])),
            "loadBalancerSheddingExcludedNamespaces": draw(st.sampled_from([frozenset(), frozenset(["t/n1"])])),
        }
    )


__all__ = ["NOW", "Cluster", "clusters", "namespace_of", "owner_of", "shuffled", "stats"]


COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "at least": operator.ge,
    "above": operator.gt,
    "at most": operator.le,
    "below": operator.lt,
}


def holds(row: Considered) -> bool:
    """Whether what the rule declares of measured and threshold is so in this verdict."""
    if not row.by.holds or row.measured is None or row.threshold is None:
        return True
    return COMPARISONS[row.by.holds](row.measured, row.threshold)
