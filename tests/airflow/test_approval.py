"""Who may say yes to what: the very plan that was shown, by somebody else than its author where that is asked for."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from evenkeel.airflow import approval
from evenkeel.airflow.approval import (
    PlanApproval,
    answer_in,
    answer_to,
    approvers,
    question,
    waiting_plan,
    wants_four_eyes,
)
from evenkeel.airflow.dag_names import approval_run_id, deciding_run_id
from evenkeel.airflow.seal import Origin, opened, sealed
from evenkeel.airflow.steps import questions
from evenkeel.errors import BadInput, SettingsError
from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot, Write
from tests.airflow.xcom import XCom
from tests.lakes.small_lake import SmallLake

pytestmark = pytest.mark.airflow

AT = datetime.now(UTC)
RUN = "manual__2026-11-23T09:00:00+00:00"
PUBLISH = Origin("rebalance", RUN, "publish")
PLAN, OTHER = "a" * 64, "b" * 64


def waits(plan_id: str, *, left: timedelta = timedelta(minutes=10)) -> dict[str, str]:
    return {"plan_id": plan_id, "summary": "2 commands.", "expires_at": (datetime.now(UTC) + left).isoformat()}


def handover(**awaiting: dict[str, str]) -> Handover:
    names = ("east", "west")
    cycles = tuple(ClusterCycle(name, AT.isoformat(), Snapshot("s", AT.isoformat()), {}) for name in names)
    writes = tuple(Write("bundle_load", f"w-{name}", 1, 1, "d", name) for name in names)
    return Handover(
        "/lake", Run("rebalance", RUN, mode="approve", triggered_by="olga"), cycles, writes, awaiting=awaiting
    )


class Runs:
    """What *publish* left in its runs."""

    dag_id, run_id, task_id, id = "rebalance_approval", "asking", "approve", "0"

    def __init__(self, **published: Handover) -> None:
        self.published = {RUN: published["now"]} if published else {}

    def xcom_pull(self, task_ids: str, *, dag_id: str, run_id: str, map_indexes: Any) -> str | None:
        assert (task_ids, dag_id) == ("publish", "rebalance")
        found = self.published.get(run_id)
        return None if found is None else sealed(found.to_json(), PUBLISH)


def params(plan_id: str = PLAN, cluster: str = "east", run_id: str = RUN) -> dict[str, str]:
    return {"run_id": run_id, "cluster": cluster, "plan_id": plan_id}


def test_each_waiting_plan_is_asked_about_in_a_run_of_its_own() -> None:
    waiting = XCom().of("rebalance", RUN, "waiting")
    published = handover(west=waits(OTHER), east=waits(PLAN)).to_json()
    made = questions(sealed(published, PUBLISH), waiting)
    asked = [json.loads(opened(one, Origin("rebalance", RUN, "waiting"))) for one in made]
    assert [one["conf"] for one in asked] == [params(), params(OTHER, "west")]
    assert len({one["trigger_run_id"] for one in asked}) == 2
    assert questions(sealed(handover().to_json(), PUBLISH), waiting) == []
    assert {deciding_run_id(one["trigger_run_id"]) for one in asked} == {RUN}
    assert asked[0]["trigger_run_id"] == approval_run_id(RUN, PLAN)


def test_the_plan_is_that_of_its_cluster_alone() -> None:
    found, plan = waiting_plan(Runs(now=handover(west=waits(OTHER), east=waits(PLAN))), params())
    assert plan["plan_id"] == PLAN
    assert [cycle.cluster for cycle in found.cycles] == ["east"]
    assert [write.cluster for write in found.writes] == ["east"]
    assert found.awaiting == {}


@pytest.mark.parametrize(
    ("published", "given", "there"),
    [
        (handover(east=waits(OTHER)), params(), "it has b"),
        (handover(west=waits(PLAN)), params(), "it has none"),
        (handover(), params(), "it has none"),
        (handover(east=waits(PLAN)), params(cluster="nowhere"), "it has none"),
        (handover(east=waits(PLAN)), params(run_id="another"), "it has none"),
    ],
)
def test_another_plan_than_the_one_that_waits_is_neither_asked_about_nor_sent(
    published: Handover, given: dict[str, str], there: str
) -> None:
    with pytest.raises(BadInput, match=f"no plan aaaaaaaaaaaa of .* that waits for an approval .{there}"):
        waiting_plan(Runs(now=published), given)
    with pytest.raises(AirflowFailException, match="nothing was sent"):
        PlanApproval(task_id="approve").execute({"ti": Runs(now=published), "params": given})


def test_the_question_shows_the_plan_and_waits_for_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **_: None)
    runs = Runs(now=handover(east=waits(PLAN)))
    asking = PlanApproval(task_id="approve")
    with pytest.raises(TaskAwaitingInput) as raised:
        asking.execute({"ti": runs, "task_instance": runs, "params": params()} | {"task_instance": _WithId()})
    assert raised.value.timeout == timedelta(minutes=5), "then it looks if the plan may still be carried out"
    assert asking.subject == "Carry out the plan of east?"
    assert PLAN in str(asking.body)
    assert "triggered by olga" in str(asking.body)


@pytest.mark.parametrize(
    ("splits", "options"),
    [
        ({}, ["Approve", "Reject"]),
        ({"splits": "0"}, ["Approve", "Reject"]),
        ({"splits": "2"}, ["Approve", "Approve without splits", "Reject"]),
    ],
)
def test_without_splits_is_offered_where_the_plan_has_some(
    splits: dict[str, str], options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **told: asked.update(told)
    )
    runs = Runs(now=handover(east=waits(PLAN) | splits))
    with pytest.raises(TaskAwaitingInput):
        PlanApproval(task_id="approve").execute({"ti": runs, "task_instance": _WithId(), "params": params()})
    assert (asked["options"], asked["defaults"]) == (options, None)
    assert ("leaves out its 2 splits, and what rests on one" in asked["body"]) == (len(options) == 3)


class _WithId:
    id = "0"


def test_a_plan_that_is_too_old_is_not_asked_about() -> None:
    runs = Runs(now=handover(east=waits(PLAN, left=timedelta(seconds=-1))))
    with pytest.raises(AirflowFailException, match=r"could be carried out until .*, and that is over"):
        PlanApproval(task_id="approve").execute({"ti": runs, "params": params()})


TIMEOUT = {"error": "no response", "error_type": "timeout"}


@pytest.fixture
def looked(tmp_path: Path) -> Any:
    """The answer that *approve* hands on after an event; `newer`: kinds of later cycles on record."""

    def look(event: dict[str, Any], *newer: str, left: timedelta = timedelta(minutes=10)) -> dict[str, Any]:
        lake = SmallLake(tmp_path / "lake")
        for n, kind in enumerate(("live", *newer)):
            lake.add("east", AT + timedelta(minutes=10 * n), {}, kind=kind, plan_id=PLAN, source="recording")
        runs = Runs(now=replace(handover(east=waits(PLAN, left=left)), lake=str(lake.root)))
        context = {"ti": runs, "task_instance": runs, "params": params() | {"reason": ""}}
        return dict(answer_in(PlanApproval(task_id="approve").execute_complete(context, event), runs, PLAN))

    return look


def test_an_open_question_looks_every_five_minutes_and_waits_on(looked: Any) -> None:
    for newer in ((), ("backfill",)):
        with pytest.raises(TaskAwaitingInput) as raised:
            looked(TIMEOUT, *newer)
        assert (raised.value.timeout, raised.value.method_name) == (timedelta(minutes=5), "execute_complete")


@pytest.mark.parametrize(
    ("newer", "left", "why"),
    [
        (
            ("live",),
            timedelta(minutes=10),
            f"superseded: the cycle of {(AT + timedelta(minutes=10)).isoformat()} is on record",
        ),
        ((), timedelta(seconds=-1), "no one answered in time"),
    ],
    ids=["superseded", "too old"],
)
def test_a_question_whose_plan_is_void_closes_with_a_no_and_says_why(
    looked: Any, newer: tuple[str, ...], left: timedelta, why: str
) -> None:
    answer = looked(TIMEOUT, *newer, left=left)
    row = answer_to(handover(east=waits(PLAN)).only("east"), PLAN, answer)
    assert (row["answer"], row["by"], row["note"]) == ("rejected", "nobody", why)


def test_a_yes_to_a_superseded_plan_is_put_on_record_as_superseded(looked: Any) -> None:
    event = {
        "chosen_options": ["Approve"],
        "params_input": {"reason": ""},
        "responded_by_user": OLGA,
        "responded_at": AT,
    }
    answer = looked(event, "live")
    row = answer_to(handover(east=waits(PLAN)).only("east"), PLAN, answer)
    assert (row["answer"], row["by"]) == ("rejected", "nobody")
    assert row["note"].startswith("superseded: the cycle of ")
    assert row["note"].endswith("olga answered Approve")


def answered(option: str, user: dict[str, str] | None, *, reason: str = "", **run: Any) -> tuple[str, str, str | None]:
    given = handover(east=waits(PLAN)).only("east")
    said = {"chosen_options": [option], "responded_by_user": user, "responded_at": AT, "reason": reason}
    row = answer_to(replace(given, run=replace(given.run, **run)), PLAN, said)
    assert (row["cluster"], row["plan_id"], row["at"]) == ("east", PLAN, AT)
    return row["answer"], row["by"], row["note"]


OLGA, JO = {"id": "7", "name": "olga"}, {"id": "8", "name": "jo"}


def test_the_answer_is_put_on_record_under_the_login() -> None:
    assert answered("Approve", OLGA) == ("approved", "olga", None)
    assert answered("Approve without splits", OLGA) == ("approved_without_splits", "olga", None)
    assert answered("Reject", JO) == ("rejected", "jo", None)
    assert answered("Reject", None) == ("rejected", "nobody", "no one answered in time")
    assert answered("Reject", JO, reason="after the release") == ("rejected", "jo", "after the release")


def test_with_four_eyes_nobody_approves_a_run_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENKEEL_FOUR_EYES", "true")
    answer, by, note = answered("Approve", OLGA)
    assert (answer, by) == ("rejected", "olga")
    assert "another user has to approve it (EVENKEEL_FOUR_EYES)" in str(note)
    assert answered("Approve", {"id": "olga", "name": "Olga N."})[0] == "rejected", "the login may be the id"
    assert answered("Approve", JO)[0] == "approved"
    assert answered("Approve", OLGA, triggered_by=None)[0] == "approved", "the schedule triggered it"
    assert answered("Approve without splits", OLGA)[0] == "rejected"
    assert answered("Approve without splits", JO)[0] == "approved_without_splits"
    assert answered("Reject", OLGA)[0] == "rejected"
    assert "a user other than olga has to approve it" in question("east", "now", waits(PLAN), "olga")


@pytest.mark.parametrize("made_by", ["olga", "olga (for the release)", "root (olga)"])
def test_with_four_eyes_nobody_approves_a_wish_of_their_own(made_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(user: dict[str, str], option: str = "Approve") -> tuple[str, str | None]:
        given = handover(east=waits(PLAN)).only("east")
        (cycle,) = given.cycles
        cycle = replace(cycle, wishes=({"wish_id": "w", "made_by": made_by, "kind": "unload"},))
        given = replace(given, run=replace(given.run, triggered_by=None), cycles=(cycle,))
        said = {"chosen_options": [option], "responded_by_user": user, "responded_at": AT}
        row = answer_to(given, PLAN, said)
        return row["answer"], row["note"]

    assert answer(OLGA) == ("approved", None), "as long as four eyes are not asked for"
    monkeypatch.setenv("EVENKEEL_FOUR_EYES", "true")
    note = "olga made a request that the plan takes up, and another user has to approve it (EVENKEEL_FOUR_EYES)"
    assert answer(OLGA) == ("rejected", note)
    assert answer({"id": "olga", "name": "Olga N."})[0] == "rejected", "the login may be the id"
    assert answer(JO) == ("approved", None)
    assert answer(OLGA, "Reject") == ("rejected", None)
    asked = question("east", "now", waits(PLAN), "jo", [made_by])
    assert f"a user other than jo, {made_by} has to approve it" in asked


def test_a_word_for_four_eyes_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for word, wanted in (("on", True), ("TRUE ", True), ("", False), ("off", False)):
        assert wants_four_eyes({approval.FOUR_EYES_VARIABLE: word}) is wanted
    monkeypatch.setenv(approval.FOUR_EYES_VARIABLE, "ture")
    with pytest.raises(SettingsError, match="EVENKEEL_FOUR_EYES is neither true nor false"):
        PlanApproval(task_id="approve")


def test_the_yes_of_somebody_who_may_not_approve_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(approval.APPROVERS_VARIABLE, "olga, 9")
    assert answered("Approve", OLGA)[0] == "approved"
    assert answered("Approve", {"id": "9", "name": "kim"})[0] == "approved", "by the id as well"
    answer, by, note = answered("Approve", JO)
    assert (answer, by) == ("rejected", "jo")
    assert note == "jo is not among those who may approve a plan (EVENKEEL_APPROVERS)"
    assert answered("Approve", None)[0] == "rejected"


def test_the_logins_that_may_answer_are_the_environments() -> None:
    assert approvers({}) == []
    assert approvers({approval.APPROVERS_VARIABLE: " olga, jo ,"}) == [
        {"id": "olga", "name": "olga"},
        {"id": "jo", "name": "jo"},
    ]
