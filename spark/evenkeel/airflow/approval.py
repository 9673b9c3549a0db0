"""Approval of a plan by a person: one run of `rebalance_approval` per cluster and plan.

The run of `rebalance` that made the plan is over by then. So a slow answer delays no other cluster and no later cycle.
The question names one plan of one run. Both the question and the execution read that plan again from *publish*, and
refuse another one. No answer in time counts as a no. All values between these tasks are sealed (`seal`), the answer
too: an edited XCom approves nothing.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Param
from airflow.sdk.execution_time.hitl import HITLUser

from evenkeel.airflow.dag_files import is_on
from evenkeel.airflow.dag_names import APPROVING, DECIDING_DAG, PUBLISH, WAITING, dag_id_of, lake_in
from evenkeel.airflow.seal import Origin, opened, sealed
from evenkeel.errors import BadInput, EvenkeelError, SettingsError
from evenkeel.model.amounts import plural
from evenkeel.settings.operation import ENVIRONMENT

if TYPE_CHECKING:
    from evenkeel.handover import Handover

log = logging.getLogger(__name__)

APPROVE, APPROVE_WITHOUT_SPLITS, REJECT = "Approve", "Approve without splits", "Reject"
REASON = "reason"
MOST_REASON = 500
"""Maximum number of characters of a reason that are recorded."""
IN_TIME, SUPERSEDED = "no one answered in time", "superseded: "
APPROVERS_VARIABLE = "EVENKEEL_APPROVERS"
FOUR_EYES_VARIABLE = "EVENKEEL_FOUR_EYES"
_LOOKS_EVERY = timedelta(minutes=5)
"""The time after which an open question looks if its plan still counts. Airflow may lose an answer right after it."""
# Beside its maker's login a request may name any person, and the question is read as Markdown.
_NOT_PLAIN = re.compile(r"[^\w .,:@()-]")


def approvers(environment: Mapping[str, str] = ENVIRONMENT) -> list[HITLUser]:
    """Return the logins in EVENKEEL_APPROVERS (separated by commas) that may answer; empty: all whom Airflow allows."""
    names = [name.strip() for name in environment.get(APPROVERS_VARIABLE, "").split(",") if name.strip()]
    return [HITLUser(id=name, name=name) for name in names]


def wants_four_eyes(environment: Mapping[str, str] = ENVIRONMENT) -> bool:
    """Return True if EVENKEEL_FOUR_EYES is set.

    Then users who triggered a run cannot approve its plan, nor can users who made a manual request that its cycle took.
    """
    return is_on(FOUR_EYES_VARIABLE, environment)


def waiting_plan(ti: Any, params: Mapping[str, Any]) -> tuple[Handover, dict[str, str]]:
    """Return the hand-over of the cluster alone, and its plan, as the named run left them waiting.

    `BadInput` if that run has no such plan: it was published again meanwhile, or the params name another one.
    `BadInput` also if the run's values are not sealed by its *publish*, or cannot be read by this version.
    """
    from evenkeel.airflow.one_code import read_handover

    run_id, cluster, plan_id = (str(params[name]) for name in ("run_id", "cluster", "plan_id"))
    dag_id = dag_id_of(DECIDING_DAG, lake_in(ti.dag_id))
    text = ti.xcom_pull(PUBLISH, dag_id=dag_id, run_id=run_id, map_indexes=None)
    origin = Origin(dag_id, run_id, PUBLISH)
    handover = read_handover(opened(text, origin), origin) if text else None
    plan = handover.awaiting.get(cluster) if handover is not None else None
    if handover is None or plan is None or plan["plan_id"] != plan_id:
        current = f"it has {plan['plan_id'][:12]}" if plan is not None else "it has none"
        raise BadInput(
            f"the run {run_id} has no plan {plan_id[:12]} of {cluster} that waits for an approval ({current}): nothing "
            "was sent. A run that was cleared asks again by itself"
        )
    return handover.only(cluster), plan


def answer_in(value: object, ti: Any, plan_id: str) -> Mapping[str, Any]:
    """Return the answer to this plan that *approve* of this run sealed. Raises BadInput for any other."""
    answer: dict[str, Any] = json.loads(opened(value, Origin(ti.dag_id, ti.run_id, APPROVING)))
    if answer["plan_id"] != plan_id:
        raise BadInput(f"the answer is to the plan {answer['plan_id'][:12]}, not to {plan_id[:12]}: nothing was sent")
    return answer


def answer_to(handover: Handover, plan_id: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of `approvals` for the plan of the hand-over's only cluster; an answer without a name is a
    timeout.

    With four eyes (EVENKEEL_FOUR_EYES), the yes of the user who triggered the run counts as a no, and so does the yes
    of users who made a manual request that the cycle took. The yes of a user whom EVENKEEL_APPROVERS does not name
    counts as a no too. Airflow checks the answer against the list at the time of the question, and against none if it
    treats every user as an administrator.
    """
    from evenkeel.lake.controls import APPROVED, NOBODY, REJECTED, WITHOUT_SPLITS, answer_row, names_in

    (cycle,) = handover.cycles
    meant = {(APPROVE,): APPROVED, (APPROVE_WITHOUT_SPLITS,): WITHOUT_SPLITS}
    verdict = meant.get(tuple(answer["chosen_options"]), REJECTED)
    user = answer.get("responded_by_user") or {}
    names = {str(user[name]) for name in ("id", "name") if user.get(name)}
    reason = str(answer.get(REASON) or "") or None
    by, note = (str(user.get("name") or user.get("id")), reason) if names else (NOBODY, reason or IN_TIME)
    allowed = {user["id"] for user in approvers()}
    if verdict != REJECTED and allowed and allowed.isdisjoint(names):
        verdict, note = REJECTED, f"{by} is not among those who may approve a plan ({APPROVERS_VARIABLE})"
    if verdict != REJECTED and wants_four_eyes():
        part = "triggered the run" if handover.run.triggered_by in names else None
        if any(names & names_in(wish["made_by"]) for wish in cycle.wishes):
            part = part or "made a request that the plan takes up"
        if part is not None:
            verdict, note = REJECTED, f"{by} {part}, and another user has to approve it ({FOUR_EYES_VARIABLE})"
    at = answer.get("responded_at")
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    return answer_row(cycle.cluster, plan_id, verdict, by, note, moment)


def answer_params() -> dict[str, Param]:
    """Return the params beside the answer; Airflow shows a field for each."""
    return {REASON: Param("", type="string", maxLength=MOST_REASON, description="Why, for the record (optional).")}


class PlanQuestion(TriggerDagRunOperator):
    """Starts the run that asks about one plan, as *waiting* has sealed it (`question`)."""

    def __init__(self, *, question: str, **more: Any) -> None:
        super().__init__(**more)
        self.question = question

    def execute(self, context: Any) -> None:
        """Start the run; Airflow does so as the user who triggered this one."""
        from airflow.sdk.exceptions import AirflowFailException

        ti = context["ti"]
        try:
            asked = json.loads(opened(self.question, Origin(ti.dag_id, ti.run_id, WAITING)))
        except (BadInput, SettingsError) as error:
            raise AirflowFailException(str(error)) from None
        self.trigger_run_id, self.conf = asked["trigger_run_id"], asked["conf"]
        super().execute(context)


class PlanApproval(HITLOperator):
    """Asks about the one plan that the run's params name, for as long as it may be carried out.

    Every five minutes it looks if it may still be. If not, it closes the question: too old, or superseded by a newer
    cycle.
    """

    template_fields = ()

    def __init__(self, **more: Any) -> None:
        users = approvers() or None
        wants_four_eyes()  # faults of it show where DAGs are listed, and not after an answer
        super().__init__(
            subject="Carry the plan out?",
            options=[APPROVE, APPROVE_WITHOUT_SPLITS, REJECT],  # until the plan is known
            assigned_users=users,
            response_timeout=_LOOKS_EVERY,
            **more,
        )

    def execute(self, context: Any) -> Any:
        """Ask the question; the task resumes with the answer, or to look if the question still stands."""
        from airflow.sdk.exceptions import AirflowFailException

        handover, plan, left = self._waiting(context)
        if left <= timedelta(0):
            raise AirflowFailException(
                f"the plan {plan['plan_id'][:12]} could be carried out until {plan['expires_at']} "
                "(evenkeelMaxReportAgeSeconds), and that is over: a later cycle decides on newer figures"
            )
        self.response_timeout = min(left, _LOOKS_EVERY)
        (cycle,) = handover.cycles
        self.subject = f"Carry out the plan of {cycle.cluster}?"
        self.options = [APPROVE, *([APPROVE_WITHOUT_SPLITS] if has_splits(plan) else []), REJECT]
        wished_by = {_NOT_PLAIN.sub("?", str(wish["made_by"]))[:80] for wish in cycle.wishes}
        self.body = question(cycle.cluster, cycle.cycle_at, plan, handover.run.triggered_by, wished_by)
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> str:
        """The answer as Airflow's own API took it, sealed for *send* with the plan that was asked about.

        The answer to a superseded plan is a no. Without an answer the task waits on, or closes the question with a no.
        """
        from airflow.sdk.exceptions import TaskAwaitingInput

        ti = context["ti"]
        handover, _, left = self._waiting(context)
        over = superseded(handover) or (IN_TIME if left <= timedelta(0) else "")
        if "error" in event:
            if not over:  # an answer that has come meanwhile wakes it at once
                raise TaskAwaitingInput(method_name="execute_complete", timeout=min(left, _LOOKS_EVERY))
            none = {"chosen_options": [REJECT], "params_input": {REASON: over}, "responded_by_user": None}
            event = {**none, "responded_at": datetime.now(UTC)}
        given = super().execute_complete(context, event)
        if over.startswith(SUPERSEDED) and given["responded_by_user"]:
            told = f"{over}; {given['responded_by_user']['name']} answered {given['chosen_options'][0]}"
            given |= {"chosen_options": [REJECT], "responded_by_user": None, "params_input": {REASON: told}}
        answer = {
            "plan_id": str(context["params"]["plan_id"]),
            "chosen_options": list(given["chosen_options"]),
            "responded_by_user": given["responded_by_user"],
            "responded_at": given["responded_at"].isoformat(),
            REASON: str((given["params_input"] or {}).get(REASON) or "")[:MOST_REASON],
        }
        return sealed(json.dumps(answer, sort_keys=True), Origin(ti.dag_id, ti.run_id, ti.task_id))

    def _waiting(self, context: Any) -> tuple[Handover, dict[str, str], timedelta]:
        """Return what `waiting_plan` does, and for how long the plan may still be carried out."""
        from airflow.sdk.exceptions import AirflowFailException

        try:
            handover, plan = waiting_plan(context["ti"], context["params"])
        except (BadInput, SettingsError) as error:
            raise AirflowFailException(str(error)) from None
        return handover, plan, datetime.fromisoformat(plan["expires_at"]) - datetime.now(UTC)


def superseded(handover: Handover) -> str:
    """Return which newer cycle makes the plan of the hand-over's only cluster void; "" without one, or unreadable."""
    from evenkeel.airflow.connections import reach
    from evenkeel.lake.record import Record

    (cycle,) = handover.cycles
    try:
        reach()
        newer = Record(handover.lake).superseding(cycle.cluster, cycle.at, cycle.source)
    except EvenkeelError as error:  # *send* looks again, and sends nothing of a superseded plan
        log.warning("%s: if a newer cycle is on record is not known: %s", cycle.cluster, error)
        return ""
    return "" if newer is None else f"{SUPERSEDED}the cycle of {newer.isoformat()} is on record"


def has_splits(plan: Mapping[str, str]) -> bool:
    """Return True if a waiting plan has a split; a plan of an earlier version does not contain this."""
    return int(plan.get("splits", 0)) > 0


def question(
    cluster: str, cycle_at: str, plan: Mapping[str, str], triggered_by: str | None, wished_by: Iterable[str] = ()
) -> str:
    """Return the plan in Markdown; the cluster's name is an operator's text. `wished_by`: makers of requests that it
    takes up."""
    lines = [
        f"- **{cluster}** at {cycle_at}, plan `{plan['plan_id']}`: {plan['summary']}",
        f"- triggered by {triggered_by}" if triggered_by else "- triggered by the schedule",
        f"- may be carried out until {plan['expires_at']}, unless a newer cycle of the cluster is decided before",
    ]
    concerned = sorted({*wished_by, *([triggered_by] if triggered_by else [])})
    if concerned and wants_four_eyes():
        lines.append(f"- a user other than {', '.join(concerned)} has to approve it")
    if has_splits(plan):
        lines.append(
            f"- *{APPROVE_WITHOUT_SPLITS}* leaves out its {plural(int(plan['splits']), 'split')}, and what rests on one"
        )
    closing = "Every command and its reason stand in the cycle's report. Only this very plan will be carried out."
    return "\n".join([*lines, "", closing])
