"""Whole rounds on rows: what shedding and placement make of what the tables say."""

from typing import Any

import pytest

from evenkeel.model.load import RATES
from evenkeel.place import round as place_round
from evenkeel.plan_splits import round as split_round
from evenkeel.publish import plan as plan_round
from evenkeel.shed import round as shed_round
from tests.cycle.rows import BUNDLES, HOT, MIB, bundle, cycle, report, rows


def test_a_hot_broker_sheds_and_the_row_says_by_how_much() -> None:
    made = shed_round.decide_modular({}, rows(HOT, BUNDLES))
    by_subject = {row["subject"]: row for row in made["unload_decisions"]}
    hot = by_subject["b1:8080"]
    assert (hot["outcome"], hot["rule"], hot["setting"]) == (
        "unload", "above_threshold", "loadBalancerBrokerThresholdShedderPercentage",
    )  # fmt: skip
    assert hot["margin"] == hot["measured"] - hot["threshold"] > 0
    assert by_subject["b2:8080"]["outcome"] == "kept"
    assert any(row["subject_kind"] == "bundle" and row["outcome"] == "unload" for row in by_subject.values())
    assert {row["subject"] for row in made["strategy_state"]} == {"b1:8080", "b2:8080", "b3:8080", "cluster"}


def test_inside_the_interval_nothing_is_shed_and_the_state_is_handed_on_unchanged() -> None:
    first = shed_round.decide_modular({}, rows(HOT, BUNDLES))["strategy_state"]
    state = [{**row, "at": row["at"].isoformat() if row["at"] else None} for row in first]
    soon = rows(HOT, BUNDLES, cycle=[cycle("2026-11-21T08:27:14.000000+00:00")], state=state)
    again = shed_round.decide_modular({}, soon)
    assert [row["rule"] for row in again["unload_decisions"]] == ["not_due"]
    kept = [
        {key: row[key] for key in ("strategy", "subject", "name", "value", "at")} for row in again["strategy_state"]
    ]
    assert kept == [{key: row[key] for key in ("strategy", "subject", "name", "value", "at")} for row in first]


def test_a_broker_that_did_not_answer_is_no_candidate_and_a_row_says_so() -> None:
    silent = report("b2:8080", None, state="no_answer")
    known = rows([HOT[0], silent, HOT[2]], BUNDLES)
    made = shed_round.decide_modular({}, known)["unload_decisions"]
    assert {row["rule"] for row in made if row["subject"] == "b2:8080"} == {"no_report"}
    placed = place_round.decide_modular({}, known | {"unload_decisions": made})["placement_decisions"]
    assert placed
    assert all(row["destination"] != "b2:8080" for row in placed)
    assert all("b2:8080" not in {c["broker"] for c in row["candidates"]} for row in placed)


def test_a_bundle_that_lost_its_owner_is_placed_and_one_that_never_had_one_is_noted() -> None:
    lost = bundle(6, None, MIB, last_owner="dead:8080")
    fresh = bundle(7, None, 0.0)
    made = place_round.decide_modular({}, rows(HOT, [*BUNDLES, lost, fresh]))["placement_decisions"]
    by_subject = {row["subject"]: row for row in made}
    assert by_subject[lost["bundle"]]["outcome"] == "placed"
    assert by_subject[lost["bundle"]]["destination"] == "b3:8080"
    assert (by_subject[fresh["bundle"]]["outcome"], by_subject[fresh["bundle"]]["rule"]) == ("skipped", "never_owned")


def without_history(number: int, rate: float | None) -> dict[str, Any]:
    """A bundle that lost its owner before it was measured, with a resource quota of `rate` msg/s in, None for none."""
    averages = {f"{term}_{name}": 0.0 for term in ("short", "long") for name in RATES}
    samples = {"short_samples": 0, "long_samples": 0, "samples_since_quota": None}
    if rate is not None:
        averages |= {"short_msg_rate_in": rate, "long_msg_rate_in": rate}
        samples = {"short_samples": 10, "long_samples": 1_000, "samples_since_quota": 0}
    return bundle(number, None, last_owner="dead:8080", **samples, **averages)


@pytest.mark.parametrize(
    ("quota", "second"),
    [(5_000.0, "b1:8080"), (None, "b2:8080"), (950.0, "b2:8080")],
    ids=["a quota", "no quota, so Pulsar's default of 100 msg/s", "a quota that leaves b2 behind b1"],
)
def test_a_bundle_that_was_never_measured_counts_with_its_quota_for_those_placed_after_it(
    quota: float | None, second: str
) -> None:
    """b1 has 1,000 msg/s and b2 none; x is placed first, then y."""
    busy = bundle(0, "b1:8080", long_msg_rate_in=1_000.0)
    idle = bundle(1, "b2:8080")
    x, y = without_history(6, quota), without_history(7, None)
    reports = [report(name, 10.0, bundles=[one["bundle"]]) for name, one in (("b1:8080", busy), ("b2:8080", idle))]
    cluster = rows(reports, [busy, idle, x, y])
    cluster["cycle"] = [cycle(loadBalancerDistributeBundlesEvenlyEnabled=False)]
    made = {row["subject"]: row for row in place_round.decide_modular({}, cluster)["placement_decisions"]}
    assert made[x["bundle"]]["destination"] == "b2:8080"
    assert made[y["bundle"]]["destination"] == second


def test_a_placement_says_that_a_load_is_the_resource_quota() -> None:
    lost = without_history(6, 5_000.0)
    measured = bundle(7, None, MIB, last_owner="dead:8080")
    made = place_round.decide_modular({}, rows(HOT, [*BUNDLES, lost, measured]))["placement_decisions"]
    rows_of = {row["subject"]: row for row in made}
    own = rows_of[lost["bundle"]]
    assert (own["numbers"]["samples_since_quota"], own["numbers"]["bundle_rate"]) == (0, 5_000.0)
    assert own["sentence"].endswith("It has no history of its own and counts with its resource quota, 5,000 msg/s.")
    assert "samples_since_quota" not in rows_of[measured["bundle"]]["numbers"]
    assert "quota" not in rows_of[measured["bundle"]]["sentence"]


def test_anti_affinity_changes_the_destination_and_the_row_names_the_other_one() -> None:
    policies = {
        "anti_affinity_groups": {"acme/ns0": "g", "acme/ns1": "g"},
        "failure_domains": {},
        "isolation_policies": None,
    }
    other = bundle(0, "b2:8080", MIB, bundle="acme/ns1/0x00000000_0xffffffff")
    lost = bundle(0, None, MIB, bundle="acme/ns0/0x00000000_0xffffffff", last_owner="dead:8080")
    reports = [report("b2:8080", 10.0), report("b3:8080", 20.0)]
    busy = bundle(1, "b3:8080", MIB, bundle="acme/ns2/0x00000000_0xffffffff", long_msg_rate_in=500.0)
    known = rows(reports, [other, lost, busy], cluster_policies=[policies])
    (row,) = place_round.decide_modular({}, known)["placement_decisions"]
    assert (row["destination"], row["without_anti_affinity"], row["changed_by_anti_affinity"]) == (
        "b3:8080", "b2:8080", True,
    )  # fmt: skip
    assert {c["broker"]: c["removed_by"] for c in row["candidates"]} == {"b2:8080": "anti_affinity", "b3:8080": None}


def test_pairs_count_over_cycles_and_a_shed_bundle_goes_to_the_planned_broker() -> None:
    avg: dict[str, Any] = dict.fromkeys(
        ("loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy"), "AvgShedder"
    )
    avg |= {"loadBalancerDistributeBundlesEvenlyEnabled": False, "maxUnloadPercentage": 0.5}
    reports = [report("b1:8080", 80.0), report("b2:8080", 30.0), report("b3:8080", 10.0)]
    known = rows(reports, BUNDLES, cycle=[cycle(**avg)])
    first = shed_round.decide_modular({}, known)
    remembered = {(row["name"], row["subject"]): row["value"] for row in first["strategy_state"] if row["value"]}
    assert remembered == {(name, b): 1.0 for name in ("low_hits", "high_hits") for b in ("b1:8080", "b3:8080")}
    assert not [row for row in first["unload_decisions"] if row["outcome"] == "unload"]
    state = [{**row, "at": row["at"].isoformat() if row["at"] else None} for row in first["strategy_state"]]
    later = known | {"cycle": [cycle("2026-11-21T08:29:04.000000+00:00", **avg)], "state": state}
    second = shed_round.decide_modular({}, later)
    leaving = [
        r["subject"] for r in second["unload_decisions"] if (r["outcome"], r["subject_kind"]) == ("unload", "bundle")
    ]
    assert leaving
    assert {row["name"] for row in second["strategy_state"]} == {"shed_at"}
    placed = place_round.decide_modular({}, later | {"unload_decisions": second["unload_decisions"]})[
        "placement_decisions"
    ]
    assert {(row["subject"], row["rule"], row["destination"], row["strategy"]) for row in placed} == {
        (name, "planned_destination", "b3:8080", "AvgShedder") for name in leaving
    }


def test_a_bundle_that_two_brokers_report_is_unloaded_once() -> None:
    twice = [bundle(n, "b1:8080", 40 * MIB) for n in range(2)]
    names = [row["bundle"] for row in twice]
    traffic = {"msg_throughput_in": 80 * MIB, "bundles": names}
    reports = [report("b1:8080", 95.0, **traffic), report("b2:8080", 96.0, **traffic), report("b3:8080", 5.0)]
    known = rows(reports, twice, cycle=[cycle(loadBalancerLoadSheddingStrategy="OverloadShedder")])
    unloads = shed_round.decide_modular({}, known)["unload_decisions"]
    proposed = [r["broker"] for r in unloads if (r["subject"], r["outcome"]) == (names[0], "unload")]
    assert proposed == ["b1:8080", "b2:8080"]
    placed = place_round.decide_modular({}, known | {"unload_decisions": unloads})["placement_decisions"]
    found = [(r["broker"], r["outcome"], r["rule"], r["destination"]) for r in placed if r["subject"] == names[0]]
    assert found == [
        ("b1:8080", "skipped", "reported_by_two_brokers", None),
        ("b2:8080", "placed", "least_long_term_rate", "b3:8080"),
    ]


def test_a_bundle_to_be_split_is_not_unloaded_in_the_same_cycle() -> None:
    full = bundle(0, "b1:8080", 90 * MIB, topics=2000)
    known = rows(HOT, [full, *BUNDLES[1:]])
    splits = split_round.decide_modular({}, known)["split_decisions"]
    chosen = [row for row in splits if row["outcome"] == "split"]
    assert [(row["subject"], row["cuts"]) for row in chosen] == [(full["bundle"], [0x08000000])]
    assert chosen[0]["children"] == ["acme/ns0/0x00000000_0x08000000", "acme/ns0/0x08000000_0x10000000"]
    unloads = shed_round.decide_modular({}, known | {"split_decisions": splits})["unload_decisions"]
    assert full["bundle"] not in {row["subject"] for row in unloads if row["outcome"] == "unload"}


def test_the_plan_counts_what_it_asks_for_and_forecasts_a_better_balance() -> None:
    known = rows(HOT, BUNDLES)
    unloads = shed_round.decide_modular({}, known)["unload_decisions"]
    placed = place_round.decide_modular({}, known | {"unload_decisions": unloads})["placement_decisions"]
    loads = [
        {
            "broker": r["broker"],
            "state": "reported",
            "weighted_usage": r["cpu_usage"] / 100,
            "msg_throughput_in": 160 * MIB,
            "msg_throughput_out": 0.0,
        }
        for r in HOT
    ]
    known |= {"unload_decisions": unloads, "placement_decisions": placed, "broker_load": loads}
    made = plan_round.decide({}, known)
    (plan,) = made["plan"]
    assert plan["unloads"] - plan["held"] == plan["commands"] == len(made["commands"]) > 0
    assert plan["after_max_over_mean"] < plan["before_max_over_mean"]
    assert {command["plan_id"] for command in made["commands"]} == {plan["plan_id"]}


def test_with_assumed_success_an_unload_is_remembered_for_the_grace_period() -> None:
    assuming = rows(HOT, BUNDLES, cycle=[cycle(evenkeelAssumeUnloadsSucceed=True)])
    unloads = shed_round.decide_modular({}, assuming)["unload_decisions"]
    state = place_round.decide_modular({}, assuming | {"unload_decisions": unloads})["strategy_state"]
    moved = {row["subject"] for row in state}
    assert moved
    later = cycle("2026-11-21T08:30:04.000000+00:00", evenkeelAssumeUnloadsSucceed=True)
    remembered = [{**row, "at": row["at"].isoformat()} for row in state]
    again = shed_round.decide_modular({}, rows(HOT, BUNDLES, cycle=[later], state=remembered))["unload_decisions"]
    assert moved == {row["subject"] for row in again if row["rule"] == "recently_unloaded"}
