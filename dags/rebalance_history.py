"""
### Rebalance history: past cycles from landed snapshots, a day of them in one run

Decides all snapshots landed in the run's data interval as `rebalance` would have, in one pass of the same seven tasks.
A day of five-minute cycles takes little longer than a few single ones. Use it to decide a month again with other
settings or with new code, for clusters whose snapshots were recorded before Evenkeel ran, and for days without runs.

```
 2026-11-01T00:00                                                             2026-11-02T00:00
 │ landed snapshots of the interval: 288 cycles of each cluster                              │
 └─► ingest ──► validate ──► aggregate ──► plan_splits ──► shed ──► place ──► publish ◄──────┘
                                                                              288 plans, none is ever sent
```

**A backfill** is what this DAG is for; a month is thirty runs, one after the other:

```
airflow dags unpause rebalance_history
airflow backfill create --dag-id rebalance_history --from-date 2026-11-01 --to-date 2026-11-30
```

Its runs take all landed snapshots of their intervals. Attempts are marked `backfill`: readers still see the live
decisions, if there are any. Every cycle continues from the averages and the state of the previous one. So *ingest*
waits for the run of the previous interval, whatever `--max-active-runs` is; with `--run-backwards` it fails with that
message. To continue a stopped backfill, create it again with the reprocess behaviour `none`. To decide cycles again,
use `completed`. A cycle whose data cannot be read or trusted is skipped, with its reason.

**Paused**, the DAG does nothing: a backfill of a paused DAG waits until it is unpaused. **Unpaused**, it also runs on a
schedule: after each interval a run takes the snapshots that have no decided attempt yet. Without any, all tasks after
*ingest* are skipped. So nothing is decided twice beside `rebalance`, and its gaps are filled within a day. The
intervals are those of `EVENKEEL_HISTORY_SCHEDULE`, a cron expression, by default days in UTC. Use shorter ones if a day
of snapshots is too large for the Spark server.

**`rebalance` or this one?** For one moment or a few, use `rebalance`, triggered with `at`, or its own backfill, whose
dates are moments. For longer ranges, use this one. Only `rebalance` sends commands.

**Params** (all optional; *Trigger DAG w/ config*, or `--dag-run-conf` of a backfill)

| param | meaning |
|---|---|
| `clusters` | names from the configuration; empty: all of them |
| `source` | where snapshots come from, e.g. `recording:/data/recordings/monday`; empty: as configured |
| `settings` | Pulsar's own keys, for this run only; an unknown key or a value out of range is refused by name |

```json
{"clusters": ["eu-1"], "settings": {"loadBalancerLoadSheddingStrategy": "AvgShedder"}}
```

A run that is triggered by hand needs a logical date. It decides the last interval that has ended by then, e.g. the day
2026-11-01 for the logical date 2026-11-02T00:00.

**A re-run** (clear the run, or any task of it) decides the same snapshots again and gets the same `plan_id`s; recorded
plans are not added again.

**Progress**: *ingest* logs how many cycles the run has. *publish* logs how many it recorded, cycles a second, and how
long the waiting runs will take. The tasks' link *Evenkeel report* lists the run's cycles.

**If it fails**: the failed task's log ends with the error, its place, and what to do. The rows of the undecided cycles
have the same sentence (`status` failed, `reason`). Landed snapshots are kept for `landing_days` of the configuration;
older ones cannot be decided any more.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, dag

from evenkeel import pipeline
from evenkeel.airflow.dag_files import START_DATE, history_params, intervals_in, tried_again
from evenkeel.airflow.dag_names import HISTORY_DAG, dag_id_of, deciding_lakes, lake_tags
from evenkeel.airflow.wiring import seven_tasks

SCHEDULE = intervals_in("EVENKEEL_HISTORY_SCHEDULE", "0 0 * * *")


def begin(*given: Any) -> str:
    from evenkeel.airflow import history

    return history.begin(*given)


def close(*given: Any) -> str:
    from evenkeel.airflow import history

    return history.close(*given)


def declare(lake: str) -> DAG:
    """Declare the DAG of a lake, and return it."""

    @dag(
        dag_id=dag_id_of(HISTORY_DAG, lake),
        description="Decides past cycles from landed snapshots, an interval in one run; sends nothing",
        schedule=CronDataIntervalTimetable(SCHEDULE, timezone="UTC"),
        start_date=START_DATE,
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=12),  # runs of a backfill may wait long for the one before
        default_args=tried_again(ends_after=timedelta(hours=1)),
        params=history_params(),
        tags=["evenkeel", "pulsar", "load-balancing", "backfill", *lake_tags(lake)],
        doc_md=__doc__,
    )
    def rebalance_history() -> None:
        seven_tasks(begin, pipeline.DECIDING[1:], close)

    return rebalance_history()


for name in deciding_lakes():
    declare(name)
