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
| `wishes` | splits and unloads to carry out beside what the strategies decide, as in Pulsar's admin API; drains |

```json
{"clusters": ["eu-1"], "settings": {"loadBalancerBrokerThresholdShedderPercentage": 15}}
```

**Wishes** are held to Pulsar's own rules, and each of them stands among the decisions, granted or refused with the
reason. `evenkeel wish` makes them too; such a wish waits until a cycle takes it. A wish is carried out in one cycle
only, and a re-run of that cycle takes it again. Examples of the param:
`{"kind": "split", "namespace": "acme/orders", "bundle": "LARGEST", "unload": true}`,
`{"kind": "unload", "namespace": "acme/orders", "bundle": "0x00000000_0x40000000", "destinationBroker": "b2:8080"}`,
`{"kind": "unload_topic", "topic": "persistent://acme/orders/in"}`,
`{"kind": "drain", "broker": "b3:8080"}` (holds until `undrain`; not in a dry run).
With more than one cluster in the run each names its `cluster`.

**An approval** is asked for by the DAG `rebalance_approval`, in a run for each cluster's plan: this run is over by
then, and later cycles wait for nobody.

**What a task hands to the next** is sealed. Where somebody has edited it in XCom, or put that of another run there,
the next task turns red and says so, and nothing is sent.

**A cluster whose data cannot be trusted** is left out of its cycle (`skipped`, with the reason) and the others go on:
that does not make the run red.

**A re-run** (clear the run, or trigger it again with the same `at`) decides the cycle anew from the same snapshot and
arrives at the same `plan_id`. The earlier attempt stays on record and readers go on seeing one attempt, so any task can
be cleared at any time; after an upgrade all of them together, since a cycle is decided by one code. A task that was
killed leaves rows that nobody ever reads.

**A backfill** (`airflow backfill create --dag-id rebalance --from-date … --to-date …`) decides past cycles from landed
snapshots, for the first time or anew (`--reprocess-behavior completed`), marks them `backfill`, and never sends a
command. Each cycle builds on the averages of the one before, so *ingest* waits for the run before it, however many
`--max-active-runs` there are; with `--run-backwards` it says so and fails. A moment without a snapshot of its own is
on record as skipped. Stopped half-way, a backfill is created again with the reprocess behaviour `none` and goes on.
For more than a few moments use `rebalance_history`: it decides a day of cycles in one run.

**When it is red**: the failed task's log ends with what is wrong, where, and what to do; the same sentence stands in
the cycle's row (`status` failed, `reason`), which *publish* writes before it turns red itself. `evenkeel_spark` is the
connection that says where Spark is. **When it is green and nothing happened**: open *Evenkeel* in the navigation; each
cycle's report lists what was considered and why it was left alone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, dag, task

from evenkeel import pipeline
from evenkeel.airflow.approval import PlanQuestion
from evenkeel.airflow.dag_files import START_DATE, rebalance_params, timetable_in, tried_again
from evenkeel.airflow.dag_names import APPROVAL_DAG, ASK, DECIDING_DAG, WAITING, dag_id_of
from evenkeel.airflow.lake_dags import deciding_lakes, lake_tags
from evenkeel.airflow.wiring import seven_tasks

# `none` leaves the DAG to manual runs and triggers.
SCHEDULE = timetable_in("EVENKEEL_SCHEDULE", "*/5 * * * *")

ASK_DOC = """Starts a run of rebalance_approval for each plan that waits.

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
