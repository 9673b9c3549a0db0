"""
### Replay: what other strategies or settings would have decided over recorded history

Runs other strategies or settings and compares moves, share of traffic moved, bounces, splits, and the balance of the
brokers' load. `replay` decides recorded cycles again, on the recorded observations. `simulate` lets the variants steer
a model of the cluster, in which their commands take effect. Nothing is sent, and the record does not change. Results
are in `replay_cycles` and `replay_decisions`, and `replay_runs` lists them once they are complete. The desk's page
*What if* shows them side by side, and has a form that starts a run.

**Params** (all optional; *Trigger DAG w/ config*)

| param | meaning |
|---|---|
| `kind` | `replay` (open loop, the default) or `simulate` (closed loop) |
| `cluster` | this cluster; empty: the only one on record |
| `since`, `until` | from and up to this moment or date (UTC); empty: all that is on record |
| `strategies` | shedders or placement strategies by Pulsar's names, or Evenkeel's own `Planner`, each a variant |
| `settings` | Pulsar's own keys, for every variant |
| `variants` | more variants: a name, and its settings |
| `limit` | usage in percent that counts as over the limit; empty: the recorded limit, in a simulation 85 |
| `scenario` | of a simulation: generated traffic by its name; empty: the recorded traffic |
| `seed`, `cycles`, `every`, `brokers`, `bundles` | of generated traffic: seed, cycles, seconds between them, and size |

```json
{"cluster": "eu-1", "since": "2026-11-20", "until": "2026-11-21", "strategies": ["AvgShedder", "UniformLoadShedder"],
 "variants": {"threshold-15": {"loadBalancerBrokerThresholdShedderPercentage": 15}}}
```

A replay with none of `strategies`, `settings` and `variants` uses the recorded settings, and must reproduce every
recorded plan. A simulation without them runs all of Pulsar's shedders of that load manager.

```json
{"kind": "simulate", "cluster": "eu-1", "since": "2026-11-20", "strategies": ["AvgShedder"]}
```

**A re-run** is a separate replay with a new id. **A backfill** of this DAG has no meaning: the range is a param.

**If it fails**: the log ends with the error and the existing alternatives: the nearest cycles, the strategies of that
load manager, the nearest key. The comparison is at the end of the task's log, and in `replay_runs.summary`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from evenkeel.airflow.dag_files import START_DATE, tried_again
from evenkeel.airflow.wiring import step

MOMENT = r"^(\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?)?$"
KEY = {"pattern": "^[A-Za-z][A-Za-z0-9]*$"}
DOC = """Decides recorded cycles by other strategies or settings, or steers a model by them, and compares.

Clearing it makes another replay."""

PARAMS = {
    "kind": Param(
        "replay",
        type="string",
        enum=["replay", "simulate"],
        description="replay decides on what was recorded, simulate steers a model in which commands take effect.",
    ),
    "cluster": Param("", type="string", description="A cluster on record. Empty: the only one."),
    "since": Param("", type="string", pattern=MOMENT, description="From this moment or date on (UTC)."),
    "until": Param("", type="string", pattern=MOMENT, description="Up to this moment or date (UTC)."),
    "strategies": Param(
        [],
        type="array",
        items={"type": "string", "minLength": 1},
        uniqueItems=True,
        description="Shedders or placement strategies by Pulsar's names, or Planner, each a variant.",
    ),
    "settings": Param({}, type="object", propertyNames=KEY, description="Under Pulsar's own keys, for every variant."),
    "variants": Param(
        {},
        type="object",
        propertyNames={"pattern": "^[^:]+$"},
        additionalProperties={"type": "object", "propertyNames": KEY, "minProperties": 1},
        description="More variants: a name, and its settings.",
    ),
    "limit": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        maximum=1_000,
        description="Broker usage in percent that counts as over the limit. Empty: as recorded; simulated: 85.",
    ),
    "scenario": Param("", type="string", description="Simulated: generated traffic by its name. Empty: recorded."),
    "seed": Param(1, type="integer", description="Of generated traffic; the same seed gives the same run."),
    "cycles": Param(240, type="integer", minimum=1, description="Of generated traffic: how many cycles."),
    "every": Param(60, type="number", exclusiveMinimum=0, description="Of generated traffic: seconds between cycles."),
    "brokers": Param(3, type="integer", minimum=2, description="Of generated traffic: how many brokers."),
    "bundles": Param(96, type="integer", minimum=2, description="Of generated traffic: how many bundles."),
}


@dag(
    dag_id="replay",
    description="Tries other strategies or settings on recorded cycles or in a model, and compares; sends nothing",
    schedule=None,
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=7),
    default_args=tried_again(ends_after=timedelta(hours=2)),
    params=PARAMS,
    tags=["evenkeel", "pulsar", "what-if"],
    doc_md=__doc__,
)
def replay() -> None:
    @task.pyspark(**step("replay", DOC))
    def decide(spark: Any = None, params: Any = None, ti: Any = None) -> str:
        from evenkeel.airflow import steps
        from evenkeel.replay.run_params import run_params

        return steps.watched(lambda: run_params(spark, steps.lake_root_of(str(params["cluster"])), params), ti)

    decide()


replay()
