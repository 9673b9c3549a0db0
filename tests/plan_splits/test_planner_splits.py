"""The splits that the planner wants, decided on: each rule, the choice of the algorithm, and what never happens."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model.bundles import BundleRange, namespace_of, range_of
from evenkeel.model.split_algorithms.split_option import BundleTopics, PlannedSplit, TopicLoads
from evenkeel.plan_splits.planner_wishes import _view, bundles_of_any_wish
from evenkeel.plan_splits.rules.planner_splits import PlannerSplitView, decide_planner_splits, parts_of, topic_loads
from evenkeel.planner.memory import WantedSplit
from evenkeel.planner.view import BundleFigures
from evenkeel.settings import Settings
from tests.cycle.rows import bundle, cycle, rows
from tests.examples import at_most, reached, reaching
from tests.planner.planner_rows import act

AT = datetime(2026, 11, 21, 8, 27, tzinfo=UTC)
MIB = 1_048_576.0
HOT, COOL = "shop/a/0x00000000_0x80000000", "shop/a/0x80000000_0xffffffff"
EDGES = {"shop/a": (0, 1 << 31, 0xFFFFFFFF)}
WANTED = {HOT: WantedSplit(AT, "cpu", 40 * MIB, 0.6, 0.48)}
SPREAD = [(99 + n * ((1 << 31) // 10), 1000.0, 10 * MIB) for n in range(10)]


def topics(loads: list[tuple[int, float, float]]) -> BundleTopics:
    return BundleTopics([found for found, _, _ in loads], TopicLoads.of(loads))


VIEW = PlannerSplitView(
    boundaries=EDGES,
    figures={HOT: BundleFigures(60 * MIB, 40 * MIB, 10_000.0)},
    owners={HOT: "b1:8080"},
    topics={HOT: topics(SPREAD)},
    message_bytes=1024.0,
    heavy={HOT},
)


def rule_of(view: PlannerSplitView = VIEW, wanted: dict[str, WantedSplit] = WANTED, **of_settings: Any) -> str:
    ((verdict, split),) = decide_planner_splits(wanted, view, Settings().with_values(of_settings))
    assert (split is not None) == (verdict.outcome == "split")
    assert verdict.sentence().endswith(".")
    assert "unknown figure" not in verdict.sentence()
    return verdict.rule


def test_a_hot_bundle_is_split_by_the_default_algorithm_and_its_children_stay() -> None:
    ((verdict, split),) = decide_planner_splits(WANTED, VIEW, Settings())
    assert split is not None
    assert (verdict.outcome, verdict.rule, verdict.measured, verdict.threshold) == (
        "split",
        "planner_target",
        0.6,
        0.48,
    )
    assert (split.algorithm, split.cuts, split.unload) == ("range_equally_divide", (1 << 30,), False)
    assert split.children == ("shop/a/0x00000000_0x40000000", "shop/a/0x40000000_0x80000000")
    assert verdict.sentence() == (
        "shop/a/0x00000000_0x80000000 is split into 2 bundles for Evenkeel's planner: alone it takes 60.0 % of the "
        "best broker that may have it, above the 48.0 % at which the planner acts; a broker has room for 36.4 % of its "
        "load, and the heaviest part has 50.0 %."
    )


def test_where_the_default_leaves_a_clearly_heavier_part_another_algorithm_of_pulsars_cuts() -> None:
    crowded = replace(VIEW, topics={HOT: topics([(n << 20, 1000.0, 10 * MIB) for n in range(10)])})
    ((_, split),) = decide_planner_splits(WANTED, crowded, Settings())
    assert split is not None
    assert split.algorithm == "topic_count_equally_divide"
    only = Settings().with_values({"supportedNamespaceBundleSplitAlgorithms": ("range_equally_divide",)})
    ((_, split),) = decide_planner_splits(WANTED, crowded, only)
    assert split is not None
    assert split.algorithm == "range_equally_divide"
    by_flow = {"loadBalancerNamespaceBundleMaxBandwidthMbytes": 55, "loadBalancerNamespaceBundleMaxMsgRate": 10**6}
    one_half = [(0, 1.0, 50 * MIB), *((1 + n << 20, 1.0, 5 * MIB) for n in range(10))]
    ((_, split),) = decide_planner_splits(
        WANTED, replace(VIEW, topics={HOT: topics(one_half)}), Settings().with_values(by_flow)
    )
    assert split is not None
    assert split.algorithm == "flow_or_qps_equally_divide"


def test_the_extensible_manager_makes_one_cut() -> None:
    by_flow = {
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": 25,
        "loadBalancerNamespaceBundleMaxMsgRate": 10**6,
        "defaultNamespaceBundleSplitAlgorithm": "flow_or_qps_equally_divide",
    }
    cuts = {}
    for is_extensible in (False, True):
        ((_, split),) = decide_planner_splits(
            WANTED, replace(VIEW, is_extensible=is_extensible), Settings().with_values(by_flow)
        )
        assert split is not None
        cuts[is_extensible] = len(split.cuts)
    assert cuts[False] > 1 == cuts[True]


MEASURED = {
    "planner_cooled": (20 * MIB + 1024.0, 40 * MIB),
    "planner_topics_unknown": (0.6, 0.48),
    "planner_one_topic": (0.6, 0.48),
    "planner_splits_per_cycle": (3, 2),
    "planner_maximum_bundles": (129, 128),
    "planner_target": (0.6, 0.48),
}
"""Of each rule, what it compares with what."""


@pytest.mark.parametrize(
    ("view", "rule"),
    [
        (replace(VIEW, boundaries={"shop/a": (0, 1 << 30, 0xFFFFFFFF)}), "planner_bundle_gone"),
        (replace(VIEW, requested={HOT}), "wished"),
        (replace(VIEW, triggered={HOT}), "planner_left_to_trigger"),
        (replace(VIEW, owners={}), "planner_no_owner"),
        (replace(VIEW, unsettled={HOT}), "planner_unsettled"),
        (replace(VIEW, moved={HOT}), "planner_moved_lately"),
        (replace(VIEW, split={HOT}), "planner_split_lately"),
        (replace(VIEW, heavy=()), "planner_others_first"),
        (replace(VIEW, figures={HOT: BundleFigures(20 * MIB, 0.0, 1.0)}), "planner_cooled"),
        (replace(VIEW, topics={}), "planner_topics_unknown"),
        (replace(VIEW, topics={HOT: topics([(1, 0.0, 99 * MIB), (2, 0.0, 1 * MIB)])}), "planner_one_topic"),
        (replace(VIEW, topics={HOT: topics([(1, 0.0, 99 * MIB)])}), "planner_one_topic"),
        (replace(VIEW, topics={HOT: topics([(1, 0.0, 9 * MIB), (1 << 30, 0.0, MIB)])}), "planner_one_topic"),
        (replace(VIEW, topics={HOT: topics([(1, 0.0, 8.9 * MIB), (1 << 30, 0.0, 1.1 * MIB)])}), "planner_target"),
        (replace(VIEW, splits=2), "planner_splits_per_cycle"),
        (replace(VIEW, added={"shop/a": 126}), "planner_maximum_bundles"),
        (VIEW, "planner_target"),
    ],
)
def test_each_rule(view: PlannerSplitView, rule: str) -> None:
    assert rule_of(view) == rule
    ((verdict, _),) = decide_planner_splits(WANTED, view, Settings())
    assert (verdict.measured, verdict.threshold) == MEASURED.get(rule, (None, None))


def test_switches_and_limits() -> None:
    assert rule_of(evenkeelSplitEnabled=False) == "planner_splits_off"
    assert rule_of(replace(VIEW, splits=2), evenkeelGuardsEnabled=False) == "planner_target"
    assert rule_of(replace(VIEW, splits=2), evenkeelMaxSplitsPerCycle=-1) == "planner_target"
    assert rule_of(loadBalancerNamespaceMaximumBundles=2) == "planner_maximum_bundles"
    assert rule_of(loadBalancerNamespaceMaximumBundles=3) == "planner_target"
    together = replace(VIEW, topics={HOT: topics([(0, 0.0, MIB), (0, 0.0, MIB)])})
    by_topics = {
        "defaultNamespaceBundleSplitAlgorithm": "topic_count_equally_divide",
        "supportedNamespaceBundleSplitAlgorithms": ("topic_count_equally_divide",),
    }
    assert rule_of(together, **by_topics) == "planner_nothing_to_cut"
    narrow = "shop/a/0x00000000_0x00000001"
    view = replace(VIEW, boundaries={"shop/a": (0, 1, 0xFFFFFFFF)}, figures={narrow: VIEW.figures[HOT]})
    assert rule_of(view, {narrow: WANTED[HOT]}) == "planner_too_narrow"


def test_a_bundle_of_less_than_a_byte_per_second_is_split_like_any_other() -> None:
    slow = replace(
        VIEW, figures={HOT: BundleFigures(0.25, 0.25)}, topics={HOT: topics([(5, 0.0, 0.25), (1 << 30, 0.0, 0.25)])}
    )
    assert rule_of(slow, {HOT: WANTED[HOT]._replace(room=0.25)}) == "planner_target"
    assert rule_of(slow, {HOT: WANTED[HOT]._replace(room=0.5)}) == "planner_cooled"


def test_a_refused_wish_says_how_long_it_waits_and_a_skipped_one_does_not() -> None:
    for view, words in (
        (replace(VIEW, added={"shop/a": 126}), "asks again in 60 minutes"),
        (replace(VIEW, splits=2), ""),
    ):
        ((verdict, _),) = decide_planner_splits(WANTED, view, Settings())
        assert ("asks again" in verdict.sentence()) == bool(words)
        assert words in verdict.sentence()


def test_the_hottest_come_first_where_the_budget_is_for_fewer() -> None:
    wanted = {HOT: WANTED[HOT], COOL: WANTED[HOT]._replace(alone=0.9)}
    view = replace(
        VIEW,
        figures=dict.fromkeys(wanted, VIEW.figures[HOT]),
        owners=dict.fromkeys(wanted, "b1:8080"),
        heavy=set(wanted),
        topics={HOT: topics(SPREAD), COOL: topics([(found + (1 << 31), rate, flow) for found, rate, flow in SPREAD])},
    )
    one = Settings().with_values({"evenkeelMaxSplitsPerCycle": 1})
    found = decide_planner_splits(wanted, view, one)
    assert [(verdict.subject, verdict.rule, verdict.measured, verdict.threshold) for verdict, _ in found] == [
        (COOL, "planner_target", 0.9, 0.48),
        (HOT, "planner_splits_per_cycle", 2, 1),
    ]
    found = decide_planner_splits({HOT: wanted[HOT], COOL: wanted[COOL]._replace(level=0.8)}, view, one)
    assert [verdict.subject for verdict, _ in found] == [HOT, COOL], "farther above its own level"


def test_a_topic_counts_with_its_bytes_and_its_messages() -> None:
    loads = TopicLoads.of([(1, 500.0, 10.0), (2, 0.0, 1000.0), (3, math.nan, 7.0), (4, 1.0, math.inf)])
    assert topic_loads(loads, "cpu", 100.0) == [50_010.0, 1000.0, 7.0, 100.0]


def test_topics_are_read_of_bundles_with_a_fair_part_of_their_brokers_bytes_or_messages_and_of_no_idle_one() -> None:
    loads = {0: 30 * MIB, 1: 10 * MIB, 2: 0.1 * MIB}
    busy = [bundle(n, "b1:8080", 0.0, used_msg_throughput_in=load) for n, load in loads.items()]
    chatty = [bundle(3, "b1:8080", 0.0, used_msg_rate_in=500.0), bundle(4, "b1:8080", 0.0, used_msg_rate_in=1.0)]
    idle = [bundle(n, "b2:8080") for n in (5, 6)]
    sole = [bundle(7, "b3:8080", 0.0, used_msg_throughput_in=MIB, topics=1), bundle(8, None, 9 * MIB)]
    slow = [bundle(9, "b4:8080", 0.0, used_msg_throughput_in=0.5), bundle(10, "b5:8080", 0.0, used_msg_rate_in=0.5)]
    sole += [bundle(11, "b5:8080", 1.0, topics=None)]
    found = bundles_of_any_wish(rows([], [*busy, *chatty, *idle, *sole, *slow], cycle=[cycle(evenkeelPlanner="on")]))
    assert found == {one["bundle"]: one["owner"] for one in (busy[0], busy[1], chatty[0], *slow)}


def test_the_view_has_each_act_and_split_in_its_place() -> None:
    bundles = [bundle(n, "b1:8080", n * MIB) for n in range(8)]
    names = [one["bundle"] for one in bundles]
    bundles[6]["ownership"] = "doubled"
    acts = [
        past("unload", names[1], 40.0), past("split", names[2], 30.0), past("unload", names[3], 0.5),
        past("unload", names[4], 70.0), past("unload", names[5], 50.0, "withheld"),
    ]  # fmt: skip
    moment = cycle(evenkeelPlanner="on") | {"steering": json.dumps({"acts": acts, "pauses": []})}
    found = rows([], bundles, cycle=[moment], broker_load=[{"broker": f"b{n}"} for n in range(5)])
    triggered, requested = (
        PlannedSplit(names[n], "b1:8080", "range_equally_divide", (1,) * cuts, (), False, None)  # type: ignore[arg-type]
        for n, cuts in ((0, 1), (7, 2))
    )
    topics_of = {names[0]: topics(SPREAD)}
    view = _view(found, topics_of, 7.0, names, [triggered, triggered], [requested])
    assert (view.message_bytes, view.splits, view.brokers, view.is_extensible) == (7.0, 3, 5, False)
    assert view.boundaries.keys() == {"acme/ns0"}
    assert {name: view.figures[name].traffic for name in names} == {name: n * MIB for n, name in enumerate(names)}
    assert view.owners == {name: "b1:8080" for name in names if name != names[6]}
    assert view.topics == topics_of
    assert {*view.heavy} == {*names[3:]}
    assert {*view.requested} == {names[7]}
    assert {*view.triggered} == {names[0]}
    assert {*view.unsettled} == {names[3]}
    assert {*view.moved} == {names[1], names[3]}
    assert {*view.split} == {names[2]}
    assert view.added == {"acme/ns0": 4}


def past(kind: str, name: str, minutes: float, outcome: str = "done") -> dict[str, Any]:
    return act(1, name, "b1:8080", "b2:8080", minutes, outcome) | {"kind": kind}


def test_a_part_has_the_load_of_the_topics_between_two_cuts() -> None:
    assert parts_of([0, 5, 10, 20], [1.0, 2.0, 4.0, 3.0], [5, 20]) == (1.0, 6.0, 3.0)
    assert parts_of([0, 5], [1.0, 2.0], [5, 20]) == (1.0, 2.0, 0.0)


PLACED = {HOT: WANTED[HOT]._replace(stay=50 * MIB, leave=25 * MIB)}
"""Its broker has room for four of the ten topics, another one for two."""


def test_where_rooms_are_known_a_bundle_is_cut_between_its_topics_so_that_each_part_has_room() -> None:
    ((verdict, split),) = decide_planner_splits(PLACED, VIEW, Settings())
    assert split is not None
    hashes = [found for found, _, _ in SPREAD]
    assert split.algorithm == "specified_positions_divide"
    assert list(split.cuts) == [hashes[n] + (hashes[n + 1] - hashes[n]) // 2 + 1 for n in (3, 5, 7)]
    assert [range_of(child) for child in split.children] == [
        BundleRange(begin, end) for begin, end in pairwise([0, *split.cuts, 1 << 31])
    ]
    assert [verdict.numbers[f"part_{n}"] for n in (1, 2, 3, 4)] == pytest.approx([0.4, 0.2, 0.2, 0.2])
    assert verdict.sentence() == (
        "shop/a/0x00000000_0x80000000 is split into 4 bundles for Evenkeel's planner: alone it takes 60.0 % of the "
        "best broker that may have it, above the 48.0 % at which the planner acts; it is cut where its parts can be "
        "placed: its broker has room for 45.6 % of its load, another one for 22.8 %, and the heaviest part has 40.0 %."
    )


def test_a_topic_that_is_nearly_the_bundle_is_cut_off_alone_and_one_that_is_all_of_it_is_not() -> None:
    for hot, rest, words in ((97.0, 1.5, "one topic has 97.0 % of its load and is to be alone"), (99.95, 0.025, "")):
        loads = [(5, 0.0, rest * MIB), (20, 0.0, hot * MIB), (31, 0.0, rest * MIB), (40, 0.0, 0.0)]
        ((verdict, split),) = decide_planner_splits(PLACED, replace(VIEW, topics={HOT: topics(loads)}), Settings())
        assert (split.cuts if split else None) == ((13, 26) if words else None)
        assert verdict.rule == ("planner_target" if words else "planner_one_topic")
        assert words in verdict.sentence()
    assert rule_of(replace(VIEW, topics={HOT: topics([(1, 0.0, 99 * MIB), (2, 0.0, 0.0)])}), PLACED) == (
        "planner_one_topic"
    )


@pytest.mark.parametrize(
    ("first", "last", "cut"), [(1, 2, 26), (2, 1, 16), (2, 2, 16), (1, 30, 16), (30, 1, 26), (50, 60, 26)]
)
def test_where_one_cut_alone_can_be_made_it_cuts_off_the_heavier_end_that_may_leave(
    first: int, last: int, cut: int
) -> None:
    loads = [(10, 0.0, first * MIB), (20, 0.0, 90 * MIB), (30, 0.0, last * MIB)]
    view = replace(VIEW, topics={HOT: topics(loads)})
    ((_, split),) = decide_planner_splits(PLACED, view, Settings())
    assert split is not None
    assert split.cuts == (16, 26)
    ((_, split),) = decide_planner_splits(PLACED, replace(view, is_extensible=True), Settings())
    assert split is not None
    assert split.cuts == (cut,)
    full = Settings().with_values({"loadBalancerNamespaceMaximumBundles": 3})
    ((_, split),) = decide_planner_splits(PLACED, view, full)
    assert split is not None
    assert split.cuts == (cut,)


@pytest.mark.parametrize(("most_bundles", "brokers", "after"), [(128, 20, 5), (8, 7, 5), (7, 20, 9), (128, 6, 9)])
def test_where_one_cut_can_be_made_at_a_time_many_parts_are_halved_if_there_are_bundles_and_brokers_for_all(
    most_bundles: int, brokers: int, after: int
) -> None:
    """Four topics may stay, six leave one by one: cut after five of the ten, or the last is cut off."""
    wanted = {HOT: PLACED[HOT]._replace(leave=12 * MIB)}
    settings = Settings().with_values({"loadBalancerNamespaceMaximumBundles": most_bundles})
    ((_, split),) = decide_planner_splits(wanted, replace(VIEW, is_extensible=True, brokers=brokers), settings)
    assert split is not None
    (cut,) = split.cuts
    assert sum(found < cut for found, _, _ in SPREAD) == after


def test_where_brokers_take_no_positions_or_one_part_will_do_pulsars_algorithm_cuts() -> None:
    without = Settings().with_values({"supportedNamespaceBundleSplitAlgorithms": ("range_equally_divide",)})
    roomy = {HOT: PLACED[HOT]._replace(stay=200 * MIB)}
    for wanted, settings in ((PLACED, without), (roomy, Settings())):
        ((verdict, split),) = decide_planner_splits(wanted, VIEW, settings)
        assert split is not None
        assert split.algorithm == "range_equally_divide"
        assert "part_1" not in verdict.numbers
        assert "a broker has room for 36.4 % of its load" in verdict.sentence()


@reaching()
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 40))
@at_most(200)
def test_no_split_of_one_topic_none_above_the_maximum_or_the_budget_and_order_changes_nothing(
    seed: int, most_bundles: int, count: int
) -> None:
    chance = Random(seed)
    names = [f"shop/{ns}/{edges}" for ns in "abc" for edges in ("0x00000000_0x80000000", "0x80000000_0xffffffff")]
    own = {}
    for name in names:
        edges, loads = range_of(name), [chance.paretovariate(0.7) * MIB for _ in range(chance.choice([1, 2, count]))]
        hashes = sorted(chance.randrange(edges.lower, edges.upper) for _ in loads)
        own[name] = [(found, 0.0, load) for found, load in zip(hashes, loads, strict=True)]
    view = PlannerSplitView(
        boundaries={f"shop/{ns}": (0, 1 << 31, 0xFFFFFFFF) for ns in "abc"},
        figures={name: BundleFigures(sum(load for _, _, load in loads), 0.0, 0.0) for name, loads in own.items()},
        owners=dict.fromkeys(names, "b1:8080"),
        topics={name: topics(loads) for name, loads in own.items()},
        heavy=set(names),
    )
    wanted = {name: WantedSplit(AT, "cpu", 0.0, chance.uniform(0.5, 1.0), 0.4) for name in names}
    for name in chance.sample(names, 3):
        whole = sum(load for _, _, load in own[name])
        wanted[name] = wanted[name]._replace(stay=chance.uniform(0.2, 1.0) * whole, leave=0.2 * whole)
    asked = Settings().with_values(
        {"loadBalancerNamespaceMaximumBundles": most_bundles, "evenkeelMaxSplitsPerCycle": chance.choice([0, 1, 3, -1])}
    )
    found = decide_planner_splits(wanted, view, asked)
    reached(any(split is not None for _, split in found))
    assert sorted(verdict.subject for verdict, _ in found) == sorted(names)
    bundles = dict.fromkeys("abc", 2)
    for verdict, split in found:
        if split is not None:
            loads = [load for _, _, load in own[verdict.subject]]
            assert len(loads) > 1
            most = 0.999 if split.algorithm == "specified_positions_divide" else 0.9
            assert max(loads) < most * sum(loads) * (1 + 1e-9)
            assert len(set(split.children)) == len(split.cuts) + 1
            bundles[namespace_of(verdict.subject)[-1]] += len(split.cuts)
    assert max(bundles.values()) <= max(2, most_bundles)
    number = sum(split is not None for _, split in found)
    assert asked.evenkeelMaxSplitsPerCycle < 0 or number <= asked.evenkeelMaxSplitsPerCycle
    mixed = {name: wanted[name] for name in chance.sample(names, len(names))}
    assert decide_planner_splits(mixed, view, asked) == found
