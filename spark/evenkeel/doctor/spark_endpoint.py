"""Checks of the Spark endpoint: which one, whether it answers, its version, and the code of its workers.

The endpoint is asked in a separate process, which runs this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from evenkeel.airflow.dag_names import CONNECTION
from evenkeel.doctor.checks import Answer, AsideFailed, CheckFinding, Site, answer_aside, asked_aside, fail, ok, skipped
from evenkeel.spark.code import minor_version, versions
from evenkeel.spark.command import connect_url, without_token
from evenkeel.spark.home import Home
from evenkeel.spark.server import status
from evenkeel.spark.session import CONNECT_SCHEMES, close, connect

SPARK_SECONDS = 120.0
WORKERS_SECONDS = 120.0
_SIDE = "evenkeel.doctor.spark_endpoint"
_ASIDE_SECONDS = 55.0


def check_spark(site: Site, _: str) -> CheckFinding:
    """The endpoint of EVENKEEL_SPARK, else of Airflow's connection, else the local server: token, answer, version."""
    shown, answer = _asked(site, workers=False)
    if isinstance(answer, CheckFinding):
        return answer
    if answer.get("classic"):
        return skipped(f"{shown} is a classic master, whose driver is the task itself: a run of a DAG tries it")
    client = versions()["pyspark"].decode()
    if minor_version(answer["version"]) != minor_version(client):
        return fail(
            f"{shown} runs Spark {answer['version']}, and this client is {client}", "run both of one minor version"
        )
    return ok(f"{shown} answers, Spark {answer['version']}")


def check_workers(site: Site, _: str) -> CheckFinding:
    """Check that the Python workers of the endpoint have this client's code."""
    shown, answer = _asked(site, workers=True)
    if isinstance(answer, CheckFinding):
        return answer if shown else skipped("no server runs: a new one has this code")
    if answer.get("classic"):
        return skipped(f"{shown} is a classic master: a run of a DAG tries it")
    words = str(answer["workers"])
    return ok("the workers have this client's code") if not words else fail(words, "")


def _asked(site: Site, *, workers: bool) -> tuple[str, Answer | CheckFinding]:
    """Return the endpoint as it may be shown ("" without one), and its answer, or the words to report instead."""
    for shown, question, advice in _endpoints(site):
        try:
            answer = asked_aside(_SIDE, {**question, "workers": workers}, _ASIDE_SECONDS)
        except AsideFailed as error:
            return shown, fail(f"{shown} does not answer: {error}", advice)
        if not answer.get("absent"):
            return shown, answer
    return "", ok(_local_words(site))


def _endpoints(site: Site) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Return the possible endpoints: each as it may be shown, its address (secret), and the action to take."""
    given = site.environment.get("EVENKEEL_SPARK")
    if given:
        advice = "check EVENKEEL_SPARK, EVENKEEL_SPARK_TOKEN and the server's log"
        yield without_token(given), {"url": given}, advice
        return
    if site.airflow_home is not None:
        name = f"the server of Airflow's connection {CONNECTION}"
        yield name, {"connection": CONNECTION}, "check the connection's host and token, and the server's log"
    if (site.home / ".evenkeel").is_dir():
        server = status(site.home)
        if server.state == "running" and server.url is not None:
            url = connect_url(int(server.url.rpartition(":")[2]), Home.of(site.home).token())
            yield without_token(url), {"url": url}, "`evenkeel engine stop`, and run it again"


def _local_words(site: Site) -> str:
    """Return the words to report if no server runs, or none that may continue."""
    if not (site.home / ".evenkeel").is_dir():
        return "no server runs on this machine; a command starts one and ends it, `evenkeel engine start` keeps one"
    state = status(site.home).state
    if state == "stale":
        return "the local server is of other code; the next command replaces it"
    return f"the local server is {state}; a command starts one, `evenkeel engine start` keeps one"


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
