"""The task that asks a person whether a plan is to be carried out.

It asks about the very plans that *publish* has put on record; an answer holds for them and for nothing else. Where no
plan waits, as in a dry run, it is skipped. Who does not answer in time has said no.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowSkipException

APPROVE, REJECT = "Approve", "Reject"


class PlanApproval(HITLOperator):
    """Asks about the plans that the hand-over of `asked_by` names as waiting."""

    template_fields = ()

    def __init__(self, *, asked_by: str, **more: Any) -> None:
        super().__init__(subject="Carry the plan out?", options=[APPROVE, REJECT], defaults=REJECT, **more)
        self.asked_by = asked_by

    def execute(self, context: Any) -> Any:
        """Puts the question; the task is taken up again with the answer."""
        from evenkeel.handover import Handover

        waiting = Handover.from_json(context["ti"].xcom_pull(self.asked_by)).awaiting
        if not waiting:
            raise AirflowSkipException("no plan waits for an approval")
        self.subject = f"Carry out the plan of {', '.join(sorted(waiting))}?"
        self.body = question(waiting)
        return super().execute(context)


def question(waiting: Mapping[str, Mapping[str, str]]) -> str:
    """The plans in Markdown; names of clusters are an operator's own."""
    lines = [f"- **{name}**, plan `{one['plan_id']}`: {one['summary']}" for name, one in sorted(waiting.items())]
    closing = "Every command and its reason stand in the cycle's report. Only these very plans will be carried out."
    return "\n".join([*lines, "", closing])
