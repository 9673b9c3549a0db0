"""
### Rebalance, the approval: one plan of one cluster, to be carried out or not

*rebalance* starts a run of this DAG for every plan that it made in the mode `approve`. The task *approve* asks a person
(**Required Actions** in the navigation); *send* puts the answer on record and carries out what it allows.

```
 rebalance: … ──► publish ──► ask
                               │  one run per cluster and plan
                               ▼
              rebalance_approval: approve ──► send
```

**Three answers.** *Approve* sends the plan. *Approve without splits*, offered where the plan has splits, sends all but
what splits a bundle and what rests on a split (a move of a part that is there only after it): those commands go on
record as not sent, with who answered so. The plan stays the one plan, and nothing is decided anew. *Reject* sends
nothing.

**The question holds for one plan.** Both tasks look it up again where *publish* left it; a plan that was published anew
meanwhile is another one, and nothing is sent. It can be approved as long as it may be carried out
(`evenkeelMaxReportAgeSeconds` after its cycle); who does not answer until then has said no. A newer cycle of the
cluster ends it too: its view of the cluster counts, and it asks anew. So let the schedule leave people the time that
they take (`EVENKEEL_SCHEDULE`).

**The answer counts as Airflow took it**, from whoever gave it: *approve* hands it on sealed, and *send* refuses any
other, so nobody makes a yes of a no by editing XComs.

**Who may answer**: whoever may in Airflow, or the logins in `EVENKEEL_APPROVERS` (with commas between them) alone. With
`EVENKEEL_FOUR_EYES=true` the yes of whoever triggered the run, or made a wish that the plan takes up, counts as a no.
The answer stands in the table `approvals` under the login of who gave it, with the reason if one was given.

**Params** (filled in by *rebalance*)

| param | meaning |
|---|---|
| `run_id` | the run of *rebalance* that made the plan |
| `cluster` | whose plan it is |
| `plan_id` | the plan that is asked about, and the only one that is carried out |

```json
{"run_id": "manual__2026-11-23T09:00:00+00:00", "cluster": "eu-1", "plan_id": "5c1f…"}
```

**A re-run** (clear *send*) repeats nothing that went out; clear *approve* to ask again. There is no **backfill** of it:
a backfill sends nothing, so it asks nobody.

**When it is red**: the failed task's log ends with what is wrong and what to do; the cycle's row has the same sentence.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from evenkeel.airflow.approval import PlanApproval, answer_params
from evenkeel.airflow.dag_files import START_DATE, outlets, tried_again
from evenkeel.airflow.dag_names import APPROVAL_DAG, APPROVING, dag_id_of
from evenkeel.airflow.lake_dags import deciding_lakes, lake_tags
from evenkeel.airflow.wiring import step

APPROVE_DOC = """Asks whether the plan is to be carried out.

Clear it to ask again."""
SEND_DOC = """Puts the answer on record, carries out what it allows, and closes the cycle's row.

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
            "plan_id": named("The plan that is asked about."),
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
