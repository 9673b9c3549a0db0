"""Restates the tests of isolation policies: pulsar-common's policy classes and the extensible manager's filter.

pulsar-common publishes no jar of its tests; restated are those of the newest stored source (before 4.2). Broker names
there have no port; Evenkeel, as Pulsar's load managers, matches the host part of `host:port`.
"""

from typing import Any

import pytest

from evenkeel.model.filters.broker_filters import BrokerFilters
from evenkeel.model.filters.isolation import Isolation, policy_finder
from evenkeel.model.load import BrokerReport, ExtensibleLoad, IsolationPolicy, LoadData, Policies
from evenkeel.place.modular_placement import PlacementRound
from tests.pulsar_unit.given import EXTENSIBLE, FULL, report, settings
from tests.pulsar_unit.mirror import mirrors

IMPL, POLICIES = "pulsar-common NamespaceIsolationPolicyImplTest", "pulsar-common NamespaceIsolationPoliciesTest"
FILTER = "extensions.filter.BrokerIsolationPoliciesFilterTest"
DEFAULT = IsolationPolicy(
    ("pulsar/use/test.*",), ("prod1-broker[1-3].messaging.use.example.com",), ("prod1-broker.*.use.example.com",), 3
)
NAMESPACE = "pulsar/use/testns-1"
BUNDLE = f"{NAMESPACE}/{FULL}"


def verdicts(
    brokers: list[str], bundle: str = BUNDLE, policies: dict[str, IsolationPolicy] | None = None
) -> dict[str, str]:
    """Broker -> "allowed", or the rule that forbids it to own the bundle."""
    known = Policies(isolation={"policy1": DEFAULT} if policies is None else policies)
    named = {f"{broker}:8080": report(f"{broker}:8080") for broker in brokers}
    found = Isolation(known, named, settings()).allowed(bundle)
    told = dict.fromkeys(found.brokers, "allowed") | dict(found.removed)
    return {broker.removesuffix(":8080"): why for broker, why in told.items()}


def no_failover() -> dict[str, IsolationPolicy]:
    """The policy without failover: secondary brokers stay secondary however few primary ones are up."""
    return {"policy1": IsolationPolicy(DEFAULT.namespaces, DEFAULT.primary, DEFAULT.secondary, 0)}


@mirrors(IMPL, "testIsPrimaryOrSecondaryBroker")
def test_brokers_are_primary_secondary_or_outside_the_policy() -> None:
    names = [f"prod1-broker{n}.messaging.use.example.com" for n in (2, 5)] + ["broker-X.messaging.use.example.com"]
    found = verdicts(names, policies=no_failover())
    assert [found[name] for name in names] == ["allowed", "secondary", "outside_policy"]


@mirrors(IMPL, "testFindBrokers")
def test_brokers_that_match_a_policy() -> None:
    names = [f"prod1-broker{n}.messaging.{region}.example.com" for n in range(10) for region in ("use", "usw")]
    primary = [name for name, why in verdicts(names, policies=no_failover()).items() if why == "allowed"]
    assert sorted(primary) == [f"prod1-broker{n}.messaging.use.example.com" for n in (1, 2, 3)]
    fails_over = {"policy1": IsolationPolicy(DEFAULT.namespaces, DEFAULT.primary, DEFAULT.secondary, 99)}
    either = [name for name, why in verdicts(names, policies=fails_over).items() if why == "allowed"]
    assert sorted(either) == [f"prod1-broker{n}.messaging.use.example.com" for n in range(10)]
    assert verdicts([]) == {}


@mirrors("pulsar-common MinAvailablePolicyTest", "testMinAvailablePolicty")
@pytest.mark.parametrize(("primaries", "fails_over"), [(15, False), (2, True)])
def test_secondary_brokers_are_allowed_where_too_few_primary_ones_are_up(primaries: int, fails_over: bool) -> None:
    policies = {"p": IsolationPolicy((".*",), ("primary.*",), ("secondary",), 3)}
    found = verdicts([f"primary{n}" for n in range(primaries)] + ["secondary"], policies=policies)
    assert (found["secondary"] == "allowed") is fails_over


@mirrors(POLICIES, "testGetNamespaceIsolationPolicyByNamespace")
def test_policy_of_a_namespace() -> None:
    find = policy_finder(Policies(isolation={"policy1": DEFAULT}))
    assert find("no/such/namespace") is None
    assert find(NAMESPACE) == "policy1"


@mirrors(POLICIES, "testSetPolicy")
def test_two_policies_each_cover_their_namespaces() -> None:
    second = IsolationPolicy(
        ("pulsar/use/TESTNS.*",),
        ("prod1-broker[45].messaging.use.example.com",),
        ("prod1-broker.*.use.example.com",),
        2,
    )
    find = policy_finder(Policies(isolation={"policy1": DEFAULT, "policy2": second}))
    assert find("pulsar/use/TESTNS.1") == "policy2"
    assert find(NAMESPACE) == "policy1"


@mirrors(POLICIES, "testBrokerAssignment")
def test_primary_secondary_and_shared_brokers() -> None:
    primary, secondary = "prod1-broker1.messaging.use.example.com", "prod1-broker4.messaging.use.example.com"
    assert verdicts([primary, secondary], policies=no_failover()) == {primary: "allowed", secondary: "secondary"}
    shared = verdicts(["use.example.com", primary], f"pulsar/use1/testns-1/{FULL}")
    assert shared == {"use.example.com": "allowed", primary: "reserved_by_policy"}


def filtered(brokers: list[BrokerReport], policies: Policies, bundle: str) -> set[str]:
    held = settings(loadManagerClassName=EXTENSIBLE)
    load = ExtensibleLoad({one.broker: one for one in brokers}, {})
    return set(BrokerFilters(load, policies, {}, held).candidates(bundle).brokers)


def registered(name: str, **more: Any) -> BrokerReport:
    return report(name, load_manager=EXTENSIBLE, version="3.0.0", **more)


@mirrors(FILTER, "testFilterWithNamespaceIsolationPoliciesForPrimaryAndSecondaryBrokers")
@pytest.mark.parametrize(
    ("least", "numbers", "expected"),
    [
        (1, (1, 2, 3), {1}),
        (1, (2, 3), {2}),
        (1, (3,), set()),
        (2, (1, 2, 3), {1, 2}),
        (2, (2, 3), {2}),
        (2, (3,), set()),
    ],
)
def test_extensible_filter_of_isolation_policies(least: int, numbers: tuple[int, ...], expected: set[int]) -> None:
    policies = Policies(isolation={"p": IsolationPolicy(("my-tenant/my-ns",), ("broker1",), ("broker2",), least)})
    brokers = [registered(f"broker{n}:8080") for n in numbers]
    assert filtered(brokers, policies, f"my-tenant/my-ns/{FULL}") == {f"broker{n}:8080" for n in expected}


@mirrors(FILTER, "testFilterWithPersistentOrNonPersistentDisabled")
def test_extensible_filter_of_topic_domains() -> None:
    bundle = f"my-tenant/my-ns/{FULL}"
    holds_non_persistent = Policies(non_persistent_bundles=frozenset([bundle]))
    names = [f"broker{n}:8080" for n in (1, 2, 3)]
    every = [registered(name) for name in names]
    assert filtered(every, holds_non_persistent, bundle) == set(names)
    only_persistent = [registered(name, non_persistent_topics=False) for name in names[:2]] + every[2:]
    assert filtered(only_persistent, holds_non_persistent, bundle) == {"broker3:8080"}
    assert filtered(every, Policies(), bundle) == set(names)
    only_non_persistent = [registered(names[0], persistent_topics=False), *every[1:]]
    assert filtered(only_non_persistent, Policies(), bundle) == {"broker2:8080", "broker3:8080"}


@mirrors("admin.AdminApi2Test", "brokerNamespaceIsolationPoliciesUpdateOnTime")
def test_a_namespace_without_a_matching_broker_is_not_placed() -> None:
    bundle = f"tenant/test_ns1_iso/{FULL}"
    load = LoadData({"localhost:8080": report("localhost:8080")})

    def owner(*primary: str) -> str | None:
        isolation = {"policy-1": IsolationPolicy(("tenant/test_ns1_iso",), primary, (), 1)} if primary else {}
        return PlacementRound(load, Policies(isolation=isolation), settings()).assign(bundle).destination

    assert owner() == owner("localhost.*") == "localhost:8080"
    assert owner("localhostnot_match") is None
