"""The planner's round on clusters of every kind: it never fails, holds the rules, and no guard has to hold its acts."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.cycle.memo import SharedRows
from evenkeel.planner import round as planner_round
from evenkeel.planner.allowed_moves import Places
from evenkeel.planner.verdicts import TARGET
from evenkeel.planner.view_from_rows import bundle_figures, view_of
from tests.cycle.rows import AT, MIB, as_read, report
from tests.examples import at_most, reached, reaching
from tests.planner.planner_rows import BROKERS, ON, Tables, act, any_rows, used
from tests.planner.planner_rows import given as tables

KEY = {"cluster": "lab"}
HARD = {
    "unloads_per_cycle", "unloads_from_broker", "unloads_to_broker", "moved_traffic", "bundle_too_heavy", "returns",
    "moved_often", "frozen_namespace", "frozen_bundle", "frozen_broker", "one_command_per_bundle", "unsettled_bundle",
    "unsettled_broker", "owner_unclear", "traffic_unknown", "no_report", "report_too_old",
}  # fmt: skip
"""Guards that have nothing to hold of what the planner asks."""


def decided(given_rows: Tables, state: Sequence[Mapping[str, Any]] = ()) -> whole.DecidedCycle:
    observed = {name: given_rows[name] for name in whole.OBSERVED}
    return whole.decide(observed, given_rows["cycle"][0], state)


def moves(made: whole.DecidedCycle) -> list[tuple[str, str, str]]:
    return [
        (row["subject"], row["broker"], row["destination"])
        for row in made.rows["placement_decisions"]
        if row["strategy"] == "Planner" and row["cause"] == "shed"
    ]


def rule_of_cluster(made: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    (rule,) = [row["rule"] for row in made["planner_targets"] if row["subject_kind"] == "cluster"]
    return str(rule)


@reaching()
@given(any_rows())
@at_most(300)
def test_any_cluster_gets_a_plan_or_a_reason_and_a_second_cycle_goes_on_from_it(found: Tables) -> None:
    gets_a_plan_or_a_reason(found)


@reaching()
@given(any_rows(guarded=True, lopsided=True))
@at_most(300)
def test_no_guard_has_to_hold_what_the_planner_asks(found: Tables) -> None:
    needs_no_guard(found)


@reaching()
@given(any_rows())
@at_most(100)
def test_moves_go_where_the_rules_allow(found: Tables) -> None:
    moves_where_the_rules_allow(found)


@reaching()
@given(any_rows(), st.randoms())
@at_most(100)
def test_the_order_of_rows_changes_nothing(found: Tables, chance: Random) -> None:
    is_the_same_in_any_order(found, chance)


@pytest.mark.exhaustive
@given(any_rows(guarded=True), st.randoms(use_true_random=False))
@settings(max_examples=1_000, deadline=None)
def test_a_thousand_clusters_hold_every_hard_rule(found: Tables, chance: Random) -> None:
    gets_a_plan_or_a_reason(found)
    needs_no_guard(found)
    moves_where_the_rules_allow(found)
    is_the_same_in_any_order(found, chance)


def gets_a_plan_or_a_reason(found: Tables) -> None:
    first = planner_round.decide(KEY, found)
    reached(any(row["subject_kind"] == "bundle" for row in first["planner_targets"]))
    assert {row["subject_kind"] for row in first["planner_targets"]} >= {"cluster"}
    for row in (*first["planner_targets"], *first["planner_findings"]):
        assert row["sentence"].endswith(".")
        figures = (row["measured"], row["threshold"], row.get("gain"), row.get("cost"), *row["numbers"].values())
        assert all(value is None or math.isfinite(value) for value in figures)
    keys = [(row["subject_kind"], row["subject"]) for row in first["planner_targets"]]
    assert len(keys) == len(set(keys))
    keys = [(row["subject_kind"], row["subject"], row["rule"]) for row in first["planner_findings"]]
    assert len(keys) == len(set(keys))
    again = {**found, "state": as_read(first["strategy_state"])}
    planner_round.decide(KEY, again)


def needs_no_guard(found: Tables) -> None:
    made = decided(found)
    planned = {bundle for bundle, _, _ in moves(made)}
    reached(bool(planned))
    held = [row for row in made.rows["guard_decisions"] if row["subject"] in planned and row["outcome"] == "held"]
    assert not HARD & {row["rule"] for row in held}, held


def moves_where_the_rules_allow(found: Tables) -> None:
    of_cycle = reading.settings_of(found)
    targets = planner_round.decide(KEY, found)["planner_targets"]
    moved = [row for row in targets if row["outcome"] in ("unload", "planned", "placed")]
    reached(bool(moved))
    for row in moved:
        destination = row["destination"]
        assert destination != row["broker"]
        assert destination not in of_cycle.evenkeelDrainingBrokers | of_cycle.evenkeelFrozenBrokers
        if found["cluster_policies"]:
            assert destination[:2] in ("b1", "b2", "b3")
        assert [one["name"] for one in row["alternatives"] if one["rule"] == TARGET] == [destination]


def is_the_same_in_any_order(found: Tables, chance: Random) -> None:
    mixed = {name: chance.sample(own, len(own)) for name, own in found.items()}
    made = planner_round.decide(KEY, found)
    reached(any(row["subject_kind"] == "bundle" for row in made["planner_targets"]))
    assert repr(planner_round.decide(KEY, mixed)) == repr(made)


def uneven(**settings: Any) -> Tables:
    """Three brokers, of which the first has nearly all."""
    flows = [14.0, 9.0, 8.0, 6.0, 6.0, 5.0, 4.0, 4.0, 3.0, 3.0, 2.0]
    bundles = [used(n, BROKERS[0] if n < 9 else BROKERS[1], flow * MIB) for n, flow in enumerate(flows)]
    usages = [sum(flows[:9]), sum(flows[9:]), 0.1]
    return tables([report(name, usage) for name, usage in zip(BROKERS, usages, strict=False)], bundles, **settings)


WITHOUT_BUDGETS = {
    "evenkeelMaxUnloadsPerCycle": -1, "evenkeelMaxUnloadsFromBroker": -1, "evenkeelMaxUnloadsToBroker": -1,
    "evenkeelMaxMovedTrafficPercent": 100, "evenkeelMaxBundleTrafficPercent": 100,
}  # fmt: skip


def test_without_budgets_one_plan_reaches_the_target() -> None:
    made = planner_round.decide(KEY, uneven(**WITHOUT_BUDGETS))["planner_targets"]
    whole_row = next(row for row in made if row["subject_kind"] == "cluster")
    assert whole_row["rule"] == "acts"
    assert whole_row["numbers"]["busiest_after_due"] <= whole_row["numbers"]["stop"] + 0.0100001
    assert not [row for row in made if row["outcome"] == "planned"]


@given(st.integers(0, 10_000), st.integers(3, 8), st.integers(20, 60))
@at_most(60)
def test_where_a_plan_without_budgets_reaches_the_target_the_planner_does(seed: int, brokers: int, count: int) -> None:
    chance = Random(seed)
    names = [f"b{n}.eu:8080" for n in range(brokers)]
    flows = [min(chance.paretovariate(1.5), 4.0) for _ in range(count)]
    owners = [chance.choice(names) for _ in flows]
    bundles = [used(n, owner, flow * MIB) for n, (owner, flow) in enumerate(zip(owners, flows, strict=True))]
    carried = {name: sum(f for f, o in zip(flows, owners, strict=True) if o == name) for name in names}
    found = tables([report(name, 3.0 * carried[name]) for name in names], bundles, **WITHOUT_BUDGETS)
    made = planner_round.decide(KEY, found)
    row = next(row for row in made["planner_targets"] if row["subject_kind"] == "cluster")
    over = [one for one in made["planner_findings"] if one["rule"] == "stays_above_target"]
    assume(row["rule"] == "acts" and not over)
    assert row["numbers"]["busiest_after_due"] <= row["numbers"]["stop"] + 0.0100001


def test_a_cluster_of_less_than_a_message_and_a_byte_per_second_is_planned_like_one_of_more() -> None:
    rows, settled = [], []
    for scale in (1.0, 0.5**40):
        found = uneven()
        for row in found["bundle_load"]:
            row |= {name: scale * row[name] for name in row if "_msg_" in name and row[name] is not None}
        first = planner_round.decide(KEY, found)
        second = planner_round.decide(KEY, {**found, "state": as_read(first["strategy_state"])})
        made = [*first["planner_targets"], *second["planner_targets"]]
        rows.append([(row["subject"], row["rule"], row["outcome"], row["destination"]) for row in made])
        settled.append([(row["measured"], row["threshold"]) for row in made if row["unit"] == "fraction"])
    assert rows[0] == rows[1]
    assert settled[0] == settled[1]
    assert any(outcome == "unload" for _, _, outcome, _ in rows[0])


def test_a_move_is_unloaded_and_placed_where_the_plan_has_it() -> None:
    made = decided(uneven())
    asked = moves(made)
    assert asked
    assert {source for _, source, _ in asked} == {BROKERS[0]}
    rows = [row for row in made.rows["unload_decisions"] if row["outcome"] == "unload"]
    assert sorted(row["subject"] for row in rows) == sorted(bundle for bundle, _, _ in asked)
    commands = {row["bundle"]: row["destination"] for row in made.rows["commands"]}
    assert commands == {bundle: destination for bundle, _, destination in asked}
    assert made.plan.figures["held"] == 0


@pytest.mark.parametrize("budget", ["evenkeelMaxUnloadsFromBroker", "evenkeelMaxUnloadsPerCycle"])
def test_a_broker_that_may_not_give_all_gives_first_what_takes_most_off_it_whatever_it_costs(budget: str) -> None:
    heavy = [used(n, BROKERS[0], 9 * MIB, topics=400) for n in range(2)]
    light = [used(n, BROKERS[0], 3 * MIB, topics=1) for n in range(2, 12)]
    reports = [report(name, usage) for name, usage in zip(BROKERS, (80.0, 1.0, 1.0), strict=False)]
    found = tables(reports, heavy + light, **{**WITHOUT_BUDGETS, budget: 2})
    rows = planner_round.decide(KEY, found)["planner_targets"]
    gone = {row["subject"] for row in rows if row["outcome"] == "unload"}
    waiting = {row["subject"] for row in rows if row["outcome"] == "planned"}
    assert gone <= {one["bundle"] for one in heavy}
    assert waiting & {one["bundle"] for one in light}
    assert len(gone) == 2


@pytest.mark.parametrize("budget", [1, 2])
def test_a_plan_promises_what_its_budget_lets_go(budget: int) -> None:
    made = planner_round.decide(KEY, uneven(**{**WITHOUT_BUDGETS, "evenkeelMaxUnloadsPerCycle": budget}))
    due = [row for row in made["planner_targets"] if row["outcome"] == "unload"]
    assert len(due) == budget
    assert any(row["outcome"] == "planned" for row in made["planner_targets"]), "more is wanted"
    state = planner_round.memory_of(as_read(made["strategy_state"]))
    promise = state.promises[BROKERS[0]]
    assert {broker for broker, other in state.promises.items() if other.gain < 0} == {row["destination"] for row in due}
    assert promise.gain == pytest.approx(math.fsum(row["numbers"]["gain"] for row in due))
    assert promise.before == pytest.approx(0.59)
    assert promise.load == pytest.approx((1.0 - promise.gain / 0.59) * 59.0 * 2 * MIB)


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_memory_counts_where_the_load_manager_counts_it(manager: str) -> None:
    """High memory and low CPU, of which the modular manager knows nothing."""
    name = {"modular": "ModularLoadManagerImpl", "extensible": "ExtensibleLoadManagerImpl"}[manager]
    found = uneven(loadManagerClassName=name, loadBalancerMemoryResourceWeight=1.0)
    found["cycle"][0]["manager"] = manager
    rows = [row | {"memory_usage": 95.0, "memory_limit": 100.0} for row in found["broker_reports"]]
    plain, full = (
        view_of({**found, "broker_reports": reports}, reading.settings_of(found))[0].brokers
        for reports in (found["broker_reports"], rows)
    )
    assert (full == plain) == (manager == "modular")
    assert {usages.usages.get("memory") for usages in full.values()} == {None if manager == "modular" else 0.95}


def test_a_busy_bundle_without_samples_counts_by_its_latest_figures() -> None:
    found = uneven()
    bundles = [{**row, "short_samples": 0, "short_msg_throughput_in": 0.0} for row in found["bundle_load"]]
    view, _ = view_of({**found, "bundle_load": bundles}, reading.settings_of(found))
    assert [one.average for one in view.bundles] == [one.figures for one in view.bundles]
    assert max(one.average.traffic for one in view.bundles) == 14 * MIB


def test_unknown_counts_of_a_bundle_are_none_at_all() -> None:
    known = uneven()["bundle_load"][0]
    counts = ({}, {"consumers": None}, {"producers": None}, {"consumers": None, "producers": None, "topics": None})
    found = uneven() | {"bundle_load": [known | {"consumers": 3, "producers": 4, "topics": 5} | one for one in counts]}
    bundles = view_of(found, reading.settings_of(found))[0].bundles
    assert [(one.sessions, one.topics) for one in bundles] == [(7.0, 5), (4.0, 5), (3.0, 5), (0.0, 0)]


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_a_bundle_of_a_group_goes_where_the_group_has_least(manager: str) -> None:
    name = {"modular": "ModularLoadManagerImpl", "extensible": "ExtensibleLoadManagerImpl"}[manager]
    groups = {"acme/ns0": "g", "acme/ns1": "g"}
    policies = [{"isolation_policies": "{}", "anti_affinity_groups": groups, "failure_domains": {},
                 "brokers": [*BROKERS[:3]], "manager": manager}]  # fmt: skip
    bundles = [used(n, owner, MIB) for n, owner in ((0, BROKERS[0]), (15, BROKERS[1]), (30, BROKERS[2]))]
    reports = [report(one, 10.0, load_manager_class=name) for one in BROKERS[:3]]
    found = tables(reports, bundles, policies=policies, manager=manager, loadManagerClassName=name)
    places = Places(found, reading.settings_of(found), BROKERS[:3], reading.broker_reports(found))
    of_group, free = bundles[0]["bundle"], bundles[2]["bundle"]
    assert (places.group(of_group), places.group(free)) == ("g", None)
    assert places.of(of_group, None) == {BROKERS[2]}, "bundles on the two others count, another namespace's do not"
    assert places.of(free, BROKERS[2]) == {*BROKERS[:3]}


@pytest.mark.parametrize(("percent", "stays"), [(0.0, 10), (0.5, 9), (15.0, 1), (25.0, 0), (100.0, 0)])
def test_bundles_above_the_share_that_may_move_stay(percent: float, stays: int) -> None:
    """The heaviest has 21.8 % of the traffic, the next 14.0 %, and the lightest 0.2 %."""
    found = uneven(evenkeelMaxBundleTrafficPercent=percent)
    found["bundle_load"].append(used(20, BROKERS[0], 0.1 * MIB))
    view, _ = view_of(found, reading.settings_of(found))
    of_first = [one for one in view.bundles if one.owner == BROKERS[0]]
    assert sum(one.held == "bundle_too_heavy" for one in of_first) == stays


@pytest.mark.parametrize(
    ("values", "unclear", "on_their_way", "rule"),
    [
        ({}, 0, 0, None),
        ({"evenkeelMaxUnclearOwnershipPercent": 27.0}, 3, 0, "ownership_unclear"),
        ({"evenkeelMaxUnclearOwnershipPercent": 27.0}, 3, 1, None),
        ({"evenkeelMaxUnclearOwnershipPercent": 27.5}, 3, 0, None),
        ({"evenkeelMaxUnclearOwnershipPercent": 0.0}, 0, 3, None),
        ({"evenkeelMaxUnclearOwnershipPercent": 0.0, "evenkeelGuardsEnabled": False}, 3, 0, None),
        ({"evenkeelMaintenanceWindows": ["08:27-08:28"]}, 0, 0, None),
        ({"evenkeelMaintenanceWindows": ["08:28-08:27"]}, 0, 0, "outside_maintenance_windows"),
        ({"evenkeelSheddingEnabled": False}, 0, 0, "switched_off"),
    ],
)
def test_nothing_may_move_where_ownership_is_unclear_or_the_time_is_wrong(
    values: dict[str, Any], unclear: int, on_their_way: int, rule: str | None
) -> None:
    """Of eleven bundles so many have two owners, of which some are moving."""
    found = uneven(**values)
    for row in found["bundle_load"][:unclear]:
        row["ownership"] = "doubled"
    names = [row["bundle"] for row in found["bundle_load"][:on_their_way]]
    acts = [act(n, name, BROKERS[0], BROKERS[1], 0.5, "done") for n, name in enumerate(names)]
    found["cycle"] = uneven_with(found, acts)
    assert view_of(found, reading.settings_of(found))[0].stopped == rule


@pytest.mark.parametrize(
    ("percent", "most", "silent", "rule"),
    [
        (60.0, -1, 2, None),
        (60.5, -1, 2, "too_many_silent_brokers"),
        (0.0, 2, 2, None),
        (0.0, 1, 2, "too_many_silent_brokers"),
        (0.0, 0, 0, None),
        (0.0, 0, 1, "too_many_silent_brokers"),
    ],
)
def test_nothing_may_move_where_too_many_of_the_listed_brokers_are_silent(
    percent: float, most: int, silent: int, rule: str | None
) -> None:
    """Three report beside them."""
    found = uneven(evenkeelMinReportedBrokersPercent=percent, evenkeelMaxSilentBrokers=most)
    found["broker_load"] += [{**found["broker_load"][0], "broker": name} for name in BROKERS[3 : 3 + silent]]
    assert view_of(found, reading.settings_of(found))[0].stopped == rule


@pytest.mark.parametrize(("points", "gives"), [(0.0, True), (0.4, True), (0.6, False), (1.0, False)])
def test_a_broker_less_than_the_least_gain_above_its_level_gives_nothing(points: float, gives: bool) -> None:
    """The brokers are at 70.0, 42.9 and 7.1 %; the level is 42.4 %."""
    flows = [*[5.0] * 14, *[4.0] * 10, 2.9, 7.1]
    owners = [*BROKERS[:1] * 14, *BROKERS[1:2] * 11, BROKERS[2]]
    bundles = [used(n, owner, flow * MIB) for n, (owner, flow) in enumerate(zip(owners, flows, strict=True))]
    reports = [report(name, usage) for name, usage in zip(BROKERS, (70.0, 42.9, 7.1), strict=False)]
    found = tables(reports, bundles, **WITHOUT_BUDGETS, evenkeelPlannerLeastGainPoints=points)
    rows = planner_round.decide(KEY, found)["planner_targets"]
    (cluster,) = [row for row in rows if row["subject_kind"] == "cluster"]
    assert cluster["numbers"]["stop"] == pytest.approx(0.424)
    assert {row["broker"] for row in rows if row["outcome"] == "unload"} == {*BROKERS[: 2 if gives else 1]}


@pytest.mark.parametrize(("beside", "counted"), [((), [0, 0, 0]), ((1.0,), [1, 2, 2])])
def test_cycles_above_the_level_are_counted_and_those_at_it_are_not(
    beside: tuple[float, ...], counted: list[int]
) -> None:
    """A bundle that sets the level is alone on its broker, or is not."""
    bundles = [used(n, BROKERS[n % 3], flow * MIB) for n, flow in enumerate((60.0, 10.0, 10.0, *beside))]
    found = tables([report(name, usage) for name, usage in zip(BROKERS, (60.0, 10.0, 10.0), strict=False)], bundles)
    above = []
    for minutes in (0, 5, 10):
        at = (datetime.fromisoformat(AT) + timedelta(minutes=minutes)).isoformat()
        made = planner_round.decide(KEY, {**found, "cycle": [{**found["cycle"][0], "cycle_at": at}]})
        (cluster,) = [row["numbers"] for row in made["planner_targets"] if row["subject_kind"] == "cluster"]
        assert (cluster["busiest"] > cluster["act"]) == bool(beside)
        found["state"] = as_read(made["strategy_state"])
        above.append(planner_round.memory_of(found["state"]).above)
    assert above == counted


@pytest.mark.parametrize(("hours", "held"), [(23.99, "moved_often"), (24.0, None)])
def test_a_move_counts_for_a_day(hours: float, held: str | None) -> None:
    found = uneven(evenkeelFreeMovesPerBundlePerDay=1)
    one = found["bundle_load"][0]["bundle"]
    acts = [act(1, one, BROKERS[1], BROKERS[0], 60.0 * hours, "done")]
    found["cycle"][0]["steering"] = json.dumps({"acts": acts, "pauses": []})
    view, _ = view_of(found, reading.settings_of(found))
    assert {each.held for each in view.bundles if each.name == one} == {held}


@pytest.mark.parametrize(
    ("minutes", "values", "left"),
    [
        (59.9, {}, True),
        (60.0, {}, False),
        (119.9, {"evenkeelBounceWindowMinutes": 120}, True),
        (120.0, {"evenkeelBounceWindowMinutes": 120}, False),
    ],
)
def test_a_bundle_may_return_after_the_longer_of_two_windows(
    minutes: float, values: dict[str, Any], left: bool
) -> None:
    found = uneven(**values)
    name = found["bundle_load"][0]["bundle"]
    found["cycle"] = uneven_with(found, [act(1, name, BROKERS[1], BROKERS[0], minutes, "done")])
    view, _ = view_of(found, reading.settings_of(found))
    assert {one.name: {*one.left} for one in view.bundles if one.left} == ({name: {BROKERS[1]}} if left else {})
    assert {one.name: {*one.left_today} for one in view.bundles if one.left_today} == {name: {BROKERS[1]}}


def test_only_unloads_that_were_done_are_moves_of_the_past() -> None:
    found = uneven()
    names = [row["bundle"] for row in found["bundle_load"]]
    acts = [act(n, names[n], BROKERS[n % 3], BROKERS[1], 20.0, "done") for n in range(3)]
    acts[1] |= {"kind": "split", "destination": None, "cuts": [1 << 27], "unload_children": False}
    acts[2]["from_broker"] = None
    acts += [act(3, names[3], BROKERS[0], BROKERS[1], 25.0, "refused")]
    acts += [act(4, names[4], BROKERS[0], BROKERS[1], 30.0, None)]
    found["cycle"] = uneven_with(found, acts)
    view, _ = view_of(found, reading.settings_of(found))
    assert view.moved == {(datetime.fromisoformat(acts[0]["cycle_at"]), name) for name in BROKERS[:2]}


def test_a_broker_whose_usage_stays_without_traffic_is_named() -> None:
    """The third has none of it and is at 70 %."""
    found = uneven()
    reports = [{**row, "cpu_usage": 70.0} if row["broker"] == BROKERS[2] else row for row in found["broker_reports"]]
    rows = planner_round.decide(KEY, {**found, "broker_reports": reports})["planner_findings"]
    (row,) = [row for row in rows if row["rule"] == "base_above_target"]
    assert (row["subject"], row["measured"]) == (BROKERS[2], pytest.approx(0.7))
    assert 0.0 < row["threshold"] < 0.7
    assert row["numbers"] == {"base": row["measured"], "stop": row["threshold"]}


def test_where_nothing_is_to_do_nothing_is_done() -> None:
    bundles = [used(n, BROKERS[n % 3], 5 * MIB) for n in range(12)]
    found = tables([report(name, 40.0) for name in BROKERS[:3]], bundles)
    made = decided(found)
    assert moves(made) == []
    assert rule_of_cluster(made.rows) == "within_band"
    assert (made.plan.figures["shedder"], made.plan.figures["placement"]) == ("Planner", "Planner")
    shadow = decided({**found, "cycle": tables([], [], evenkeelPlanner="shadow")["cycle"]})
    assert (shadow.plan.figures["shedder"], shadow.plan.figures["placement"]) == (
        "ThresholdShedder", "LeastLongTermMessageRate",
    )  # fmt: skip


def test_noise_below_the_band_has_to_be_seen_twice() -> None:
    owners = [name for name, count in zip(BROKERS, (24, 20, 20), strict=False) for _ in range(count)]
    bundles = [used(n, owner, MIB) for n, owner in enumerate(owners)]
    found = tables([report(name, usage) for name, usage in zip(BROKERS, (48.0, 40.0, 40.0), strict=False)], bundles)
    first = planner_round.decide(KEY, found)
    assert rule_of_cluster(first) == "seen_once"
    assert {row["rule"] for row in first["planner_targets"] if row["outcome"] == "planned"} == {
        "waits_for_second_cycle"
    }
    second = planner_round.decide(KEY, {**found, "state": as_read(first["strategy_state"])})
    assert rule_of_cluster(second) == "acts"


def with_averages(found: Tables, samples: int, times: float = 1.0) -> Tables:
    """Averages of so many samples, so many times what the latest figures are."""
    bundles = [
        row | {"short_samples": samples, "short_msg_throughput_in": times * row["used_msg_throughput_in"]}
        for row in found["bundle_load"]
    ]
    return {**found, "bundle_load": bundles}


@pytest.mark.parametrize(("samples", "times"), [(0, 1.0), (2, 1.0), (10, 0.5), (10, 2.0)])
def test_the_first_look_at_load_that_may_be_unsteady_moves_nothing(samples: int, times: float) -> None:
    found = with_averages(uneven(), samples, times)
    first = decided(found)
    assert moves(first) == []
    assert rule_of_cluster(first.rows) == "first_look"
    waiting = [row for row in first.rows["planner_targets"] if row["outcome"] == "planned"]
    assert waiting
    assert {row["rule"] for row in waiting} == {"waits_for_second_look"}
    assert "it is not known how steady the load is" in first.rows["planner_targets"][0]["sentence"]
    second = decided(found, first.rows[whole.STATE])
    assert rule_of_cluster(second.rows) == "acts"
    assert moves(second)


@pytest.mark.parametrize("times", [0.95, 1.05])
def test_the_first_look_is_enough_where_averages_say_that_load_is_steady(times: float) -> None:
    assert rule_of_cluster(decided(with_averages(uneven(), 3, times)).rows) == "acts"


def test_bundles_that_never_carried_anything_say_nothing_of_how_steady_the_load_is() -> None:
    found = uneven()
    idle = [used(n, BROKERS[1], 0.0, short_samples=0) for n in range(20, 50)]
    assert rule_of_cluster(decided({**found, "bundle_load": found["bundle_load"] + idle}).rows) == "acts"


def test_a_cycle_that_splits_a_bundle_moves_others_on_the_first_look() -> None:
    found = with_averages(hot_bundle_split(unload=False), 1)
    assert rule_of_cluster(planner_round.decide(KEY, found)) == "acts"


def test_no_bundle_goes_back_within_the_window() -> None:
    found = uneven()
    first = decided(found)
    there = {bundle: destination for bundle, _, destination in moves(first)}
    done = [act(n, bundle, BROKERS[1], BROKERS[0], 30.0, "done") for n, bundle in enumerate(sorted(there))]
    again = decided({**found, "cycle": uneven_with(found, done)})
    assert not [one for one in moves(again) if one[2] == BROKERS[1] and one[0] in there]


def uneven_with(found: Tables, done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**found["cycle"][0], "steering": json.dumps({"acts": done, "pauses": []})}]


def test_bundles_without_owner_are_placed_by_the_plan_and_need_no_command() -> None:
    bundles = [used(n, None if n > 8 else BROKERS[n % 2], 5 * MIB, last_owner=BROKERS[2]) for n in range(12)]
    made = decided(tables([report(BROKERS[0], 50.0), report(BROKERS[1], 40.0)], bundles))
    placed = [row for row in made.rows["placement_decisions"] if row["cause"] == "no_owner"]
    assert [row["strategy"] for row in placed] == ["Planner"] * 3
    assert sorted(row["destination"] for row in placed) == [BROKERS[0], BROKERS[1], BROKERS[1]]
    assert made.rows["commands"] == []


@pytest.mark.parametrize(
    ("reports", "bundles", "rule"),
    [
        ([], [], "nothing_known"),
        ([report(BROKERS[0], 90.0)], [used(0, BROKERS[0], MIB)], "too_few_brokers"),
        ([report(name, math.nan) for name in BROKERS], [used(0, BROKERS[0], MIB)], "within_band"),
        ([report(name, 0.0) for name in BROKERS], [], "within_band"),
        ([report(name, 50.0) for name in BROKERS], [], "within_band"),
    ],
)
def test_what_cannot_be_planned_has_a_reason(
    reports: list[dict[str, Any]], bundles: list[dict[str, Any]], rule: str
) -> None:
    made = decided(tables(reports, bundles))
    assert rule_of_cluster(made.rows) == rule
    assert made.plan.figures["shedder"] == ("ThresholdShedder" if rule == "nothing_known" else "Planner")


def test_a_broker_that_has_measured_nothing_yet_is_not_idle() -> None:
    """Right after its start a broker reports a hundred-thousandth of a percent, whatever it carries."""
    bundles = [used(n, BROKERS[n % 3], 5 * MIB) for n in range(12)]
    made = decided(tables([report(BROKERS[0], 45.0), *(report(name, 0.0001) for name in BROKERS[1:3])], bundles))
    assert rule_of_cluster(made.rows) == "within_band"
    assert moves(made) == []


def test_a_broker_that_joins_a_large_cluster_is_filled_at_once_though_no_other_is_above_the_band() -> None:
    names = [f"b{n}.eu:8080" for n in range(1, 21)]
    bundles = [used(n, names[n % 19], 2 * MIB) for n in range(19 * 6)]
    reports = [*(report(name, 45.0) for name in names[:19]), report(names[19], 3.0)]
    made = decided(tables(reports, bundles))
    assert {destination for _, _, destination in moves(made)} == {names[19]}


HOT = [12.0, 2.5, 2.0, 2.0, 1.5]


def hot_bundle_split(*, unload: bool, topics: int = 8) -> Tables:
    """Three brokers of which the first has nearly all, half of it in a hot bundle that is split in this cycle."""
    bundles = [used(n, BROKERS[0], flow * MIB, topics=topics) for n, flow in enumerate(HOT)]
    bundles += [used(5 + n, BROKERS[1 + n], 2 * MIB) for n in range(2)]
    usages = (sum(HOT), 2.0, 2.0)
    hot = bundles[0]["bundle"]
    namespace, _, edges = hot.rpartition("/")
    lower = int(edges[:10], 16)
    cut = lower + (1 << 27)
    upper = lower + (1 << 28)
    children = [f"{namespace}/0x{lower:08x}_0x{cut:08x}", f"{namespace}/0x{cut:08x}_0x{upper:08x}"]
    split = {"subject": hot, "outcome": "split", "children": children, "unload_children": unload}
    found = tables(
        [report(name, 2.0 * usage) for name, usage in zip(BROKERS, usages, strict=False)], bundles, **WITHOUT_BUDGETS
    )
    return {**found, "split_decisions": [split]}


def test_parts_of_a_split_that_leave_by_themselves_are_not_counted_on_their_broker() -> None:
    made = planner_round.decide(KEY, hot_bundle_split(unload=True))
    whole_row = next(row for row in made["planner_targets"] if row["subject_kind"] == "cluster")
    assert whole_row["numbers"]["due"] == 0.0  # without the hot bundle the first broker has as much as the others
    rows = [row for row in made["planner_targets"] if row["subject_kind"] == "bundle"]
    assert not [row for row in rows if row["outcome"] in ("unload", "placed", "planned")]


def test_parts_that_stay_are_planned_with_and_wait() -> None:
    made = planner_round.decide(KEY, hot_bundle_split(unload=False))
    rows = [row for row in made["planner_targets"] if row["outcome"] in ("unload", "planned")]
    waiting = [row for row in rows if row["rule"] == "waits_for_split"]
    assert waiting
    assert {row["subject"][-21:] for row in waiting} <= {"0x00000000_0x08000000", "0x08000000_0x10000000"}
    assert {row["destination"] for row in waiting} <= set(BROKERS[1:3])
    assert "once the parts of a bundle that is split now have settled" in waiting[0]["sentence"]


def test_parts_have_what_their_topics_have_where_the_planner_said_where_to_cut() -> None:
    for shares in ((0.1, 0.9), (0.7, 0.3)):
        found = hot_bundle_split(unload=False, topics=2)
        split = found["split_decisions"][0]
        split["numbers"] = {"part_1": shares[0], "part_2": shares[1]}
        view, _ = view_of(found, reading.settings_of(found))
        hot = bundle_figures(next(row for row in found["bundle_load"] if row["bundle"] == split["subject"]))
        parts = [one for one in view.bundles if one.part]
        assert [one.name for one in parts] == split["children"]
        assert [one.figures for one in parts] == [hot.share(share) for share in shares]


def test_of_a_bundle_with_few_topics_nothing_is_foretold() -> None:
    made = planner_round.decide(KEY, hot_bundle_split(unload=False, topics=7))
    assert "waits_for_split" not in {row["rule"] for row in made["planner_targets"]}


def test_usages_of_zero_are_planned_by_traffic() -> None:
    bundles = [used(n, BROKERS[0], MIB) for n in range(12)]
    made = planner_round.decide(KEY, tables([report(name, 0.0) for name in BROKERS[:3]], bundles))
    due = [row for row in made["planner_targets"] if row["outcome"] == "unload"]
    assert due
    assert {row["basis"] for row in due} == {"traffic"}


def test_all_brokers_over_the_limit_say_how_many_would_do() -> None:
    bundles = [used(n, BROKERS[n % 3], 5 * MIB) for n in range(12)]
    made = planner_round.decide(KEY, tables([report(name, 94.0) for name in BROKERS[:3]], bundles))
    finding = next(row for row in made["planner_findings"] if row["rule"] == "cluster_too_small")
    assert finding["numbers"]["brokers_wanted"] == 4.0


def test_a_bundle_hotter_than_a_broker_is_named_with_what_to_do() -> None:
    bundles = [used(n, BROKERS[0 if n < 6 else 1], (60 if n == 0 else 2) * MIB, topics=n + 1) for n in range(14)]
    usages = (70.0, 16.0, 0.0, 0.0)
    found = tables([report(n, u) for n, u in zip(BROKERS, usages, strict=False)], bundles)
    findings = {(row["subject"], row["rule"]) for row in planner_round.decide(KEY, found)["planner_findings"]}
    assert (bundles[0]["bundle"], "topic_is_the_bundle") in findings
    bundles[0]["topics"] = 9
    findings = {(row["subject"], row["rule"]) for row in planner_round.decide(KEY, found)["planner_findings"]}
    assert (bundles[0]["bundle"], "hotter_than_a_broker") in findings


def test_moves_that_go_together_and_are_above_every_budget_are_named_with_what_to_raise() -> None:
    flows = [(30.0, 0), (30.0, 0), (20.0, 1), (20.0, 1)]
    bundles = [used(n, BROKERS[at], flow * MIB) for n, (flow, at) in enumerate(flows)]
    reports = [report(name, usage) for name, usage in zip(BROKERS, (60.0, 40.0), strict=False)]
    key = "evenkeelMaxMovedTrafficPercent"
    at_once = {"evenkeelMaxBundleTrafficPercent": 100, "evenkeelPlannerActAtOnceAbovePercent": 15}
    found = tables(reports, bundles, **at_once)
    made = planner_round.decide(KEY, found)
    assert {row["rule"] for row in made["planner_targets"] if row["outcome"] == "planned"} == {"moved_traffic"}
    (finding,) = (row for row in made["planner_findings"] if row["rule"] == "moves_above_budget")
    assert (finding["setting"], finding["measured"], finding["threshold"]) == (key, 50.0, 9.0)
    assert "they need 50.0 % of evenkeelMaxMovedTrafficPercent, which is 9.0 %" in finding["sentence"]
    raised = tables(reports, bundles, **at_once, **{key: 51.0})
    made = planner_round.decide(KEY, raised)
    assert len([row for row in made["planner_targets"] if row["outcome"] == "unload"]) == 2
    assert not [row for row in made["planner_findings"] if row["rule"] == "moves_above_budget"]


def test_a_pause_and_a_switch_stop_it() -> None:
    paused = uneven()
    paused["cycle"][0]["steering"] = json.dumps({"acts": [], "pauses": [{"by": "ops", "reason": "upgrade"}]})
    for found, rule in ((paused, "paused"), (uneven(evenkeelSheddingEnabled=False), "switched_off")):
        made = planner_round.decide(KEY, found)["planner_targets"]
        assert [row["rule"] for row in made if row["subject_kind"] == "cluster"] == [rule]
        assert not [row for row in made if row["outcome"] == "unload"]
        assert moves(decided(found)) == []


def test_three_plans_that_bring_too_little_hand_over_to_the_strategy_in_force() -> None:
    state: Sequence[Mapping[str, Any]] = ()
    rules = []
    at = datetime.fromisoformat("2026-11-21T08:00:00+00:00")
    done: list[dict[str, Any]] = []
    flows = [6.0] * 10 + [1.0] * 30
    owners = [BROKERS[0]] * 10 + [BROKERS[1 + n % 2] for n in range(30)]
    for _ in range(30):
        bundles = [used(n, o, f * MIB, topics=2) for n, (o, f) in enumerate(zip(owners, flows, strict=True))]
        loads = [sum(f for o, f in zip(owners, flows, strict=True) if o == name) for name in BROKERS[1:3]]
        usages = (80.0, *(load * 20.0 / 15.0 for load in loads))
        found = tables([report(n, u, report_at=None) for n, u in zip(BROKERS, usages, strict=False)], bundles)
        found["cycle"][0] |= {"cycle_at": at.isoformat(), "steering": json.dumps({"acts": done, "pauses": []})}
        made = decided(found, state)
        state = made.rows[whole.STATE]
        rules += [row["rule"] for row in made.rows["planner_targets"] if row["subject_kind"] == "cluster"]
        names = [one["bundle"] for one in bundles]
        for bundle, source, destination in moves(made):
            # The move is carried out, and the giver's usage stays as it was all the same.
            owners[names.index(bundle)] = destination
            moment = (at + timedelta(seconds=1)).isoformat()
            done.append(
                {
                    **act(len(done), bundle, source, destination, 0, "done"),
                    "cycle_at": at.isoformat(),
                    "seen_at": moment,
                }
            )
        at += timedelta(minutes=5)
        if rules[-1] == "fell_back":
            break
    assert rules[-1] == "fell_back"
    finding = [row for row in made.rows["planner_findings"] if row["rule"] == "promises_not_kept"]
    assert len(finding) == 1
    assert {row["strategy"] for row in made.rows["unload_decisions"]} == {"ThresholdShedder"}


def test_off_leaves_nothing() -> None:
    found = uneven(evenkeelPlanner="off")
    assert planner_round.decide(KEY, found) == {
        "planner_targets": [], "planner_models": [], "planner_findings": [], "strategy_state": [],
    }  # fmt: skip
    assert ON == {"evenkeelPlanner": "on"}


def test_acts_alone_come_to_the_same_moves() -> None:
    found = uneven()
    observed = {name: found[name] for name in whole.OBSERVED}
    alone = whole.decide(SharedRows(observed, acts_only=True), found["cycle"][0], ())
    assert moves(alone) == moves(decided(found))


def test_wishes_come_first_in_the_budgets_and_are_left_to_themselves() -> None:
    wish = {"wish_id": "w1", "kind": "unload", "namespace": "acme/ns0", "bundle": "0x00000000_0x10000000",
            "destination": None, "broker": None}  # fmt: skip
    found = uneven(evenkeelMaxUnloadsFromBroker=3, evenkeelMaxMovedTrafficPercent=100)
    found["cycle"][0]["wishes"] = json.dumps([wish])
    made = decided(found)
    asked = {row["bundle"]: row["from_broker"] for row in made.rows["commands"]}
    assert "acme/ns0/0x00000000_0x10000000" in asked
    assert "acme/ns0/0x00000000_0x10000000" not in {bundle for bundle, _, _ in moves(made)}
    assert len(asked) == 3
    assert made.plan.figures["held"] == 0


def test_a_drain_comes_first_and_the_plan_keeps_to_what_it_leaves_of_the_budgets() -> None:
    found = uneven(
        evenkeelDrainingBrokers=[BROKERS[1]], evenkeelMaxUnloadsToBroker=2, **{"evenkeelMaxUnloadsPerCycle": 4}
    )
    made = decided(found)
    drained = [row for row in made.rows["unload_decisions"] if row["rule"] == "draining"]
    assert len(drained) == 2
    assert moves(made) == []
    assert made.plan.figures["held"] == 0
    waits = {row["rule"] for row in made.rows["planner_targets"] if row["outcome"] == "planned"}
    assert waits == {"unloads_to_broker"}
