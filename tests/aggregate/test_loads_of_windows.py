"""The loads of a window: a fold that asks the split rule, up to the cycle in which something is wrong."""

import json
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from evenkeel.aggregate.round import decide_cycles
from evenkeel.cycle.fold import FAILURES, STATE
from evenkeel.handover import Predecessor
from evenkeel.plan_splits import round as split_round
from evenkeel.plan_splits.task import asks_by_topics
from tests.aggregate.in_rows import rows_of, some_cycles
from tests.builders import NOON, cluster

KEY = {"cluster": "shop"}


def test_a_cycle_that_cannot_be_summed_up_ends_the_window_with_its_name() -> None:
    rows = rows_of(*some_cycles(random.Random(7), 3))
    moments = sorted(str(cycle["cycle_at"]) for cycle in rows["cycle"])
    broken = [
        {**cycle, "steering": '{"unreadable"'} if cycle["cycle_at"] == moments[1] else cycle for cycle in rows["cycle"]
    ]
    rows = {**rows, "cycle": broken, "topic_hashes": [], STATE: []}
    made = decide_cycles(KEY, rows)
    assert {row["cycle_at"] for row in made["bundle_load"]} == {moments[0]}
    (failure,) = made[FAILURES]
    assert failure["cycle_at"] == moments[1]
    assert failure["error"].startswith("JSONDecodeError: ")


def test_a_defect_of_the_split_rule_is_told_as_one_of_that_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(*some_cycles(random.Random(7), 3))
    moments = sorted(str(cycle["cycle_at"]) for cycle in rows["cycle"])

    def decide_wrong(*_: Any) -> Any:
        raise KeyError("no such figure")

    monkeypatch.setattr(split_round, "decide", decide_wrong)
    made = decide_cycles(KEY, {**rows, "topic_hashes": [], STATE: []})
    assert made[FAILURES] == [
        {"cycle_at": moments[0], "error": "in the rule of plan_splits: KeyError: 'no such figure'"}
    ]


def wish(algorithm: str) -> dict[str, Any]:
    return {
        "wish_id": "w", "kind": "split", "namespace": "acme/web", "bundle": "0x00000000_0xffffffff",
        "algorithm": algorithm, "positions": None, "unload_children": False, "destination": None,
    }  # fmt: skip


@pytest.mark.parametrize(("hashes", "samples"), [([5, 9], 1), ([], 2)])
def test_a_wish_that_topics_let_through_ends_the_averages_though_the_bundle_is_over_no_limit(
    hashes: list[int], samples: int
) -> None:
    first = cluster("shop").namespace("acme/web").topic("persistent://acme/web/a").topic("persistent://acme/web/b")
    second = cluster("shop", at=NOON + timedelta(minutes=5)).namespace("acme/web").topic("persistent://acme/web/a")
    second.predecessor = Predecessor("used", first.cycle().cycle_at, "attempt")
    rows = {**rows_of(first, second), STATE: []}
    rows["cycle"][0]["wishes"] = json.dumps([wish("topic_count_equally_divide")])
    (bundle,) = first.bundles()
    none_loaded: dict[str, list[int]] = {"loaded_hashes": [], "loaded_rates": [], "loaded_throughputs": []}
    rows["topic_hashes"] = [{"cycle_at": first.cycle().cycle_at, "bundle": bundle, "hashes": hashes, **none_loaded}]
    made = decide_cycles(KEY, rows)
    assert [row["long_samples"] for row in made["bundle_load"]] == [1, samples]


BY_TOPICS = {"defaultNamespaceBundleSplitAlgorithm": "topic_count_equally_divide"}


@pytest.mark.parametrize(
    ("manager", "settings", "algorithms", "asks"),
    [
        ("modular", {}, (), False),
        ("modular", BY_TOPICS, (), False),
        ("modular", {}, ("range_equally_divide",), False),
        ("modular", {}, ("range_equally_divide", "topic_count_equally_divide"), True),
        ("modular", BY_TOPICS, ("",), True),
        ("extensible", {}, (), False),
        ("extensible", BY_TOPICS, (), True),
        ("extensible", {}, ("topic_count_equally_divide",), True),
    ],
)
def test_topics_are_gathered_where_they_say_what_is_asked_to_be_split(
    manager: str, settings: dict[str, Any], algorithms: tuple[str, ...], asks: bool
) -> None:
    cycle = cluster("shop").policies(manager=manager).settings(**settings).cycle()
    wishes = tuple(wish(algorithm) for algorithm in algorithms)
    assert asks_by_topics(replace(cycle, wishes=wishes)) is asks
