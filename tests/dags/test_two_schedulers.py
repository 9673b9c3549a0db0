"""Two schedulers of one Airflow, PostgreSQL between them; one is killed with a task of its own under way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import DAG_ID, Airflow, airflow_for
from evenkeel.cli import main
from evenkeel.lake.record import read_table
from tests.dags.conftest import CHECKOUT
from tests.dags.waiting import ended
from tests.postgres import Postgres, postgres
from tests.publish.acting import LivingPulsar

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

# What a dead scheduler's tasks are noticed by, which takes minutes with the defaults.
SOON = {
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
}
TRIES, SECONDS = 5, 120.0


@pytest.fixture
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


def test_runs_of_two_schedulers_do_everything_once_and_go_on_when_one_is_killed(
    database: Postgres, engine: Engine, new_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    pulsar = LivingPulsar()
    clusters = tmp_path / "evenkeel.toml"
    clusters.write_text(pulsar.described("steered"))
    variables = {**SOON, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.url}
    wiring = Wiring(
        CHECKOUT, engine.airflow_connection(), str(new_lake), clusters, mode_limit="auto", variables=variables
    )
    with airflow_for(tmp_path / "airflow", wiring) as airflow, second_scheduler(airflow, wiring) as second:
        awaited("two schedulers", lambda: len(database.schedulers()) == 2)
        runs = [triggered(airflow) for _ in range(3)]
        assert [ended(airflow, run)["state"] for run in runs] == ["success"] * 3
        # Runs that are triggered at once may overtake each other; what a newer cycle has overtaken is not sent.
        assert {row["outcome"] for row in read_table(new_lake, "outcomes")} <= {"done", "withheld"}
        done_once(pulsar, new_lake)

        run = killed_at_work(airflow, second, database, database.schedulers()[-1])
        assert ended(airflow, run)["state"] == "success"
        assert ended(airflow, triggered(airflow))["state"] == "success"
    done_once(pulsar, new_lake)
    pulsar.close()
    assert main(["verify", "--lake", str(new_lake)]) == 0


def done_once(pulsar: LivingPulsar, lake: Path) -> None:
    """Every command had its effect once, and nothing else had one."""
    done = {row["command_id"] for row in read_table(lake, "outcomes") if row["outcome"] == "done"}
    commands = {row["command_id"]: (row["kind"], row["bundle"]) for row in read_table(lake, "commands")}
    assert done
    assert Counter((kind, bundle) for kind, bundle, _ in pulsar.effects) == Counter(commands[name] for name in done)


def triggered(airflow: Airflow) -> str:
    return str(airflow.rest.trigger(DAG_ID, logical_date=None, conf={"clusters": ["steered"], "mode": "auto"}))


def killed_at_work(airflow: Airflow, scheduler: subprocess.Popen[bytes], database: Postgres, job: int) -> str:
    """Kills the scheduler, its executor's processes and the task that one of them runs; the run that it was of."""
    for _ in range(TRIES):
        run = triggered(airflow)
        while airflow.rest.run(DAG_ID, run)["state"] in ("queued", "running"):
            own = "SELECT run_id FROM task_instance WHERE state = 'running' AND queued_by_job_id = %s"
            if [run] in database.asked(own, job):
                os.killpg(scheduler.pid, signal.SIGKILL)
                return run
            time.sleep(0.05)
    raise AssertionError(f"the second scheduler had none of the tasks of {TRIES} runs")


class second_scheduler:
    """A scheduler beside that of an Airflow, in a process group of its own; ends with the block."""

    def __init__(self, airflow: Airflow, wiring: Wiring) -> None:
        port = urlsplit(airflow.url).port
        assert port
        with (airflow.home.logs / "second.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "airflow", "scheduler", "--skip-serve-logs"],
                env=airflow.home.environment(wiring, port), cwd=airflow.home.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self.process

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def awaited(what: str, found: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < until, what
        time.sleep(0.5)
