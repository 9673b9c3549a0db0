"""Waits for the end of a DAG run, and tells the states and the tries of its tasks."""

from __future__ import annotations

import time
from typing import Any

from devtools.local_airflow.service import DAG_ID, Airflow

PATIENCE_SECONDS = 420
LOOK_SECONDS = 0.5


def ended(airflow: Airflow, run_id: str, dag: str = DAG_ID) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        found = airflow.rest.run(dag, run_id)
        if found["state"] in ("success", "failed"):
            return found
        airflow.check()
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"{run_id} is not over: {states(airflow, run_id, dag)}")


def states(airflow: Airflow, run_id: str, dag: str = DAG_ID) -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in airflow.rest.tasks(dag, run_id)}


def tries(airflow: Airflow, run_id: str, dag: str = DAG_ID) -> dict[str, int]:
    return {task["task_id"]: task["try_number"] for task in airflow.rest.tasks(dag, run_id)}
