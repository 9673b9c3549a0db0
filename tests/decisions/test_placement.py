"""Placement: the filters, the second look, what is remembered, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from evenkeel.decisions.load import BrokerAverages, BrokerReport, IsolationPolicy, LoadData, Policies, ResourceUsage
from evenkeel.decisions.placement.pipeline import Placement, PlacementRound
from evenkeel.decisions.placement.round_robin import Turn
from evenkeel.decisions.placement.round_robin import select as select_in_turns
from evenkeel.decisions.placement.versions import newest, version_rank
from evenkeel.decisions.sentences import destination_of, sentence
from evenkeel.errors import BadInput, NotImplementedStrategy
from evenkeel.settings import Settings

NEW = "t/new/0x00000000_0xffffffff"


def report(name: str, cpu: float = 10.0, **values: Any) -> BrokerReport:
    return BrokerReport(name, cpu=ResourceUsage(cpu, 100.0), **values)


def rated(reports: list[BrokerReport], rates: list[float]) -> LoadData:
    averages = {r.broker: BrokerAverages(long_term_rate_in=x) for r, x in zip(reports, rates, strict=True)}
    return LoadData({r.broker: r for r in reports}, averages=averages)


def place(load: LoadData, policies: Policies = Policies(), bundle: str = NEW, **values: Any) -> Placement:  # noqa: B008
    return PlacementRound(load, policies, Settings().with_values(values)).assign(bundle)


def removed(placement: Placement) -> dict[str, str]:
    return {a.name: a.rule for a in placement.candidates if a.verdict == "removed"}


def test_the_broker_with_the_least_long_term_rate_is_taken_and_the_reason_said() -> None:
    found = place(rated([report("b1:1"), report("b2:1"), report("b3:1")], [300.0, 100.0, 200.0]))
    assert found.destination == "b2:1"
    assert destination_of(found.considered) == "b2:1"
    assert sentence(found.considered) == (
        f"{NEW} goes to b2:1: of 3 candidates, it has the least long-term message rate, 100 msg/s."
    )


def test_equal_brokers_are_told_apart_by_name() -> None:
    found = place(rated([report("b2:1"), report("b1:1")], [100.0, 100.0]))
    assert (found.destination, found.best) == ("b1:1", ("b1:1", "b2:1"))


def test_every_filter_names_whom_it_removed() -> None:
    brokers = [
        report("allowed:1"),
        report("outside:1"),
        report("full:1", topics=50_001),
        report("other:1", load_manager="SimpleLoadManagerImpl"),
        report("older:1", version="4.0.8"),
        report("busy:1", bundles=frozenset(["t/new/0x00000000_0x80000000"])),
    ]
    brokers = [b if b.version else BrokerReport(**{**_values(b), "version": "4.2.4"}) for b in brokers]
    policies = Policies(isolation={"p": IsolationPolicy(("t/new",), ("allowed", "full", "other", "older", "busy"))})
    found = place(rated(brokers, [0.0] * 6), policies, preferLaterVersions=True)
    assert found.destination == "allowed:1"
    assert removed(found) == {
        "outside:1": "outside_policy",
        "full:1": "topics_over_limit",
        "other:1": "other_load_manager",
        "older:1": "older_version",
        "busy:1": "more_bundles_of_namespace",
    }


def _values(found: BrokerReport) -> dict[str, Any]:
    return {name: getattr(found, name) for name in BrokerReport.__slots__}


def test_an_unreadable_version_brings_all_allowed_brokers_back() -> None:
    brokers = [report("b1:1", version="4.2.4"), report("b2:1", version="nonsense")]
    found = place(rated(brokers, [9.0, 1.0]), preferLaterVersions=True)
    assert (found.destination, removed(found)) == ("b2:1", {})
    assert found.considered.numbers["restored"] == 1


def test_an_overloaded_choice_is_looked_at_again_without_filters() -> None:
    brokers = [report("b1:1", 90.0), report("b2:1", 20.0, bundles=frozenset(["t/new/0x00000000_0x80000000"]))]
    found = place(rated(brokers, [0.0, 50.0]))
    assert found.destination == "b2:1"
    assert found.considered.rule == "least_long_term_rate_of_all_allowed"


def test_a_group_goes_to_the_failure_domain_with_the_least_of_it() -> None:
    brokers = [report("b1:1", bundles=frozenset(["t/a/0x00000000_0xffffffff"])), report("b2:1"), report("b3:1")]
    policies = Policies(groups={"t/a": "G", "t/new": "g"}, domains={"east": ("b1:1", "b2:1"), "west": ("b3:1",)})
    spread = place(rated(brokers, [0.0, 0.0, 99.0]), policies, failureDomainsEnabled=True)
    assert spread.destination == "b3:1"
    assert removed(spread) == {"b1:1": "anti_affinity_domain", "b2:1": "anti_affinity_domain"}
    plain = place(rated(brokers, [0.0, 0.0, 99.0]), policies)
    assert (plain.destination, removed(plain)) == ("b2:1", {"b1:1": "anti_affinity"})


def test_bundles_placed_in_a_round_count_for_the_next_ones() -> None:
    load = rated([report("b1:1"), report("b2:1")], [0.0, 0.0])
    placing = PlacementRound(load, Policies(), Settings())
    bundles = [f"t/n{i}/0x00000000_0xffffffff" for i in range(4)]
    assert [p.destination for p in placing.place_ownerless(reversed(bundles))] == ["b1:1", "b2:1", "b1:1", "b2:1"]
    assert placing.assign(bundles[1]).considered.rule == "preallocated"


def test_bundles_that_are_shed_do_not_count_for_each_other() -> None:
    load = rated([report("b1:1", 90.0), report("b2:1"), report("b3:1")], [99.0, 0.0, 0.0])
    placing = PlacementRound(load, Policies(), Settings())
    bundles = [f"t/n{i}/0x00000000_0xffffffff" for i in range(3)]
    assert {placing.place_shed(bundle, "b1:1").destination for bundle in bundles} == {"b2:1"}


def test_a_bundle_whose_owner_is_the_best_place_stays() -> None:
    load = rated([report("b1:1"), report("b2:1")], [0.0, 99.0])
    found = PlacementRound(load, Policies(), Settings()).place_shed(NEW, "b1:1")
    assert (found.considered.outcome, found.considered.rule) == ("kept", "already_best")


def test_nobody_may_have_a_bundle_whose_policy_matches_no_broker() -> None:
    policies = Policies(isolation={"p": IsolationPolicy(("t/new",), ("elsewhere",))})
    found = place(rated([report("b1:1"), report("b2:1")], [0.0, 0.0]), policies)
    assert (found.destination, found.considered.outcome) == (None, "refused")
    assert sentence(found.considered) == f"{NEW} gets no broker: none of 2 brokers may have it."


def test_a_heartbeat_bundle_belongs_to_the_broker_in_its_name() -> None:
    load = rated([report("b1:1"), report("b2:1")], [0.0, 0.0])
    assert place(load, bundle="pulsar/b2:1/0x00000000_0xffffffff").destination == "b2:1"
    away = place(load, bundle="pulsar/b9:1/0x00000000_0xffffffff")
    assert (away.destination, away.considered.outcome) == (None, "skipped")


def test_bundles_of_the_system_namespace_are_spread_whatever_the_switch_says() -> None:
    system = "pulsar/system/{}_{}"
    reports = [report("b1:1", bundles=frozenset([system.format("0x00000000", "0x80000000")])), report("b2:1")]
    bundle = system.format("0x80000000", "0xffffffff")
    load = rated(reports, [0.0, 50.0])
    assert place(load, bundle=bundle, loadBalancerDistributeBundlesEvenlyEnabled=False).destination == "b2:1"


def test_from_5_0_on_a_policy_may_name_the_port_of_a_broker() -> None:
    policies = Policies(isolation={"p": IsolationPolicy(("t/new",), ("b2:1",))})
    load = rated([report("b1:1"), report("b2:1")], [0.0, 0.0])
    assert place(load, policies).destination is None
    assert place(load, policies, evenkeelPulsarVersion="5.0").destination == "b2:1"


def test_a_policy_that_cannot_be_read_is_named() -> None:
    policies = Policies(isolation={"broken": IsolationPolicy(("t/(",))})
    with pytest.raises(BadInput, match="isolation policy 'broken'"):
        place(rated([report("b1:1")], [0.0]), policies)


def test_turns_run_over_a_remembered_list_until_it_no_longer_fits() -> None:
    three, other = ["b1", "b2", "b3"], ["b2", "b3", "b4"]
    turn, taken = Turn(), []
    for candidates in (three, three, three, other, other, [], three[:1]):
        broker, turn = select_in_turns(candidates, turn)
        taken.append(broker)
    assert taken == ["b1", "b2", "b3", "b2", "b3", None, "b1"]
    kept, _ = select_in_turns(["b2", "b3", "b9"], Turn(1, ("b1", "b2", "b3")))
    assert kept == "b2"


def test_a_missing_placement_strategy_says_which_there_are() -> None:
    with pytest.raises(NotImplementedStrategy, match="LeastLongTermMessageRate"):
        place(rated([report("b1:1")], [0.0]), loadBalancerLoadPlacementStrategy="NoSuchStrategy")


def test_versions_order_as_semantic_versions_do() -> None:
    ordered = ["4.0.9", "4.2.0-SNAPSHOT", "4.2.0-candidate-1", "4.2.0", "4.2.10", "5.0.0"]
    ranks = [version_rank(v) for v in ("4.0.9", "4.2.0-1", "4.2.0-2", "4.2.0-SNAPSHOT", "4.2.0", "4.2.10", "5.0.0")]
    assert ranks == sorted(ranks)  # type: ignore[type-var]
    assert all(version_rank(v) for v in ordered)
    assert version_rank("4.2.0+build.5") == version_rank("4.2.0")
    assert [version_rank(v) for v in (None, "", "4.2", "nonsense", "04.2.1")] == [None] * 5
    assert newest({"a": "4.2.4", "b": "4.2.10", "c": "4.2.10"}) == {"b", "c"}
    assert newest({"a": "4.2.4", "b": None}) is None
