"""What guards make of a plan: its commands, its rows, its id and its forecast."""

import random
from typing import Any

import pytest

from evenkeel.lake.schemas import TABLES
from evenkeel.model.past_commands import acts_of, past_moves
from evenkeel.publish import plan as plan_round
from evenkeel.publish.commands import Wanted, wanted
from evenkeel.publish.guarding import situation_of
from evenkeel.settings import Settings
from tests.cycle.rows import MIB, bundle, cycle, report
from tests.publish.decisions import B1, B2, B3, EARLIER, NAMES, act, known, load, placed, split

AT = "2026-11-21T08:27:04.000000+00:00"
LATER = "2026-11-21T08:28:00.000000+00:00"


def decide(*decisions: dict[str, Any], **more: Any) -> tuple[dict[str, Any], list[Any], list[dict[str, Any]]]:
    """The plan, its commands as (step, kind, bundle), and the rows of the guards."""
    made = plan_round.decide({}, known(*decisions, **more))
    (plan,) = made["plan"]
    return plan, [(c["step"], c["kind"], c["bundle"]) for c in made["commands"]], made["guard_decisions"]


def test_what_is_held_back_is_no_command_and_the_others_keep_their_order_without_gaps() -> None:
    frozen = {"evenkeelFrozenBundles": [NAMES[1]]}
    plan, commands, verdicts = decide(placed(3), placed(1), placed(2), split(5), settings=frozen)
    assert commands == [(1, "split", NAMES[5]), (2, "unload", NAMES[2]), (3, "unload", NAMES[3])]
    (row,) = verdicts
    assert (row["subject"], row["position"], row["rule"], row["setting"]) == (
        NAMES[1], 2, "frozen_bundle", "evenkeelFrozenBundles",
    )  # fmt: skip
    assert (row["kind"], row["broker"], row["destination"], row["outcome"]) == ("unload", B1, B2, "held")
    assert (row["cluster"], row["cycle_at"], row["namespace"]) == ("lab", AT, "acme/ns0")
    assert [plan[name] for name in ("splits", "unloads", "held", "commands", "guard_rows")] == [1, 3, 1, 3, 1]


def test_a_row_has_the_tables_columns_and_a_sentence_with_its_numbers() -> None:
    _, _, (row,) = decide(placed(1), placed(2), settings={"evenkeelMaxUnloadsPerCycle": 1})
    table = {column.name for column in TABLES["guard_decisions"].body_columns()}
    assert row.keys() == table
    assert (row["measured"], row["threshold"], row["margin"], row["unit"]) == (2.0, 1.0, 1.0, "count")
    assert row["sentence"] == (
        f"{NAMES[2]} would be unloaded from b1:8080 to b2:8080 and is held back: 1 unload in one cycle is the most, "
        "and it is used up."
    )


def test_the_plan_is_another_one_where_guards_come_to_something_else_and_so_are_its_commands() -> None:
    before = plan_round.decide({}, known(placed(1), placed(2)))
    returning = act(2)
    after = plan_round.decide({}, known(placed(1), placed(2), acts=[returning]))
    assert [row["rule"] for row in after["guard_decisions"]] == ["returns"]
    assert before["plan"][0]["plan_id"] != after["plan"][0]["plan_id"]
    assert not {c["command_id"] for c in before["commands"]} & {c["command_id"] for c in after["commands"]}
    again = plan_round.decide({}, known(placed(2), placed(1), acts=[returning, returning]))
    assert again == after


def test_the_words_of_a_pause_do_not_change_the_plan() -> None:
    one, two = (decide(placed(1), pauses=[{"reason": why, "by": "anna"}]) for why in ("a", "b"))
    assert one[0]["plan_id"] == two[0]["plan_id"]
    assert [row["sentence"] for row in one[2]] != [row["sentence"] for row in two[2]]


def test_a_paused_cluster_has_a_row_of_its_own_beside_those_of_its_commands() -> None:
    pause = {"reason": "the storage is full", "by": "anna"}
    plan, commands, verdicts = decide(placed(1), split(2), pauses=[pause])
    assert (commands, plan["held"], plan["commands"], plan["guard_rows"]) == ([], 2, 0, 3)
    assert [(row["subject_kind"], row["subject"], row["position"], row["kind"]) for row in verdicts] == [
        ("cluster", "lab", 0, None), ("bundle", NAMES[2], 1, "split"), ("bundle", NAMES[1], 2, "unload"),
    ]  # fmt: skip
    assert verdicts[0]["sentence"] == "No command is sent to lab: it is paused by anna (the storage is full)."
    assert decide(pauses=[pause])[2] == []


def test_the_forecast_is_of_what_is_asked_and_of_bundles_without_owner() -> None:
    everything = decide(placed(1), placed(2))[0]
    half = decide(placed(1), placed(2), settings={"evenkeelMaxUnloadsPerCycle": 1})[0]
    nothing = decide(placed(1), placed(2), settings={"evenkeelMaxUnloadsPerCycle": 0})[0]
    lost = decide(placed(1, cause="no_owner", broker=None), settings={"evenkeelMaxUnloadsPerCycle": 0})[0]
    assert [one["moved_traffic_share"] for one in (everything, half, nothing, lost)] == [2 / 15, 1 / 15, 0.0, 1 / 15]
    assert nothing["after_max_over_mean"] == nothing["before_max_over_mean"] > half["after_max_over_mean"]
    assert [one["unloads"] for one in (everything, half, nothing, lost)] == [2, 2, 2, 0]


def test_the_share_of_a_cycle_is_bounded_by_the_traffic_of_all_bundles() -> None:
    plan, commands, verdicts = decide(*(placed(n) for n in range(4)), settings={"evenkeelMaxMovedTrafficPercent": 14.0})
    assert len(commands) == 2
    assert {row["rule"] for row in verdicts} == {"moved_traffic"}
    assert verdicts[0]["measured"] == pytest.approx(300 / 15)
    assert plan["moved_traffic_share"] == 2 / 15


def test_a_wish_that_is_held_back_is_answered_under_its_own_id() -> None:
    wish = {"strategy": "wish", "rule": "wish_with_destination", "cause": "wish", "wish_id": "w1"}
    two = decide(placed(0), placed(1, **wish), settings={"evenkeelFrozenBrokers": [B2]})[2]
    assert [(row["subject"], row["position"], row["wish_id"]) for row in two] == [
        (NAMES[0], 1, None), (NAMES[1], 2, "w1"),
    ]  # fmt: skip
    _, _, (row,) = decide(placed(1, **wish), settings={"evenkeelFrozenBrokers": [B2]})
    assert (row["wish_id"], row["rule"]) == ("w1", "frozen_broker")
    first = decide(placed(0), placed(1, **wish), settings={"evenkeelMaxUnloadsPerCycle": 1})
    assert first[1] == [(1, "unload", NAMES[1])]


def situation(**more: Any) -> Any:
    found = known(placed(1), **more)
    asked = wanted(found["cycle"][0], found["split_decisions"], found["placement_decisions"])
    return situation_of(found, asked, Settings())


def test_a_destination_that_pulsar_is_not_told_of_counts_all_the_same() -> None:
    found = known(placed(1, rule="wish", cause="wish", strategy="wish"))
    (one,) = wanted(found["cycle"][0], [], found["placement_decisions"])
    assert one.command["destination"] is None
    (command,) = situation_of(found, [one], Settings()).commands
    assert (command.destination, command.wished, command.asked_again, command.traffic) == (B2, True, False, MIB)


def test_figures_that_are_not_known_are_no_figures() -> None:
    unknown = bundle(1, B1) | dict.fromkeys(("used_msg_throughput_in", "used_msg_throughput_out"))
    found = situation(bundle_load=[unknown, bundle(2, B1, MIB, ownership="doubled"), bundle(3, None)])
    assert (found.commands[0].traffic, found.traffic, found.bundles, found.unclear) == (None, MIB, 3, {NAMES[2]})


def test_every_listed_broker_counts_with_the_age_of_its_report() -> None:
    reports = [
        report(B1, 50.0, report_at=EARLIER),
        report(B2, 50.0, report_at=None, asked_at="2026-11-21T08:27:00.000000+00:00"),
        report(B3, 50.0, report_at=None),
        report("b4:8080", None, state="no_answer"),
        report("b5:8080", 50.0, is_listed=False),
        report("b6:8080", None),
    ]
    loads = [load(row["broker"], 0.5, 9.0, msg_throughput_out=2.0, state=row["state"]) for row in reports]
    loads.append(load("b7:8080", 0.1))
    found = situation(broker_reports=reports, broker_load=loads).brokers
    usable = (0.5, 11.0)
    assert {name: (one.usage, one.traffic) for name, one in found.items()} == {
        B1: usable, B2: usable, B3: usable, "b4:8080": (None, 0.0), "b6:8080": (None, 0.0),
        "b7:8080": (None, 0.0),
    }  # fmt: skip
    assert {name: (one.reported, one.report_age) for name, one in found.items()} == {
        B1: (True, 600.0), B2: (True, 4.0), B3: (True, None),
        "b4:8080": (False, None), "b6:8080": (False, None), "b7:8080": (False, None),
    }  # fmt: skip


def test_a_report_is_held_against_the_snapshot_where_that_is_later_than_the_cycle() -> None:
    late = {**cycle(), "snapshot_at": LATER}
    assert situation(cycle=[late]).brokers[B1].report_age == 56.0


@pytest.mark.parametrize(
    ("row", "counts"),
    [
        (act(1), True),
        (act(1, "overridden"), True),
        (act(1, "lost"), True),
        (act(1, "unknown"), True),
        (act(1, None), True),
        (act(1, "stale"), False),
        (act(1, "refused"), False),
        (act(1, "withheld"), False),
        (act(1, "dry_run"), False),
        (act(1, "stale", seen_at=LATER), True),
        (act(1, kind="split"), False),
        (act(1, cycle_at=AT), False),
        (act(1, cycle_at=LATER), False),
    ],
)
def test_a_command_of_the_past_is_a_move_unless_it_is_known_to_have_done_nothing(row: Any, counts: bool) -> None:
    found = situation(acts=[row])
    assert bool(found.moves) is counts
    if counts:
        assert (found.moves[0].bundle, found.moves[0].source, found.moves[0].at.isoformat()) == (
            NAMES[1], B2, "2026-11-21T08:17:04+00:00",
        )  # fmt: skip


def test_of_doubled_rows_the_one_seen_last_counts_and_an_assumed_success_too() -> None:
    now = situation().at
    unsure, done_nothing = act(1, None), act(1, "stale", seen_at="2026-11-21T08:20:00.000000+00:00")
    for both in ([unsure, done_nothing], [done_nothing, unsure]):
        assert past_moves(acts_of(both), now, Settings()) == []
    assert past_moves(acts_of([act(1, "dry_run")]), now, Settings(evenkeelAssumeUnloadsSucceed=True))
    assert past_moves(acts_of([act(1, "stale")]), now, Settings(evenkeelAssumeUnloadsSucceed=True)) == []


def test_unsettled_subjects_hold_until_their_time() -> None:
    a_minute_ago = act(2, from_broker=B3, destination=B2, seen_at="2026-11-21T08:26:04.000000+00:00")
    _, commands, (row,) = decide(placed(1), acts=[a_minute_ago])
    assert (commands, row["rule"], row["measured"], row["unit"]) == ([], "unsettled_broker", 60.0, "s")
    assert decide(placed(1), acts=[{**a_minute_ago, "seen_at": EARLIER}])[2] == []
    nobody_knows = act(1, None, cycle_at="2026-11-20T20:00:00.000000+00:00")
    assert "unsettled_bundle" in {row["rule"] for row in decide(placed(1), acts=[nobody_knows])[2]}


def test_a_parent_is_split_before_its_child() -> None:
    wide = {"subject": "acme/ns0/0x00000000_0x80000000", "cuts": [0x40000000]}
    found = known(split(0), split(1, **wide))
    assert [one.command["bundle"] for one in wanted(found["cycle"][0], found["split_decisions"], [])] == [
        wide["subject"], NAMES[0],
    ]  # fmt: skip


def test_the_order_of_rows_does_not_matter() -> None:
    chance = random.Random(3)
    acts = [act(n) for n in range(4)] + [act(n, seen_at="2026-11-21T08:26:04.000000+00:00") for n in (5, 6)]
    found = known(*(placed(n) for n in range(8)), split(9), acts=acts)
    expected = plan_round.decide({}, found)
    for _ in range(5):
        shuffled = {name: chance.sample(list(table), len(table)) for name, table in found.items()}
        assert plan_round.decide({}, shuffled) == expected


def test_wanted_keeps_the_decision_beside_the_command() -> None:
    found = known(placed(1))
    assert wanted(found["cycle"][0], [], found["placement_decisions"]) == [
        Wanted(wanted(found["cycle"][0], [], [placed(1)])[0].command, placed(1))
    ]
