"""Restates the tests about anti-affinity groups and failure domains, of both load managers (Pulsar 4.2.4)."""

from collections.abc import Iterable, Mapping

import pytest

from evenkeel.model.filters.anti_affinity import AntiAffinity
from evenkeel.model.filters.broker_filters import BrokerFilters, UnloadGates
from evenkeel.model.filters.isolation import Isolation
from evenkeel.model.load import BrokerLoadData, ExtensibleLoad, Ownership, Policies
from evenkeel.place.extensible_placement import ExtensiblePlacementRound
from evenkeel.place.modular_placement import PlacementRound
from tests.pulsar_unit.given import EXTENSIBLE, FULL, MODULAR, load_of, report, settings
from tests.pulsar_unit.mirror import mirrors

MODULAR_TEST = "AntiAffinityNamespaceGroupTest"
EXTENSIBLE_TEST = "extensions.AntiAffinityNamespaceGroupExtensionTest"
HELD = settings(failureDomainsEnabled=True, loadBalancerBrokerOverloadedThresholdPercentage=400)


def both(method: str) -> pytest.MarkDecorator:
    """Both managers: the extensible manager's class inherits the test and counts bundles instead of namespaces."""
    return pytest.mark.parametrize(
        "counts_bundles",
        [
            pytest.param(False, marks=mirrors(MODULAR_TEST, method), id="modular"),
            pytest.param(True, marks=mirrors(EXTENSIBLE_TEST, method), id="extensible"),
        ],
    )


def group(namespaces: Iterable[str], domains: Mapping[str, tuple[str, ...]] | None = None) -> Policies:
    return Policies(groups=dict.fromkeys(namespaces, "group"), domains=domains or {})


@both("testAntiAffinityNamespaceFilteringWithDomain")
def test_a_group_is_spread_over_domains_then_over_brokers(counts_bundles: bool) -> None:
    spaces = [f"my-tenant/my-ns{i}" for i in range(5)]
    domains = {"domain-0": ("brokerName-0", "brokerName-1"), "domain-1": ("brokerName-2", "brokerName-3")}
    brokers = [broker for listed in domains.values() for broker in listed]
    ownership = Ownership()
    asked = AntiAffinity(group(spaces, domains), ownership, HELD, counts_bundles=counts_bundles)

    def left(n: int) -> set[str]:
        return set(asked.keep_least(spaces[n], brokers).brokers)

    assert left(0) == set(brokers)
    asked.give(f"{spaces[0]}/{FULL}", "brokerName-0")
    assert left(1) == set(domains["domain-1"])
    asked.give(f"{spaces[1]}/{FULL}", "brokerName-2")
    assert left(2) == {"brokerName-1", "brokerName-3"}
    asked.give(f"{spaces[2]}/{FULL}", "brokerName-1")
    assert left(3) == {"brokerName-3"}
    asked.give(f"{spaces[3]}/{FULL}", "brokerName-3")
    assert left(4) == set(brokers)


@both("testAntiAffinityNamespaceFilteringWithoutDomain")
def test_a_group_is_spread_over_brokers_without_domains(counts_bundles: bool) -> None:
    spaces = [f"my-tenant/my-ns-wo-domain{i}" for i in range(5)]
    brokers = ["broker-0", "broker-1", "broker-2"]
    asked = AntiAffinity(group(spaces), Ownership(), HELD, counts_bundles=counts_bundles)

    def left(n: int) -> set[str]:
        return set(asked.keep_least(spaces[n], brokers).brokers)

    assert left(0) == set(brokers)
    asked.give(f"{spaces[0]}/{FULL}", "broker-0")
    assert left(1) == {"broker-1", "broker-2"}
    asked.give(f"{spaces[1]}/{FULL}", "broker-1")
    assert left(2) == {"broker-2"}
    asked.give(f"{spaces[2]}/{FULL}", "broker-2")
    assert left(3) == set(brokers)


@mirrors(MODULAR_TEST, "testLoadSheddingUtilWithAntiAffinityNamespace")
def test_modular_unload_is_allowed_only_where_it_spreads_the_group() -> None:
    spaces = [f"my-tenant/my-ns-load-shedding-util{i}" for i in range(5)]
    brokers = ["broker-0", "broker-1", "broker-2"]
    asked = AntiAffinity(group(spaces), Ownership(), HELD)
    asked.give(f"{spaces[0]}/{FULL}", "broker-0")
    assert asked.should_unload(spaces[0], "broker-0", brokers)
    asked.give(f"{spaces[1]}/{FULL}", "broker-1")
    assert asked.should_unload(spaces[0], "broker-0", brokers)
    asked.give(f"{spaces[2]}/{FULL}", "broker-2")
    assert not asked.should_unload(spaces[0], "broker-0", brokers)


@mirrors(EXTENSIBLE_TEST, "testLoadSheddingUtilWithAntiAffinityNamespace")
def test_extensible_unload_is_allowed_only_where_it_spreads_the_group() -> None:
    """Pulsar's test records one bundle as owned by one broker after the other."""
    spaces = [f"my-tenant/my-ns-load-shedding-util{i}" for i in range(5)]
    brokers = ["broker-0", "broker-1", "broker-2"]
    owned: dict[str, list[str]] = {}
    for broker, expected in zip(brokers, (True, True, False), strict=True):
        owned[broker] = [f"{spaces[0]}/{FULL}"]
        asked = AntiAffinity(group(spaces), Ownership(owned), HELD, counts_bundles=True)
        assert asked.should_unload(spaces[0], "broker-0", brokers) is expected


DOMAINS = {"domain1": ("localhost:8080",), "domain2": ("localhost:8081",)}


@mirrors(MODULAR_TEST, "testBrokerSelectionForAntiAffinityGroup")
def test_modular_placement_puts_two_namespaces_of_a_group_on_two_brokers() -> None:
    load = load_of(report("localhost:8080"), report("localhost:8081"))
    placing = PlacementRound(load, group(["tenant/ns1", "tenant/ns2"], DOMAINS), HELD)
    first, second = (placing.assign(f"tenant/{name}/{FULL}").destination for name in ("ns1", "ns2"))
    assert None not in (first, second)
    assert first != second


def extensible_load() -> ExtensibleLoad:
    brokers = {
        name: report(name, load_manager=EXTENSIBLE, version="4.2.4") for listed in DOMAINS.values() for name in listed
    }
    return ExtensibleLoad(brokers=brokers, loads=dict.fromkeys(brokers, BrokerLoadData(weighted_max_ema=0.1)))


@mirrors(EXTENSIBLE_TEST, "testBrokerSelectionForAntiAffinityGroup")
def test_extensible_placement_puts_two_namespaces_of_a_group_on_two_brokers() -> None:
    held = HELD.with_values({"loadManagerClassName": EXTENSIBLE})
    placing = ExtensiblePlacementRound(extensible_load(), group(["tenant/ns1", "tenant/ns2"], DOMAINS), {}, held)
    first, second = (placing.assign(f"tenant/{name}/{FULL}").destination for name in ("ns1", "ns2"))
    assert None not in (first, second)
    assert first != second


@mirrors(MODULAR_TEST, "testLoadSheddingWithAntiAffinityNamespace")
def test_a_sole_namespace_of_a_group_may_be_unloaded() -> None:
    spaces = [f"my-tenant/my-ns-load-shedding{i}" for i in range(5)]
    bundle = f"{spaces[0]}/{FULL}"
    load = load_of(report("localhost:8080", [bundle], load_manager=MODULAR), report("localhost:8081"))
    ownership = Ownership({"localhost:8080": [bundle]})
    policies = group(spaces)
    gates = UnloadGates(Isolation(policies, load.brokers, HELD), AntiAffinity(policies, ownership, HELD))
    assert gates.refusal(bundle, "localhost:8080") is None


@mirrors(EXTENSIBLE_TEST, "testAntiAffinityGroupPolicyFilter")
def test_extensible_filter_leaves_out_the_owner_of_a_namespace_in_a_group() -> None:
    held = HELD.with_values({"loadManagerClassName": EXTENSIBLE})
    grouped, other = f"my-tenant/my-ns-filter-antiaffinity-enabled/{FULL}", f"my-tenant/my-ns-filter/{FULL}"
    policies = group(["my-tenant/my-ns-filter-antiaffinity-enabled"])
    filters = BrokerFilters(extensible_load(), policies, {"localhost:8081": [grouped]}, held)
    assert filters.candidates(other).brokers == ("localhost:8080", "localhost:8081")
    assert filters.candidates(grouped).brokers == ("localhost:8080",)
