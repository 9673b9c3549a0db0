"""A task refuses a text that somebody wrote into XCom by hand, and sends nothing."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException

from evenkeel import pipeline
from evenkeel.airflow import steps
from evenkeel.airflow.approval import PlanApproval, PlanQuestion
from evenkeel.airflow.dag_names import approval_run_id
from evenkeel.airflow.one_code import stamped
from evenkeel.airflow.seal import Origin, sealed
from evenkeel.handover import FAILED, Handover
from tests.airflow.runs import AT, PARAMS, PLAN, RUN, handover, left, running
from tests.airflow.xcom import RunningTask, XCom

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("published")]

OTHER_RUN = "manual__2"
APPROVAL = approval_run_id(RUN, PLAN)
REFUSED = "left in XCom (has no seal|does not have its seal).*nothing was sent: trigger a new run"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The rows of `approvals`."""
    rows: list[dict[str, Any]] = []
    monkeypatch.setattr("evenkeel.lake.controls.answers", lambda *given: [])
    monkeypatch.setattr("evenkeel.lake.store.append_row", lambda _lake, _table, row: rows.append(row))
    return rows


def forgeries(task_id: str) -> dict[str, Any]:
    """What somebody with the rights to XCom can put in the place of a hand-over."""
    return {
        "written": handover("auto").to_json(),
        "changed": left(task_id, handover()).replace('"approve"', '"auto"'),
        "of another run": left(task_id, handover("auto"), OTHER_RUN),
        "of another task": left("ingest" if task_id != "ingest" else "place", handover("auto")),
        "nothing": None,
    }


@pytest.mark.parametrize("kind", forgeries("validate"))
def test_a_task_takes_no_hand_over_but_that_of_the_task_before_it(kind: str) -> None:
    called: list[Handover] = []

    def aggregate(_spark: Any, given: Handover) -> Handover:
        called.append(given)
        return given

    ti = XCom().of("rebalance", RUN, "aggregate")
    with pytest.raises(AirflowFailException, match=REFUSED):
        steps.carry_on(aggregate, None, forgeries("validate")[kind], ti)  # type: ignore[arg-type]
    assert called == []
    assert "task validate of the run manual__1" in ti.xcom_pull("aggregate", key="reason")
    made = steps.carry_on(aggregate, None, left("validate", handover()), ti)  # type: ignore[arg-type]
    assert (called, made) == ([handover()], left("aggregate", stamped(handover())))


@pytest.mark.parametrize("kind", [kind for kind in forgeries("place") if kind != "nothing"])
def test_publish_puts_a_run_whose_hand_over_was_forged_on_record_as_failed(
    kind: str, published: list[Handover]
) -> None:
    ti = running("publish", **{task.__name__: left(task.__name__, handover()) for task in pipeline.DECIDING})
    ti.xcom_push_for("place", forgeries("place")[kind])
    with pytest.raises(AirflowFailException, match=r"The cycle is on record as failed\. place failed: what the task"):
        steps.close(None, {}, SimpleNamespace(dag_id="rebalance", run_id=RUN), ti)  # type: ignore[arg-type]
    (given,) = published
    assert (given.run.mode, given.open_cycles(), given.cycles[0].status) == ("approve", (), FAILED)


def test_the_run_that_asks_is_the_one_that_waiting_named() -> None:
    ti = running("waiting")
    (question,) = steps.questions(left("publish", handover()), ti)
    asking = running("ask")
    with pytest.raises(DagRunTriggerException) as started:
        asked(question).execute({"ti": asking, "task_instance": asking})
    assert (started.value.dag_run_id, started.value.conf) == (APPROVAL, PARAMS)
    forged = json.dumps({"trigger_run_id": "x", "conf": {**PARAMS, "plan_id": "b" * 64}})
    for other in (forged, question.replace(PLAN, "b" * 64), sealed(forged, Origin("rebalance", OTHER_RUN, "waiting"))):
        with pytest.raises(AirflowFailException, match=REFUSED):
            asked(other).execute({"ti": asking, "task_instance": asking})
    for text in forgeries("publish").values():
        with pytest.raises(AirflowFailException, match=REFUSED):
            steps.questions(text, ti)


def asked(question: str) -> PlanQuestion:
    return PlanQuestion(task_id="ask", trigger_dag_id="rebalance_approval", logical_date=None, question=question)


def asking(published: Any = None, run_id: str = APPROVAL, task_id: str = "send") -> RunningTask:
    """A task of the run that asks, with what *publish* left in the run that made the plan."""
    xcom = XCom({("rebalance", RUN, "publish", "return_value"): published or left("publish", handover())})
    return xcom.of("rebalance_approval", run_id, task_id)


def answer(option: str, *, run_id: str = APPROVAL, plan_id: str = PLAN, user: str = "jo") -> str:
    """What *approve* leaves when somebody has answered in Airflow."""
    event = {
        "chosen_options": [option],
        "params_input": {},
        "responded_at": AT,
        "responded_by_user": {"id": user, "name": user},
    }
    ti = asking(run_id=run_id, task_id="approve")
    context = {"ti": ti, "task_instance": ti, "params": {**PARAMS, "plan_id": plan_id}}
    return PlanApproval(task_id="approve").execute_complete(context, event)


@pytest.mark.parametrize(("option", "word"), [("Approve", "approved"), ("Reject", "rejected")])
def test_an_answer_that_airflow_took_is_put_on_record_and_carried_out(
    option: str, word: str, published: list[Handover], answers: list[dict[str, Any]]
) -> None:
    steps.carry_out(None, PARAMS, answer(option), asking())  # type: ignore[arg-type]
    (row,) = answers
    assert (row["cluster"], row["plan_id"], row["answer"], row["by"], row["at"]) == ("east", PLAN, word, "jo", AT)
    assert [one.run.mode for one in published] == ["approve"]


@pytest.mark.parametrize(
    "kind", ["written", "of an earlier version", "turned", "under another login", "of another run", "of another task"]
)
def test_an_answer_that_airflow_did_not_take_sends_nothing(
    kind: str, published: list[Handover], answers: list[dict[str, Any]]
) -> None:
    plain = {"plan_id": PLAN, "chosen_options": ["Approve"], "responded_by_user": {"id": "jo", "name": "jo"}}
    forged = {
        "written": json.dumps(plain),
        "of an earlier version": plain,
        "turned": answer("Reject").replace('["Reject"]', '["Approve"]'),
        "under another login": answer("Approve", user="olga").replace('"olga"', '"jo"'),
        "of another run": answer("Approve", run_id=approval_run_id(OTHER_RUN, PLAN)),
        "of another task": sealed(json.dumps(plain), Origin("rebalance_approval", APPROVAL, "send")),
    }[kind]
    with pytest.raises(AirflowFailException, match=REFUSED):
        steps.carry_out(None, PARAMS, forged, asking())  # type: ignore[arg-type]
    assert (published, answers) == ([], [])


def test_a_task_that_was_marked_as_done_has_answered_nothing(
    published: list[Handover], answers: list[dict[str, Any]]
) -> None:
    with pytest.raises(AirflowFailException, match=r"task approve of the run .* left in XCom has no seal"):
        steps.carry_out(None, PARAMS, None, asking())  # type: ignore[arg-type]
    assert (published, answers) == ([], [])


def test_an_answer_to_another_plan_of_the_same_run_is_none_to_this_one(published: list[Handover]) -> None:
    ti = asking(run_id=APPROVAL, task_id="approve")
    other = sealed(json.dumps({"plan_id": "b" * 64}), Origin(ti.dag_id, ti.run_id, ti.task_id))
    with pytest.raises(AirflowFailException, match="the answer is to the plan bbbbbbbbbbbb, not to aaaaaaaaaaaa"):
        steps.carry_out(None, PARAMS, other, asking())  # type: ignore[arg-type]
    with pytest.raises(AirflowFailException, match="has no plan bbbbbbbbbbbb of east that waits for an approval"):
        answer("Approve", plan_id="b" * 64)
    assert published == []


@pytest.mark.parametrize("kind", [kind for kind in forgeries("publish") if kind != "nothing"])
def test_a_plan_that_publish_did_not_leave_is_neither_asked_about_nor_sent(
    kind: str, published: list[Handover], answers: list[dict[str, Any]]
) -> None:
    forged = forgeries("publish")[kind]
    with pytest.raises(AirflowFailException, match=REFUSED):
        steps.carry_out(None, PARAMS, answer("Approve"), asking(forged))  # type: ignore[arg-type]
    with pytest.raises(AirflowFailException, match=REFUSED):
        PlanApproval(task_id="approve").execute({"ti": asking(forged), "params": PARAMS})
    assert (published, answers) == ([], [])


def test_four_eyes_look_at_who_triggered_the_run_as_ingest_has_sealed_it(
    published: list[Handover], answers: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_FOUR_EYES", "true")
    steps.carry_out(None, PARAMS, answer("Approve", user="olga"), asking())  # type: ignore[arg-type]
    assert [row["answer"] for row in answers] == ["rejected"]
    changed = left("publish", handover()).replace('"olga"', '"somebody"')
    with pytest.raises(AirflowFailException, match=REFUSED):
        steps.carry_out(None, PARAMS, answer("Approve", user="olga"), asking(changed))  # type: ignore[arg-type]
