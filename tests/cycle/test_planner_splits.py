"""A hot bundle in whole cycles that take effect: it is split, and its parts are spread until no broker is too busy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel import repetition as whole
from evenkeel.cycle import reading
from evenkeel.cycle.memo import SharedRows
from evenkeel.model.bundles import HIGHEST_HASH, BundleRange, bundle_name, initial_boundaries, ranges_of
from evenkeel.planner.memory import PlannerMemory
from evenkeel.planner.round import bundles_wanted_split, rows_of
from evenkeel.replay.fold import goes_to
from evenkeel.replay.modelled_cluster import Cluster, Topic, UsageFit
from evenkeel.settings import resolve
from tests.cycle.rows import as_read

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
MIB = 1_048_576.0
BROKERS = [f"b{n}.eu:8080" for n in range(4)]
NAMESPACE = "shop/orders"
EDGES = initial_boundaries(16)
BUNDLES = [bundle_name(NAMESPACE, one) for one in ranges_of(EDGES)]
HOT = BUNDLES[0]
MANAGERS: Mapping[str, Mapping[str, Any]] = {
    "modular": {},
    "extensible": {
        "evenkeelManager": "extensible",
        "loadManagerClassName": "ExtensibleLoadManagerImpl",
        "loadBalancerLoadSheddingStrategy": "TransferShedder",
        "loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight",
    },
}
LARGE = 8192.0
"""Bytes of a message: the hot bundle stays below all limits at which Pulsar itself splits."""
ENOUGH = 40
"""Cycles of a minute."""


@dataclass
class Course:
    """What came of the cycles."""

    usages: list[dict[str, float]] = field(default_factory=list)
    rows: list[Mapping[str, Sequence[Mapping[str, Any]]]] = field(default_factory=list)
    commands: list[list[dict[str, Any]]] = field(default_factory=list)
    observed: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """What the last cycle saw."""

    @property
    def splits(self) -> list[tuple[int, str]]:
        return [(n, row["bundle"]) for n, own in enumerate(self.commands) for row in own if row["kind"] == "split"]

    def ratio(self, n: int) -> float:
        return max(self.usages[n].values()) * len(BROKERS) / sum(self.usages[n].values())

    def of_planner(self) -> list[Mapping[str, Any]]:
        return [row for own in self.rows for row in own["split_decisions"] if row["strategy"] == "Planner"]


def course(
    manager: str, hot: Sequence[float], cycles: int = ENOUGH, *, is_known: bool = False, **overrides: Any
) -> Course:
    """Cycles of a cluster whose first bundle has topics with this traffic (MiB/s); each of the others has 3 MiB/s.
    `is_known`: the planner has looked at the cluster before."""
    effective = resolve(observed=None, overrides={"evenkeelPlanner": "on", **MANAGERS[manager], **overrides})
    width = EDGES[1] // (len(hot) + 1)
    topics = [Topic(NAMESPACE, (n + 1) * width, LARGE) for n in range(len(hot))]
    flows = [flow * MIB for flow in hot]
    for one in ranges_of(EDGES)[1:]:
        third = (min(one.upper, HIGHEST_HASH - 1) - one.lower) // 4
        topics += [Topic(NAMESPACE, one.lower + n * third, LARGE) for n in (1, 2, 3)]
        flows += [MIB] * 3
    cluster = Cluster(
        name="lab",
        fits=dict.fromkeys(BROKERS, UsageFit(0.0, 0.4 * len(BROKERS) / sum(flows))),
        topics=topics,
        boundaries={NAMESPACE: EDGES},
        owner={bundle: BROKERS[n % len(BROKERS)] for n, bundle in enumerate(BUNDLES)},
        manager=manager,
    )
    settings, found = effective.settings, Course()
    state: list[Any] = as_read(rows_of(PlannerMemory(at=BEGIN - timedelta(minutes=1)))) if is_known else []
    for n in range(cycles):
        at = BEGIN + n * timedelta(minutes=1)
        cluster.observe(at, flows, (), settings)
        found.usages.append(cluster.usage())
        observed = {**cluster.rows(settings), "topic_hashes": cluster.topic_hashes(bundles_wanted_split(state))}
        cycle = reading.cycle_row(
            "lab", at, effective.to_json(), effective.digest, manager=manager, mode="auto", acts=cluster.acts
        )
        made = whole.decide(SharedRows(observed), cycle, state)
        state = list(made.rows[whole.STATE])
        found.rows.append(made.rows)
        found.observed = observed
        found.commands.append([dict(row) for row in made.rows["commands"]])
        commands = [{**row, "command_id": f"{n}-{row['step']}"} for row in made.rows["commands"]]
        cluster.carry_out(zip(commands, [goes_to(one) for one in made.plan.asked], strict=True), ())
    return found


SPREAD = [5.0] * 12
ONE = [57.0, *([0.005] * 10)]
NEARLY_ONE = [0.9, 57.0, *([0.3] * 2)]


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_hot_bundle_is_split_and_its_parts_are_spread_to_within_the_target(manager: str) -> None:
    found = course(manager, SPREAD)
    assert found.ratio(0) > 1.4
    first, bundle = found.splits[0]
    assert (first, bundle) == (1, HOT)
    assert len(found.splits) in ((2,) if manager == "modular" else (3, 4))
    (row,) = [row for row in found.rows[1]["split_decisions"] if row["subject"] == HOT and row["outcome"] == "split"]
    assert row["algorithm"] == "specified_positions_divide"
    assert "it is cut where its parts can be placed" in row["sentence"]
    reached = next(n for n in range(ENOUGH) if found.ratio(n) <= 1.10)
    assert reached <= 30
    assert max(found.ratio(n) for n in range(reached + 5, ENOUGH)) <= 1.11
    assert not [row for own in found.rows for row in own["guard_decisions"] if row["outcome"] == "held"]
    assert [row for own in found.commands[reached + 5 :] for row in own] == []


@pytest.mark.parametrize("manager", MANAGERS)
def test_children_stay_with_their_owner_and_move_once_their_figures_have_settled(manager: str) -> None:
    found = course(manager, SPREAD)
    born = {
        child: n
        for n, own in enumerate(found.rows)
        for row in own["split_decisions"]
        if row["outcome"] == "split"
        for child in row["children"]
    }
    moves = {row["bundle"]: n for n, own in enumerate(found.commands) for row in own if row["kind"] == "unload"}
    moved = born.keys() & moves.keys()
    assert moved
    assert all(moves[child] - born[child] >= 3 for child in moved)
    assert not any(row["unload_children"] for row in found.of_planner())


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_bundle_whose_load_is_one_topic_is_refused_once_an_hour_and_never_split(manager: str) -> None:
    found = course(manager, ONE, cycles=70)
    assert found.splits == []
    rows = found.of_planner()
    assert [(row["subject"], row["rule"]) for row in rows] == [(HOT, "planner_one_topic")] * 2
    assert "partition that topic" in rows[0]["sentence"]
    waiting = [row for row in found.rows[10]["planner_targets"] if row["subject"] == HOT]
    assert [row["rule"] for row in waiting] in (["split_refused"], [])


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_topic_that_is_nearly_its_bundle_is_cut_off_and_the_others_leave_it(manager: str) -> None:
    found = course(manager, NEARLY_ONE)
    assert len(found.splits) == (1 if manager == "modular" else 2)
    width = EDGES[1] // (len(NEARLY_ONE) + 1)
    alone = bundle_name(NAMESPACE, BundleRange(width + width // 2 + 1, 2 * width + width // 2 + 1))
    last = found.rows[-1]["split_decisions"]
    assert not [row for row in last if row["strategy"] == "Planner"]
    owners = {row["bundle"]: row["owner"] for row in found.observed["bundle_load"]}
    assert owners[alone] == BROKERS[0]
    assert [bundle for bundle, owner in owners.items() if owner == BROKERS[0]] == [alone]


def test_a_bundle_that_pulsars_own_rule_splits_is_cut_where_the_planner_can_place_the_parts() -> None:
    """In the first cycle the planner has wanted nothing yet: of what that split makes it wants all to be looked at."""
    found = course("modular", NEARLY_ONE, cycles=8, loadBalancerNamespaceBundleMaxBandwidthMbytes=20)
    rows = [(n, row) for n, own in enumerate(found.rows) for row in own["split_decisions"] if row["outcome"] == "split"]
    assert [(n, row["strategy"], row["algorithm"]) for n, row in rows] == [
        (0, "BundleSplitterTask", "range_equally_divide"),
        (3, "BundleSplitterTask", "specified_positions_divide"),
    ]
    parent, row = rows[0][1], rows[1][1]
    assert "; it is cut where Evenkeel's planner can place the parts, of which the heaviest has 98." in row["sentence"]
    assert row["numbers"]["children"] == len(row["children"]) == 2
    for n in (1, 2):
        waiting = [own for own in found.rows[n]["split_decisions"] if own["strategy"] == "Planner"]
        assert sorted(own["subject"] for own in waiting) == sorted(parent["children"])
        assert {own["rule"] for own in waiting} == {"planner_unsettled"}
    answers = {own["subject"]: own["rule"] for own in found.rows[3]["split_decisions"] if own["strategy"] == "Planner"}
    assert answers[row["subject"]] == "planner_left_to_trigger"
    assert {*answers.values()} == {"planner_left_to_trigger", "planner_cooled"}
    shadow = course(
        "modular", NEARLY_ONE, 5, loadBalancerNamespaceBundleMaxBandwidthMbytes=20, evenkeelPlanner="shadow"
    )
    made = [row for own in shadow.rows for row in own["split_decisions"] if row["outcome"] == "split"]
    assert {row["algorithm"] for row in made} == {"range_equally_divide"}


@pytest.mark.parametrize("overrides", [{"evenkeelPlanner": "shadow"}, {"evenkeelSplitEnabled": False}])
def test_in_shadow_and_with_splits_off_nothing_is_split(overrides: dict[str, Any]) -> None:
    found = course("modular", SPREAD, cycles=10, **overrides)
    assert found.splits == []
    assert found.of_planner() == []
    wanted = {row["subject"] for own in found.rows for row in own["planner_targets"] if row["needs_split"]}
    assert wanted == {HOT}


def test_a_budget_of_no_splits_keeps_the_wish_waiting() -> None:
    found = course("modular", SPREAD, cycles=6, evenkeelMaxSplitsPerCycle=0)
    assert found.splits == []
    assert {row["rule"] for row in found.of_planner()} == {"planner_splits_per_cycle"}
    assert len(found.of_planner()) == 5


@pytest.mark.parametrize(
    ("overrides", "stay"),
    [
        ({}, True),
        ({"evenkeelPlanner": "shadow"}, False),
        ({"evenkeelPlanner": "off"}, False),
        ({"evenkeelSheddingEnabled": False}, False),
    ],
)
def test_parts_of_a_bundle_that_pulsars_own_rule_splits_stay_where_the_planner_decides_what_moves(
    overrides: dict[str, Any], stay: bool
) -> None:
    found = course("modular", SPREAD, cycles=3, loadBalancerNamespaceBundleMaxBandwidthMbytes=20, **overrides)
    rows = [row for own in found.rows for row in own["split_decisions"] if row["outcome"] == "split"]
    triggered = [row for row in rows if row["strategy"] == "BundleSplitterTask"]
    assert HOT in {row["subject"] for row in triggered}
    assert {row["unload_children"] for row in triggered} == {not stay}
