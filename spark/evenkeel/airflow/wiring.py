"""The seven tasks of the pipeline in a DAG, for `rebalance` and `rebalance_history`, and arguments of Spark tasks.

DAG files import this module, so it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow.sdk import TriggerRule, task

from evenkeel import pipeline
from evenkeel.airflow.dag_files import outlets
from evenkeel.airflow.dag_names import CONNECTION
from evenkeel.spark import SESSION_SETTINGS

PUBLISH_DOC = """Writes the outbox and the cycle's row, for skipped and failed cycles too.

Fails if an earlier task failed, after it has written. Clear it freely."""

Ends = Callable[..., str]
"""The first or the last task: takes the session, params, the DAG run, the task instance and its asset events."""


def seven_tasks(begin: Ends, between: Sequence[pipeline.Task], close: Ends) -> Any:
    """Declare ingest to publish, one after the other, and return what publish hands on.

    `begin` opens the run's cycles and ingests them, `close` publishes; the tasks `between` run on the previous task's
    hand-over. Publish waits for each of them: if one is marked as failed by hand, earlier ones may still run.
    """

    @task.pyspark(**step("ingest", _doc_of(pipeline.ingest)))
    def ingest(
        spark: Any = None, params: Any = None, dag_run: Any = None, ti: Any = None, outlet_events: Any = None
    ) -> str:
        return begin(spark, params, dag_run, ti, outlet_events)

    @task.pyspark(**step("publish", PUBLISH_DOC, trigger_rule=TriggerRule.ALL_DONE))
    def publish(
        spark: Any = None, params: Any = None, dag_run: Any = None, ti: Any = None, outlet_events: Any = None
    ) -> str:
        return close(spark, params, dag_run, ti, outlet_events)

    deciding, published = [ingest()], publish()
    for run_task in between:
        deciding.append(carried(run_task)(deciding[-1]))
    deciding >> published
    return published


def step(task_id: str, doc: str, **more: Any) -> dict[str, Any]:
    """Return the common arguments of all tasks that use Spark; the outlets are the tables that the task writes."""
    asked = {"conn_id": CONNECTION, "config_kwargs": SESSION_SETTINGS, "pre_execute": ask_spark_first}
    return {"task_id": task_id, "doc_md": doc, "outlets": outlets(task_id)} | asked | more


def carried(run_task: pipeline.Task) -> Any:
    """Return a task between the first and the last: it takes the previous task's hand-over and returns its own."""

    @task.pyspark(**step(run_task.__name__, _doc_of(run_task)))
    def run(handover: str, spark: Any = None, ti: Any = None, outlet_events: Any = None) -> str:
        from evenkeel.airflow import steps

        return steps.carry_on(run_task, spark, handover, ti, outlet_events)

    return run


def _doc_of(run_task: pipeline.Task) -> str:
    return f"{run_task.__doc__}\n\nClear it freely."


def ask_spark_first(context: Any) -> None:
    """Fail the task if its external server accepts no client, and leave the reason for *publish*.

    Airflow calls this right before its operator opens a session (`pre_execute`). The operator retries for ten minutes
    whatever the error, and then shows gRPC's own words. So a task fails within about a minute, with one line that
    states what to do.
    """
    from evenkeel.airflow import steps

    steps.told(_ask, context["ti"])


def _ask() -> None:
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
    from airflow.sdk import BaseHook

    from evenkeel.spark.endpoint import demand_answer
    from evenkeel.spark.session import is_elsewhere

    if BaseHook.get_connection(CONNECTION).conn_type != SparkConnectHook.conn_type:
        return
    url = SparkConnectHook(CONNECTION).get_connection_url()
    if is_elsewhere(url):
        demand_answer(url)
