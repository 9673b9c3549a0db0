"""Waits for the end of DAG runs and of backfills, and tells the states and the tries of their tasks."""

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import DAG_ID, Airflow

PATIENCE_SECONDS = 420
LOOK_SECONDS = 0.5
APPROVAL_DAG_ID = "rebalance_approval"


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


def at_approval(airflow: Airflow, run_id: str) -> dict[str, str]:
    return states(airflow, run_id, APPROVAL_DAG_ID)


def question_put(airflow: Airflow, run_id: str) -> None:
    """Waits until *approve* waits for an answer, and Airflow's scheduler has heard that the try that asked has ended.

    It hears so up to five seconds later. An answer in between has it take the task for one that was changed from
    outside: it fails the try, and the next one asks again.
    """
    awaited("the question", lambda: at_approval(airflow, run_id).get("approve") in ("deferred", "awaiting_input"))
    heard = f"event with state success for task instance TaskInstanceKey(dag_id='{APPROVAL_DAG_ID}', task_id='approve'"
    log = airflow.home.logs / "scheduler.log"

    def is_heard() -> bool:
        lines = log.read_text(encoding="utf-8").splitlines()
        return any(heard in line and f"run_id='{run_id}'" in line for line in lines)

    awaited("the end of the try that asked", is_heard)


def awaited(what: str, found: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if answer := found():
            return answer
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"{what}: not in {PATIENCE_SECONDS} s")


def tries(airflow: Airflow, run_id: str, dag: str = DAG_ID) -> dict[str, int]:
    return {task["task_id"]: task["try_number"] for task in airflow.rest.tasks(dag, run_id)}


@contextmanager
def all_at_rest(airflow: Airflow) -> Iterator[None]:
    """Holds Airflow's processes still between two of their transactions.

    Under SQLite, `airflow backfill create` and any of them may refuse each other at once ("database is locked"), and
    the scheduler ends when a run that it has seen is taken back. Other databases do not have that problem.
    """
    database = sqlite3.connect(airflow.home.folder / "airflow.db", timeout=0.2, isolation_level=None)
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        processes = _held(airflow.supervisor.pid)
        try:
            database.execute("BEGIN EXCLUSIVE")
            database.execute("ROLLBACK")
            break
        except sqlite3.OperationalError:
            _resume(processes)
            assert time.monotonic() < until
            time.sleep(0.05)
    database.close()
    try:
        yield
    finally:
        _resume(processes)


def _held(supervisor: int) -> list[psutil.Process]:
    processes = psutil.Process(supervisor).children(recursive=True)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    return processes


def _resume(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def backfilled(
    airflow: Airflow, wiring: Wiring, dag: str, dates: tuple[str, str], conf: Mapping[str, Any], *, runs: int
) -> None:
    """Creates a backfill from the first to the last date, and waits for the end of its runs."""
    command = ["backfill", "create", "--dag-id", dag, "--max-active-runs", "3"]
    between = ["--from-date", dates[0], "--to-date", dates[1], "--dag-run-conf", json.dumps(conf)]
    environment = airflow.home.environment(wiring, int(airflow.url.rpartition(":")[2]))
    with all_at_rest(airflow):
        subprocess.run([sys.executable, "-m", "airflow", *command, *between], env=environment, check=True)
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        found = airflow.rest.get(f"/api/v2/dags/{dag}/dagRuns", run_type="backfill")["dag_runs"]
        if len(found) == runs and all(one["state"] in ("success", "failed") for one in found):
            assert [one["state"] for one in found] == ["success"] * runs
            return
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"the backfill of {dag} is not over")
