"""
### Heat: the tables behind the heat map

Every ten minutes, beside the cycles and without Spark, this DAG reads each bundle's load, owner and moves from the
record. It writes columns of a minute, ten minutes, an hour and six hours: small enough for a picture of any range of a
year.

```
 heat   cycles that joined the record ──► columns that they change ──► `heat_blocks`
        since the last run                built again from their rows  `heat_marks`: moves, splits, held, bounces
```

| layer | kept for |
|---|---|
| 1 min | 3 days |
| 10 min | 30 days |
| 1 h | 100 days |
| 6 h | 400 days |

**Params** (optional; *Trigger DAG w/ config*)

| param | meaning |
|---|---|
| `cluster` | this cluster only; empty: all on record |

```json
{"cluster": "eu-1"}
```

**Outside the record.** No manifest lists these rows, `verify` and `export` skip them, and no decision uses them. To
build all of them again, remove the folders `heat_blocks` and `heat_marks` of the lake. The next run builds the columns
of all cycles whose rows still exist.

**A re-run** does the remaining work; run a killed run again. Two at once do no harm.

**A backfill** of this DAG makes no sense. After a backfill of *rebalance*, the next run builds the columns of its
cycles again.

**Skipped** as long as no cycle has made the lake.

**If it fails**: the log ends with the error. Cycles do not wait for it, and pictures show the columns built so far.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from evenkeel.airflow.dag_files import START_DATE, outlets, timetable_in, tried_again
from evenkeel.airflow.dag_names import HEAT_DAG, dag_id_of, every_lake, lake_tags

# `none` leaves the DAG to manual runs.
SCHEDULE = timetable_in("EVENKEEL_HEAT_SCHEDULE", "*/10 * * * *")
DOC = """Builds missing or outdated columns of the heat tables.

Clear it freely: it does the remaining work."""
PARAMS = {"cluster": Param("", type="string", description="A cluster on record. Empty: all of them.")}


def declare(lake: str) -> None:
    """Declare the DAG of a lake."""

    @dag(
        dag_id=dag_id_of(HEAT_DAG, lake),
        description="Builds the tables behind the heat map: load, owners and moves over time",
        schedule=SCHEDULE,
        start_date=START_DATE,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=7),
        default_args=tried_again(ends_after=timedelta(hours=2)),
        params=PARAMS,
        tags=["evenkeel", "pulsar", "heat", *lake_tags(lake)],
        doc_md=__doc__,
    )
    def heat() -> None:
        @task(task_id="heat", doc_md=DOC, outlets=outlets("heat"))
        def build(params: Any = None, ti: Any = None) -> str:
            from evenkeel.airflow import steps
            from evenkeel.heat import as_json
            from evenkeel.heat import build as build_heat

            def built() -> str:
                return json.dumps([*as_json(build_heat(steps.lake_root(ti.dag_id), params["cluster"] or None))])

            return steps.told(built, ti, needs_lake=False)

        build()

    heat()


for name in every_lake():
    declare(name)
