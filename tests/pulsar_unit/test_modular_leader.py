"""Restates what the modular manager's tests state about the leader's round, splits and policies (Pulsar 4.2.4).

Those tests start brokers. Restated is what the leader decides from the figures that they set.
"""

from dataclasses import dataclass, field

import pytest

from devtools.conformance.leader_round import histories_after_splits
from evenkeel.model.averages import broker_averages, history_of_quota, update_histories
from evenkeel.model.bundles import bundle_name, bundle_of, initial_boundaries, range_of, ranges_of, topic_hash
from evenkeel.model.filters.broker_filters import unload_gates
from evenkeel.model.filters.isolation import Isolation
from evenkeel.model.load import BrokerReport, BundleHistory, IsolationPolicy, LoadData, Policies
from evenkeel.model.split_algorithms.split_option import NO_TOPICS
from evenkeel.place.modular_placement import PlacementRound, in_pulsars_order
from evenkeel.plan_splits.rules.apply_splits import carry_out
from evenkeel.plan_splits.rules.bundle_splitter_task import decide_splits, find_bundles_to_split
from evenkeel.settings import Settings
from evenkeel.shed.schedule import run_shedding
from tests.pulsar_unit.given import FULL, MIB, history, load_of, report, settings, stats, usage
from tests.pulsar_unit.mirror import mirrors

IMPL = "impl.ModularLoadManagerImplTest"
PRIMARY, SECONDARY = "localhost:8080", "localhost:8081"
OVERLOAD = settings(loadBalancerLoadSheddingStrategy="OverloadShedder")
FIRST, SECOND = f"1/1/{FULL}", f"2/2/{FULL}"


@mirrors(IMPL, "testCandidateConsistency")
def test_bundles_are_spread_and_all_go_to_the_last_broker_up() -> None:
    """Pulsar has this test disabled."""
    both = load_of(report(PRIMARY), report(SECONDARY))
    placing = PlacementRound(both, Policies(), OVERLOAD)
    assert {placing.assign(f"{i}/{i}/{FULL}").destination for i in range(2)} == {PRIMARY, SECONDARY}
    alone = PlacementRound(load_of(report(PRIMARY)), Policies(), OVERLOAD)
    assert {alone.assign(f"{i}/{i}/{FULL}").destination for i in range(2, 7)} == {PRIMARY}


def bundles_in(namespace: str, count: int = 16) -> list[str]:
    """The names of the bundles of a namespace created with so many."""
    return [bundle_name(namespace, found) for found in ranges_of(initial_boundaries(count))]


@mirrors(IMPL, "testEvenBundleDistribution")
def test_bundles_of_a_namespace_are_spread_evenly_although_one_is_busy() -> None:
    """Pulsar has this test disabled."""
    names = bundles_in("test/test")
    load = load_of(report(PRIMARY), report(SECONDARY), histories={names[0]: history(rate_in=1000.0)})
    placing = PlacementRound(load, Policies(), OVERLOAD)
    given = [placing.assign(name).destination for name in names]
    for n in range(2, 17, 2):
        assert given[:n].count(PRIMARY) == given[:n].count(SECONDARY) == n // 2


@mirrors(IMPL, "testMaxTopicDistributionToBroker")
def test_a_broker_with_too_many_topics_gets_no_more_bundles() -> None:
    """Pulsar's test compares an Optional with a String and always passes; its intent is tested here."""
    names = bundles_in("test/test", 50)
    many = OVERLOAD.loadBalancerBrokerMaxTopics + 10
    load = load_of(report(PRIMARY), report(SECONDARY), histories={names[0]: history(topics=many, rate_in=1000.0)})
    placing = PlacementRound(load, Policies(), OVERLOAD)
    full = placing.assign(names[0]).destination
    assert full is not None
    for name in names[1:]:
        assert placing.assign(name).destination not in (None, full)


@dataclass
class Leader:
    """A leader over an idle broker and a busy one, which has bundles of 100 and 200 msg/s without throughput."""

    cpu: float = 0.0
    recently_unloaded: dict[str, int] = field(default_factory=dict)
    now: int = 1_700_000_000_000
    policies: Policies = field(default_factory=Policies)

    def shed(self) -> dict[str, str | None]:
        """One round, a minute after the last: unloaded bundle -> destination."""
        self.now += 60_000
        figures = {FIRST: stats(rate_in=100.0), SECOND: stats(rate_in=200.0)}
        brokers = {
            PRIMARY: report(PRIMARY, figures, cpu=usage(self.cpu, 100), stats=figures, msg_rate_in=300.0),
            SECONDARY: report(SECONDARY),
        }
        histories = update_histories({}, brokers)
        load = LoadData(
            brokers,
            histories,
            self.recently_unloaded,
            averages={name: broker_averages(one.stats, histories) for name, one in brokers.items()},
        )
        placing = PlacementRound(load, self.policies, OVERLOAD)
        done = run_shedding(
            load, {}, unload_gates(load, self.policies, OVERLOAD), OVERLOAD, now=self.now, last_shed_at=None
        )
        made: dict[str, str | None] = {}
        for bundle, broker in in_pulsars_order(done.unloads):
            destination = placing.place_shed(bundle, broker).destination
            if destination not in (None, broker):
                made[bundle] = destination
                self.recently_unloaded[bundle] = self.now
        return made


@mirrors(
    IMPL,
    "testLoadShedding",
    differs="order of Pulsar's hash map: both bundles have no throughput, and its test expects 2/2 to go first, which "
    "its HashMap lists first; Evenkeel takes equal bundles by name, so 1/1 goes first",
)
def test_an_overloaded_broker_sheds_one_bundle_per_round_and_equal_ones_by_name() -> None:
    leader = Leader(cpu=80.0)
    assert leader.shed() == {}
    leader.cpu = 90.0
    assert leader.shed() == {FIRST: SECONDARY}
    assert leader.shed() == {SECOND: SECONDARY}
    assert leader.shed() == {}
    for _ in range(2):
        leader.recently_unloaded.clear()
        assert leader.shed() == {FIRST: SECONDARY}


@mirrors(IMPL, "testUnloadBundleMetric")
def test_the_number_of_bundles_unloaded_per_round() -> None:
    leader = Leader(cpu=90.0)
    assert [len(leader.shed()) for _ in range(3)] == [1, 1, 0]
    leader.recently_unloaded.clear()
    leader.policies = Policies(isolation={"nobody": IsolationPolicy((".*",), ("no-such-host",))})
    assert leader.shed() == {}, "without a destination nothing is unloaded"


def policy(namespaces: str, primary: str, secondary: str, least: int) -> Policies:
    return Policies(
        isolation={"my-ns-isolation-policies": IsolationPolicy((namespaces,), (primary,), (secondary,), least)}
    )


@mirrors(IMPL, "testNamespaceIsolationPoliciesForPrimaryAndSecondaryBrokers")
@pytest.mark.parametrize(
    ("least", "available", "expected"),
    [
        (1, ["broker3:8080", "localhost0:8080", "localhost1:8080"], {"localhost0:8080"}),
        (1, ["broker3:8080", "localhost1:8080"], {"localhost1:8080"}),
        (1, ["broker3:8080"], set()),
        (2, ["broker3:8080", "localhost0:8080", "localhost1:8080"], {"localhost0:8080", "localhost1:8080"}),
        (2, ["broker3:8080", "localhost1:8080"], {"localhost1:8080"}),
        (2, ["broker3:8080"], set()),
    ],
)
def test_secondary_brokers_are_candidates_below_the_minimum_of_primary_ones(
    least: int, available: list[str], expected: set[str]
) -> None:
    policies = policy("my-property/my-ns.*", "localhost0", "localhost1", least)
    brokers = {name: report(name) for name in available}
    found = Isolation(policies, brokers, settings()).allowed(f"my-property/my-ns/{FULL}")
    assert set(found.brokers) == expected


@mirrors(IMPL, "testLoadSheddingWithNamespaceIsolationPolicies")
def test_policies_decide_whether_a_bundle_may_leave() -> None:
    bundle = f"my-tenant/my-ns/{FULL}"
    load = load_of(report(PRIMARY, [bundle]), report(SECONDARY))

    def may_leave(policies: Policies, broker: str) -> bool:
        return unload_gates(load, policies, settings()).refusal(bundle, broker) != "no_other_broker_allowed"

    assert may_leave(Policies(), PRIMARY)
    assert not may_leave(policy("my-tenant/my-ns.*", "localhost1", "localhost1", 1), "localhost1:8080")
    assert may_leave(policy("my-tenant/my-ns.*", "localhost", "localhost", 1), PRIMARY)


def split_off(namespace: str, count: int, topic: str) -> tuple[str, dict[str, BundleHistory], dict[str, BundleHistory]]:
    """Splits the bundle of a topic: its name, and the averages of all bundles after that round and a round later."""
    bounds = {namespace: initial_boundaries(count)}
    parent = bundle_name(namespace, bundle_of(bounds[namespace], topic_hash(topic)))
    figures = {name: stats(topics=1001 if name == parent else 1) for name in bundles_in(namespace, count)}
    brokers = {PRIMARY: report(PRIMARY, figures, stats=figures), SECONDARY: report(SECONDARY)}
    before = update_histories({}, brokers)
    assert parent in before
    plan = decide_splits(brokers, before, {namespace: count}, settings())
    assert list(plan.splits) == [parent]
    after = histories_after_splits(before, plan, bounds)
    children = {name: stats(topics=5) for name in bundles_in(namespace, count) if name != parent}
    later = update_histories(after, {PRIMARY: report(PRIMARY, children, stats=children), SECONDARY: report(SECONDARY)})
    return parent, after, later


@pytest.mark.parametrize(
    ("namespace", "count", "topic"),
    [
        pytest.param(
            "my-tenant/remove-non-exist-bundle-data-ns",
            8,
            "persistent://my-tenant/remove-non-exist-bundle-data-ns/topic0",
            marks=mirrors(IMPL, "testRemoveNonExistBundleData"),
        ),
        pytest.param(
            "my-tenant/repeat-split-bundle",
            8,
            "persistent://my-tenant/repeat-split-bundle/topic0",
            marks=mirrors(IMPL, "testRepeatSplitBundle"),
        ),
        pytest.param(
            "prop/ns-abc",
            1,
            "persistent://prop/ns-abc/topic1",
            marks=mirrors("NamespaceServiceTest", "testModularLoadManagerRemoveInactiveBundleFromLoadData"),
        ),
    ],
)
def test_the_averages_of_a_split_bundle_are_forgotten(namespace: str, count: int, topic: str) -> None:
    parent, after, later = split_off(namespace, count, topic)
    assert parent not in after
    assert parent not in later


@mirrors(IMPL, "testBundleDataDefaultValue")
def test_a_bundle_without_history_starts_from_its_resource_quota() -> None:
    quota = stats(rate_in=1024.1, rate_out=1024.2, throughput_in=1024.3, throughput_out=1024.4)
    found = history_of_quota(quota)
    for term in (found.short_term, found.long_term):
        assert (term.msg_rate_in, term.msg_rate_out) == (1024.1, 1024.2)
        assert (term.msg_throughput_in, term.msg_throughput_out) == (1024.3, 1024.4)


@mirrors("NamespaceServiceTest", "testModularLoadManagerRemoveBundleAndLoad")
def test_the_averages_of_a_deleted_namespace_are_forgotten() -> None:
    bundle = f"prop/ns-abc/{FULL}"
    figures = {bundle: stats(topics=2)}
    before = update_histories({}, {PRIMARY: report(PRIMARY, figures, stats=figures)})
    assert bundle in before
    assert bundle not in update_histories(before, {PRIMARY: report(PRIMARY)})


TASK = "impl.BundleSplitterTaskTest"


@mirrors(TASK, "testSplitTaskWhenTopicJustOne")
def test_a_bundle_with_one_topic_is_not_split() -> None:
    held, bundle = settings(), "ten/ns/0x00000000_0x80000000"
    busy = history(rate_in=float(held.loadBalancerNamespaceBundleMaxMsgRate), rate_out=1.0)
    brokers = {"broker": report("broker", stats={bundle: stats(topics=1)})}
    assert find_bundles_to_split(brokers, {bundle: busy}, {}, held).splits == {}


@mirrors(TASK, "testLoadBalancerNamespaceMaximumBundles")
def test_splits_stop_at_the_namespaces_maximum() -> None:
    held = settings(loadBalancerNamespaceMaximumBundles=3)
    names = [f"ten/ns/{edges}" for edges in ("0x00000000_0x20000000", "0x20000000_0x40000000", "0x40000000_0x60000000")]
    busy = history(rate_in=2.0 * held.loadBalancerNamespaceBundleMaxMsgRate, rate_out=1.0)
    brokers = {"broker": report("broker", stats={name: stats(topics=5) for name in names})}
    made = find_bundles_to_split(brokers, dict.fromkeys(names, busy), {}, held)
    bundles_of_a_namespace_without_policies = 1
    assert len(made.splits) + bundles_of_a_namespace_without_policies == held.loadBalancerNamespaceMaximumBundles


LOOKUP = "client.api.BrokerServiceLookupTest"


def two_topics(held: Settings, *brokers: str) -> tuple[str, dict[str, BrokerReport]]:
    bundle = f"my-property/my-ns/{FULL}"
    figures = {bundle: stats(topics=2, consumers=2)}
    return bundle, {
        name: report(name, figures if name == brokers[0] else (), stats=figures if name == brokers[0] else {})
        for name in brokers
    }


@mirrors(LOOKUP, "testSkipSplitBundleIfOnlyOneBroker")
def test_a_sole_broker_splits_nothing() -> None:
    held = settings(loadBalancerNamespaceBundleMaxTopics=1)
    _, brokers = two_topics(held, PRIMARY)
    assert decide_splits(brokers, {}, {"my-property/my-ns": 1}, held).splits == {}


@mirrors(LOOKUP, "testModularLoadManagerSplitBundle")
def test_a_bundle_over_its_limit_is_split_and_its_children_unloaded() -> None:
    held = settings(loadBalancerNamespaceBundleMaxTopics=1, loadBalancerAutoUnloadSplitBundlesEnabled=True)
    bundle, brokers = two_topics(held, PRIMARY, SECONDARY)
    plan = decide_splits(brokers, {}, {"my-property/my-ns": 1}, held)
    gates = unload_gates(LoadData(brokers), Policies(), held)
    assert gates.refusal(bundle, PRIMARY) is None
    made = carry_out(plan, {"my-property/my-ns": (0, 0xFFFFFFFF)}, {bundle: NO_TOPICS}, gates, held)
    (split,) = made.splits
    assert split.bundle == bundle
    assert split.unload
    for number in (1, 2, 3):
        found = topic_hash(f"persistent://my-property/my-ns/topic{number}")
        assert [range_of(child).includes(found) for child in split.children].count(True) == 1
        assert bundle not in split.children


@mirrors("LoadBalancerTest", "testNamespaceBundleAutoSplit")
def test_a_bundle_over_any_limit_is_split() -> None:
    """Pulsar's test runs SimpleLoadManagerImpl, which has the same limits."""
    held = settings()
    topics, sessions = held.loadBalancerNamespaceBundleMaxTopics, held.loadBalancerNamespaceBundleMaxSessions
    rate, flow = held.loadBalancerNamespaceBundleMaxMsgRate, held.loadBalancerNamespaceBundleMaxBandwidthMbytes * MIB
    figures = {
        1: stats(topics=topics + 1),
        2: stats(topics=2, consumers=sessions + 1),
        3: stats(topics=2, producers=sessions + 1),
        4: stats(topics=2, rate_in=rate + 1.0),
        5: stats(topics=2, rate_out=rate + 1.0),
        6: stats(topics=2, throughput_in=flow + 1.0),
        7: stats(topics=2, throughput_out=flow + 1.0),
        8: stats(
            topics=topics - 1,
            consumers=sessions - 1,
            producers=1,
            rate_in=rate - 1.0,
            rate_out=1.0,
            throughput_in=flow - 1.0,
            throughput_out=1.0,
        ),
        9: stats(topics=1, throughput_out=flow + 1.0),
        10: stats(topics=topics + 1),
    }
    edges = {n: "0x00000000_0x02000000" if n == 10 else "0x00000000_0x80000000" for n in figures}
    named = {f"pulsar/primary-ns-{n:02d}/{edges[n]}": found for n, found in figures.items()}
    counts = {f"pulsar/primary-ns-{n:02d}": held.loadBalancerNamespaceMaximumBundles if n == 10 else 2 for n in figures}
    brokers = {PRIMARY: report(PRIMARY, named, stats=named), SECONDARY: report(SECONDARY)}
    made = decide_splits(brokers, update_histories({}, brokers), counts, held)
    assert sorted(made.splits) == [f"pulsar/primary-ns-{n:02d}/0x00000000_0x80000000" for n in range(1, 8)]
