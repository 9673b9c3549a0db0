"""A run that is begun by one version of Evenkeel and gone on with by another ends in one clear line."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from evenkeel import pipeline
from evenkeel.airflow import steps
from evenkeel.airflow.approval import PlanApproval
from evenkeel.airflow.one_code import stamped
from evenkeel.airflow.seal import Origin, sealed
from evenkeel.errors import StaleCode
from evenkeel.handover import FAILED, CodeId, Handover
from evenkeel.spark.code import code_digest
from tests.airflow.runs import PARAMS, RUN, handover, left, running
from tests.airflow.xcom import XCom

pytestmark = pytest.mark.airflow

OLDER = CodeId("0.0.9", "d3:3.11/4.1:" + "0" * 64)
WHAT_TO_DO = "to one version, and restart them; then trigger a new run of rebalance, or clear all tasks of that run"


def older(mode: str = "approve") -> Handover:
    return replace(handover(mode), code=OLDER)


def newer(task_id: str) -> str:
    """What a version leaves whose cycles say more than this one knows of."""
    body = json.loads(stamped(handover()).to_json())
    body["cycles"][0]["invented_later"] = 1
    return sealed(json.dumps(body), Origin("rebalance", RUN, task_id))


def nothing_done(_spark: Any, _given: Handover) -> Handover:
    raise AssertionError("a task went on")


nothing_done.__name__ = "aggregate"


LINES = {
    "other code": r"ran Evenkeel 0\.0\.9 \(code d3:3\.11/4\.1:00000000\), and this task runs Evenkeel ",
    "of a later form": "handed on cannot be read by Evenkeel .*another version left it .*invented_later",
}


@pytest.mark.parametrize("kind", LINES)
def test_a_task_goes_on_with_nothing_that_another_version_left(kind: str, published: list[Handover]) -> None:
    given = left("validate", older()) if kind == "other code" else newer("validate")
    ti = XCom().of("rebalance", RUN, "aggregate")
    with pytest.raises(AirflowFailException, match=LINES[kind]) as refused:  # tries are of no use
        steps.carry_on(nothing_done, None, given, ti)  # type: ignore[arg-type]
    line = str(refused.value)
    assert "the task validate of the run manual__1 of rebalance" in line
    assert line.endswith(WHAT_TO_DO)
    assert "\n" not in line
    assert ti.xcom_pull("aggregate", key="reason") == line


def test_a_task_beside_a_spark_server_of_another_version_says_its_own_and_is_tried_again(
    published: list[Handover],
) -> None:
    def stale(_spark: Any, _given: Handover) -> Handover:
        raise StaleCode("The server's workers run other code than this client: restart the server.")

    stale.__name__ = "aggregate"
    ti = XCom().of("rebalance", RUN, "aggregate")
    with pytest.raises(AirflowException, match=r"other code .* This task runs Evenkeel .* \(code d3:") as failed:
        steps.carry_on(stale, None, left("validate", handover()), ti)  # type: ignore[arg-type]
    assert not isinstance(failed.value, AirflowFailException)
    assert ti.xcom_pull("aggregate", key="reason") == str(failed.value)


def test_a_task_says_by_which_code_it_decided_and_the_next_one_goes_on() -> None:
    ti = XCom().of("rebalance", RUN, "validate")
    assert steps.handed_over(left("validate", stamped(handover())), ti, "validate").code.digest == code_digest()


@pytest.mark.parametrize("kind", LINES)
def test_publish_of_another_version_puts_the_cycle_on_record_as_failed(kind: str, published: list[Handover]) -> None:
    ti = running("publish", **{task.__name__: left(task.__name__, older("auto")) for task in pipeline.DECIDING})
    if kind == "of a later form":
        ti.xcom_push_for("place", newer("place"))
    said = {"other code": "publish failed: the task place", "of a later form": "place failed: what the task place"}
    with pytest.raises(AirflowFailException, match=re.escape(f"The cycle is on record as failed. {said[kind]}")):
        steps.close(None, {}, SimpleNamespace(dag_id="rebalance", run_id=RUN), ti)  # type: ignore[arg-type]
    (given,) = published
    assert (given.open_cycles(), given.cycles[0].status) == ((), FAILED)
    assert str(given.cycles[0].reason).endswith(WHAT_TO_DO)


def test_a_plan_that_another_version_left_waiting_in_a_later_form_is_not_asked_about() -> None:
    xcom = XCom({("rebalance", RUN, "publish", "return_value"): newer("publish")})
    ti = xcom.of("rebalance_approval", "approval", "approve")
    with pytest.raises(AirflowFailException, match="another version left it"):
        PlanApproval(task_id="approve").execute({"ti": ti, "params": PARAMS})


def test_a_plan_that_was_decided_by_another_version_may_still_be_carried_out(published: list[Handover]) -> None:
    """It waits for hours, and what is carried out was decided before the upgrade, as a whole."""
    xcom = XCom({("rebalance", RUN, "publish", "return_value"): left("publish", older())})
    assert steps.handed_over(left("publish", older()), xcom.of("rebalance", RUN, "waiting"), "publish") == handover()
