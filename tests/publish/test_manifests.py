"""Manifests of a window: who rests on whom, and which attempts on record stand for cycles of it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from evenkeel.errors import BadInput
from evenkeel.handover import ClusterCycle, CycleKey, Handover, Predecessor, Run, Snapshot, Write
from evenkeel.publish.manifests import AttemptsSoFar, closed_row, manifest_rows
from evenkeel.publish.task import run as publish

AT = [f"2026-11-21T08:{minute:02}:00.000000+00:00" for minute in range(0, 40, 10)]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
OLD = Write("bundle_load", "old", 1, 5, "d", "lab")
BEFORE = Predecessor("used", "2026-11-21T07:50:00.000000+00:00", "attempt before", None, (OLD,))
Rows = Mapping[CycleKey, Mapping[str, Any]]


def window(
    try_: str = "a", kind: str = "live", mode: str = "dry_run", other: Mapping[int, str] | None = None
) -> Handover:
    """Four cycles; `other`: number of a cycle -> its snapshot, if it is another one."""
    cycles = [
        ClusterCycle(
            "lab",
            at,
            Snapshot((other or {}).get(n, f"s{n}"), at),
            {},
            manager="modular",
            predecessor=BEFORE if n == 0 else Predecessor("missing", expected_at=AT[n - 1]),
        )
        for n, at in enumerate(AT)
    ]
    writes = []
    for n, at in enumerate(AT):
        named = [
            ("bundle_load", 7),
            ("split_decisions", 7),
            ("strategy_state", 2),
            ("strategy_state", 0),
            ("broker_load", 3),
        ]
        writes += [
            Write(table, f"{try_}{n}{number}", 9, rows, "d", "lab", cycle_at=at)
            for number, (table, rows) in enumerate(named)
        ]
    return Handover("lake", Run("cli", "run", kind, mode), tuple(cycles), tuple(writes))


def plans(*left_out: int, other: Mapping[int, str] | None = None) -> dict[CycleKey, dict[str, Any]]:
    ids = {n: (other or {}).get(n, f"plan {n}") for n in range(len(AT)) if n not in left_out}
    return {("lab", AT[n]): {"plan_id": plan, "commands": 0} for n, plan in ids.items()}


def on_record(rows: Rows, lost: str = "") -> AttemptsSoFar:
    """What the chain says once these rows stand in it, and the closing rows of those with a plan.

    `lost`: a write id whose rows its table no longer has.
    """
    found = [[row, closed_row(row, (), NOW)] if row["plan_id"] else [row] for row in rows.values()]
    return AttemptsSoFar([row for both in found for row in both], lambda write: write["write_id"] != lost)


def made(handover: Handover, known: AttemptsSoFar, *left_out: int, **more: Any) -> Rows:
    return manifest_rows(handover, plans(*left_out, **more), known, NOW)


def ids(rows: Rows) -> list[str]:
    return [row["attempt_id"] for row in rows.values()]


def test_each_cycle_names_the_one_before_it_and_what_it_read_there() -> None:
    first, *others = rows = [*made(window(), AttemptsSoFar([])).values()]
    assert first["predecessor_attempt_id"] == "attempt before"
    assert [one["write_id"] for one in first["reads"]] == ["old"]
    for before, row in zip(rows, others, strict=False):
        assert row["predecessor_attempt_id"] == before["attempt_id"]
        assert (row["predecessor_cycle_at"], row["predecessor_status"]) == (before["cycle_at"], "used")
        assert row["reads"] == [w for w in before["writes"] if w["table"] != "broker_load"]
    assert len({row["attempt_id"] for row in rows}) == len(AT)
    assert {row["status"] for row in rows} == {"planned"}


def test_a_cycle_that_was_left_out_has_a_manifest_and_is_nobodys_predecessor() -> None:
    left = window().leave_out({("lab", AT[1]): "its snapshot cannot be read"})
    rows = [*made(left, AttemptsSoFar([]), 1).values()]
    assert (rows[1]["status"], rows[1]["reason"], rows[1]["plan_id"]) == (
        "skipped",
        "its snapshot cannot be read",
        None,
    )
    assert rows[1]["predecessor_attempt_id"] == rows[2]["predecessor_attempt_id"] == rows[0]["attempt_id"]
    assert (rows[2]["predecessor_status"], rows[3]["predecessor_status"]) == ("older", "used")


@pytest.mark.parametrize("out", [(), (1,), (3,)])
def test_a_window_that_is_on_record_adds_nothing(out: tuple[int, ...]) -> None:
    reasons = {("lab", AT[n]): "late" for n in out}
    before = made(window("a").leave_out(reasons), AttemptsSoFar([]), *out)
    known = on_record(before)
    again = made(window("b").leave_out(reasons), known, *out)
    assert ids(again) == ids(before)
    for row, first in zip(again.values(), before.values(), strict=True):
        assert known.has(row, "planned")
        assert known.has(row, "closed") == bool(row["plan_id"])
        names = ("writes", "reads", "predecessor_attempt_id")
        assert [row[name] for name in names] == [first[name] for name in names]


def test_what_comes_after_another_plan_rests_on_that() -> None:
    before = made(window("a"), AttemptsSoFar([]))
    again = made(window("b"), on_record(before), other={1: "another"})
    assert [one == two for one, two in zip(ids(again), ids(before), strict=True)] == [True, False, False, True]
    one, two, three, four = again.values()
    assert (two["kind"], two["predecessor_attempt_id"]) == ("rerun", one["attempt_id"])
    assert (three["kind"], three["predecessor_attempt_id"]) == ("rerun", two["attempt_id"])
    # Nobody takes over from the last one, and its plan is on record.
    assert four["attempt_id"] == ids(before)[3]


def test_an_attempt_of_which_a_table_lost_rows_stands_for_no_cycle() -> None:
    before = made(window("a"), AttemptsSoFar([]))
    again = made(window("b"), on_record(before, lost="a10"))
    assert [one == two for one, two in zip(ids(again), ids(before), strict=True)] == [True, False, False, True]
    _, two, three, _ = again.values()
    assert (two["kind"], {write["write_id"][0] for write in two["writes"]}) == ("rerun", {"b"})
    assert three["predecessor_attempt_id"] == two["attempt_id"]


def test_an_attempt_of_another_snapshot_stands_for_no_cycle_that_hands_its_own_on() -> None:
    known = on_record(made(window("a"), AttemptsSoFar([])))
    others = window("b", other={1: "other", 3: "other"})
    found = made(others, known)
    assert [known.has(row, "planned") for row in found.values()] == [True, False, False, True]
    assert [*found.values()][2]["predecessor_attempt_id"] == ids(found)[1]


def test_a_live_window_takes_no_backfill_over_from_cycle_to_cycle() -> None:
    known = on_record(made(window("a", "backfill"), AttemptsSoFar([])))
    live = made(window("b"), known)
    # Nobody in this run takes over from the last one.
    assert [known.has(row, "planned") for row in live.values()] == [False, False, False, True]
    assert [row["kind"] for row in live.values()] == ["live", "live", "live", "backfill"]
    backfill = made(window("c", "backfill"), on_record(made(window("a"), AttemptsSoFar([]))))
    assert [row["kind"] for row in backfill.values()] == ["live"] * 4


def test_an_attempt_that_knew_another_outcome_of_a_command_stands_for_no_cycle_that_hands_its_own_on() -> None:
    def knowing(try_: str, outcome: str | None) -> Handover:
        acts = ({"kind": "unload", "command_id": "c1", "outcome": outcome, "seen_at": None},)
        of_window = window(try_)
        return of_window.with_cycles(replace(cycle, acts=acts) for cycle in of_window.cycles)

    known = on_record(made(knowing("a", "done"), AttemptsSoFar([])))
    for outcome, is_known in (("done", True), ("failed", False), (None, False)):
        found = made(knowing("b", outcome), known)
        assert [known.has(row, "planned") for row in found.values()][:3] == [is_known] * 3


def test_a_window_is_never_sent() -> None:
    for mode in ("auto", "approve"):
        with pytest.raises(BadInput, match=r"several cycles of a cluster .* sends nothing"):
            publish(None, window(mode=mode))  # type: ignore[arg-type]


def test_an_error_in_a_cycle_leaves_out_what_comes_after_it_in_its_cluster() -> None:
    from evenkeel.cycle.runner import without_failed

    other = [replace(cycle, cluster="other") for cycle in window().cycles]
    both = window().with_cycles((*window().cycles, *other))
    found = without_failed(both, {("lab", AT[1]): "KeyError: 'x'"}, "shed")
    assert [cycle.status for cycle in found.cycles] == ["open", "failed", "skipped", "skipped", *["open"] * 4]
    assert found.cycles[1].reason == "shed failed: KeyError: 'x'"
    for late in found.cycles[2:4]:
        assert f"the cycle of {AT[1]} before it failed in shed" in (late.reason or "")
        assert "run this one again" in (late.reason or "")
