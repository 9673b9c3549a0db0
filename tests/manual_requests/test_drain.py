"""Brokers that an operator empties: what leaves them, where it goes, and what comes before what."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.cycle import reading
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.place import round as place_round
from evenkeel.publish import commands, guarding
from evenkeel.settings import resolve
from evenkeel.shed import round as shed_round
from tests.cycle.rows import AT, CLASS, MIB, broker, bundle, cycle, report, rows

NAMES = ["b1:8080", "b2:8080", "b3:8080"]
USAGE = {"b1:8080": 0.5, "b2:8080": 0.2, "b3:8080": 0.25}
Made = dict[str, list[dict[str, Any]]]


def cluster(
    *bundles: dict[str, Any], manager: str = "modular", wishes: tuple[dict[str, Any], ...] = (), **settings: Any
) -> Made:
    """Three brokers that no strategy would touch, and their bundles."""
    overrides: dict[str, Any] = {"evenkeelDrainingBrokers": ["b1:8080"], **settings}
    if manager == "extensible":
        overrides["loadManagerClassName"] = CLASS
    taken = {**cycle(**overrides), "manager": manager, "wishes": json.dumps(wishes)}
    reports = [(report if manager == "modular" else broker)(name, 100.0 * USAGE[name]) for name in NAMES]
    given = rows(reports, list(bundles), cycle=[taken])
    traffic = Counter(dict.fromkeys(NAMES, 0.0))
    for row in bundles:
        traffic[row["owner"]] += row["used_msg_throughput_in"]
    for row in given["broker_load"]:
        row |= {"weighted_usage": USAGE[row["broker"]], "msg_throughput_out": 0.0}
        row["msg_throughput_in"] = traffic[row["broker"]]
    for row in given["broker_reports"]:
        row |= {"bundles": [one["bundle"] for one in bundles if one["owner"] == row["broker"]], "report_at": AT}
    return given


def decided(given: Made) -> Made:
    found = dict(given)
    for decide in (shed_round.decide, place_round.decide):
        found |= {name: made for name, made in decide({}, found).items() if name != "strategy_state"}
    return found


def drained(found: Made, table: str = "unload_decisions") -> dict[str, dict[str, Any]]:
    return {row["subject"]: row for row in found[table] if row["strategy"] == BY_DRAINING}


def asked(found: Made) -> list[dict[str, Any]]:
    """The commands that guards let through."""
    settings = reading.settings_of(found)
    every = commands.wanted(found["cycle"][0], found["split_decisions"], found["placement_decisions"])
    let, _ = guarding.guarded(found, every, settings)
    return [one.command for one in let]


FOUR = [bundle(n, "b1:8080", MIB) for n in range(4)]
OTHERS = [bundle(8, "b2:8080", MIB), bundle(9, "b3:8080", MIB)]
BOTH = pytest.mark.parametrize("manager", ["modular", "extensible"])


@BOTH
def test_every_bundle_of_an_emptied_broker_leaves_it_to_the_least_used_one_and_no_other_does(manager: str) -> None:
    found = decided(cluster(*FOUR, *OTHERS, manager=manager, evenkeelMaxMovedTrafficPercent=100))
    verdicts = drained(found)
    assert verdicts.keys() == {"b1:8080", *(row["bundle"] for row in FOUR)}
    about = verdicts["b1:8080"]
    assert (about["rule"], about["outcome"], about["measured"]) == ("emptying", "unload", 4.0)
    assert about["sentence"] == (
        "b1:8080 is being emptied: 4 bundles are still there, and all of them leave as far as the budgets allow."
    )
    goes = {row["subject"]: row["destination"] for row in drained(found, "placement_decisions").values()}
    assert list(goes) == sorted(goes)
    # Each adds a quarter of the usage of the broker that it leaves, 0.125, to one that has 0.2 or 0.25.
    assert [goes[row["bundle"]] for row in FOUR] == ["b2:8080", "b3:8080", "b2:8080", "b3:8080"]
    requests = [(one["bundle"], one["destination"]) for one in asked(found)]
    assert requests == sorted(goes.items()), "Pulsar is told where they go"


@BOTH
def test_an_empty_broker_is_said_to_be_empty_and_stays_so(manager: str) -> None:
    own = [bundle(0, "b1:8080") | {"bundle": "pulsar/b1:8080/0x00000000_0xffffffff"}]
    if manager == "extensible":
        own += [bundle(0, "b1:8080") | {"bundle": "pulsar/system/0x00000000_0x40000000"}]
    found = decided(cluster(*own, *OTHERS, manager=manager))
    (about,) = drained(found).values()
    assert (about["rule"], about["outcome"], about["measured"]) == ("emptied", "kept", 0.0)
    assert asked(found) == []
    lost = bundle(5, None, last_owner="b1:8080")
    placed = decided(cluster(lost, *OTHERS, manager=manager))["placement_decisions"]
    assert [row["destination"] for row in placed] == ["b2:8080"]


@BOTH
def test_the_switch_that_older_cycles_know_nothing_of_leaves_bundles_where_they_are(manager: str) -> None:
    found = decided(cluster(*FOUR, *OTHERS, manager=manager, evenkeelDrainingUnloads=False))
    assert drained(found) == {}
    text = json.loads(resolve(observed=None, overrides={"evenkeelDrainingBrokers": ["b1:8080"]}).to_json())
    del text["settings"]["evenkeelDrainingUnloads"]
    before = cluster(*FOUR, *OTHERS, manager=manager)
    before["cycle"][0]["settings"] = json.dumps(text)
    assert drained(decided(before)) == {}


def test_a_wish_for_one_of_its_bundles_comes_before_the_drain_and_a_split_too() -> None:
    unload = {"wish_id": "w1", "kind": "unload", "namespace": "acme/ns0", "bundle": FOUR[0]["bundle"][9:],
              "destination": "b3:8080"}  # fmt: skip
    given = cluster(*FOUR, *OTHERS, wishes=(unload,))
    given["split_decisions"] = [{"subject": FOUR[1]["bundle"], "outcome": "split", "rule": "topics_over_limit"}]
    found = drained(decided(given))
    rules = [found[row["bundle"]]["rule"] for row in FOUR]
    assert rules == ["wished", "draining_split_first", "draining", "draining"]
    assert found["b1:8080"]["numbers"] == {"leaving": 2.0, "left_to_wishes": 1.0}


def test_a_wish_names_the_rows_about_its_broker_and_a_frozen_or_missing_broker_is_said_to_be_so() -> None:
    drains = tuple(
        {"wish_id": f"w{n}", "kind": "drain", "broker": name} for n, name in enumerate(["b1:8080", "b2:8080", "b9:1"])
    )
    settings = {"evenkeelDrainingBrokers": ["b1:8080", "b9:1"], "evenkeelFrozenBrokers": ["b2:8080"]}
    found = drained(decided(cluster(*FOUR, *OTHERS, wishes=drains, **settings)))
    told = {name: (found[name]["rule"], found[name]["wish_id"]) for name in ("b1:8080", "b2:8080", "b9:1")}
    assert told == {
        "b1:8080": ("emptying", "w0"),
        "b2:8080": ("draining_frozen", "w1"),
        "b9:1": ("draining_not_there", "w2"),
    }
    assert found["b2:8080"]["sentence"].endswith("evenkeelFrozenBrokers names it: nothing may leave it.")


def test_what_two_brokers_claim_waits() -> None:
    found = drained(decided(cluster(FOUR[0], {**FOUR[1], "ownership": "doubled"}, *OTHERS)))
    assert found[FOUR[1]["bundle"]]["rule"] == "draining_claimed_twice"
    assert found["b1:8080"]["numbers"]["leaving"] == 1.0


@BOTH
def test_where_no_other_broker_may_have_a_bundle_it_stays(manager: str) -> None:
    found = decided(cluster(*FOUR, manager=manager, evenkeelDrainingBrokers=NAMES))
    placed = drained(found, "placement_decisions")
    assert {row["rule"] for row in placed.values()} == {"no_candidate"}
    assert asked(found) == []


@BOTH
def test_the_budgets_hold_the_rest_back_for_later_cycles_until_the_broker_is_empty(manager: str) -> None:
    """Each cycle's commands are carried out; the broker is empty after as many cycles as the budget makes of it."""
    bundles = [bundle(n, "b1:8080", MIB) for n in range(7)] + [bundle(n, "b2:8080", MIB) for n in range(7, 15)]
    went = []
    for _ in range(5):
        settings = {"evenkeelMaxUnloadsFromBroker": 3, "evenkeelMaxMovedTrafficPercent": 100}
        found = decided(cluster(*bundles, manager=manager, **settings))
        goes = {one["bundle"]: one["destination"] for one in asked(found) if one["kind"] == "unload"}
        went.append(len(goes))
        bundles = [{**row, "owner": goes.get(row["bundle"], row["owner"])} for row in bundles]
    assert went == [3, 3, 1, 0, 0]
    assert drained(found)["b1:8080"]["rule"] == "emptied"


def test_wishes_get_a_place_in_the_budgets_first_and_what_leaves_an_emptied_broker_next() -> None:
    bundles = [*(bundle(n, "b1:8080", MIB) for n in range(3)), *(bundle(n, "b2:8080", 40 * MIB) for n in range(4, 8))]
    unload = {"wish_id": "w1", "kind": "unload", "namespace": "acme/ns0", "bundle": bundles[6]["bundle"][9:],
              "destination": "b3:8080"}  # fmt: skip
    given = cluster(*bundles, bundle(9, "b3:8080", MIB), wishes=(unload,), evenkeelMaxUnloadsPerCycle=2,
                    evenkeelMaxMovedTrafficPercent=100, evenkeelMaxBundleTrafficPercent=100,
                    loadBalancerLoadSheddingStrategy="OverloadShedder",
                    loadBalancerBrokerOverloadedThresholdPercentage=10)  # fmt: skip
    found = decided(given)
    shed = [row for row in found["unload_decisions"] if row["strategy"] == "OverloadShedder"]
    assert any(row["outcome"] == "unload" and row["subject_kind"] == "bundle" for row in shed), "it wants to move too"
    assert sorted(one["bundle"] for one in asked(found)) == [bundles[0]["bundle"], bundles[6]["bundle"]]


Shared = tuple[dict[str, dict[str, Any] | None], list[tuple[str, float | None, int]], dict[str, float | None]]
SHARED: dict[str, Shared] = {
    # 8 MiB/s of three bundles at 50 %: half of that and a third of the number, then a quarter and a third.
    "shares of traffic and of number": (
        {},
        [("b2", 0.2, 0), ("b3", 0.25, 0), ("b3", 0.25 + 7 / 48, 1)],
        {"b2": 0.2 + 5 / 24, "b3": 0.25 + 7 / 48},
    ),
    "a broker's traffic out counts": (
        {"b1": {"msg_throughput_in": 2 * MIB, "msg_throughput_out": 6 * MIB}},
        [("b2", 0.2, 0), ("b3", 0.25, 0), ("b3", 0.25 + 7 / 48, 1)],
        {"b2": 0.2 + 5 / 24, "b3": 0.25 + 7 / 48},
    ),
    "a bundle's traffic out counts": (
        {"n0": {"used_msg_throughput_in": 0.0, "used_msg_throughput_out": 8 * MIB}},
        [("b2", 0.2, 0), ("b3", 0.25, 0), ("b3", 0.25 + 7 / 48, 1)],
        {"b2": 0.2 + 1 / 3, "b3": 0.25 + 7 / 48},
    ),
    "no share is above the whole": (
        {"b1": {"msg_throughput_in": 1.0}},
        [("b2", 0.2, 0), ("b3", 0.25, 0), ("b2", 0.2 + 1 / 3, 1)],
        {"b2": 0.2 + 1 / 3, "b3": 0.25 + 1 / 3},
    ),
    "a broker without traffic": (
        {"b1": {"msg_throughput_in": 0.0}},
        [("b2", 0.2, 0), ("b3", 0.25, 0), ("b2", 0.2 + 1 / 12, 1)],
        {"b2": 0.2 + 1 / 12, "b3": 0.25 + 1 / 12},
    ),
    "a broker's traffic is unknown": (
        {"b1": {"msg_throughput_in": None, "msg_throughput_out": float("nan")}},
        [("b2", 0.2, 0), ("b3", 0.25, 0), ("b2", 0.2 + 1 / 12, 1)],
        {"b2": 0.2 + 1 / 12, "b3": 0.25 + 1 / 12},
    ),
    "a bundle's traffic is unknown": (
        {"n0": {"used_msg_throughput_in": float("nan")}},
        [("b2", 0.2, 0), ("b3", 0.25, 0), ("b2", 0.2 + 1 / 12, 1)],
        {"b2": 0.2 + 1 / 12, "b3": 0.25 + 7 / 48},
    ),
    "no figures of the bundles": (
        {"b1": {"msg_throughput_in": 1.0}, "n0": None, "n1": None, "n2": None},
        [("b2", 0.2, 0), ("b3", 0.25, 0), ("b2", 0.45, 1)],
        {"b2": 0.45, "b3": 0.5},
    ),
    "its usage is unknown": (
        {"b1": {"weighted_usage": None}},
        [("b2", 0.2, 0), ("b2", 0.2, 1), ("b2", 0.2, 2)],
        {"b2": 0.2, "b3": 0.25},
    ),
    "the others' usage is unknown": (
        {"b2": {"weighted_usage": None}, "b3": {"weighted_usage": None}},
        [("b2", None, 0), ("b3", None, 0), ("b2", None, 1)],
        {"b2": None, "b3": None},
    ),
    "an idle broker": (
        {"b3": {"weighted_usage": 0.0}},
        [("b3", 0.0, 0), ("b2", 0.2, 0), ("b3", 5 / 24, 1)],
        {"b2": 0.2 + 7 / 48, "b3": 5 / 24},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SHARED)
def test_a_broker_is_expected_to_use_what_it_had_and_a_share_for_each_bundle_that_it_was_given(case: str) -> None:
    """Three bundles of 4, 2 and 2 MiB/s leave b1: where each goes, at which usage, and the usages before the last."""
    changes, goes, usages = SHARED[case]
    leaving = [bundle(n, "b1:8080", load * MIB) for n, load in enumerate((4, 2, 2))]
    given = cluster(*leaving, bundle(10, None), *OTHERS, loadBalancerDistributeBundlesEvenlyEnabled=False)
    given["unload_decisions"] = shed_round.decide({}, given)["unload_decisions"]
    rows_of = {f"n{n}": ("bundle_load", leaving[n]) for n in range(3)}
    rows_of |= {name[:2]: ("broker_load", row) for name, row in zip(NAMES, given["broker_load"], strict=True)}
    for name, change in changes.items():
        table, row = rows_of[name]
        row.update(change or {})
        given[table] = [each for each in given[table] if change is not None or each is not row]
    placed = [row for row in place_round.decide({}, given)["placement_decisions"] if row["strategy"] == BY_DRAINING]
    assert [(row["rule"], row["destination"], row["measured"], row["numbers"]) for row in placed] == [
        ("least_used_by_then", f"{name}:8080", usage and pytest.approx(usage),
         {"candidates": 2, "removed": 1, "given": times})
        for name, usage, times in goes
    ]  # fmt: skip
    last = {each["name"][:2]: (each["verdict"], each["measured"]) for each in placed[-1]["alternatives"]}
    assert last == {"b1": ("removed", None)} | {
        name: ("best" if name == goes[-1][0] else "candidate", usage and pytest.approx(usage))
        for name, usage in usages.items()
    }


def test_a_placement_says_how_much_the_broker_is_used_by_then_or_that_nobody_knows() -> None:
    given = cluster(*FOUR[:1], *OTHERS, evenkeelDrainingBrokers=["b1:8080"])
    sentences = []
    for usage in (0.2, None):
        for row in given["broker_load"][1:]:
            row["weighted_usage"] = usage
        (placed,) = drained(decided(given), "placement_decisions").values()
        sentences.append(placed["sentence"].partition(": of 2 candidates, 1 broker filtered out ")[2])
    assert sentences == [
        "it is used least, 20.0 % with what it was given before.",
        "none has load data, and it was given the fewest bundles of emptied brokers.",
    ]


@BOTH
def test_the_row_names_the_destination_without_anti_affinity_groups_too(manager: str) -> None:
    given = cluster(FOUR[0], OTHERS[0], manager=manager, loadBalancerDistributeBundlesEvenlyEnabled=False)
    given["cluster_policies"] = [
        {"anti_affinity_groups": {"acme/ns0": "g"}, "failure_domains": {}, "isolation_policies": None}
    ]
    (row,) = drained(decided(given), "placement_decisions").values()
    assert (row["destination"], row["without_anti_affinity"], row["changed_by_anti_affinity"]) == (
        "b3:8080", "b2:8080", True,
    )  # fmt: skip


def test_a_bundle_that_was_placed_counts_for_the_even_spread_of_the_next_ones() -> None:
    """The least used broker would get all four, since the usage of their old one is unknown."""
    given = cluster(*FOUR, *OTHERS)
    given["broker_load"][0]["weighted_usage"] = None
    placed = drained(decided(given), "placement_decisions").values()
    assert [row["destination"] for row in placed] == ["b2:8080", "b3:8080", "b2:8080", "b3:8080"]


@BOTH
def test_figures_that_are_no_numbers_count_as_unknown(manager: str) -> None:
    given = cluster(*FOUR, *OTHERS, manager=manager, loadBalancerDistributeBundlesEvenlyEnabled=False)
    given["broker_load"][1] |= {"weighted_usage": float("nan"), "msg_throughput_in": float("inf")}
    placed = drained(decided(given), "placement_decisions")
    assert {row["destination"] for row in placed.values()} == {"b3:8080"}, "the one that is known"


@BOTH
@given(data=st.data())
def test_nothing_leaves_other_brokers_or_goes_to_an_emptied_one(manager: str, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 50), min_size=0, max_size=12))
    owners = [data.draw(st.sampled_from([*NAMES, None])) for _ in weights]
    emptied = data.draw(st.sets(st.sampled_from(NAMES)))
    bundles = [bundle(n, owner, w * MIB) for n, (w, owner) in enumerate(zip(weights, owners, strict=True))]
    found = decided(cluster(*bundles, manager=manager, evenkeelDrainingBrokers=sorted(emptied)))
    placed = drained(found, "placement_decisions")
    assert {row["subject"] for row in placed.values()} == {row["bundle"] for row in bundles if row["owner"] in emptied}
    assert not {row["destination"] for row in found["placement_decisions"]} & emptied
    assert all((row["destination"] is None) == (emptied == set(NAMES)) for row in placed.values())
    keys = [(row["subject_kind"], row["subject"], row["wish_id"], row["strategy"]) for row in found["unload_decisions"]]
    assert len(keys) == len(set(keys))
