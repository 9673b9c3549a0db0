"""Checks a task's Spark server before Airflow's operator opens a session on it.

The operator retries for ten minutes whatever the error, and then shows gRPC's own words. Airflow calls this function
right before it (`pre_execute`). So a task fails within about a minute, with one line that states what to do.
"""

from __future__ import annotations

from typing import Any

from evenkeel.airflow.dag_names import CONNECTION


def ask_spark_first(context: Any) -> None:
    """Fail the task if its external server accepts no client, and leave the reason for *publish*."""
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
