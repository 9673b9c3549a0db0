"""Wishes beside the automatic decisions: rows, commands, and who gives way to whom."""

import json
from itertools import islice
from typing import Any

from evenkeel.model.bundles import namespace_of, range_of
from evenkeel.model.topics import topic_hash
from evenkeel.place import round as place_round
from evenkeel.plan_splits import round as split_round
from evenkeel.publish import commands
from evenkeel.settings import Settings
from evenkeel.shed import round as shed_round
from tests.cycle.rows import BUNDLES, HOT, MIB, bundle, cycle, rows

NAMES = [row["bundle"] for row in BUNDLES]


def wish(number: int, name: str, kind: str = "split", **more: Any) -> dict[str, Any]:
    namespace, _, found = name.rpartition("/")
    row = {"wish_id": f"w{number}", "kind": kind, "namespace": namespace, "bundle": found}
    return row | {"algorithm": "", "positions": [], "unload_children": False, "destination": None} | more


def known(*wishes: dict[str, Any], bundles: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    settings = more.pop("settings", {})
    taken = {**cycle(**settings), "wishes": json.dumps(wishes)}
    return rows(HOT, BUNDLES if bundles is None else bundles, cycle=[taken], **more)


def by_wish(made: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["wish_id"]: row for row in made if row["wish_id"] is not None}


def whole_cycle(given: dict[str, Any]) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """The decided rows of a cycle, and its commands."""
    found = dict(given)
    for decide in (split_round.decide_modular, shed_round.decide_modular, place_round.decide_modular):
        found |= {name: made for name, made in decide({}, found).items() if name != "strategy_state"}
    (the_cycle,) = found["cycle"]
    wanted = commands.wanted(
        the_cycle, found["split_decisions"], found["placement_decisions"], found["unload_decisions"]
    )
    return found, commands.numbered("p", the_cycle, wanted, Settings())


def test_a_wished_split_is_decided_with_its_cuts_and_becomes_a_command() -> None:
    asked = wish(1, NAMES[4], algorithm="specified_positions_divide", positions=[0x41000000, 0x42000000])
    topics = [
        {"bundle": NAMES[4], "hashes": [0x40000001, 0x40000002], "loaded_hashes": [], "loaded_rates": [],
         "loaded_throughputs": []}
    ]  # fmt: skip
    found, made = whole_cycle(known(asked, topic_hashes=topics))
    row = by_wish(found["split_decisions"])["w1"]
    assert (row["strategy"], row["outcome"], row["rule"]) == ("wish", "split", "wish")
    assert (row["cuts"], len(row["children"])) == ([0x41000000, 0x42000000], 3)
    (split,) = [one for one in made if one["kind"] == "split"]
    assert split["request"].endswith("unload=false [1090519040, 1107296256]")


def test_a_bundle_over_a_limit_is_left_to_the_wish_for_it_and_split_once() -> None:
    busy = [bundle(0, "b1:8080", topics=5_000), bundle(1, "b1:8080", topics=5_000)]
    found, made = whole_cycle(known(wish(1, NAMES[0], unload_children=True), bundles=busy))
    verdicts = {(row["subject"], row["strategy"]): (row["outcome"], row["rule"]) for row in found["split_decisions"]}
    assert verdicts == {
        (NAMES[0], "BundleSplitterTask"): ("skipped", "wished"),
        (NAMES[0], "wish"): ("split", "wish"),
        (NAMES[1], "BundleSplitterTask"): ("split", "topics_over_limit"),
    }
    assert [one["bundle"] for one in made if one["kind"] == "split"] == NAMES[:2]
    assert all(row["cuts"] is None for row in found["split_decisions"] if row["outcome"] != "split")


def test_of_two_wishes_for_one_bundle_the_older_one_counts() -> None:
    found, made = whole_cycle(known(wish(1, NAMES[4]), wish(2, NAMES[4])))
    assert by_wish(found["split_decisions"])["w2"]["rule"] == "wish_split_already"
    assert len([one for one in made if one["kind"] == "split"]) == 1
    twice = known(wish(1, NAMES[4], "unload"), wish(2, NAMES[4], "unload", destination="b3:8080"))
    found, made = whole_cycle(twice)
    assert by_wish(found["unload_decisions"])["w2"]["rule"] == "wish_unloaded_already"
    assert len([one for one in made if one["bundle"] == NAMES[4]]) == 1


def test_a_bundle_that_this_cycle_splits_is_not_unloaded_for_a_wish() -> None:
    found, made = whole_cycle(known(wish(1, NAMES[4]), wish(2, NAMES[4], "unload")))
    assert by_wish(found["unload_decisions"])["w2"]["rule"] == "wish_split_already"
    assert [one["kind"] for one in made if one["bundle"] == NAMES[4]] == ["split"]


def test_a_wished_unload_goes_where_it_was_wished_and_becomes_a_command() -> None:
    found, made = whole_cycle(known(wish(1, NAMES[4], "unload", destination="b3:8080")))
    (placed,) = by_wish(found["placement_decisions"]).values()
    assert (placed["cause"], placed["strategy"], placed["destination"]) == ("wish", "wish", "b3:8080")
    (command,) = [one for one in made if one["bundle"] == NAMES[4]]
    assert command["request"].endswith("/unload?destinationBroker=b3:8080")


def test_a_wished_unload_without_destination_is_carried_out_even_if_placement_would_keep_it() -> None:
    alone = [bundle(4, "b2:8080", MIB)]
    reports = [row | {"cpu_usage": 95.0 if row["broker"] != "b2:8080" else 5.0} for row in HOT]
    found, made = whole_cycle(known(wish(1, NAMES[4], "unload"), bundles=alone) | {"broker_reports": reports})
    (placed,) = by_wish(found["placement_decisions"]).values()
    assert (placed["outcome"], placed["rule"], placed["destination"]) == ("placed", "wish", "b2:8080")
    (command,) = made
    assert (command["destination"], command["request"].endswith("/unload")) == (None, True)


def test_a_bundle_that_is_shed_anyway_is_left_to_the_wish_for_it() -> None:
    plain, _ = whole_cycle(known())
    shed = [row["subject"] for row in plain["unload_decisions"] if row["outcome"] == "unload" and row["namespace"]]
    found, made = whole_cycle(known(wish(1, shed[0], "unload", destination="b2:8080")))
    verdicts = {row["strategy"]: row["rule"] for row in found["unload_decisions"] if row["subject"] == shed[0]}
    assert verdicts == {"ThresholdShedder": "wished", "wish": "wish_with_destination"}
    assert [one["destination"] for one in made if one["bundle"] == shed[0]] == ["b2:8080"]
    instead = [row["subject"] for row in found["unload_decisions"] if row["rule"] == "heaviest_first"]
    assert len(instead) == len(shed)
    (broker,) = [row for row in found["unload_decisions"] if row["subject"] == "b1:8080"]
    assert broker["numbers"]["selected"] == len(instead)


def topic_of(name: str, number: int = 0) -> str:
    """A topic that lies in the bundle."""
    inside = (f"persistent://{namespace_of(name)}/topic-{at}" for at in range(10_000))
    return [topic for topic in islice(inside, 2_000) if range_of(name).includes(topic_hash(topic))][number]


def of_topic(number: int, topic: str) -> dict[str, Any]:
    namespace = topic.removeprefix("persistent://").rpartition("/")[0]
    return wish(
        number, f"{namespace}/", "unload_topic", algorithm=None, positions=None, unload_children=None, topic=topic
    )


def test_topics_are_unloaded_last_and_their_bundles_stay_where_they_are() -> None:
    one, other = topic_of(NAMES[4]), topic_of(NAMES[4], 1)
    found, made = whole_cycle(known(of_topic(1, one), of_topic(2, other), of_topic(3, one)))
    rows = by_wish(found["unload_decisions"])
    assert [(rows[name]["subject"], rows[name]["rule"]) for name in ("w1", "w2", "w3")] == [
        (one, "wish_topic"),
        (other, "wish_topic"),
        (one, "wish_topic_already"),
    ]
    assert {row["namespace"] for row in rows.values()} == {namespace_of(NAMES[4])}
    assert f"{one} is unloaded on" in rows["w1"]["sentence"]
    assert by_wish(found["placement_decisions"]) == {}
    topics = [command for command in made if command["kind"] == "unload_topic"]
    assert made[-2:] == topics
    assert {(command["topic"], command["bundle"]) for command in topics} == {(one, NAMES[4]), (other, NAMES[4])}
    assert topics[0]["request"].startswith("PUT /admin/v2/persistent/")


def test_a_bundle_with_a_topic_to_be_unloaded_is_not_shed_and_one_that_leaves_takes_its_topics_along() -> None:
    plain, _ = whole_cycle(known())
    shed = next(row["subject"] for row in plain["unload_decisions"] if row["outcome"] == "unload" and row["namespace"])
    found, made = whole_cycle(known(of_topic(1, topic_of(shed))))
    assert {row["rule"] for row in found["unload_decisions"] if row["subject"] == shed} == {"wished"}
    assert [command["kind"] for command in made if command["bundle"] == shed] == ["unload_topic"]
    found, made = whole_cycle(known(of_topic(1, topic_of(shed)), wish(2, shed, "unload")))
    assert by_wish(found["unload_decisions"])["w1"]["rule"] == "wish_topic_bundle_unloaded"
    assert [command["kind"] for command in made if command["bundle"] == shed] == ["unload"]


def test_a_wish_that_is_refused_stands_among_the_decisions_and_asks_for_nothing() -> None:
    asked = [wish(1, "acme/other/0x00000000_0xffffffff"), wish(2, NAMES[4], "unload", destination="b9:8080")]
    plain, without = whole_cycle(known())
    found, made = whole_cycle(known(*asked))
    assert by_wish(found["split_decisions"])["w1"]["rule"] == "wish_no_namespace"
    assert by_wish(found["unload_decisions"])["w2"]["rule"] == "wish_no_such_broker"
    assert [one["request"] for one in made] == [one["request"] for one in without]
    assert len(found["split_decisions"]) == len(plain["split_decisions"]) + 1


def test_the_largest_bundle_is_the_one_whose_persistent_topics_were_counted_highest() -> None:
    counts = [{"bundle": NAMES[2], "topics": 7}, {"bundle": NAMES[4], "topics": 9}]
    given = known(wish(1, "acme/ns0/LARGEST"), persistent_topics=counts)
    (row,) = by_wish(split_round.decide_modular({}, given)["split_decisions"]).values()
    assert row["subject"] == NAMES[4]


def test_topics_are_looked_at_for_wishes_that_cut_by_them_only() -> None:
    by_topics = wish(1, NAMES[4], algorithm="topic_count_equally_divide")
    chosen = split_round.choose_modular({}, known(by_topics, wish(2, NAMES[5])))["chosen"]
    assert [(row["bundle"], row["owner"]) for row in chosen] == [(NAMES[4], "b2:8080")]


def test_the_manager_that_the_brokers_run_judges_a_wish_and_a_silent_broker_is_no_destination() -> None:
    policies = {"manager": "extensible", "brokers": ["b1:8080", "b2:8080", "b3:8080", "b4:8080"],
                "anti_affinity_groups": {}, "failure_domains": {}, "isolation_policies": None}  # fmt: skip
    asked = [wish(1, NAMES[4], unload_children=True), wish(2, NAMES[5], "unload", destination="b4:8080")]
    given = known(*asked, cluster_policies=[policies])
    found, _ = whole_cycle(given)
    assert by_wish(found["split_decisions"])["w1"]["unload_children"] is False
    assert by_wish(found["unload_decisions"])["w2"]["rule"] == "wish_broker_silent"


def test_a_wish_for_a_whole_namespace_unloads_each_of_its_bundles_and_says_why_not_the_others() -> None:
    mine = [bundle(0, "b1:8080"), bundle(1, "b2:8080"), bundle(2, None)]
    given = known(wish(1, NAMES[1], "unload", destination="b3:8080"), wish(2, "acme/ns0/ALL", "unload"), bundles=mine)
    found, made = whole_cycle(given)
    rules = {row["subject"]: row["rule"] for row in found["unload_decisions"] if row["wish_id"] == "w2"}
    assert rules[NAMES[0]] == "wish"
    assert rules[NAMES[1]] == "wish_unloaded_already", "the older wish counts"
    assert rules[NAMES[2]] == "wish_unowned"
    assert sorted(rules) == list(rules), "by range"
    assert {one["bundle"] for one in made if one["kind"] == "unload"} == {NAMES[0], NAMES[1]}


def test_a_wish_for_all_of_a_namespace_that_is_not_there_is_refused() -> None:
    found, made = whole_cycle(known(wish(1, "acme/gone/ALL", "unload")))
    assert by_wish(found["unload_decisions"])["w1"]["rule"] == "wish_no_namespace"
    assert [one for one in made if one["bundle"].startswith("acme/gone")] == []
