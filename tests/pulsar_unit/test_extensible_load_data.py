"""Restates the tests of a broker's load data and of its top list of bundles, extensible manager (Pulsar 4.2.4)."""

import random
from collections.abc import Mapping

import pytest

from benchmarks._java_random import JavaRandom
from devtools.conformance.load import plain_maximum, plain_maximum_extensible
from evenkeel.cycle.top_lists import busyness, top_bundles
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.load import BrokerLoadData, BrokerReport, BundleStats, IsolationPolicy, Policies
from evenkeel.model.usage import ExtensibleAverages, percent, weighted_maximum
from tests.pulsar_unit.given import FULL, published, report, settings, stats, usage
from tests.pulsar_unit.mirror import mirrors

DATA = "extensions.data.BrokerLoadDataTest"
HALF_WEIGHTS = settings(
    loadBalancerCPUResourceWeight=0.5,
    loadBalancerMemoryResourceWeight=0.5,
    loadBalancerDirectMemoryResourceWeight=0.5,
    loadBalancerBandwidthInResourceWeight=0.5,
    loadBalancerBandwidthOutResourceWeight=0.5,
    loadBalancerHistoryResourcePercentage=0.75,
)


def reported(cpu: float, memory: float, flow_in: float, flow_out: float) -> BrokerReport:
    return report(
        "broker-1:8080",
        cpu=usage(cpu, 100),
        memory=usage(memory, 200),
        direct_memory=usage(2, 100),
        bandwidth_in=usage(3, 100),
        bandwidth_out=usage(4, 100),
        msg_throughput_in=flow_in,
        msg_throughput_out=flow_out,
    )


@mirrors(DATA, "testUpdateBySystemResourceUsage")
def test_averages_of_load_data() -> None:
    first = reported(1, 800, 1.0, 2.0)
    moved = ExtensibleAverages().updated(first, HALF_WEIGHTS)
    assert plain_maximum_extensible(first) == 0.04
    assert moved.weighted_maximum == 2.0
    assert moved.msg_throughput == 3.0
    second = reported(300, 200, 5.0, 6.0)
    moved = moved.updated(second, HALF_WEIGHTS)
    assert plain_maximum_extensible(second) == 3.0
    assert moved.weighted_maximum == 1.875
    assert moved.msg_throughput == 5.0
    shown = [f"{percent(one):.2f}" for one in (second.cpu, second.memory, second.direct_memory)]
    assert shown == ["300.00", "100.00", "2.00"]
    assert BrokerLoadData().weighted_max_ema == ExtensibleAverages().weighted_maximum == 1.0


@mirrors("extensions.reporter.BrokerLoadDataReporterTest", "testGenerate")
def test_what_a_broker_publishes_first() -> None:
    first = reported(1, 800, 1.0, 2.0)
    data = published(ExtensibleAverages().updated(first, settings()), first)
    assert (data.weighted_max_ema, data.msg_throughput_ema, data.throughput) == (0.04, 3.0, 3.0)


LOCAL = "pulsar-common LocalBrokerDataTest"


@mirrors(LOCAL, "testLocalBrokerDataDeserialization")
def test_percent_of_memory() -> None:
    assert percent(usage(614, 1228)) == pytest.approx(614 / 1228 * 100, abs=1e-4)


@mirrors(LOCAL, "testMaxResourceUsage")
def test_highest_usage_leaves_the_heap_out() -> None:
    """The test (before 4.2) also weighs the heap; 4.2.4 has no such weight, so 4 % × 0.5 is the highest."""
    data = reported(1, 800, 0.0, 0.0)
    assert plain_maximum(data) == pytest.approx(0.04, abs=1e-5)
    assert weighted_maximum(data, HALF_WEIGHTS) == pytest.approx(0.02, abs=1e-5)


TOP = "extensions.models.TopKBundlesTest"
B1, B2, B3, B4 = (f"my-tenant/my-namespace{n}/0x00000000_0x0FFFFFFF" for n in (1, 2, 3, 4))
QUIET, LOUD = stats(rate_in=500.0, throughput_out=10.0), stats(rate_in=10_000.0, throughput_out=10.0)
ISOLATED = {
    "policy": IsolationPolicy(
        ("my-tenant/my-namespace1.*",),
        ("prod1-broker[1-3].messaging.use.example.com",),
        ("prod1-broker.*.use.example.com",),
        3,
    )
}
GROUPED = {"my-tenant/my-namespace2": "namespaceAntiAffinityGroup"}


def top(figures: Mapping[str, BundleStats], k: int, policies: Policies | None = None, **values: object) -> list[str]:
    found = top_bundles(figures, k, PoliciesPresent(policies or Policies()), settings(**values))
    return [one.bundle for one in found]


@mirrors(TOP, "testTopBundlesLoadData")
def test_top_three_lightest_first() -> None:
    figures = {
        B1: stats(rate_in=100_000.0, throughput_out=10.0),
        B2: stats(rate_in=500.0, throughput_out=10.0),
        B3: stats(rate_in=10_000.0, throughput_out=10.0),
        B4: stats(rate_in=0.0),
    }
    assert top(figures, 3) == [B2, B3, B1]


@mirrors(TOP, "testSystemNamespace")
def test_top_list_without_pulsars_own_namespace() -> None:
    assert top({"pulsar/system/0x00000000_0x0FFFFFFF": QUIET, B1: LOUD}, 2) == [B1]


@mirrors(TOP, "testSheddingExcludedNamespaces")
def test_top_list_without_excluded_namespaces() -> None:
    excluded = frozenset({"my-tenant/my-namespace2"})
    assert top({B2: stats(rate_in=500.0), B1: LOUD}, 2, loadBalancerSheddingExcludedNamespaces=excluded) == [B1]
    assert top({B2: QUIET, B1: LOUD}, 2, loadBalancerSheddingExcludedNamespaces=excluded) == [B1]


@mirrors(TOP, "testZeroMsgThroughputBundleStats")
def test_top_list_without_idle_bundles() -> None:
    assert top({B1: stats()}, 2) == []


@mirrors(TOP, "testIsolationPolicy")
def test_top_list_without_isolated_namespaces() -> None:
    assert top({B1: QUIET, B2: LOUD}, 2, Policies(isolation=ISOLATED)) == [B2]


@mirrors(TOP, "testAntiAffinityGroupPolicy")
def test_top_list_without_namespaces_in_groups() -> None:
    assert top({B1: QUIET, B2: LOUD}, 2, Policies(groups=GROUPED)) == [B1]


@mirrors(TOP, "testLoadBalancerSheddingBundlesWithPoliciesEnabledConfig")
def test_top_list_with_namespaces_under_policies() -> None:
    policies = Policies(groups=GROUPED, isolation=ISOLATED)
    for switched_on, expected in ((True, [B1, B2]), (False, [])):
        found = top({B1: QUIET, B2: LOUD}, 2, policies, loadBalancerSheddingBundlesWithPoliciesEnabled=switched_on)
        assert found == expected


@mirrors(TOP, "testPartitionSort")
@pytest.mark.parametrize("seed", range(100))
def test_top_list_of_random_figures(seed: int) -> None:
    """Pulsar's test sorts bare numbers; here they are throughputs, a step of Pulsar's comparison apart."""
    chance = random.Random(seed)
    most = chance.randrange(10) + 1
    values = [chance.randrange(most) + 1 for _ in range(most)]
    figures = {f"t/n{i}/{FULL}": stats(throughput_in=100_000.0 * value) for i, value in enumerate(values)}
    k = chance.randrange(most) + 1
    found = [figures[bundle].msg_throughput_in / 100_000.0 for bundle in reversed(top(figures, k))]
    assert found == sorted(values, reverse=True)[:k]


@mirrors(TOP, "testPartitionSortCompareToContractViolationIssue")
def test_top_hundred_of_a_thousand_nearly_equal_bundles() -> None:
    chance = JavaRandom(0)
    figures = {}
    for i in range(1000):
        found = stats(
            throughput_in=300_000.0 * chance.double(),
            throughput_out=7.5e7 - 4.0 * (75_000.0 * chance.double()),
            rate_in=300.0 * chance.double(),
            rate_out=75_000.0 - 300.0 * chance.double(),
            topics=i,
            consumers=i,
            producers=4 * chance.below(375),
            cache_size_bytes=75_000_000 - chance.below(300_000),
        )
        figures[f"t/n{i}/{FULL}"] = found
    chosen = [busyness(figures[bundle]) for bundle in reversed(top(figures, 100))]
    assert chosen == sorted(map(busyness, figures.values()), reverse=True)[:100]


@mirrors("SimpleLoadManagerImplTest", "testNamespaceBundleStats")
def test_every_figure_takes_part_in_the_comparison_of_bundles() -> None:
    less = stats(
        rate_out=10_000.0,
        producers=1,
        consumers=1,
        cache_size_bytes=4,
        rate_in=500.0,
        throughput_in=30.0,
        throughput_out=30.0,
    )
    more = stats(
        rate_out=20_000.0,
        producers=300,
        consumers=300,
        cache_size_bytes=110_000,
        rate_in=5_000.0,
        throughput_in=110_000.0,
        throughput_out=110_000.0,
    )
    assert busyness(less) < busyness(more)
    assert all(a < b for a, b in zip(busyness(less), busyness(more), strict=True))


@mirrors("extensions.reporter.TopBundleLoadDataReporterTest", "testGenerateLoadData")
@pytest.mark.parametrize("k", [2, 1, 0])
def test_top_list_is_empty_without_throughput(k: int) -> None:
    assert top({B1: stats(rate_in=500.0), B2: stats(rate_in=10_000.0)}, k) == top({}, k) == []
