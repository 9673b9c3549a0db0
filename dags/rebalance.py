"""
### Rebalance: one cycle of load balancing for every configured Pulsar cluster

Takes the decisions that Pulsar's own load manager would take, outside the brokers and on the record: which bundles to
split, which to unload, and where each of them should go. Every decision is a row with its reason.

```
 ingest ──► validate ──► aggregate ──► plan_splits ──► shed ──► place ──► publish
 snapshot   Great        topics to     which bundles   which     where     plan, outbox and the
 to tables  Expectations bundles,      are too hot,    bundles   each      cycle's row: from then
            and rules    averages      where to cut    must go   should go on readers see the cycle
```

**Params** (all optional; *Trigger DAG w/ config*)

| param | meaning |
|---|---|
| `clusters` | names from the configuration; empty: all of them |
| `source` | where snapshots come from, e.g. `recording:/data/recordings/monday`; empty: as configured |
| `mode` | `dry_run`: send nothing. `approve`: ask a person, then send. `auto`: send. At most `EVENKEEL_MODE_LIMIT` |
| `settings` | Pulsar's own keys, for this run only; an unknown key or a value out of range is refused by name |
| `at` | decide the newest snapshot up to this moment; empty: the run's logical date, else now |
| `wishes` | splits and unloads that you request beside the strategies' decisions, as in Pulsar's admin API; drains |

```json
{"clusters": ["eu-1"], "settings": {"loadBalancerBrokerThresholdShedderPercentage": 15}}
```

**Wishes** are manual requests. Pulsar's own rules apply to them. Each one is listed among the decisions, granted or
refused with the reason. `evenkeel wish` makes them too; such a request waits until a cycle takes it. Only one cycle
carries it out, and a re-run of that cycle takes it again. Examples of the param:
`{"kind": "split", "namespace": "acme/orders", "bundle": "LARGEST", "unload": true}`,
`{"kind": "unload", "namespace": "acme/orders", "bundle": "0x00000000_0x40000000", "destinationBroker": "b2:8080"}`,
`{"kind": "unload_topic", "topic": "persistent://acme/orders/in"}`,
`{"kind": "drain", "broker": "b3:8080"}` (holds until `undrain`; not in a dry run).
With more than one cluster in the run each names its `cluster`.

**Approvals**: the DAG `rebalance_approval` asks for them, in a run for each cluster's plan. This run is over by then,
and later cycles do not wait for the answer.

**Hand-overs** between tasks are sealed. If one was edited in XCom, or replaced by that of another run, the next task
fails with that message, and nothing is sent.

**Clusters with untrusted data** are left out of their cycle (`skipped`, with the reason). The others go on, and the run
does not fail.

**A re-run** (clear the run, or trigger it again with the same `at`) decides the cycle again from the same snapshot and
gets the same `plan_id`. The earlier attempt stays on record, and readers still see one attempt. So any task can be
cleared at any time. After an upgrade clear all of them together, since one version decides a whole cycle. A killed task
leaves rows that no reader ever sees.

**A backfill** (`airflow backfill create --dag-id rebalance --from-date … --to-date …`) decides past cycles from landed
snapshots, for the first time or again (`--reprocess-behavior completed`), marks them `backfill`, and never sends a
command. Each cycle builds on the averages of the previous one. So *ingest* waits for the previous run, whatever
`--max-active-runs` is; with `--run-backwards` it fails with that message. A moment without its own snapshot is
recorded as skipped. To continue a stopped backfill, create it again with the reprocess behaviour `none`.
For more than a few moments use `rebalance_history`: it decides a day of cycles in one run.

**If it fails**: the failed task's log ends with the error, its place, and what to do. The cycle's row has the same
sentence (`status` failed, `reason`); *publish* writes it before it fails itself. `evenkeel_spark` is the connection
with the address of Spark. **If it succeeds and nothing happened**: open *Evenkeel* in the navigation. Each cycle's
report lists all considered bundles and brokers, with the reason why nothing was done.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, dag, task

from evenkeel import pipeline
from evenkeel.airflow.approval import PlanQuestion
from evenkeel.airflow.dag_files import START_DATE, rebalance_params, timetable_in, tried_again
from evenkeel.airflow.dag_names import APPROVAL_DAG, ASK, DECIDING_DAG, WAITING, dag_id_of, deciding_lakes, lake_tags
from evenkeel.airflow.wiring import seven_tasks

# `none` leaves the DAG to manual runs and triggers.
SCHEDULE = timetable_in("EVENKEEL_SCHEDULE", "*/5 * * * *")

ASK_DOC = """Starts a run of rebalance_approval for each waiting plan.

No later cycle waits for the answer."""


def begin(*given: Any) -> str:
    from evenkeel.airflow import steps

    return steps.begin(*given)


def close(*given: Any) -> str:
    from evenkeel.airflow import steps

    return steps.close(*given)


def declare(lake: str) -> DAG:
    """Declare the DAG of a lake, and return it."""

    @dag(
        dag_id=dag_id_of(DECIDING_DAG, lake),
        description="Decides splits, unloads and placements of Pulsar bundles; every decision with its reason",
        schedule=SCHEDULE,
        start_date=START_DATE,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(minutes=45),
        default_args=tried_again(ends_after=timedelta(minutes=10)),
        params=rebalance_params(),
        tags=["evenkeel", "pulsar", "load-balancing", *lake_tags(lake)],
        doc_md=__doc__,
    )
    def rebalance() -> None:
        @task(
            task_id=WAITING, doc_md="Names the plans that wait for an approval.\n\nSkipped unless the mode is approve."
        )
        def waiting(published: str, ti: Any = None) -> list[str]:
            from evenkeel.airflow import steps

            return steps.questions(published, ti)

        between = (pipeline.validate, pipeline.aggregate, pipeline.plan_splits, pipeline.shed, pipeline.place)
        published = seven_tasks(begin, between, close)
        PlanQuestion.partial(
            task_id=ASK,
            trigger_dag_id=dag_id_of(APPROVAL_DAG, lake),
            logical_date=None,
            skip_when_already_exists=True,
            doc_md=ASK_DOC,
        ).expand(question=waiting(published))

    return rebalance()


for name in deciding_lakes():
    declare(name)
