"""Bundles that stay or break a rule, and false reports, concern their own broker only; findings are true."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given

from benchmarks.judged_target import ruled_usage
from evenkeel.cycle import reading
from evenkeel.planner import round as planner_round
from evenkeel.planner.figures import PlannerFigures
from evenkeel.planner.findings import findings
from evenkeel.planner.memory import PlannerMemory, Promise
from evenkeel.planner.plan import PlannerPlan, fits_nowhere, plan
from evenkeel.planner.reconciler import loads_after
from evenkeel.planner.round import memory_of, model_rows, rows_of
from evenkeel.planner.target import levels_of
from evenkeel.planner.view import BundleFigures, PlannerBroker, PlannerBundle, PlannerView
from evenkeel.planner.view_from_rows import view_of
from evenkeel.settings import Settings
from tests.cycle.rows import MIB, as_read, report
from tests.planner.planner_rows import BROKERS, Tables, any_rows, used
from tests.planner.planner_rows import given as tables
from tests.planner.small_clusters import SmallCluster, small_clusters

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
BEFORE = AT - timedelta(minutes=5)
NAMES = ("b1", "b2", "b3", "b4")
UNEVEN = {"b1": 8, "b2": 3, "b3": 3, "b4": 2}


def bundle(name: str, owner: str | None, load: float, **more: Any) -> PlannerBundle:
    figures = BundleFigures(bytes_in=load)
    return PlannerBundle(name, owner, figures, figures, topics=9, **{"brokers": frozenset(NAMES), **more})


def uneven(*more: PlannerBundle, counts: Mapping[str, int] = UNEVEN) -> list[PlannerBundle]:
    """So many times ten bundles of 1 byte/s on each broker, and some more."""
    return [bundle(f"a/b/{name}{n}", name, 1.0) for name, count in counts.items() for n in range(10 * count)] + [*more]


def view_with(
    bundles: list[PlannerBundle], reported: Mapping[str, float] | None = None, **usages: Mapping[str, float]
) -> PlannerView:
    """Brokers with 0.4 % of CPU for each byte/s; `reported`: as parts of that; `usages`: others, by broker."""
    loads = {name: sum(one.figures.traffic for one in bundles if one.owner == name) for name in NAMES}
    brokers = {}
    for name in NAMES:
        own = {"cpu": 0.004 * loads[name] * (reported or {}).get(name, 1.0), **usages.get(name, {})}
        brokers[name] = PlannerBroker(name, own)
    return PlannerView(AT, brokers, bundles, traffic=sum(one.figures.traffic for one in bundles))


def planned(view: PlannerView, memory: PlannerMemory | None = None, **settings: Any) -> PlannerPlan:
    known = replace(memory or PlannerMemory(at=BEFORE), above=2)
    free: dict[str, Any] = {
        "evenkeelMaxMovedTrafficPercent": 100.0,
        "evenkeelMaxUnloadsFromBroker": -1,
        "evenkeelMaxUnloadsToBroker": -1,
    }
    return plan(view, known, Settings().with_values({**free, "evenkeelMaxUnloadsPerCycle": -1, **settings}))


def sources(found: PlannerPlan) -> list[str | None]:
    return [step.source for step in found.due]


@pytest.mark.parametrize("held", ["frozen", "excluded_namespace", "no_other_broker", "anti_affinity_even"])
def test_what_has_to_stay_lifts_the_level_of_its_own_broker_alone(held: str) -> None:
    found = planned(view_with(uneven(bundle("a/c/0", "b4", 300.0, held=held))))
    assert found.figures is not None
    levels = found.figures.levels
    assert levels["b4"].stop > 2 * levels["b1"].stop
    assert found.rule == "acts"
    assert sorted({step.source or "" for step in found.due}) == ["b1", "b4"]
    after = loads_after(found.steps, found.figures)
    assert max(after[name]["cpu"] for name in NAMES[:3]) <= 59.5
    assert after["b4"]["cpu"] <= 303.0


def test_a_bundle_that_fits_nowhere_does_not_keep_others_uneven() -> None:
    found = planned(view_with(uneven(bundle("a/c/0", "b4", 300.0))), evenkeelSplitEnabled=False)
    assert found.figures is not None
    assert "b1" in sources(found)
    after = loads_after(found.steps, found.figures)
    assert max(after[name]["cpu"] for name in NAMES[:3]) <= 59.5
    assert after["b4"]["cpu"] == 300.0


def of_groups(owners: list[str], group: list[str], manager: str = "modular", **values: Any) -> Tables:
    """Bundles of no group on these brokers, and light ones of a group, each in a namespace of its own."""
    name = {"modular": "ModularLoadManagerImpl", "extensible": "ExtensibleLoadManagerImpl"}[manager]
    groups = {f"acme/ns{n}": "g" for n in range(len(group))}
    bundles = [used(15 * n, owner, MIB / 8) for n, owner in enumerate(group)]
    bundles += [used(300 + n, owner, 4 * MIB) for n, owner in enumerate(owners)]
    loads = {broker: 4.0 * owners.count(broker) + group.count(broker) / 8 for broker in BROKERS[:4]}
    reports = [report(broker, load, load_manager_class=name) for broker, load in loads.items()]
    policies = [{"isolation_policies": "{}", "anti_affinity_groups": groups, "failure_domains": {},
                 "brokers": [*BROKERS[:4]], "manager": manager}]  # fmt: skip
    return tables(
        reports, bundles, policies=policies, manager=manager, loadManagerClassName=name,
        evenkeelPlannerActAtOnceAbovePercent=11.0, **values,
    )  # fmt: skip


def decided(found: Tables, state: list[dict[str, Any]] | None = None) -> dict[str, list[dict[str, Any]]]:
    return planner_round.decide({"cluster": "lab"}, {**found, "state": state or []})


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_a_group_in_an_uneven_cluster_keeps_no_other_bundle_from_moving(manager: str) -> None:
    """Only the last broker may get bundles of the group."""
    owners = [BROKERS[0]] * 9 + [BROKERS[1], BROKERS[2], BROKERS[3]]
    group = [*BROKERS[:3], *BROKERS[:3], BROKERS[3]]
    found = of_groups(owners, group, manager, evenkeelMaxMovedTrafficPercent=100.0)
    rows = decided(found, as_read(decided(found)["strategy_state"]))["planner_targets"]
    assert rows[0]["rule"] == "acts"
    due = [row["subject"] for row in rows if row["outcome"] == "unload"]
    assert any(int(one.split("/ns")[1].split("/")[0]) >= 20 for one in due)


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_a_group_that_is_too_close_is_mended_first_one_bundle_at_a_time(manager: str) -> None:
    even = [broker for broker in BROKERS[:4] for _ in range(4)]
    rows = decided(of_groups(even, [BROKERS[0]] * 3, manager))["planner_targets"]
    assert rows[0]["rule"] == "mends"
    due = [row for row in rows if row["outcome"] == "unload"]
    assert [(row["broker"], row["rule"]) for row in due] == [(BROKERS[0], "mends_anti_affinity")]
    assert "too much of its anti-affinity group" in due[0]["sentence"]
    rows = decided(of_groups(even, [BROKERS[0], BROKERS[1]], manager))["planner_targets"]
    assert rows[0]["rule"] == "within_band"


def test_a_bundle_outside_its_isolation_policy_is_mended_first_within_the_budgets() -> None:
    policy = {"namespaces": ["acme/ns20"], "primary": [BROKERS[3].split(":")[0]], "secondary": [],
              "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}}}  # fmt: skip
    found = of_groups([broker for broker in BROKERS[:3] for _ in range(4)], [])
    found["cluster_policies"][0]["isolation_policies"] = json.dumps({"own": policy})
    rows = decided(found)["planner_targets"]
    due = [row for row in rows if row["outcome"] == "unload"]
    assert rows[0]["rule"] in ("mends", "acts")
    assert {row["rule"] for row in due} == {"mends_isolation"}
    assert {row["destination"] for row in due} == {BROKERS[3]}
    waiting = [row for row in rows if row["outcome"] == "planned"]
    assert waiting, "the rest waits for the budget of the next cycles"
    assert {row["rule"] for row in waiting} <= {"unloads_to_broker", "moved_traffic"}


@pytest.mark.parametrize(
    ("usages", "counts"),
    [
        ({}, 0.9),
        ({name: {"bandwidth_out": 0.1} for name in NAMES}, 0.9),
        ({name: {"bandwidth_in": 0.05 if name == "b4" else 0.1} for name in NAMES}, 0.5),
    ],
)
def test_a_broker_that_reports_too_little_counts_like_others_unless_its_network_shows_that_it_is_larger(
    usages: dict[str, dict[str, float]], counts: float
) -> None:
    view = view_with(uneven(counts=dict.fromkeys(NAMES, 4)), {"b4": 0.5}, **usages)
    found = planned(view)
    assert found.figures is not None
    assert found.figures.usage["b4"] == pytest.approx(counts * found.figures.usage["b1"], rel=0.01)
    rules = [finding.rule for finding in findings(view, found, Settings())]
    assert rules == (["usage_below_load"] if counts > 0.5 else [])
    assert bool(sources(found)) == (counts == 0.5)


def promised(gain: float, reported: float) -> tuple[PlannerView, PlannerMemory]:
    """The fourth broker got half of its load, by which its usage was to rise from 0.08 by so much."""
    view = view_with(uneven(counts=dict.fromkeys(NAMES, 4)), {"b4": reported})
    view = replace(view, moved=frozenset({(BEFORE, "b4")}))
    return view, PlannerMemory(at=BEFORE, promises={"b4": Promise(BEFORE, "cpu", -gain, 0.08, 40.0)})


@pytest.mark.parametrize(
    ("gain", "reported", "is_deaf"), [(0.08, 1.0, False), (0.08, 0.65, False), (0.08, 0.55, True), (0.04, 0.5, False)]
)
def test_a_broker_whose_usage_does_not_answer_to_load_gets_no_more_for_a_day(
    gain: float, reported: float, is_deaf: bool
) -> None:
    view, memory = promised(gain, reported)
    found = planned(view, memory)
    assert [*found.memory.deaf] == (["b4"] if is_deaf else [])
    rules = [finding.rule for finding in findings(view, found, Settings())]
    assert ("does_not_answer_to_load" in rules) == is_deaf
    state = as_read(rows_of(found.memory))
    assert memory_of(state).deaf == found.memory.deaf
    later = view_with(uneven(counts={"b1": 9, "b2": 4, "b3": 4, "b4": 1}))
    for hours, gets in ((1, not is_deaf), (25, True)):
        again = planned(replace(later, at=AT + timedelta(hours=hours)), memory_of(state))
        assert ("b4" in {step.destination for step in again.due}) == gets


@given(small_clusters())
def test_the_highest_level_is_the_lowest_usage_that_rules_allow(cluster: SmallCluster) -> None:
    levels = levels_of(cluster.lines, cluster.kinds)
    assert levels.keys() == cluster.lines.keys()
    most = max(max(level) for level in levels.values())
    bases = max(line.usage(0.0) for line in cluster.lines.values())
    assert most == pytest.approx(max(ruled_usage(cluster.lines, cluster.kinds), bases), rel=1e-9, abs=1e-12)


def fits(view: PlannerView, found: PlannerPlan, figures: PlannerFigures, broker: str) -> bool:
    """Return True if a bundle that may leave the broker after all steps fits on another one."""
    after, moved = loads_after(found.steps, figures), {step.bundle: step.destination for step in found.steps}
    for one in view.bundles:
        loads = {r: figures.load(one, r) for r in figures.resources}
        if moved.get(one.name, one.owner) != broker or (one.held and one.name not in moved) or not any(loads.values()):
            continue
        for other in sorted((one.brokers - one.left - {broker}) & figures.usage.keys()):
            usage = figures.usage_at(other, {r: after[other][r] + loads[r] for r in loads})
            if usage <= figures.levels[other].stop:
                return True
    return False


@given(any_rows())
def test_findings_and_sentences_hold_by_the_figures(rows: Tables) -> None:
    settings = reading.settings_of(rows)
    view, _ = view_of(rows, settings)
    found = plan(view, PlannerMemory(), settings)
    figures = found.figures
    if figures is None:
        return
    after = loads_after(found.steps, figures)
    for finding in findings(view, found, settings):
        broker = finding.subject
        if finding.rule == "stays_above_target":
            assert figures.usage_at(broker, after[broker]) > figures.levels[broker].stop
            assert not fits(view, found, figures, broker)
        elif finding.rule == "base_above_target":
            assert max(figures.models[r][broker].line.base for r in figures.resources) > figures.levels[broker].even
        elif finding.rule in ("hotter_than_a_broker", "topic_is_the_bundle"):
            one = next(one for one in view.bundles if one.name == broker)
            loads = {r: figures.load(one, r) for r in figures.resources}
            places = {one.owner} if one.held in ("frozen", "excluded_namespace") else {*one.brokers, one.owner}
            assert all(
                figures.usage_at(place or "", loads) > figures.open_levels[place or ""].even
                for place in places & figures.usage.keys()
            )
        elif finding.rule == "usage_below_load":
            assert finding.measured is not None
            assert finding.threshold is not None
            assert finding.measured < finding.threshold
    for row in model_rows(found):
        assert row["is_used"] == ("is used" in row["sentence"])


def test_a_broker_stays_above_its_level_only_where_no_bundle_with_load_may_leave_and_fits() -> None:
    view, settings = view_with(uneven()), Settings()
    figures = planned(view).figures
    assert figures is not None
    above = sorted(broker for broker, usage in figures.usage.items() if usage > figures.levels[broker].stop + 0.02)
    assert above == ["b1"]

    def stay(without_load: bool = False, **changes: Any) -> list[str]:
        changed = [replace(one, **changes) if one.owner in above else one for one in view.bundles]
        loads = {r: {name: 0.0 if without_load else load for name, load in of.items()}
                 for r, of in figures.bundle_loads.items()}  # fmt: skip
        return fits_nowhere(replace(view, bundles=changed), replace(figures, bundle_loads=loads), (), settings)

    assert stay() == []
    assert stay(held="frozen") == stay(brokers=frozenset()) == stay(without_load=True) == above
