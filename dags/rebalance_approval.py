"""
### Rebalance, the approval: one plan of one cluster, to be carried out or not

*rebalance* starts a run of this DAG for every plan that it made in the mode `approve`. The task *approve* asks a person
(**Required Actions** in the navigation). *send* records the answer and carries out what it allows.

```
 rebalance: … ──► publish ──► ask
                               │  one run per cluster and plan
                               ▼
              rebalance_approval: approve ──► send
```

**Three answers.** *Approve* sends the plan. *Approve without splits* is offered if the plan has splits. It sends all
commands except splits, and moves of parts that exist only after a split. Those commands are recorded as not sent, with
the user who answered so. The plan stays the same, and nothing is decided again. *Reject* sends nothing.

**The question is for one plan.** Both tasks read it again from *publish*. If it was published again meanwhile, it is
another plan, and nothing is sent. A plan can be approved for `evenkeelMaxReportAgeSeconds` after its cycle. No answer
until then counts as a no. A newer cycle of the cluster supersedes the plan, since its view of the cluster counts; it
asks again. The open question looks for one every five minutes, and closes with a no. So set a schedule that leaves
users enough time to answer (`EVENKEEL_SCHEDULE`).

**The answer is the one that Airflow took.** *approve* hands it on sealed, and *send* refuses any other. So an edited
XCom cannot turn a no into a yes.

**Who may answer**: every user whom Airflow allows, or only the logins in `EVENKEEL_APPROVERS` (separated by commas).
With `EVENKEEL_FOUR_EYES=true` the yes of two kinds of users counts as a no: of those who triggered the run, and of
those who made a request that the plan takes up. The table `approvals` has the answer with the login of the user who
gave it, and the reason if one was given.

**Params** (filled in by *rebalance*)

| param | meaning |
|---|---|
| `run_id` | the run of *rebalance* that made the plan |
| `cluster` | the cluster of the plan |
| `plan_id` | the plan of the question, and the only one that is carried out |

```json
{"run_id": "manual__2026-11-23T09:00:00+00:00", "cluster": "eu-1", "plan_id": "5c1f…"}
```

**A re-run** (clear *send*) repeats no command that was sent; clear *approve* to ask again. There is no **backfill** of
this DAG: a backfill sends nothing, so it needs no answer.

**If it fails**: the failed task's log ends with the error and what to do; the cycle's row has the same sentence.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from evenkeel.airflow.approval import PlanApproval, answer_params
from evenkeel.airflow.dag_files import START_DATE, outlets, tried_again
from evenkeel.airflow.dag_names import APPROVAL_DAG, APPROVING, dag_id_of, deciding_lakes, lake_tags
from evenkeel.airflow.wiring import step

APPROVE_DOC = """Asks if the plan is to be carried out.

Clear it to ask again."""
SEND_DOC = """Records the answer, carries out what it allows, and closes the cycle's row.

Clear it freely: nothing is sent twice."""


def named(description: str) -> Param:
    """A param that has to be given."""
    return Param(type="string", minLength=1, description=description)


def declare(lake: str) -> None:
    """Declare the DAG of a lake."""

    @dag(
        dag_id=dag_id_of(APPROVAL_DAG, lake),
        description="Asks a person about one plan of one Pulsar cluster, and carries it out",
        schedule=None,
        start_date=START_DATE,
        catchup=False,
        max_active_runs=64,
        # Users who pause a DAG want it to start nothing; a question that waits for its DAG would come too late.
        is_paused_upon_creation=False,
        dagrun_timeout=timedelta(hours=24),
        default_args=tried_again(ends_after=timedelta(minutes=30)),
        params={
            "run_id": named("The run of rebalance that made the plan."),
            "cluster": named("Whose plan it is."),
            "plan_id": named("The plan of the question."),
        },
        tags=["evenkeel", "pulsar", "load-balancing", *lake_tags(lake)],
        doc_md=__doc__,
    )
    def rebalance_approval() -> None:
        approve = PlanApproval(task_id=APPROVING, params=answer_params(), doc_md=APPROVE_DOC)

        @task.pyspark(**step("send", SEND_DOC, outlets=outlets("publish")))
        def send(answer: str, spark: Any = None, params: Any = None, ti: Any = None, outlet_events: Any = None) -> str:
            from evenkeel.airflow import steps

            return steps.carry_out(spark, params, answer, ti, outlet_events)

        send(approve.output)

    rebalance_approval()


for name in deciding_lakes():
    declare(name)
