"""Whether a plan may be carried out: each reason against it, in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel.handover import Handover, Run
from evenkeel.lake.store import Lake
from evenkeel.publish import dispatch
from evenkeel.publish.dispatch import OutcomeRecorder
from evenkeel.publish.gate import GateFacts, is_approved, why_withheld

AT = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


def facts(**more: Any) -> GateFacts:
    given: dict[str, Any] = {
        "cycle_at": AT, "plan_id": "p" * 64, "kind": "live", "mode": "auto", "now": AT + timedelta(seconds=30),
        "newest_at": AT, "max_age": timedelta(minutes=20), "ahead": timedelta(minutes=5),
    }  # fmt: skip
    return GateFacts(**(given | more))


def answer(word: str, minutes: int = 1, plan: str = "p" * 64, note: str | None = None) -> dict[str, Any]:
    return {"plan_id": plan, "answer": word, "by": "jo", "at": AT + timedelta(minutes=minutes), "note": note}


def test_the_newest_young_live_cycle_may_be_carried_out() -> None:
    assert why_withheld(facts()) is None
    assert why_withheld(facts(kind="rerun", newest_at=None)) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "backfill"}, "a backfill decides anew what was"),
        ({"newest_at": AT + timedelta(minutes=5)}, "a newer cycle is on record (2026-11-21T08:05:00+00:00)"),
        ({"now": AT + timedelta(minutes=21)}, "the cycle is 21 min old, and its figures count for 20 min"),
        ({"now": AT - timedelta(minutes=10)}, "lies 10 min ahead of this machine's clock"),
        ({"sent_plans": frozenset({"q" * 64})}, "commands of another plan of this cycle went out (qqqqqqqqqqqq)"),
        ({"paused": "lab is paused by jo"}, "lab is paused by jo"),
        ({"unreachable": "no admin URL is configured"}, "no admin URL is configured"),
        ({"mode": "approve", "answers": (answer("rejected", note="too much"),)}, "jo rejected the plan at"),
    ],
)
def test_what_speaks_against_it_is_said(change: dict[str, Any], words: str) -> None:
    reason = why_withheld(facts(**change))
    assert reason is not None
    assert words in reason


def test_its_own_plan_may_go_on_where_a_try_was_killed() -> None:
    assert why_withheld(facts(sent_plans=frozenset({"p" * 64}))) is None


def test_an_approval_holds_for_its_very_plan_and_the_last_answer_counts() -> None:
    waiting = {"mode": "approve"}
    assert is_approved(facts())
    assert not is_approved(facts(**waiting))
    assert not is_approved(facts(**waiting, answers=(answer("approved", plan="q" * 64),)))
    assert is_approved(facts(**waiting, answers=(answer("rejected", 1), answer("approved", 2))))
    assert not is_approved(facts(**waiting, answers=(answer("approved", 1), answer("rejected", 2))))
    assert not is_approved(facts(**waiting, answers=(answer("approved", 2), answer("rejected", 2))))


def test_while_commands_go_out_the_gate_is_asked_whenever_a_table_that_it_reads_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions: dict[str, int | None] = {"/lake/cycles": 3, "/lake/approvals": 0}
    asked: list[list[str]] = []

    def gate(clusters: Sequence[str]) -> dict[str, str]:
        asked.append([*clusters])
        return {"east": "jo rejected the plan"}

    monkeypatch.setattr(dispatch, "newest_version", versions.__getitem__)
    spark: Any = None
    records = OutcomeRecorder(spark, Lake("/lake"), Handover("/lake", Run("d", "r"), ()), None, gate)
    assert records.withheld_anew(["east"]) == {"east": "jo rejected the plan"}, "it was not asked since sending began"
    assert records.withheld_anew(["east"]) == {}
    assert records.withheld_anew([]) == {}
    for name, version in (("approvals", 1), ("cycles", 4)):
        versions[f"/lake/{name}"] = version
        assert records.withheld_anew(["east", "west"])
        assert records.withheld_anew(["east", "west"]) == {}
    versions["/lake/cycles"] = None  # in an object store nobody can tell
    assert records.withheld_anew(["east"]) == records.withheld_anew(["east"]) == {"east": "jo rejected the plan"}
    assert asked == [["east"], ["east", "west"], ["east", "west"], ["east"], ["east"]]


def test_an_approval_that_comes_after_the_plans_time_sends_nothing() -> None:
    late = facts(mode="approve", now=AT + timedelta(minutes=21), answers=(answer("approved", 21 * 60),))
    assert is_approved(late)
    assert "the cycle is 21 min old" in str(why_withheld(late))
    newer = facts(mode="approve", newest_at=AT + timedelta(minutes=5), answers=(answer("approved"),))
    assert "a newer cycle is on record" in str(why_withheld(newer))
