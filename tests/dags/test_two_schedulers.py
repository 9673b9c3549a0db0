"""Two schedulers of one Airflow, PostgreSQL between them; one is killed with a task of its own under way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import DAG_ID, Airflow, airflow_for
from evenkeel.cli import main
from evenkeel.record.read import read_table
from evenkeel.spark.server import free_port
from tests.dags.conftest import CHECKOUT
from tests.dags.waiting import ended
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
def database(tmp_path: Path) -> Iterator[str]:
    """A PostgreSQL of its own on a free port of this machine; what is missing skips the test."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("PostgreSQL is not installed here: `apt-get install postgresql`")
    as_root = os.getuid() == 0
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-postgres-"))
    if as_root:
        shutil.chown(folder, "postgres")

    def program(name: str, *words: str) -> list[str]:
        other = ["runuser", "-u", "postgres", "--"] if as_root else []
        return [*other, str(programs[-1] / name), "-D", str(folder / "data"), *words]

    port = free_port()
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c fsync=off"
    subprocess.run(program("initdb", "-A", "trust", "-U", "airflow"), check=True, capture_output=True)
    subprocess.run(
        program("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start"),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield f"postgresql+psycopg2://airflow@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run(program("pg_ctl", "-m", "immediate", "stop"), check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def test_runs_of_two_schedulers_do_everything_once_and_go_on_when_one_is_killed(
    database: str, engine: Engine, new_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    pulsar = LivingPulsar()
    clusters = tmp_path / "evenkeel.toml"
    clusters.write_text(pulsar.described("steered"))
    variables = {**SOON, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database}
    wiring = Wiring(
        CHECKOUT, engine.airflow_connection(), str(new_lake), clusters, mode_limit="auto", variables=variables
    )
    with airflow_for(tmp_path / "airflow", wiring) as airflow, second_scheduler(airflow, wiring) as second:
        awaited("two schedulers", lambda: len(schedulers(database)) == 2)
        runs = [triggered(airflow) for _ in range(3)]
        assert [ended(airflow, run)["state"] for run in runs] == ["success"] * 3
        # Runs that are triggered at once may overtake each other; what a newer cycle has overtaken is not sent.
        assert {row["outcome"] for row in read_table(new_lake, "outcomes")} <= {"done", "withheld"}
        done_once(pulsar, new_lake)

        run = killed_at_work(airflow, second, database, schedulers(database)[-1])
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


def killed_at_work(airflow: Airflow, scheduler: subprocess.Popen[bytes], database: str, job: int) -> str:
    """Kills the scheduler, its executor's processes and the task that one of them runs; the run that it was of."""
    for _ in range(TRIES):
        run = triggered(airflow)
        while airflow.rest.run(DAG_ID, run)["state"] in ("queued", "running"):
            own = "SELECT run_id FROM task_instance WHERE state = 'running' AND queued_by_job_id = %s"
            if [run] in asked(database, own, job):
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


def schedulers(database: str) -> list[int]:
    """Jobs of the schedulers that are at work, oldest first."""
    words = "SELECT id FROM job WHERE job_type = 'SchedulerJob' AND state = 'running' ORDER BY id"
    return [int(row[0]) for row in asked(database, words)]


def asked(database: str, query: str, *values: Any) -> list[list[Any]]:
    import psycopg2

    connection = psycopg2.connect(database.replace("+psycopg2", ""))
    try:
        with connection.cursor() as cursor:
            cursor.execute(query, values)
            return [list(row) for row in cursor.fetchall()]
    finally:
        connection.close()


def awaited(what: str, found: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < until, what
        time.sleep(0.5)
