"""Asks a task's Spark server once before Airflow's operator opens the session there.

The operator tries for ten minutes whatever keeps it from a server, and then shows gRPC's own words. Airflow calls this
right before it (`pre_execute`), so that a task fails within about a minute, with one line that says what to do.
"""

from __future__ import annotations

from typing import Any

from evenkeel.airflow.dag_names import CONNECTION


def ask_spark_first(context: Any) -> None:
    """Fails the task where its server elsewhere lets nobody in, and leaves the reason for *publish*."""
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
