"""Anti-affinity groups are spread over brokers, or over failure domains."""

from collections.abc import Iterable

import pytest

from evenkeel.model.filters.anti_affinity import AntiAffinity
from evenkeel.model.load import BrokerReport, LoadData, Ownership, Policies
from evenkeel.place.modular_placement import PlacementRound
from evenkeel.settings import Settings
from tests.place.clusters import place, rated, removed, report


def test_a_group_goes_to_the_failure_domain_with_the_least_of_it() -> None:
    brokers = [report("b1:1", bundles=frozenset(["t/a/0x00000000_0xffffffff"])), report("b2:1"), report("b3:1")]
    policies = Policies(groups={"t/a": "G", "t/new": "g"}, domains={"east": ("b1:1", "b2:1"), "west": ("b3:1",)})
    spread = place(rated(brokers, [0.0, 0.0, 99.0]), policies, failureDomainsEnabled=True)
    assert spread.destination == "b3:1"
    assert removed(spread) == {"b1:1": "anti_affinity_domain", "b2:1": "anti_affinity_domain"}
    plain = place(rated(brokers, [0.0, 0.0, 99.0]), policies)
    assert (plain.destination, removed(plain)) == ("b2:1", {"b1:1": "anti_affinity"})


def test_administration_anti_affinity_table() -> None:
    """The table's candidates, step by step; any of them may be chosen, and the page's choice is one of them.

    It holds with failureDomainsEnabled=true only, which is off by default.
    """
    steps = [
        ("Broker1:1", ["Broker1:1", "Broker2:1", "Broker3:1", "Broker4:1"]),
        ("Broker3:1", ["Broker3:1", "Broker4:1"]),
        ("Broker2:1", ["Broker2:1", "Broker4:1"]),
        ("Broker4:1", ["Broker4:1"]),
    ]
    owned: dict[str, list[str]] = {f"Broker{i}:1": [] for i in range(1, 5)}
    for number, (chosen, candidates) in enumerate(steps, start=1):
        assert candidates_of(f"t/Namespace{number}/0x00000000_0xffffffff", owned, domains=True) == candidates
        owned[chosen].append(f"t/Namespace{number}/0x00000000_0xffffffff")
    after_one = {**{name: [] for name in owned}, "Broker1:1": ["t/Namespace1/0x00000000_0xffffffff"]}
    without = candidates_of("t/Namespace2/0x00000000_0xffffffff", after_one, domains=False)
    assert without == ["Broker2:1", "Broker3:1", "Broker4:1"]


def candidates_of(bundle: str, owned: dict[str, list[str]], *, domains: bool) -> list[str]:
    policies = Policies(
        groups={f"t/Namespace{i}": "group" for i in range(1, 5)},
        domains={"Domain1": ("Broker1:1", "Broker2:1"), "Domain2": ("Broker3:1", "Broker4:1")},
    )
    settings = Settings().with_values({"failureDomainsEnabled": domains})
    placing = PlacementRound(LoadData(dict(_reports(owned))), policies, settings)
    return [a.name for a in placing.assign(bundle).candidates if a.verdict in ("best", "candidate")]


def _reports(owned: dict[str, list[str]]) -> Iterable[tuple[str, BrokerReport]]:
    for name, bundles in owned.items():
        yield name, BrokerReport(name, bundles=frozenset(bundles))


@pytest.mark.parametrize("counts_bundles", [False, True])
def test_a_bundle_given_in_this_round_counts_like_one_that_was_there(counts_bundles: bool) -> None:
    """One namespace of two has a bundle on the first broker."""
    one, two = "t/a/0x00000000_0x80000000", "t/a/0x80000000_0xffffffff"
    other, free = "t/b/0x00000000_0xffffffff", "t/c/0x00000000_0xffffffff"
    policies = Policies(groups={"t/a": "G", "t/b": "g"})
    group = AntiAffinity(policies, Ownership({"b1": [one]}), Settings(), counts_bundles=counts_bundles)
    assert group.counts("t/b") == {"b1": 1}
    for bundle, broker, by_namespace, by_bundle in (
        (one, "b1", {"b1": 1}, {"b1": 1}),
        (two, "b1", {"b1": 1}, {"b1": 2}),
        (other, "b1", {"b1": 2}, {"b1": 3}),
        (other, "b2", {"b1": 2, "b2": 1}, {"b1": 3, "b2": 1}),
        (free, "b2", {"b1": 2, "b2": 1}, {"b1": 3, "b2": 1}),
    ):
        group.give(bundle, broker)
        assert group.counts("t/a") == (by_bundle if counts_bundles else by_namespace)
    assert group.counts("t/c") is None
