"""
### Replay: what other strategies or settings would have decided over recorded history

Decides cycles of the record again by other strategies or settings, on what was seen then, and compares: moves, share of
traffic moved, bounces, splits, how even the brokers' load would have been. Nothing is sent, and nothing of the record
changes: results stand in `replay_cycles` and `replay_decisions`, and `replay_runs` lists them once they are complete.

**Params** (all optional; *Trigger DAG w/ config*)

| param | meaning |
|---|---|
| `cluster` | of this cluster; empty: the only one on record |
| `since`, `until` | from and up to this moment or date (UTC); empty: all that is on record |
| `strategies` | shedders or placement strategies by Pulsar's names, each a variant |
| `settings` | Pulsar's own keys, for every variant |
| `variants` | more variants: a name, and its settings |

```json
{"cluster": "eu-1", "since": "2026-11-20", "until": "2026-11-21", "strategies": ["AvgShedder", "UniformLoadShedder"],
 "variants": {"threshold-15": {"loadBalancerBrokerThresholdShedderPercentage": 15}}}
```

With none of the last three, the recorded settings are decided once more, and must come to every recorded plan.

**A re-run** is a replay of its own, under an id of its own. **A backfill** has no meaning here: the range is a param.

**When it is red**: the log ends with what is wrong and what there is instead: the nearest cycles, the strategies of
that load manager, the nearest key. The comparison stands at the end of the task's log, and in `replay_runs.summary`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from evenkeel.airflow.dag_files import CONNECTION, outlets, tried_again

MOMENT = r"^(\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?)?$"
KEY = {"pattern": "^[A-Za-z][A-Za-z0-9]*$"}
DOC = """Decides recorded cycles by other strategies or settings, and compares.

Clear it freely: it is a replay of its own then."""

PARAMS = {
    "cluster": Param("", type="string", description="A cluster on record. Empty: the only one."),
    "since": Param("", type="string", pattern=MOMENT, description="From this moment or date on (UTC)."),
    "until": Param("", type="string", pattern=MOMENT, description="Up to this moment or date (UTC)."),
    "strategies": Param(
        [],
        type="array",
        items={"type": "string", "minLength": 1},
        uniqueItems=True,
        description="Shedders or placement strategies by Pulsar's names, each a variant.",
    ),
    "settings": Param({}, type="object", propertyNames=KEY, description="Under Pulsar's own keys, for every variant."),
    "variants": Param(
        {},
        type="object",
        propertyNames={"pattern": "^[^:]+$"},
        additionalProperties={"type": "object", "propertyNames": KEY, "minProperties": 1},
        description="More variants: a name, and its settings.",
    ),
}


@dag(
    dag_id="replay",
    description="Decides recorded cycles by other strategies or settings, and compares; sends nothing",
    schedule=None,
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=7),
    default_args=tried_again(ends_after=timedelta(hours=2)),
    params=PARAMS,
    tags=["evenkeel", "pulsar", "what-if"],
    doc_md=__doc__,
)
def replay() -> None:
    @task.pyspark(task_id="replay", conn_id=CONNECTION, doc_md=DOC, outlets=outlets("replay"))
    def decide(spark: Any = None, params: Any = None, ti: Any = None) -> str:
        from evenkeel.airflow import steps
        from evenkeel.replay.open_loop import replay_params

        return steps.watched(lambda: replay_params(spark, steps.lake_root(), params), ti)

    decide()


replay()
