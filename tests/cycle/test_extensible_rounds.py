"""Whole rounds of an extensible cluster on rows: averages that move on, transfers, and where bundles end up."""

from typing import Any

import pytest

from evenkeel.place import round as extensible_place_round
from evenkeel.shed import round as extensible_shed_round
from tests.cycle.rows import AT, MIB, as_read, broker, bundle, cycle, rows

LATER = "2026-11-21T08:28:04.000000+00:00"
AT_ONCE = {"loadBalancerSheddingConditionHitCountThreshold": 0, "loadManagerClassName": "ExtensibleLoadManagerImpl"}


def hot_rows(at: str = AT, settings: dict[str, Any] | None = None, **more: Any) -> dict[str, list[dict[str, Any]]]:
    reports = [broker("b1:8080", 90.0), broker("b2:8080", 10.0), broker("b3:8080", 50.0)]
    bundles = [bundle(n, "b1:8080", (n + 1) * MIB) for n in range(5)] + [bundle(9, "b2:8080", MIB)]
    bundles += [bundle(n, "b3:8080", 5 * MIB) for n in (10, 11)]
    return rows(reports, bundles, cycle=[cycle(at, **AT_ONCE, **(settings or {}))], **more)


def left(made: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in made["strategy_state"]:
        if row["strategy"] == "TransferShedder":
            found.setdefault(row["name"], {})[row["subject"]] = row["value"]
    return found


def gone(made: dict[str, list[dict[str, Any]]]) -> dict[str, str | None]:
    return {
        row["subject"]: next((one["name"] for one in row["alternatives"] if one["verdict"] == "best"), None)
        for row in made["unload_decisions"]
        if row["subject_kind"] == "bundle" and row["outcome"] == "unload"
    }


def test_the_lightest_bundles_go_to_the_least_loaded_broker_and_rows_name_it() -> None:
    made = extensible_shed_round.decide_extensible({}, hot_rows())
    assert list(gone(made).values()) == ["b2:8080"] * 3
    (cluster_row,) = [row for row in made["unload_decisions"] if row["subject_kind"] == "cluster"]
    assert (cluster_row["subject"], cluster_row["strategy"], cluster_row["rule"]) == (
        "lab",
        "TransferShedder",
        "std_over_target",
    )
    assert {r["subject"]: r["outcome"] for r in made["unload_decisions"] if r["subject_kind"] == "broker"} == {
        "b1:8080": "unload",
        "b2:8080": "kept",
        "b3:8080": "kept",
    }
    assert left(made)["hits"] == {"cluster": 0.0}


def test_averages_start_with_the_report_and_move_on_with_the_minutes_between_cycles() -> None:
    first = extensible_shed_round.decide_extensible({}, hot_rows())
    assert left(first)["weighted_max_ema"] == pytest.approx({"b1:8080": 0.9, "b2:8080": 0.1, "b3:8080": 0.5})
    idle = hot_rows(LATER, state=as_read(first["strategy_state"]))
    idle["broker_reports"][0]["cpu_usage"] = 0.0
    after = left(extensible_shed_round.decide_extensible({}, idle))["weighted_max_ema"]
    assert after["b1:8080"] == pytest.approx(0.9 * 0.9**12)
    assert after["b2:8080"] == pytest.approx(0.1)


def test_a_report_of_the_same_moment_moves_no_average_and_a_published_one_is_taken_as_it_is() -> None:
    first = extensible_shed_round.decide_extensible({}, hot_rows())
    again = hot_rows(LATER, state=as_read(first["strategy_state"]))
    again["broker_reports"][0] |= {"cpu_usage": 0.0, "report_at": AT}
    again["broker_reports"][1] |= {"weighted_max_ema": 0.33, "msg_throughput_ema": 7.0}
    after = left(extensible_shed_round.decide_extensible({}, again))
    assert after["weighted_max_ema"]["b1:8080"] == pytest.approx(0.9)
    assert (after["weighted_max_ema"]["b2:8080"], after["msg_throughput_ema"]["b2:8080"]) == (0.33, 7.0)


def test_averages_of_a_broker_that_is_silent_for_a_cycle_go_on_from_what_they_were() -> None:
    first = extensible_shed_round.decide_extensible({}, hot_rows())
    silent = hot_rows("2026-11-21T08:27:34.000000+00:00", state=as_read(first["strategy_state"]))
    silent["broker_reports"][0] |= {"state": "no_answer", "cpu_usage": None}
    silent["broker_load"][0] |= {"state": "no_answer"}
    between = extensible_shed_round.decide_extensible({}, silent)
    back = hot_rows(LATER, state=as_read(between["strategy_state"]))
    back["broker_reports"][0]["cpu_usage"] = 0.0
    after = left(extensible_shed_round.decide_extensible({}, back))
    assert after["weighted_max_ema"]["b1:8080"] == pytest.approx(0.9 * 0.9**12)
    without = hot_rows(LATER, state=as_read(between["strategy_state"]))
    for table in ("broker_reports", "broker_load"):
        without[table] = without[table][1:]
    assert left(extensible_shed_round.decide_extensible({}, without))["averaged_at"].keys() == {"b2:8080", "b3:8080"}


def test_hits_are_counted_from_cycle_to_cycle_and_inside_the_interval_they_stay() -> None:
    patient = {"loadBalancerSheddingConditionHitCountThreshold": 3}
    state: list[dict[str, Any]] = []
    for minute in range(28, 32):
        found = hot_rows(f"2026-11-21T08:{minute}:04.000000+00:00", state=state)
        found["cycle"] = [cycle(found["cycle"][0]["cycle_at"], **(AT_ONCE | patient))]
        made = extensible_shed_round.decide_extensible({}, found)
        assert bool(gone(made)) is (minute == 31)
        state = as_read(made["strategy_state"])
        soon = {**found, "cycle": [cycle(f"2026-11-21T08:{minute}:14.000000+00:00", **(AT_ONCE | patient))]}
        between = extensible_shed_round.decide_extensible({}, {**soon, "state": state})
        assert [row["rule"] for row in between["unload_decisions"]] == ["not_due"]
        assert left(between)["hits"] == left(made)["hits"] == {"cluster": float((minute - 27) % 4)}


def test_a_silent_broker_stops_all_transfers() -> None:
    found = hot_rows()
    found["broker_reports"][2] |= {"state": "no_answer", "cpu_usage": None}
    found["broker_load"][2] |= {"state": "no_answer"}
    made = extensible_shed_round.decide_extensible({}, found)
    assert gone(made) == {}
    assert {row["subject"]: row["rule"] for row in made["unload_decisions"]} == {
        "lab": "load_data_missing",
        "b1:8080": "not_compared",
        "b2:8080": "not_compared",
        "b3:8080": "no_load_data",
    }
    found["broker_reports"][2] |= {"is_listed": False}
    assert gone(extensible_shed_round.decide_extensible({}, found))


def test_with_assumed_success_brokers_cool_down_and_bundles_are_left_alone() -> None:
    assuming = {"evenkeelAssumeUnloadsSucceed": True}
    shed = extensible_shed_round.decide_extensible({}, hot_rows(settings=assuming))
    assert left(shed)["unloaded_at"].keys() == {"b1:8080"}
    found = {**hot_rows(settings=assuming), "unload_decisions": shed["unload_decisions"]}
    placed = extensible_place_round.decide_extensible({}, found)
    state = as_read(shed["strategy_state"] + placed["strategy_state"])
    soon = extensible_shed_round.decide_extensible({}, hot_rows(LATER, assuming, state=state))
    assert next(row["rule"] for row in soon["unload_decisions"]) == "cool_down"
    later = extensible_shed_round.decide_extensible(
        {}, hot_rows("2026-11-21T08:30:05.000000+00:00", assuming, state=state)
    )
    stayed = {row["subject"] for row in later["unload_decisions"] if row["rule"] == "recently_unloaded"}
    assert stayed == gone(shed).keys()


def test_a_bundle_to_be_split_is_not_transferred_in_the_same_cycle() -> None:
    found = hot_rows()
    name = found["bundle_load"][0]["bundle"]
    found["split_decisions"] = [{"subject": name, "outcome": "split", "rule": "topics_over_limit"}]
    made = extensible_shed_round.decide_extensible({}, found)
    assert name not in gone(made)
    assert next(row["rule"] for row in made["unload_decisions"] if row["subject"] == name) == "not_owned"


def test_transferred_bundles_are_placed_where_the_shedder_said_and_lost_ones_by_load() -> None:
    found = hot_rows()
    found["bundle_load"] += [bundle(13, None, MIB, last_owner="dead:8080"), bundle(14, None)]
    shed = extensible_shed_round.decide_extensible({}, found)
    made = extensible_place_round.decide_extensible({}, found | {"unload_decisions": shed["unload_decisions"]})
    by_subject = {row["subject"]: row for row in made["placement_decisions"]}
    for name, destination in gone(shed).items():
        assert (by_subject[name]["destination"], by_subject[name]["cause"]) == (destination, "shed")
        assert by_subject[name]["outcome"] == "placed"
    lost = by_subject[found["bundle_load"][-2]["bundle"]]
    assert (lost["destination"], lost["best"], lost["rule"]) == ("b2:8080", ["b2:8080"], "well_below_mean_load")
    assert by_subject[found["bundle_load"][-1]["bundle"]]["rule"] == "never_owned"
    assert len(by_subject) == len(gone(shed)) + 2


def test_freed_bundles_are_placed_by_load_and_need_not_leave_for_where_they_were() -> None:
    found = hot_rows(settings={"loadBalancerTransferEnabled": False})
    shed = extensible_shed_round.decide_extensible({}, found)
    assert set(gone(shed).values()) == {None}
    made = extensible_place_round.decide_extensible({}, found | {"unload_decisions": shed["unload_decisions"]})
    assert {(row["destination"], row["rule"]) for row in made["placement_decisions"]} == {
        ("b2:8080", "well_below_mean_load")
    }
    near = hot_rows(
        settings={
            "loadBalancerTransferEnabled": False,
            "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": 100,
        }
    )
    back = extensible_place_round.decide_extensible({}, near | {"unload_decisions": shed["unload_decisions"]})
    assert {(row["outcome"], row["rule"]) for row in back["placement_decisions"]} == {("kept", "already_best")}


def test_anti_affinity_changes_a_destination_and_the_row_names_the_other_one() -> None:
    policies = {"anti_affinity_groups": {"acme/ns0": "g"}, "failure_domains": {}, "isolation_policies": None}
    lost = bundle(13, None, MIB, last_owner="dead:8080")
    reports = [broker("b1:8080", 90.0), broker("b2:8080", 10.0)]
    owned = [bundle(0, "b2:8080", MIB)]
    found = rows(reports, [*owned, lost], cycle=[cycle(**AT_ONCE)], cluster_policies=[policies])
    (row,) = extensible_place_round.decide_extensible({}, found)["placement_decisions"]
    assert (row["destination"], row["without_anti_affinity"], row["changed_by_anti_affinity"]) == (
        "b1:8080",
        "b2:8080",
        True,
    )
    assert {c["broker"]: c["removed_by"] for c in row["candidates"]} == {"b1:8080": None, "b2:8080": "anti_affinity"}


def test_turns_for_excluded_namespaces_go_on_from_cycle_to_cycle() -> None:
    excluded = {"loadBalancerSheddingExcludedNamespaces": ["acme/ns0"]}
    found = hot_rows(settings=excluded)
    found["bundle_load"].append(bundle(13, None, MIB, last_owner="dead:8080"))
    state: list[dict[str, Any]] = []
    for expected in ("b1:8080", "b2:8080", "b3:8080", "b1:8080"):
        made = extensible_place_round.decide_extensible({}, found | {"state": state})
        (row,) = made["placement_decisions"]
        assert (row["rule"], row["destination"]) == ("in_turns", expected)
        state = as_read(made["strategy_state"])
    idle = extensible_place_round.decide_extensible({}, hot_rows(settings=excluded) | {"state": state})
    assert as_read(idle["strategy_state"]) == state


def test_a_wished_bundle_does_not_count_for_its_own_group_where_it_leaves() -> None:
    policies = {"anti_affinity_groups": {"acme/ns0": "g"}, "failure_domains": {}, "isolation_policies": None}
    reports = [broker("b1:8080", 10.0), broker("b2:8080", 90.0)]
    asked = {"subject": bundle(0, "b1:8080")["bundle"], "subject_kind": "bundle", "outcome": "unload",
             "broker": "b1:8080", "strategy": "wish", "rule": "wish", "alternatives": [], "wish_id": "w1"}  # fmt: skip
    found = rows(
        reports, [bundle(0, "b1:8080")], cycle=[cycle(**AT_ONCE)], cluster_policies=[policies], unload_decisions=[asked]
    )
    (row,) = extensible_place_round.decide_extensible({}, found)["placement_decisions"]
    assert (row["destination"], row["changed_by_anti_affinity"]) == ("b1:8080", False)


def test_a_draining_broker_is_given_nothing_and_stands_in_nobodys_way() -> None:
    emptied = {"evenkeelDrainingBrokers": ["b2:8080"], "evenkeelDrainingUnloads": False}
    made = extensible_shed_round.decide_extensible({}, hot_rows(settings=emptied))
    assert set(gone(made).values()) == {"b3:8080"}
    policies = {"anti_affinity_groups": {"acme/ns0": "g"}, "failure_domains": {}, "isolation_policies": None}
    reports = [broker("b1:8080", 90.0), broker("b2:8080", 10.0)]
    lost = bundle(13, None, MIB, last_owner="dead:8080")
    found = rows(
        reports, [bundle(0, "b1:8080"), lost], cycle=[cycle(**AT_ONCE, **emptied)], cluster_policies=[policies]
    )
    (row,) = extensible_place_round.decide_extensible({}, found)["placement_decisions"]
    assert row["destination"] == "b1:8080"
    assert {c["broker"]: c["removed_by"] for c in row["candidates"]} == {"b1:8080": None, "b2:8080": "draining"}
