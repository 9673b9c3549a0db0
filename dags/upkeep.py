"""
### Upkeep: keep rows for their periods, and drop the rest

Once a day, while cycles continue, upkeep does three things. It drops rows past their period (whole dates if all of
their rows are). It compacts small files of past dates and compares them with the manifests. It removes files
that no version within its period names.

```
 upkeep   periods settled ──► rows past them go ──► manifests past theirs, ──► closed dates ──► VACUUM ──► `upkeeps`
          and on record       unlisted rows too     behind an anchor           compacted,                  what was done
                                                                                proven: `proofs`
```

**Params** (all optional; *Trigger DAG w/ config*). The periods belong to the lake: a param of one run also holds for
the later ones, so set it only once.

| param | days to keep | at first |
|---|---|---|
| `audit_days` | manifests, decisions that acted, commands, outcomes, settings, approvals, controls, wishes | 400 |
| `observed_days` | observed rows, validation, `bundle_load`, `broker_load`, `strategy_state` | 30 |
| `considered_days` | decisions without an act | 30 |
| `topics_days` | `topic_stats` | 14 |
| `unlisted_days` | rows that no manifest lists: those of a killed try | 7 |
| `version_days` | versions of the tables, for time travel | 90 |
| `topic_version_days` | versions of `topic_stats` | 7 |
| `shorten` | allow periods shorter than the recorded ones, if `EVENKEEL_UPKEEP_SHORTEN` is set | |

```json
{"audit_days": 800}
```

**Dropped rows do not come back.** So users who may trigger this DAG may lengthen periods. They may shorten them only if
the operator of Airflow has set `EVENKEEL_UPKEEP_SHORTEN=true`. Until an upkeep has recorded periods, those of the last
column hold. `evenkeel upkeep --shorten` in a shell needs no variable.

**Never dropped**, whatever their age: the state for the next cycle, the inputs of a cycle inside its period, the head
of a cluster's chain, a pause in force, and all rows written in the last `unlisted_days`.

**A re-run** does the remaining work; run a killed run again. Two at once do no harm.

**A backfill** of this DAG makes no sense: upkeep works on the current tables. A backfill of *rebalance* writes new rows
for its dates: they are kept for a whole period from then on.

**Skipped** as long as no cycle has made the lake.

**If it fails**: periods that contradict each other, or are shorter than the recorded ones, are refused by name before
any change. The log lists per table the dropped, compacted and freed amounts; so do the rows of `upkeeps`. If rows of a
date differ from the manifests, upkeep continues. Its last lines then name the date and the `evenkeel verify` command
with details.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from evenkeel.airflow.dag_files import START_DATE, timetable_in, tried_again
from evenkeel.airflow.dag_names import UPKEEP_DAG, dag_id_of, every_lake, lake_tags
from evenkeel.airflow.wiring import step
from evenkeel.maintenance.expiry import MEANINGS, MOST_DAYS, NAMES

# `none` leaves the DAG to manual runs.
SCHEDULE = timetable_in("EVENKEEL_UPKEEP_SCHEDULE", "17 3 * * *")
DOC = """Drops rows past their period, compacts past dates, frees the space.

Clear it freely: it does the remaining work."""
PARAMS = {
    name: Param(
        None,
        type=["null", "integer"],
        minimum=1,
        maximum=MOST_DAYS,
        description=f"Days to keep {MEANINGS[name]}. Empty: as the lake was promised.",
    )
    for name in NAMES
} | {
    "shorten": Param(
        False,
        type="boolean",
        description="Allow periods shorter than the lake was promised, where EVENKEEL_UPKEEP_SHORTEN says so.",
    )
}


def declare(lake: str) -> None:
    """Declare the DAG of a lake."""

    @dag(
        dag_id=dag_id_of(UPKEEP_DAG, lake),
        description="Keeps the tables as long as promised: retention, compaction, vacuum",
        schedule=SCHEDULE,
        start_date=START_DATE,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=10),
        default_args=tried_again(
            ends_after=timedelta(hours=3), first_wait=timedelta(minutes=1), longest_wait=timedelta(minutes=15)
        ),
        params=PARAMS,
        tags=["evenkeel", "pulsar", "retention", *lake_tags(lake)],
        doc_md=__doc__,
    )
    def upkeep() -> None:
        @task.pyspark(**step("upkeep", DOC))
        def keep(spark: Any = None, params: Any = None, dag_run: Any = None, ti: Any = None) -> str:
            from evenkeel.airflow import steps

            return steps.keep(spark, params, dag_run, ti)

        keep()

    upkeep()


for name in every_lake():
    declare(name)
