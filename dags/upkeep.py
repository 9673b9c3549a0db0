"""
### Upkeep: keep what was promised, and no more

Once a day, while cycles go on: rows past their period are dropped (whole dates where that is all of them), small files
of dates that are over become few and are held against the manifests, and files that no promised version names are
removed.

```
 upkeep   periods settled ──► rows past them go ──► manifests past theirs, ──► closed dates ──► VACUUM ──► `upkeeps`
          and on record       unlisted rows too     behind an anchor           compacted,                  what was done
                                                                                proven: `proofs`
```

**Params** (all optional; *Trigger DAG w/ config*). The periods belong to the lake: what one run was told holds for the
ones after it, so nothing has to be given twice.

| param | days to keep | at first |
|---|---|---|
| `audit_days` | manifests, decisions that acted, commands, outcomes, settings, approvals, controls, wishes | 400 |
| `observed_days` | what was observed, validation, `bundle_load`, `broker_load`, `strategy_state` | 30 |
| `considered_days` | decisions that came to nothing | 30 |
| `topics_days` | `topic_stats` | 14 |
| `unlisted_days` | rows that no manifest lists: what a killed try left | 7 |
| `version_days` | versions of the tables, for time travel | 90 |
| `topic_version_days` | versions of `topic_stats` | 7 |
| `shorten` | allow periods shorter than the lake was promised, where `EVENKEEL_UPKEEP_SHORTEN` says so | |

```json
{"audit_days": 800}
```

**What is dropped does not come back**, so whoever may trigger this DAG may lengthen periods, and shorten them only
where whoever runs Airflow has set `EVENKEEL_UPKEEP_SHORTEN=true`. As long as no upkeep has put periods on record, those
of the last column count as promised. `evenkeel upkeep --shorten` in a shell asks no variable.

**Never dropped**, whatever its age: what the next cycle takes its state from, what a cycle inside its period rests on,
the head of a cluster's chain, a pause that holds, and whatever was written in the last `unlisted_days`.

**A re-run** does what is left to do; a run that was killed anywhere is simply run again. Two at once do no harm.

**A backfill** makes no sense here: upkeep looks at the tables as they are now. One of *rebalance* makes the dates that
it decides fresh: their rows are kept for a whole period from then on.

**Skipped** as long as no cycle has made the lake.

**When it is red**: periods that contradict each other, or are shorter than promised, are refused by name before
anything is touched. The log says per table what was dropped, compacted and freed; so do the rows of `upkeeps`. Where
rows of a date are not what the manifests list, it goes on, and its last lines name the date and the `evenkeel verify`
that says more.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from evenkeel.airflow.dag_files import START_DATE, timetable_in, tried_again
from evenkeel.airflow.dag_names import UPKEEP_DAG, dag_id_of
from evenkeel.airflow.lake_dags import every_lake, lake_tags
from evenkeel.airflow.wiring import step
from evenkeel.maintenance.expiry import MEANINGS, MOST_DAYS, NAMES

# `none` leaves the DAG to manual runs.
SCHEDULE = timetable_in("EVENKEEL_UPKEEP_SCHEDULE", "17 3 * * *")
DOC = """Drops what is past its period, compacts what is over, frees the space.

Clear it freely: it does what is left to do."""
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
