"""Small clusters of the extensible manager, for properties. Figures are few and round, so that ties are met often."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st

from evenkeel.cycle.top_lists import top_bundles
from evenkeel.model.bundles import bundle_name, initial_boundaries, ranges_of
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.load import BrokerLoadData, BrokerReport, BundleStats, ExtensibleLoad, IsolationPolicy, Policies
from evenkeel.place.extensible_placement import ExtensiblePlacementRound
from evenkeel.settings import Settings
from evenkeel.shed.schedule import TransferRound, run_transfers
from evenkeel.shed.strategies.transfer_shedder import TransferState

T = TypeVar("T")

NOW = 1_700_000_000_000
MIB = 1_048_576.0
MANAGER = "ExtensibleLoadManagerImpl"


@dataclass(frozen=True)
class ExtensibleCluster:
    """A cluster as the leader sees it; `ownerless` are bundles that no broker owns."""

    load: ExtensibleLoad
    owners: Mapping[str, tuple[str, ...]]
    ownerless: tuple[str, ...]
    policies: Policies
    state: TransferState
    settings: Settings

    def transfers(self) -> TransferRound:
        """A round of shedding, long after the last one."""
        return run_transfers(
            self.load, self.state, self.policies, self.owners, self.settings, now=NOW, last_shed_at=None
        )

    def placing(self) -> ExtensiblePlacementRound:
        """A round of placing."""
        return ExtensiblePlacementRound(self.load, self.policies, self.owners, self.settings)


@st.composite
def extensible_clusters(draw: st.DrawFn, *, lopsided: bool = False) -> ExtensibleCluster:
    """Clusters of any kind. Where they are lopsided, the first broker is the busiest, has half of the bundles, and a
    round of shedding is due."""
    brokers = [f"b{i}.eu:8080" for i in range(1, draw(st.sampled_from([3, 4, 2, 6])) + 1)]
    bundles = [
        bundle_name(f"t/n{i}", found)
        for i in range(3)
        for found in ranges_of(initial_boundaries(draw(st.integers(3 if lopsided else 1, 6))))
    ]
    choices = [*brokers[:1] * len(brokers), *brokers, None, None] if lopsided else [*brokers, None]
    owner = {bundle: draw(st.sampled_from(choices)) for bundle in bundles}
    figures = {bundle: _stats(draw) for bundle in bundles}
    settings, policies = _settings(draw), _policies(draw)
    if lopsided:
        policies = draw(st.sampled_from([Policies(), policies]))
        target, most = draw(st.sampled_from([0.0, 0.1, 0.25])), draw(st.sampled_from([3, 1]))
        settings = settings.with_values(
            {"loadBalancerBrokerLoadTargetStd": target, "loadBalancerMaxNumberOfBrokerSheddingPerCycle": most}
        )
    owners = {b: tuple(bundle for bundle in bundles if owner[bundle] == b) for b in brokers}
    present = PoliciesPresent(policies)
    tops = {b: top_bundles({x: figures[x] for x in owned}, 10, present, settings) for b, owned in owners.items()}
    loads = {
        b: _load(draw, [figures[x] for x in owners[b]]) for b in brokers if lopsided or draw(st.integers(0, 19)) > 0
    }
    if lopsided:
        usages = {b: 0.95 if b == brokers[0] else draw(st.sampled_from([0.1, 0.2, 0.5])) for b in brokers}
        due = {"updated_at": NOW - 1_000, "topics": 10}
        loads = {b: replace(one, weighted_max_ema=usages[b], **due) for b, one in loads.items()}
    load = ExtensibleLoad(
        brokers={broker: _registered(draw, broker, most_alike=lopsided) for broker in brokers},
        loads=loads,
        top_bundles=tops,
        not_owned=frozenset(b for b in bundles if draw(st.integers(0, 9)) == 9),
        recently_unloaded={b: NOW - 60_000 for b in bundles if draw(st.integers(0, 5)) == 5},
        wished=frozenset(b for b in bundles if draw(st.integers(0, 9)) == 9),
    )
    cooling = {b: NOW - draw(st.sampled_from([600_000, 60_000])) for b in brokers if draw(st.integers(0, 19)) == 0}
    ownerless = tuple(bundle for bundle in bundles if owner[bundle] is None)
    state = TransferState(draw(st.integers(2 if lopsided else 0, 5)), {} if lopsided else cooling)
    return ExtensibleCluster(load, owners, ownerless, policies, state, settings)


def shuffled(data: st.DataObject, cluster: ExtensibleCluster) -> ExtensibleCluster:
    """The same cluster with every map in another order."""

    def mix(mapping: Mapping[str, T]) -> dict[str, T]:
        return {name: mapping[name] for name in data.draw(st.permutations(sorted(mapping)))}

    load = cluster.load
    return replace(
        cluster,
        load=replace(
            load,
            brokers=mix(load.brokers),
            loads=mix(load.loads),
            top_bundles=mix(load.top_bundles),
            recently_unloaded=mix(load.recently_unloaded),
        ),
        owners={b: tuple(data.draw(st.permutations(owned))) for b, owned in mix(cluster.owners).items()},
        ownerless=tuple(data.draw(st.permutations(cluster.ownerless))),
        policies=replace(cluster.policies, groups=mix(cluster.policies.groups)),
    )


def _stats(draw: st.DrawFn) -> BundleStats:
    throughput = draw(st.sampled_from([1.0, 5.0, 5.0, 20.0, 0.0])) * MIB
    return BundleStats(topics=draw(st.sampled_from([1, 600])), msg_throughput_in=throughput, msg_rate_in=100.0)


def _load(draw: st.DrawFn, owned: list[BundleStats]) -> BrokerLoadData:
    throughput = sum(stats.msg_throughput_in for stats in owned)
    return BrokerLoadData(
        weighted_max_ema=draw(st.sampled_from([0.9, 0.1, 0.5, 0.0, 0.95, 0.2])),
        msg_throughput_ema=throughput * draw(st.sampled_from([1.0, 0.1])),
        msg_throughput_in=throughput,
        topics=draw(st.sampled_from([10, 10, 10, 49_999, 50_000])),
        updated_at=NOW - draw(st.sampled_from([1_000, 1_000, 1_000, 2_000_000])),
    )


def _registered(draw: st.DrawFn, broker: str, *, most_alike: bool) -> BrokerReport:
    others = 30 if most_alike else 9
    return BrokerReport(
        broker,
        version=draw(st.sampled_from([*["4.2.4"] * (others // 3), "4.2.3", None])),
        load_manager=draw(st.sampled_from([MANAGER] * others + ["ModularLoadManagerImpl"])),
    )


def _policies(draw: st.DrawFn) -> Policies:
    groups = {f"t/n{i}": "g" for i in range(3) if draw(st.integers(0, 3)) == 0}
    isolation = {}
    if draw(st.integers(0, 3)) == 0:
        isolation["p"] = IsolationPolicy(("t/n0",), ("b1.*", "b2.*"), ("b3.*",), draw(st.integers(1, 3)))
    return Policies(groups=groups, isolation=isolation)


def _settings(draw: st.DrawFn) -> Settings:
    return Settings().with_values(
        {
            "loadManagerClassName": MANAGER,
            "loadBalancerTransferEnabled": draw(st.sampled_from([True, True, False])),
            "loadBalancerDebugModeEnabled": draw(st.booleans()),
            "loadBalancerBrokerLoadTargetStd": draw(st.sampled_from([0.25, 0.0, 0.1])),
            "loadBalancerSheddingConditionHitCountThreshold": draw(st.sampled_from([0, 0, 3])),
            "loadBalancerMaxNumberOfBrokerSheddingPerCycle": draw(st.sampled_from([3, 1, 0])),
            "loadBalancerSheddingBundlesWithPoliciesEnabled": draw(st.booleans()),
            "loadBalancerSheddingExcludedNamespaces": draw(st.sampled_from([frozenset(), frozenset(["t/n1"])])),
            "preferLaterVersions": draw(st.sampled_from([False, False, True])),
        }
    )


__all__ = ["MANAGER", "MIB", "NOW", "ExtensibleCluster", "extensible_clusters", "shuffled"]
