"""Reads a Spark endpoint's version, and compares its workers' code with this client's, in a separate process."""

from __future__ import annotations

import os
from typing import Any

from evenkeel.doctor.side_process import Answer, answer_aside
from evenkeel.spark.session import CONNECT_SCHEMES, close, connect

_PARTITIONS = 8


def answer(question: dict[str, Any]) -> Answer:
    """Return `version`: the server's; and `workers`, if requested: "" if they have the same code, else why not.

    For a `connection` of Airflow in place of a `url`: `absent` if Airflow does not know it, `classic` if it is a
    classic master.
    """
    url = question["url"] if "url" in question else _of_airflow(question["connection"])
    if url is None:
        return {"absent": True}
    if not url.startswith(CONNECT_SCHEMES):
        return {"classic": True}
    spark = connect(url, "evenkeel doctor")
    try:
        reply: Answer = {"version": spark.version, "answered": spark.range(1).count() == 1}
        if question.get("workers"):
            reply["workers"] = _workers(spark)
        return reply
    finally:
        close(spark)


def _of_airflow(name: str) -> str | None:
    """The connection string, with its token: secret."""
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")  # Airflow's database is asked too
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        known = BaseHook.get_connection(name)
    except AirflowNotFoundException:
        return None
    if known.conn_type != SparkConnectHook.conn_type or not known.host:
        return str(known.host or known.conn_type)
    return str(SparkConnectHook(name).get_connection_url())


def _workers(spark: Any) -> str:
    from evenkeel.errors import EngineError
    from evenkeel.spark.grouped import grouped_map
    from evenkeel.spark.worker import same_rows

    rows = spark.range(0, _PARTITIONS, 1, _PARTITIONS)
    try:
        grouped_map({"rows": rows}, by=["id"], decide=same_rows, outputs={"rows": rows.schema})
    except EngineError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    answer_aside(answer)
    os._exit(0)  # a client whose server goes may wait for minutes as it ends
