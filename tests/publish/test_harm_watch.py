"""Harm that commands did: found in a later cycle, put on record beside `done`, and held against the namespace."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.cli import main
from evenkeel.lake.outbox import as_known_at, as_text, harmed, with_outcomes
from evenkeel.lake.record import read_table
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, append_values
from evenkeel.lake.task_reads import recent_acts
from evenkeel.publish import plan as plan_round
from evenkeel.publish.task import run as publish
from evenkeel.steering.outcome import STRENGTH
from tests.cycle.rows import AT, MIB, bundle, cycle
from tests.publish.acting import Case, in_mode
from tests.publish.decisions import B1, B2, NAMES, act, known, placed

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

NOW = datetime.fromisoformat(AT)
DECIDED, DONE, PREVIOUS = (NOW - timedelta(minutes=n) for n in (4, 3, 1))


def text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")


def clients(producers: int | None = 8, consumers: int | None = 4, at: datetime = DECIDED) -> dict[str, Any]:
    return {"at": text(at), "producers": producers, "consumers": consumers, "msg_backlog": 0}


def unloaded(n: int, *samples: dict[str, Any], **more: Any) -> dict[str, Any]:
    row = act(n, cycle_at=text(DECIDED), seen_at=text(DONE), from_broker=B2, destination=B1)
    return row | {"clients": [*(samples or (clients(),))]} | more


def decided(
    *acts: dict[str, Any], load: dict[str, Any] | None = None, previous: datetime | None = PREVIOUS, **settings: Any
) -> dict[str, list[dict[str, Any]]]:
    """A plan that moves bundles 1 and 2 of acme/ns0; bundle 0 has the figures of `load`."""
    found = known(placed(1), placed(2), acts=[*acts], settings={"evenkeelMaxMovedTrafficPercent": 100.0, **settings})
    (row,) = found["cycle"]
    row["predecessor_cycle_at"] = None if previous is None else text(previous)
    found["bundle_load"] = [bundle(n, B1, MIB, msg_backlog=0) for n in range(15)]
    found["bundle_load"][0] |= load or {}
    return plan_round.decide({}, found)


def held(made: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str]]:
    return [(row["subject"], row["rule"]) for row in made["guard_decisions"]]


GONE = [(NAMES[1], "harmed_namespace"), (NAMES[2], "harmed_namespace")]


def test_harm_is_told_once_and_holds_the_moves_of_its_namespace_from_the_same_cycle_on() -> None:
    made = decided(unloaded(0))
    (row,) = made["outcomes"]
    assert row == {
        "cluster": "lab", "cycle_at": DECIDED, "command_id": "c0", "outcome": "harmed", "seen_at": NOW,
        "detail": "1 of 8 producers are connected 240 s later, and 4 would be enough; 1 of 4 consumers are connected "
        "240 s later, and 2 would be enough",
    }  # fmt: skip
    assert row.keys() == {column.name for column in TABLES["outcomes"].body_columns()}
    assert held(made) == GONE
    assert made["guard_decisions"][0]["sentence"].endswith(
        f"the unload of {NAMES[0]} did harm, seen 0 seconds ago, and moves of acme/ns0 are held for 4 hours."
    )
    assert (made["commands"], made["plan"][0]["harm_rows"]) == ([], 1)


def test_harm_on_record_is_not_told_again_and_holds_on_for_its_time() -> None:
    on_record = unloaded(0, outcome="harmed", seen_at=text(NOW - timedelta(minutes=200)))
    made = decided(unloaded(0), on_record)
    assert (made["outcomes"], held(made)) == ([], GONE)
    assert held(decided(unloaded(0), on_record, evenkeelHarmHoldMinutes=200)) == []
    assert held(decided(unloaded(0), on_record, load={"producers": 8, "consumers": 4})) == GONE


def test_the_words_on_harm_are_no_command_of_their_own() -> None:
    """Else they would count as a further move of the bundle, and its figures as unsettled for longer."""
    on_record = unloaded(1, outcome="harmed", seen_at=AT)
    alone = decided(unloaded(1), evenkeelHarmHoldMinutes=0)
    assert decided(unloaded(1), on_record, evenkeelHarmHoldMinutes=0)["guard_decisions"] == alone["guard_decisions"]


@pytest.mark.parametrize(
    ("acts", "more"),
    [
        ([unloaded(0)], {"load": {"producers": 8, "consumers": 4}}),
        ([unloaded(0)], {"previous": DONE - timedelta(seconds=1)}),
        ([unloaded(0)], {"previous": None}),
        ([unloaded(0)], {"evenkeelHarmWatchMinutes": 2}),
        ([unloaded(0, outcome="timed_out")], {}),
        ([unloaded(0) | {"clients": None}], {}),
        ([unloaded(0)], {"load": {"producers": None, "consumers": None}}),
        ([unloaded(0, bundle="acme/ns0/0xf0000000_0xffffffff")], {}),
        ([unloaded(0), unloaded(0, command_id="c9", cycle_at=text(DONE))], {"load": {"producers": 4, "consumers": 2}}),
        ([unloaded(0, clients(30, 20, DECIDED - timedelta(minutes=1)), clients())], {}),
    ],
    ids=["they are back", "too early", "no cycle before", "too late", "not done", "older", "not known",
         "no such bundle", "half is enough", "they were leaving"],
)  # fmt: skip
def test_what_is_no_harm_or_cannot_be_told_is_not_held_against_the_command(
    acts: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    made = decided(*acts, **more)
    assert (made["outcomes"], made["plan"][0]["harm_rows"]) == ([], 0)
    assert not {rule for _, rule in held(made)} & {"harmed_namespace"}


@pytest.mark.parametrize("outcome", STRENGTH)
def test_only_a_command_that_was_seen_to_be_done_is_watched(outcome: str) -> None:
    """After anything else nobody can tell whether it was the command that its bundle's clients met."""
    assert len(decided(unloaded(0, outcome=outcome))["outcomes"]) == (outcome == "done")


def test_of_two_commands_for_one_bundle_the_later_one_is_looked_at() -> None:
    later = unloaded(0, command_id="c9", cycle_at=text(DECIDED + timedelta(seconds=10)))
    assert [row["command_id"] for row in decided(unloaded(0), later)["outcomes"]] == ["c9"]


def test_two_commands_of_one_cycle_for_one_bundle_are_both_looked_at() -> None:
    both = decided(unloaded(0), unloaded(0, command_id="c9"))["outcomes"]
    assert sorted(row["command_id"] for row in both) == ["c0", "c9"]


@pytest.mark.parametrize(("rate", "is_harm"), [(100.0, True), (None, False)])
def test_a_backlog_is_compared_with_the_messages_that_the_bundle_receives(rate: float | None, is_harm: bool) -> None:
    """In 240 s 24,000 messages came in, and 20,000 of them are left."""
    grown = {"producers": 8, "consumers": 4, "msg_backlog": 20_000, "used_msg_rate_in": rate}
    assert [row["detail"][:47] for row in decided(unloaded(0), load=grown)["outcomes"]] == (
        ["its backlog grew from 0 to 20,000 messages in 2"] if is_harm else []
    )


def test_a_bundle_that_nobody_owns_any_more_has_no_clients() -> None:
    unowned = {"owner": None, "ownership": "unowned", "producers": None, "consumers": None, "msg_backlog": None}
    (row,) = decided(unloaded(0), load=unowned)["outcomes"]
    assert row["detail"].startswith("0 of 8 producers are connected")


def test_the_children_of_a_split_are_looked_at_together() -> None:
    parent = "acme/ns0/0x00000000_0x20000000"
    cut = unloaded(0, clients(4, 4), kind="split", bundle=parent, cuts=[1 << 28], from_broker=B1, destination=None)
    assert decided(cut)["outcomes"] == []
    (row,) = decided(cut | {"clients": [clients(5, 4)]})["outcomes"]
    assert row["detail"].startswith("2 of 5 producers are connected")


def test_a_command_carries_what_its_bundle_was_and_had_been() -> None:
    before = {"producers_before": 3, "consumers_before": 2, "msg_backlog_before": 9}
    found = known(placed(1))
    found["cycle"] = [found["cycle"][0] | {"predecessor_cycle_at": text(PREVIOUS)}]
    found["bundle_load"] = [bundle(n, B1, MIB, msg_backlog=7, **before) for n in range(15)]
    (row,) = plan_round.decide({}, found)["commands"]
    assert row["clients"] == [
        {"at": text(PREVIOUS), "producers": 3, "consumers": 2, "msg_backlog": 9},
        {"at": AT, "producers": 1, "consumers": 1, "msg_backlog": 7},
    ]


def test_settings_of_before_look_for_nothing_and_hold_nothing() -> None:
    found = known(placed(1), acts=[unloaded(0), unloaded(0, outcome="harmed", seen_at=AT)])
    body = json.loads(cycle()["settings"])
    body["settings"] = {name: value for name, value in body["settings"].items() if "evenkeelHarm" not in name}
    found["cycle"] = [found["cycle"][0] | {"settings": json.dumps(body), "predecessor_cycle_at": text(PREVIOUS)}]
    made = plan_round.decide({}, found)
    assert (made["outcomes"], held(made)) == ([], [])


def test_harm_never_stands_in_place_of_what_became_of_a_command() -> None:
    commands = [{"command_id": "c1", "cluster": "lab", "cycle_at": NOW, "step": 1}]
    outcomes = [
        {"command_id": "c1", "outcome": word, "seen_at": NOW + timedelta(minutes=n), "detail": word}
        for n, word in enumerate(("unknown", "done", "harmed"))
    ]
    assert [row["outcome"] for row in with_outcomes(commands, outcomes)] == ["done"]
    assert [(row["outcome"], row["detail"]) for row in harmed(commands, outcomes)] == [("harmed", "harmed")]


def test_harm_that_was_seen_later_is_not_known_to_a_cycle() -> None:
    acts = [unloaded(0), unloaded(0, outcome="harmed", seen_at=AT)]
    assert [one["outcome"] for one in as_known_at(acts, NOW)] == ["done", "harmed"]
    assert [one["outcome"] for one in as_known_at(acts, NOW - timedelta(seconds=1))] == ["done"]
    assert [one["outcome"] for one in as_known_at(acts, DONE - timedelta(seconds=1))] == [None]


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.slow
def test_harm_goes_through_the_tables_and_what_it_holds_is_decided_again(
    case: Case, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command of four minutes ago left its bundle with nearly no producers."""
    lake = Lake(str(case.lake))
    (own,) = case.handover.cycles
    plan = {row["subject"] for row in read_table(case.lake, "placement_decisions") if row["outcome"] == "placed"}
    bundle_name = min(plan)
    _put_command(case, lake, own.cluster, own.at, bundle_name)
    span = {"since": own.at - timedelta(days=1), "until": own.at}
    acts = recent_acts(lake, [own.cluster], **span)
    assert [(one["outcome"], one["clients"][0]["producers"]) for one in acts] == [("done", 100_000)]
    before = replace(own.predecessor, cycle_at=text(own.at - timedelta(minutes=1)))
    changed = replace(own, acts=tuple(map(as_text, acts)), predecessor=before)
    publish(case.spark, in_mode(case, "dry_run").with_cycles([changed]))

    acts = recent_acts(lake, [own.cluster], **span)
    assert [(one["outcome"], one["seen_at"]) for one in acts if one["plan_id"] == "p"] == [
        ("done", own.at - timedelta(minutes=3)),
        ("harmed", own.at),
    ]
    namespace = bundle_name.rpartition("/")[0]
    verdicts = [row for row in read_table(case.lake, "guard_decisions") if row["rule"] == "harmed_namespace"]
    assert verdicts
    assert {row["namespace"] for row in verdicts} == {namespace}
    asked = [row for row in case.commands() if row["plan_id"] != "p"]
    assert [row["clients"][-1]["at"][:19] for row in asked] == [own.at.isoformat()[:19]] * len(asked) != []

    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    # Shedding was decided before the command was put on record; what guards came to has to come out again.
    main(["verify", "--lake", str(case.lake), "--depth", "bundles", "--json"])
    verified = json.loads(capsys.readouterr().out)
    assert (verified["attempts"], verified["differing"]) == (1, 1)
    assert {fault["kind"] for fault in verified["faults"]} == {"data"}
    assert "unload_decisions" in {fault["table"] for fault in verified["faults"]}
    assert "guard_decisions" not in {fault["table"] for fault in verified["faults"]}


def _put_command(case: Case, lake: Lake, cluster: str, now: datetime, bundle_name: str) -> None:
    """A command of four minutes before, done a minute later, and the figures that its bundle had then."""
    at = now - timedelta(minutes=4)
    stamp = {"cluster": cluster, "cycle_at": at, "cycle_date": at.date(), "write_id": "earlier", "command_id": "c" * 64}
    command = {"plan_id": "p", "step": 1, "kind": "unload", "bundle": bundle_name, "from_broker": B1, "mode": "auto"}
    command |= {"destination": B2, "request": "PUT /", "expires_at": now}
    command |= {"clients": [{"at": text(at), "producers": 100_000, "consumers": 0, "msg_backlog": 0}]}
    outcome = {"outcome": "done", "seen_at": now - timedelta(minutes=3), "detail": "seen"}
    for table, row in (("commands", stamp | command), ("outcomes", stamp | outcome)):
        append_values(case.spark, lake, table, [tuple(row.get(c.name) for c in TABLES[table].columns)])
