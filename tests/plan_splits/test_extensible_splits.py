"""Splits of an extensible cluster on rows: hits that go on from cycle to cycle, by the broker that counts them."""

import json
from typing import Any

import pytest

from evenkeel.place import round as extensible_place_round
from evenkeel.plan_splits import round as split_round
from evenkeel.shed import round as shed_round
from tests.cycle.rows import MIB, as_read, broker, bundle, cycle, rows

STRATEGY = "DefaultNamespaceBundleSplitStrategyImpl"
PATIENT = {
    "loadManagerClassName": "ExtensibleLoadManagerImpl",
    "loadBalancerLoadSheddingStrategy": "TransferShedder",
    "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 2,
    "loadBalancerNamespaceBundleMaxTopics": 10,
}
REPORTS = [broker("b1:8080", 50.0), broker("b2:8080", 50.0)]
Made = dict[str, list[dict[str, Any]]]


def extensible(**more: Any) -> dict[str, Any]:
    return cycle(**PATIENT) | {"manager": "extensible"} | more


def seen(owner: str, state: list[dict[str, Any]], topics: int = 11, **more: Any) -> Made:
    known = [bundle(0, owner, topics=topics), bundle(1, "b2:8080", topics=3)]
    return split_round.decide({}, rows(REPORTS, known, cycle=[extensible()], state=as_read(state)) | more)


def verdict(made: Made) -> tuple[str, str]:
    (row,) = [row for row in made["split_decisions"] if row["subject"].endswith("0x00000000_0x10000000")]
    return row["outcome"], row["rule"]


def hits(made: Made) -> dict[str, float]:
    assert {row["strategy"] for row in made["strategy_state"]} <= {STRATEGY}
    return {row["name"]: row["value"] for row in made["strategy_state"]}


def test_a_bundle_is_split_in_the_third_cycle_in_a_row_and_stays_with_its_owner() -> None:
    first = seen("b1:8080", [])
    assert (verdict(first), hits(first)) == (("kept", "over_limit_too_briefly"), {"hits of b1:8080": 1.0})
    second = seen("b1:8080", first["strategy_state"])
    third = seen("b1:8080", second["strategy_state"])
    assert (verdict(third), hits(third)) == (("split", "topics_over_limit"), {})
    (row,) = [row for row in third["split_decisions"] if row["outcome"] == "split"]
    assert (row["strategy"], row["cuts"], row["unload_children"]) == (STRATEGY, [0x08000000], False)


def test_hits_start_anew_where_the_bundle_is_below_its_limits_or_has_moved() -> None:
    first = seen("b1:8080", [])
    assert hits(seen("b1:8080", first["strategy_state"], topics=10)) == {}
    assert hits(seen("b2:8080", first["strategy_state"])) == {"hits of b2:8080": 1.0}


def test_what_a_silent_broker_has_counted_is_handed_on_and_what_one_that_is_gone_has_is_not() -> None:
    first = seen("b1:8080", [])
    silent = [REPORTS[0] | {"state": "no_answer", "cpu_usage": None}, REPORTS[1]]
    loads = [{"broker": row["broker"], "state": row["state"]} for row in silent]
    between = seen("b1:8080", first["strategy_state"], broker_reports=silent, broker_load=loads)
    assert hits(between) == {"hits of b1:8080": 1.0}
    assert hits(seen("b1:8080", between["strategy_state"])) == {"hits of b1:8080": 2.0}
    gone = seen("b1:8080", first["strategy_state"], broker_reports=silent[1:], broker_load=loads[1:])
    assert hits(gone) == {}


def test_topics_are_asked_for_only_of_bundles_that_are_due() -> None:
    by_count = cycle(**PATIENT, defaultNamespaceBundleSplitAlgorithm="topic_count_equally_divide")
    given = rows(REPORTS, [bundle(0, "b1:8080", topics=11)], cycle=[by_count | {"manager": "extensible"}])
    assert split_round.choose({}, given)["chosen"] == []
    counted = [{"strategy": STRATEGY, "subject": given["bundle_load"][0]["bundle"], "name": "hits of b1:8080",
                "value": 2.0, "at": None}]  # fmt: skip
    (chosen,) = split_round.choose({}, given | {"state": counted})["chosen"]
    assert (chosen["lower"], chosen["upper"], chosen["owner"]) == (0, 0x10000000, "b1:8080")


@pytest.mark.parametrize(
    ("figures", "is_chosen"),
    [
        ({"topics": 11}, True),
        ({"used_msg_rate_in": 20_000.0, "used_msg_rate_out": 10_000.0}, False),
        ({"used_msg_rate_in": 20_000.0, "used_msg_rate_out": 10_001.0}, True),
        ({"used_msg_throughput_in": 60 * MIB, "used_msg_throughput_out": 40 * MIB}, False),
        ({"used_msg_throughput_in": 60 * MIB, "used_msg_throughput_out": 40 * MIB + 1}, True),
    ],
)
def test_in_a_window_topics_are_asked_for_of_every_bundle_over_a_limit(
    figures: dict[str, float], is_chosen: bool
) -> None:
    by_count = cycle(**PATIENT, defaultNamespaceBundleSplitAlgorithm="topic_count_equally_divide")
    known = [bundle(0, "b1:8080", topics=3) | figures, bundle(1, "b1:8080", topics=3)]
    given = rows(REPORTS, known, cycle=[by_count | {"manager": "extensible"}])
    chosen = split_round.choose_any({}, given)["chosen"]
    assert [row["lower"] for row in chosen] == [0] * is_chosen


def test_a_wish_for_an_unload_goes_where_a_look_up_would_find_it() -> None:
    wish = {"wish_id": "w1", "kind": "unload", "namespace": "acme/ns0", "bundle": "0x00000000_0x10000000",
            "destination": None}  # fmt: skip
    known = [bundle(0, "b1:8080", MIB), bundle(1, "b2:8080", MIB)]
    reports = [broker("b1:8080", 80.0), broker("b2:8080", 10.0)]
    given = rows(reports, known, cycle=[extensible(wishes=json.dumps([wish]))])
    shed = shed_round.decide({}, given)
    (asked,) = [row for row in shed["unload_decisions"] if row["wish_id"] == "w1"]
    assert (asked["strategy"], asked["outcome"], asked["broker"]) == ("wish", "unload", "b1:8080")
    placed = extensible_place_round.decide_extensible({}, given | {"unload_decisions": shed["unload_decisions"]})
    (row,) = [row for row in placed["placement_decisions"] if row["wish_id"] == "w1"]
    assert (row["cause"], row["outcome"], row["rule"], row["destination"]) == ("wish", "placed", "wish", "b2:8080")
