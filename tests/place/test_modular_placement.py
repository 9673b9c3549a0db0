"""Placement under the modular manager, and the order of a shedder's proposals."""

from typing import Any

import pytest

from evenkeel.errors import SettingsError
from evenkeel.model.averages import default_history
from evenkeel.model.load import BrokerReport, IsolationPolicy, LoadData, Policies
from evenkeel.place.modular_placement import PlacementRound, hash_order, in_pulsars_order, java_hash
from evenkeel.settings import Settings
from tests.place.clusters import NEW, best, place, rated, removed, report, standing


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


def test_a_draining_broker_stays_out_where_the_filters_are_undone_and_for_an_isolation_policy() -> None:
    hot = [report("b1:1", 90.0), report("b2:1", 10.0, load_manager="SimpleLoadManagerImpl")]
    found = place(rated(hot, [0.0, 0.0]), evenkeelDrainingBrokers=frozenset(["b2:1"]))
    assert (found.destination, removed(found)) == ("b1:1", {"b2:1": "draining"})
    policies = Policies(isolation={"p": IsolationPolicy(("t/new",), ("b1",), ("b2",), 1)})
    cool = rated([report("b1:1"), report("b2:1"), report("b3:1")], [0.0] * 3)
    assert place(cool, policies).destination == "b1:1"
    failed_over = place(cool, policies, evenkeelDrainingBrokers=frozenset(["b1:1"]))
    assert (failed_over.destination, removed(failed_over)["b1:1"]) == ("b2:1", "draining")
    nobody = place(cool, evenkeelDrainingBrokers=frozenset(["b1:1", "b2:1", "b3:1"]))
    assert (nobody.destination, nobody.considered.rule) == (None, "no_candidate")


def test_a_bundle_given_to_a_broker_that_drains_since_is_given_anew() -> None:
    reports = {name: report(name) for name in ("b1:1", "b2:1")}
    load = LoadData(reports, preallocated={"b1:1": {NEW: default_history()}})
    assert place(load).destination == "b1:1"
    assert place(load, evenkeelDrainingBrokers=frozenset(["b1:1"])).destination == "b2:1"


def test_an_unknown_placement_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match="LeastLongTermMessageRate"):
        place(rated([report("b1:1")], [0.0]), loadBalancerLoadPlacementStrategy="NoSuchStrategy")


def test_article_bundles_of_a_namespace_are_spread_before_any_load_is_looked_at() -> None:
    """Not in the article: with even distribution, as 4.x has by default and 5.0 has not, the strategy breaks ties."""
    load = standing({"b1:1": 10.0, "b2:1": 10.0}, {"b1:1": 1.0, "b2:1": 1e6})
    owned = {**load.brokers, "b1:1": BrokerReport("b1:1", bundles=frozenset(["t/new/0x00000000_0x80000000"]))}
    crowded = LoadData(owned, averages=load.averages)
    second = "t/new/0x80000000_0xffffffff"
    assert best(crowded, second) == ("b2:1",)
    assert best(crowded, second, loadBalancerDistributeBundlesEvenlyEnabled=False) == ("b1:1",)


def test_administration_the_overload_threshold_is_not_overload_shedders_alone() -> None:
    """The page keeps it to OverloadShedder; placement asks it too, and then looks past its own filters."""
    load = standing({"b1:1": 60.0, "b2:1": 10.0}, {"b1:1": 1.0, "b2:1": 100.0})
    assert best(load) == ("b1:1",)
    assert best(load, loadBalancerBrokerOverloadedThresholdPercentage=50) == ("b2:1",)


def test_concepts_the_destination_of_a_shed_bundle_is_chosen_before_it_is_unloaded() -> None:
    """The page leaves it to the look-up after unloading; the leader chooses first, and sends the unload there."""
    load = standing({"b1:1": 90.0, "b2:1": 10.0}, {"b1:1": 300.0, "b2:1": 100.0})
    placed = PlacementRound(load, Policies(), Settings()).place_shed("t/own/0x00000000_0xffffffff", "b1:1")
    assert placed.destination == "b2:1"


def test_names_hash_as_in_java() -> None:
    assert [java_hash(text) for text in ("", "a", "hello", "b10:8080")] == [0, 97, 99162322, 964208073]


def test_names_come_by_bucket_and_by_name_within_one() -> None:
    """ "Aa" and "BB" share their hash; a table that has grown keeps its size."""
    assert hash_order(["BB", "Aa", "a"]) == ["Aa", "BB", "a"]
    names = [f"b{n}:8080" for n in range(1, 11)]
    assert hash_order(names) == [f"b{n}:8080" for n in (1, 10, 9, 4, 6, 5, 8, 2, 3, 7)]
    assert hash_order(names, most=13) == [f"b{n}:8080" for n in (9, 6, 5, 8, 3, 1, 10, 4, 2, 7)]


def test_unloads_are_gone_through_in_the_order_of_javas_hash_map() -> None:
    unloads = [("t/a/1", "b1:8080"), ("t/b/9", "10.0.0.1:8080"), ("t/b/2", "10.0.0.1:8080"), ("t/c/3", "10.0.0.8:8080")]
    order = in_pulsars_order(unloads)
    assert [bundle for bundle, broker in order if broker == "10.0.0.1:8080"] == ["t/b/9", "t/b/2"]
    assert [broker for _, broker in order].index("10.0.0.8:8080") < [b for _, b in order].index("10.0.0.1:8080")
    assert sorted(order) == sorted(unloads)
    assert in_pulsars_order([]) == ()


def test_a_larger_hash_map_has_another_order() -> None:
    """Up to twelve keys Java's table has 16 places, and 32 after that: b1 then comes behind b3."""
    few = [("x", "b1:8080"), ("x", "b3:8080")]
    many = [*few, *(("x", f"other-{n}:8080") for n in range(11))]
    assert [broker for _, broker in in_pulsars_order(few)] == ["b1:8080", "b3:8080"]
    assert [b for _, b in in_pulsars_order(many) if b.startswith("b")] == ["b3:8080", "b1:8080"]
    assert [b for _, b in in_pulsars_order(many[:-1]) if b.startswith("b")] == ["b1:8080", "b3:8080"]
