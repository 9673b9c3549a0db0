"""The round of one cluster, and several cycles folded: in any cuts, in any order of the rows, the same to the bit."""

import math
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.aggregate.round import LOADS_BEFORE, OUTPUTS, SPLITS_BEFORE, decide, decide_cycles
from evenkeel.cycle.fold import STATE
from evenkeel.lake.plain_rows import as_read
from evenkeel.lake.schemas import TABLES
from evenkeel.model.load import RATES
from evenkeel.plan_splits import round as split_round
from tests.aggregate.in_rows import Rows, rows_of, some_cycles
from tests.builders import NOON, cluster
from tests.steering.commands import split, unload

KEY = {"cluster": "shop"}
WEB = "acme/web/0x00000000_0xffffffff"


def cycle_by_cycle(rows: Rows) -> dict[str, Rows]:
    """Each cycle alone, on what was recorded of its predecessor: by cycle what it comes to and what it leaves."""
    found: dict[str, Rows] = {}
    for cycle in rows["cycle"]:
        at, before = cycle["cycle_at"], found.get(cycle["predecessor_cycle_at"], {})
        own = {kind: [row for row in given if row["cycle_at"] == at] for kind, given in rows.items()}
        left = {
            LOADS_BEFORE: before.get("bundle_load", []),
            SPLITS_BEFORE: before.get("split_decisions", []),
            STATE: before.get("strategy_state", []),
        }
        loads = decide(KEY, {**own, **left})
        decided = split_round.decide(KEY, {**own, **loads, STATE: left[STATE]})
        found[at] = {table: [as_read(table, row) for row in made] for table, made in {**loads, **decided}.items()}
    return found


def piece(rows: Rows, moments: Sequence[str], recorded: dict[str, Rows]) -> Rows:
    """The rows of some cycles, with what is on record of predecessors that are not among them."""
    found = {kind: [row for row in given if row["cycle_at"] in moments] for kind, given in rows.items()}
    named = {cycle["predecessor_cycle_at"] for cycle in found["cycle"]} - {*moments, None}
    tables = {LOADS_BEFORE: "bundle_load", SPLITS_BEFORE: "split_decisions", STATE: "strategy_state"}
    return found | {kind: [row for at in named for row in recorded[at][table]] for kind, table in tables.items()}


@given(st.integers(0, 2**32), st.integers(2, 7), st.randoms(use_true_random=False))
def test_cycles_fold_in_any_cuts_to_the_rows_of_each_alone(seed: int, count: int, dice: random.Random) -> None:
    rows = rows_of(*some_cycles(random.Random(seed), count))
    recorded = cycle_by_cycle(rows)
    moments = sorted(recorded)
    cuts = sorted(dice.sample(range(1, count), dice.randrange(count)))
    made: Rows = {table: [] for table in OUTPUTS}
    for begin, end in zip([0, *cuts], [*cuts, count], strict=True):
        part = piece(rows, moments[begin:end], recorded)
        for given_rows in part.values():
            dice.shuffle(given_rows)
        for table, found in decide_cycles(KEY, part).items():
            made[table] += found
    for table in OUTPUTS:
        assert made[table] == [row for at in moments for row in recorded[at][table]]


def test_a_bundle_whose_split_was_asked_for_begins_anew_in_the_next_cycle_of_a_fold() -> None:
    """The property above would hold for a fold that never asks for splits, if no example had one."""
    begun = 0
    for seed in range(40):
        rows = rows_of(*some_cycles(random.Random(seed), 4))
        recorded = cycle_by_cycle(rows)
        for cycle in rows["cycle"]:
            before = recorded.get(cycle["predecessor_cycle_at"], {"split_decisions": []})
            asked = {row["subject"] for row in before["split_decisions"] if row["outcome"] == "split"}
            loads = {row["bundle"]: row for row in recorded[cycle["cycle_at"]]["bundle_load"]}
            begun += sum(loads[bundle]["long_samples"] <= 1 for bundle in asked)
    assert begun > 20


def test_the_rows_are_in_the_form_in_which_they_are_read_back() -> None:
    made = decide_cycles(KEY, rows_of(*some_cycles(random.Random(3), 3)))
    for table in OUTPUTS:
        assert made[table]
        for row in made[table]:
            assert row.keys() == {column.name for column in TABLES[table].body_columns()}
            assert as_read(table, row) == row
            assert {name: type(value) for name, value in as_read(table, row).items()} == {
                name: type(row[name]) for name in as_read(table, row)
            }


def alone(**before: Any) -> tuple[Rows, dict[str, Any]]:
    """Rows of a cycle with one bundle that b1 owns, and a row that its predecessor could have left of it."""
    built = cluster("shop", brokers=1, at=NOON + timedelta(minutes=5)).namespace("acme/web")
    built.topic("persistent://acme/web/a", msg_rate_in=1.5)
    (row,) = decide(KEY, rows_of(built))["bundle_load"]
    return rows_of(built), row | {"cycle_at": _text(NOON)} | before


@pytest.mark.parametrize(
    ("rule", "outcome", "samples"),
    [("whatever", "split", 1), ("cut_outside_bundle", "refused", 1), ("under_the_limits", "kept", 78)],
)
def test_history_is_forgotten_where_the_split_was_asked_for(rule: str, outcome: str, samples: int) -> None:
    rows, before = alone(long_samples=77, long_msg_rate_in=100.0)
    asked = {"subject": WEB, "outcome": outcome, "rule": rule, "cycle_at": before["cycle_at"]}
    (row,) = decide(KEY, rows | {LOADS_BEFORE: [before], SPLITS_BEFORE: [asked]})["bundle_load"]
    assert row["long_samples"] == samples
    assert row["long_msg_rate_in"] == (1.5 if samples == 1 else (77 * 100.0 + 1.5) / 78)


def test_no_history_is_forgotten_from_5_0_on() -> None:
    built = cluster("shop", brokers=1).namespace("acme/web").settings(evenkeelPulsarVersion="5.0")
    _, before = alone(long_samples=77)
    asked = {"subject": WEB, "outcome": "split", "rule": "whatever", "cycle_at": before["cycle_at"]}
    (row,) = decide(KEY, rows_of(built) | {LOADS_BEFORE: [before], SPLITS_BEFORE: [asked]})["bundle_load"]
    assert row["long_samples"] == 78


@pytest.mark.parametrize(
    ("changed", "reason", "rate"),
    [
        ({}, "inherited", 5.0),
        ({"used_reason": "carried"}, "measured", 1.5),
        ({"used_msg_rate_in": None, "used_reason": "measured"}, "inherited", 5.0),
    ],
)
def test_a_child_inherits_from_a_parent_that_was_measured(changed: dict[str, Any], reason: str, rate: float) -> None:
    parent = "acme/web/0x00000000_0x80000000"
    built = cluster("shop", brokers=1, at=NOON + timedelta(minutes=1)).namespace("acme/web", bundles=2)
    built = built.namespace("acme/web", boundaries=["0x00000000", "0x40000000", "0x80000000", "0xffffffff"])
    times = {"cycle_at": _text(NOON), "expires_at": None, "seen_at": _text(NOON + timedelta(seconds=20))}
    built.acted({**split(parent, "b1:8080", 0x40000000), **times, "outcome": "done", "detail": None})
    child = "acme/web/0x00000000_0x40000000"
    figures = dict.fromkeys(RATES, 5.0) | {"msg_rate_out": None}
    _, before = alone(bundle=parent, **changed)
    rows = rows_of(built) | {LOADS_BEFORE: [before]}
    rows["children"] = [{"bundle": child, "parent": parent, **figures}]
    rows["topic_sums"] = [one | {"bundle": child} for one in alone()[0]["topic_sums"]]
    row = next(row for row in decide(KEY, rows)["bundle_load"] if row["bundle"] == child)
    assert (row["used_reason"], row["used_msg_rate_in"]) == (reason, rate)
    if reason == "inherited":
        assert (row["measured_gap"], row["used_msg_rate_out"], row["trusted_at"]) == (
            "unsettled",
            0.0,
            before["trusted_at"],
        )


@pytest.mark.parametrize(
    ("seconds", "destination", "is_active", "owner"),
    [
        (20, "b2:8080", None, "b2:8080"),
        (60, "b2:8080", None, "b2:8080"),
        (61, "b2:8080", None, "b1:8080"),
        (20, "gone:8080", None, "b1:8080"),
        (20, "b2:8080", True, "b1:8080"),
    ],
    ids=["younger than the reports", "as old", "older", "gone since", "brokers list what they own now"],
)
def test_an_owner_that_was_seen_after_a_command_is_newer_than_load_reports(
    seconds: int, destination: str, is_active: bool | None, owner: str
) -> None:
    built = cluster("shop", brokers=2).namespace("acme/web").owner(WEB, "b1:8080")
    times = {"cycle_at": _text(NOON - timedelta(hours=1)), "expires_at": None}
    seen = {"outcome": "done", "seen_at": _text(NOON - timedelta(seconds=seconds)), "detail": None}
    built.acted({**unload(WEB, "b1:8080", destination), **times, **seen})
    rows = rows_of(built)
    rows["bundle_ownership"] = [{**row, "is_active": is_active} for row in rows["bundle_ownership"]]
    (row,) = decide(KEY, rows)["bundle_load"]
    assert (row["owner"], row["ownership"]) == (owner, "owned")


@pytest.mark.parametrize(
    ("trusted", "last_owner", "is_active", "rate", "kept"),
    [
        (121, "b2:8080", None, 0.0, None),
        (60, "b2:8080", None, 7.0, "b2:8080"),
        (121, "gone:8080", None, 7.0, "gone:8080"),
        (121, "b2:8080", True, 7.0, "b2:8080"),
    ],
    ids=["idle", "perhaps on its way", "its owner is gone", "brokers list what they own now"],
)
def test_a_bundle_that_no_load_report_names_any_more_has_no_load(
    trusted: int, last_owner: str, is_active: bool | None, rate: float, kept: str | None
) -> None:
    other = "acme/other/0x00000000_0xffffffff"
    built = cluster("shop", brokers=2).namespace("acme/web").namespace("acme/other").owner(WEB, None)
    before = alone(last_owner=last_owner, trusted_at=_text(NOON - timedelta(seconds=trusted)))[1]
    before |= {**{f"used_{figure}": 7.0 for figure in RATES}, "topics": 3}
    rows = rows_of(built.owner(other, "b1:8080")) | {LOADS_BEFORE: [before], "topic_sums": []}
    rows["bundle_ownership"] = [{**row, "is_active": is_active} for row in rows["bundle_ownership"]]
    row = next(row for row in decide(KEY, rows)["bundle_load"] if row["bundle"] == WEB)
    assert (row["ownership"], row["used_msg_rate_in"], row["last_owner"]) == ("unowned", rate, kept)


def test_children_of_a_split_are_where_their_parent_was_until_load_reports_name_them() -> None:
    bounds = ["0x00000000", "0x80000000", "0xffffffff"]
    times = {"cycle_at": _text(NOON - timedelta(hours=1)), "expires_at": None, "detail": None}
    for seconds, owner in ((20, "b2:8080"), (90, None)):
        built = cluster("shop", brokers=2).namespace("acme/web", boundaries=bounds)
        done = {"outcome": "done", "seen_at": _text(NOON - timedelta(seconds=seconds))}
        built.acted({**split(WEB, "b2:8080", 0x80000000), **times, **done})
        found = decide(KEY, rows_of(built) | {"bundle_ownership": []})["bundle_load"]
        assert [row["owner"] for row in found] == [owner, owner]
        assert [row["ownership"] for row in found] == ["owned" if owner else "unowned"] * 2


def test_usage_that_is_not_known_is_not_taken_for_none() -> None:
    """Without a limit a broker uses 0 %; a limit too small for 32 bits, or a figure that is missing, says nothing."""
    built = cluster("shop", brokers=0).namespace("acme/web")
    odd = {"b1": (None, 100.0), "b2": (1.0, 0.0), "b3": (1.0, 1e-60), "b4": (math.nan, 100.0), "b5": (1e300, 1.0)}
    for name, (usage, limit) in odd.items():
        built.broker(f"{name}:8080", cpu_usage=usage, cpu_limit=limit)
    found = {row["broker"][:2]: row for row in decide(KEY, rows_of(built))["broker_load"]}
    assert [found[name]["cpu_percent"] for name in ("b1", "b2", "b3", "b5")] == [None, 0.0, None, math.inf]
    assert math.isnan(found["b4"]["cpu_percent"])
    other = found["b2"]["memory_percent"] / 100
    assert [found[name]["weighted_usage"] for name in odd] == [None, other, None, other, math.inf]


def _text(moment: Any) -> str:
    return str(moment.isoformat(timespec="microseconds"))
