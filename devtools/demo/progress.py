"""Output of the demo while it runs: plain lines with seconds, also into a file or a pipe."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

from devtools.demo.course import Leg
from devtools.local_airflow.service import DAG_ID, Airflow
from evenkeel.airflow.order import AirflowError
from evenkeel.errors import EngineError
from evenkeel.spark.server import Engine, alive

TICK_SECONDS = 0.4
LONGEST_RUN_SECONDS = 600.0
OVER = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


@dataclass(slots=True)
class Console:
    """Writes lines that start with the seconds since the demo began."""

    began: float = field(default_factory=time.monotonic)

    def say(self, line: str) -> None:
        """Write one whole line."""
        sys.stdout.write(f"{self.seconds():6.1f} s  {line}\n")
        sys.stdout.flush()

    def begin(self, text: str) -> None:
        """Begin a line that `add` and `end` continue."""
        sys.stdout.write(f"{self.seconds():6.1f} s  {text}")
        sys.stdout.flush()

    def add(self, text: str) -> None:
        """Continue the line that `begin` began."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def end(self, text: str = "") -> None:
        """End the line that `begin` began, after a last text."""
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self.began


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that is over: its seconds from trigger to end, and why it failed (empty: it did not)."""

    run_id: str
    seconds: float
    failure: str = ""


def run_leg(leg: Leg, airflow: Airflow, engine: Engine, console: Console) -> Ran:
    """Trigger one run, name each task with its seconds as it ends, and wait for the run."""
    began = time.monotonic()
    run_id = airflow.rest.trigger(DAG_ID, logical_date=leg.at, conf={"clusters": [leg.cluster]})
    ended: set[str] = set()
    while True:
        over = airflow.rest.run(DAG_ID, run_id)["state"] in OVER  # asked first, so that no task's end is missed
        for instance in airflow.rest.tasks(DAG_ID, run_id):
            name, state = instance["task_id"], instance["state"]
            if state in OVER and name not in ended:
                ended.add(name)
                mark = "" if state == "success" else f" {state}"
                console.add(f" {name}{mark} {instance['duration'] or 0:.1f}")
        if over:
            return Ran(run_id, time.monotonic() - began, _failure(airflow, run_id))
        airflow.check()
        if not alive(engine):
            raise EngineError(f"The Spark Connect server has ended; its log is {engine.home}/.evenkeel/server.log.")
        if time.monotonic() - began > LONGEST_RUN_SECONDS:
            raise AirflowError(
                f"The run {run_id} is not over after {LONGEST_RUN_SECONDS:.0f} s; see {airflow.home.logs}."
            )
        time.sleep(TICK_SECONDS)


def _failure(airflow: Airflow, run_id: str) -> str:
    """Return why a run failed, by its first failed task; tasks leave the reason beside their hand-over."""
    failed = [task for task in airflow.rest.tasks(DAG_ID, run_id) if task["state"] == "failed"]
    if not failed:
        return ""
    first = min(failed, key=lambda task: task["start_date"] or "")
    reason = airflow.rest.xcom(DAG_ID, run_id, first["task_id"], "reason")
    return f"{first['task_id']}: {reason or f'its log is below {airflow.home.logs}'}"
