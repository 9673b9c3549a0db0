"""Placement: the filters, the second look, what is remembered, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from evenkeel.errors import BadInput, SettingsError
from evenkeel.filters.broker_filters import newest, version_rank
from evenkeel.model.averages import default_history
from evenkeel.model.load import BrokerAverages, BrokerReport, IsolationPolicy, LoadData, Policies, ResourceUsage
from evenkeel.model.words import destination_of
from evenkeel.place.broker_figures import broker_figures
from evenkeel.place.modular_placement import PlacementRound
from evenkeel.place.placement import Placement
from evenkeel.place.strategies import least_resource_usage_with_weight as least_usage_strategy
from evenkeel.place.strategies.round_robin_broker_selector import Turn
from evenkeel.place.strategies.round_robin_broker_selector import select as select_in_turns
from evenkeel.place.strategy import PlacementState
from evenkeel.settings import Settings
from evenkeel.shed.unload_order import in_pulsars_order

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
    assert found.considered.sentence() == (
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
    assert found.considered.sentence() == f"{NEW} gets no broker: none of 2 brokers may have it."


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


def used(usages: dict[str, float], **values: Any) -> dict[str, BrokerReport]:
    """Brokers with that CPU usage in percent, a bundle each, and traffic."""
    values = {"bundles": frozenset(["t/n/0x00000000_0xffffffff"]), "msg_rate_in": 10.0} | values
    return {name: report(name, cpu, **values) for name, cpu in usages.items()}


def least_usage(
    reports: dict[str, BrokerReport], state: PlacementState, **values: Any
) -> least_usage_strategy.BelowMean:
    settings = Settings().with_values(values)
    return least_usage_strategy.select(reports, broker_figures(LoadData(reports), settings), state, settings)


def test_usage_that_lies_exactly_the_difference_below_the_mean_is_enough() -> None:
    assert least_usage(used({"b1:1": 50.0, "b2:1": 70.0}), {}).brokers == ("b1:1",)
    assert least_usage(used({"b1:1": 50.0, "b2:1": 69.5}), {}).brokers == ("b1:1", "b2:1")
    kept = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
    assert not least_usage(used({"b1:1": 50.0, "b2:1": 70.0}), {}, **{kept: 11}).below_mean


def test_average_usage_moves_with_every_choice_and_drops_the_past_of_a_restarted_broker() -> None:
    before = {"usage_average": {"b1:1": 0.5, "gone:1": 0.9}}
    busy = least_usage(used({"b1:1": 10.0, "b2:1": 20.0}), before)
    assert dict(zip(busy.candidates, busy.usage, strict=True)) == {"b1:1": 0.5 * 0.9 + (1 - 0.9) * 0.1, "b2:1": 0.2}
    assert busy.after(before)["usage_average"]["gone:1"] == 0.9
    assert least_usage_strategy.without_gone(before, ["b1:1"]) == {"usage_average": {"b1:1": 0.5}}
    assert least_usage(used({"b1:1": 10.0}, bundles=frozenset()), before).usage == (0.1,)
    assert least_usage(used({"b1:1": 10.0}, msg_rate_in=0.0), before).usage == (0.1,)
    assert least_usage(used({"b1:1": 10.0}, msg_rate_in=0.0, msg_rate_out=1.0), before).usage != (0.1,)


def test_nobody_is_best_among_no_candidates() -> None:
    assert least_usage({}, {}).brokers == ()


def test_least_usage_says_where_the_chosen_broker_stands_and_goes_on_from_round_to_round() -> None:
    load = LoadData(used({"b1:1": 10.0, "b2:1": 30.0, "b3:1": 80.0}))
    settings = Settings(loadBalancerLoadPlacementStrategy="LeastResourceUsageWithWeight")
    placing = PlacementRound(load, Policies(), settings)
    found = placing.assign(NEW)
    assert found.considered.sentence() == (
        f"{NEW} goes to b1:1: of 3 candidates, its average usage of 10.0 % is well below the candidates' mean of "
        "40.0 %."
    )
    assert {a.name: a.rule for a in found.candidates} == {
        "b1:1": "below_mean_usage", "b2:1": "not_below_mean_usage", "b3:1": "not_below_mean_usage",
    }  # fmt: skip
    later = LoadData(used({"b1:1": 80.0, "b2:1": 30.0}))
    again = PlacementRound(later, Policies(), settings, state=placing.state)
    assert again.place_shed(NEW, "x:1").considered.rule == "near_mean_usage"
    assert again.state["usage_average"] == {"b1:1": 0.1 * 0.9 + (1 - 0.9) * 0.8, "b2:1": pytest.approx(0.3)}


def test_turns_of_the_strategy_and_of_excluded_namespaces_are_counted_apart() -> None:
    load = rated([report("b1:1"), report("b2:1"), report("b3:1")], [0.0] * 3)
    values: dict[str, Any] = {
        "loadBalancerLoadPlacementStrategy": "RoundRobinBrokerSelector",
        "loadBalancerSheddingExcludedNamespaces": frozenset(["t/kept"]),
    }
    settings = Settings().with_values(values)
    bundles = ["t/a/0x0_0x1", "t/kept/0x0_0x1", "t/b/0x0_0x1", "t/kept2/0x0_0x1"]
    placing = PlacementRound(load, Policies(), settings)
    assert [placing.place_shed(bundle, "x:1").destination for bundle in bundles[:3]] == ["b1:1", "b1:1", "b2:1"]
    assert placing.state["turn"] == {"cluster": 2.0}
    assert placing.state["excluded_turn"] == {"cluster": 1.0}
    again = PlacementRound(load, Policies(), settings, state=placing.state)
    assert again.place_shed(bundles[3], "x:1").destination == "b3:1"


def test_the_count_of_turns_starts_again_where_java_s_int_ends() -> None:
    last = 2_147_483_647
    taken, after = select_in_turns(["b1", "b2"], Turn(last, ("b1", "b2")))
    assert (taken, after) == ("b2", Turn(0, ("b1", "b2")))


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


def test_an_unknown_placement_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match="LeastLongTermMessageRate"):
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
