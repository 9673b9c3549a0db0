"""Evenkeel's wheel under an Airflow in parts: PostgreSQL, two schedulers, workers of their own, and upgrades in a run.

Everything runs out of an environment with the wheel, as far from the checkout as on another machine: the DAGs as a
bundle, the plugin, and the Spark server. The parts that no test changes are started once for all of them.
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from devtools.local_airflow.home import AirflowHome, Wiring
from devtools.local_airflow.service import DAG_ID, Airflow
from evenkeel import __version__
from evenkeel.lake.record import Attempt, read_attempts, read_rows
from evenkeel.spark.server import free_port
from tests.dags.conftest import RECORDED, RECORDED_AT
from tests.dags.parts import AirflowParts, redis
from tests.dags.waiting import awaited, ended, states
from tests.left_out import CELERY, lacking
from tests.postgres import Postgres, postgres
from tests.wheels import environment_with, install, wheel_of, without_checkout

pytestmark = [
    pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.timeout(3600),
]  # fmt: skip

OTHER_VERSION = "1.0.1.dev1"
TRIES = 5
# What a task whose process is gone is noticed by, which takes minutes with the defaults.
SOON = {
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
}
WHAT_TO_DO = "then trigger a new run of rebalance, or clear all tasks of that run"


@dataclass(frozen=True, slots=True)
class Scene:
    """The Airflow, its database, the folder of its lakes `local` and `celery`, and what is installed: `mine` in the
    environment of all parts (this version, until a test upgrades it), `first` this version to the end."""

    airflow: AirflowParts
    database: Postgres
    folder: Path
    mine: Path
    first: Path
    other_wheel: Path

    def schedulers(self, **variables: str) -> None:
        """Starts two schedulers, after those that ran, and waits for both."""
        before = set(self.database.schedulers())
        for name in ("scheduler-1", "scheduler-2"):
            self.airflow.start(name, self.mine, "scheduler", "--skip-serve-logs", **variables)

        def both_run() -> bool:
            self.airflow.check()
            return len(set(self.database.schedulers()) - before) == 2

        awaited("two schedulers", both_run)

    def upgrade(self) -> None:
        """Installs the other version where all parts and the Spark server run from, and replaces that server."""
        install(self.other_wheel, self.mine)
        engine(self.mine, self.folder, "start")

    def triggered(self, cluster: str) -> str:
        """A run over the demo's recording, under a name for its cluster."""
        conf = {"source": f"recording:{RECORDED}", "clusters": [cluster], "at": RECORDED_AT}
        return self.airflow.rest.trigger(DAG_ID, logical_date=None, conf=conf)

    def held_between_two_tasks(self, cluster: str) -> str:
        """A run that is open, with tasks done and tasks to do, and none at work: its DAG is paused."""
        for _ in range(TRIES):
            run = self.triggered(cluster)
            if self._is_held(run):
                return run
            self.airflow.pause(paused=False)
        raise AssertionError(f"{TRIES} runs were over before their DAG was paused")

    def _is_held(self, run: str) -> bool:
        awaited("the first task", lambda: states(self.airflow, run).get("ingest") == "success")
        self.airflow.pause(paused=True)
        awaited("rest", lambda: {"queued", "running"}.isdisjoint(states(self.airflow, run).values()))
        return states(self.airflow, run)["publish"] not in ("success", "failed")

    def attempt(self, lake: str, cluster: str, status: str) -> Attempt:
        """The one attempt of that status."""
        found = read_attempts(self.folder / lake, cluster=cluster)
        (attempt,) = [one for one in found if one.status == status]
        return attempt


def engine(environment: Path, folder: Path, word: str) -> str:
    """What `evenkeel engine WORD` of the environment says; the server's home is in the folder."""
    command = [str(environment / "bin" / "python"), "-m", "evenkeel.cli", "engine", word]
    variables = {**without_checkout(folder / "engine"), "EVENKEEL_SERVER_MEMORY": "1g"}
    done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("elsewhere")
    with ExitStack() as stack:
        database = stack.enter_context(postgres())
        wheel, other = wheel_of(folder / "built"), wheel_of(folder / "built-later", OTHER_VERSION)
        mine, first = (environment_with(wheel, folder / name) for name in ("mine", "first"))
        home = AirflowHome.of(folder / "airflow")
        stack.callback(lambda: engine(mine, folder, "stop"))
        environment = _environment(home, database, engine(mine, folder, "connection"), folder / "local")
        home.migrate(environment)
        airflow = AirflowParts(home, environment)
        stack.callback(airflow.close)
        for part in ("api-server", "dag-processor", "triggerer"):
            airflow.start(part, mine, part, *(["--skip-serve-logs"] if part == "triggerer" else []))
        yield Scene(airflow, database, folder, mine, first, other)


def _environment(home: AirflowHome, database: Postgres, connection: str, lake: Path) -> dict[str, str]:
    clusters = home.folder / "evenkeel.toml"
    clusters.write_text(f'[clusters.demo]\nrecording = "{RECORDED}"\n')
    variables = {**SOON, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.url, "EVENKEEL_HANDOVER_KEY": "k" * 64}
    wiring = Wiring(home.folder, connection, str(lake), clusters, variables=variables)
    environment = home.environment(wiring, free_port())
    leading_here = ("PYTHONPATH", "EVENKEEL_EXPECTATIONS", "EVENKEEL_SPARK", "EVENKEEL_HOME")
    return {name: value for name, value in environment.items() if name not in leading_here}


@pytest.fixture(scope="module")
def standalone_plan(airflow: Airflow, lake: Path) -> str:
    """The plan to which the same cycle comes under one scheduler and SQLite, out of the checkout."""
    conf = {"source": f"recording:{RECORDED}", "clusters": ["elsewhere"], "at": RECORDED_AT}
    assert ended(airflow, airflow.rest.trigger(DAG_ID, logical_date=None, conf=conf))["state"] == "success"
    (attempt,) = read_attempts(lake, cluster="elsewhere")
    assert attempt.plan_id
    return attempt.plan_id


@pytest.fixture(scope="module")
def local(scene: Scene) -> AirflowParts:
    """Two schedulers at once, each with tasks of its own."""
    scene.schedulers(AIRFLOW__CORE__EXECUTOR="LocalExecutor")
    scene.airflow.await_health()
    return scene.airflow


def test_two_local_executors_come_to_the_standalone_plan_from_the_wheels_bundle(
    scene: Scene, local: AirflowParts, standalone_plan: str
) -> None:
    assert ended(local, scene.triggered("elsewhere"))["state"] == "success"
    assert scene.attempt("local", "elsewhere", "closed").plan_id == standalone_plan
    dag = local.rest.get(f"/api/v2/dags/{DAG_ID}")
    assert dag["bundle_name"] == "evenkeel"
    assert dag["fileloc"] == str(scene.mine / "share" / "evenkeel" / "dags" / "rebalance.py")
    headers = {"Authorization": f"Bearer {local.rest.token()}"}
    page = httpx.get(f"{local.url}/evenkeel/", headers=headers, follow_redirects=True, timeout=60)
    assert page.status_code == 200
    assert "elsewhere" in page.text


def test_a_run_goes_on_when_postgresql_is_restarted_in_it(scene: Scene, local: AirflowParts) -> None:
    """Parts that end with their connections are started again, as a service manager does."""
    run = scene.triggered("restarted")
    awaited("a task", lambda: "running" in states(local, run).values())
    local.restarts = True
    scene.database.restart()
    assert local.ended(run) == "success"
    local.await_health()
    local.restarts = False
    loads = read_rows(scene.folder / "local", scene.attempt("local", "restarted", "closed"), "bundle_load")
    assert len({(row["namespace"], row["bundle"]) for row in loads}) == len(loads) > 0


def test_an_upgrade_in_a_run_ends_in_one_line_and_the_cleared_run_goes_through(
    scene: Scene, local: AirflowParts
) -> None:
    run = scene.held_between_two_tasks("upgraded")
    done = sum(state == "success" for state in states(local, run).values())
    scene.upgrade()
    local.pause(paused=False)
    assert ended(local, run)["state"] == "failed"
    reason = str(scene.attempt("local", "upgraded", "failed").reason)
    assert f"ran Evenkeel {__version__} (code d3:" in reason
    assert f", and this task runs Evenkeel {OTHER_VERSION} (code d3:" in reason
    assert reason.endswith(WHAT_TO_DO)
    assert "\n" not in reason
    after = list(states(local, run).values())
    assert after.count("success") == done, "no task of the other version has decided anything"
    local.clear(run)
    assert ended(local, run)["state"] == "success"
    assert scene.attempt("local", "upgraded", "closed").planned["code_version"] == OTHER_VERSION


@pytest.fixture(scope="module")
def celery(scene: Scene, local: AirflowParts) -> Iterator[dict[str, str]]:
    """The variables of a Celery executor's parts; two schedulers of it take the place of the local ones."""
    if find_spec("airflow.providers.celery") is None:
        pytest.skip(lacking(CELERY))
    with redis(scene.folder) as broker:
        variables = {
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CELERY__BROKER_URL": broker,
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{scene.database.url}",
            "EVENKEEL_LAKE": str(scene.folder / "celery"),
        }
        local.stop("scheduler-1", "scheduler-2")
        scene.schedulers(**variables)
        yield variables


def worker(scene: Scene, name: str, environment: Path, variables: dict[str, str]) -> None:
    """Starts a worker for one task at a time, and waits until it takes tasks."""
    words = ["celery", "worker", "--celery-hostname", name, "--concurrency", "1", "--skip-serve-logs"]
    scene.airflow.start(name, environment, *words, **variables)

    def is_ready() -> bool:
        scene.airflow.check()
        return f"{name} ready" in scene.airflow.log(name).read_text(errors="replace")

    awaited(f"the worker {name}", is_ready)


def test_celerys_workers_come_to_the_standalone_plan_though_one_of_them_is_killed(
    scene: Scene, celery: dict[str, str], standalone_plan: str
) -> None:
    for name in ("one", "two"):
        worker(scene, name, scene.mine, celery)
    run = scene.triggered("elsewhere")
    awaited("a task", lambda: "running" in states(scene.airflow, run).values())
    busy = next(name for name in ("one", "two") if at_work(scene.airflow, name))
    scene.airflow.kill(busy)
    assert ended(scene.airflow, run)["state"] == "success"
    assert scene.attempt("celery", "elsewhere", "closed").plan_id == standalone_plan
    scene.airflow.stop(*{"one", "two"} - {busy})


def at_work(airflow: AirflowParts, name: str) -> bool:
    """Whether the worker was given a task."""
    return "execute_workload" in airflow.log(name).read_text(errors="replace").partition(" ready")[2]


def test_a_worker_of_an_earlier_version_decides_whole_cycles_and_a_cycle_begun_by_it_ends_in_one_line(
    scene: Scene, celery: dict[str, str]
) -> None:
    """Schedulers and server are upgraded, one worker is not. Small cycles are decided in the process of the task."""
    scene.upgrade()
    scene.airflow.stop("scheduler-1", "scheduler-2")
    scene.schedulers(**celery)
    worker(scene, "earlier", scene.first, celery)
    assert ended(scene.airflow, scene.triggered("whole"))["state"] == "success"
    assert scene.attempt("celery", "whole", "closed").planned["code_version"] == __version__
    run = scene.held_between_two_tasks("half")
    scene.airflow.stop("earlier")
    worker(scene, "later", scene.mine, celery)
    scene.airflow.pause(paused=False)
    assert ended(scene.airflow, run)["state"] == "failed"
    reason = str(scene.attempt("celery", "half", "failed").reason)
    assert f"ran Evenkeel {__version__} (code d3:" in reason
    assert f", and this task runs Evenkeel {OTHER_VERSION} (code d3:" in reason
    assert "\n" not in reason
    scene.airflow.clear(run)
    assert ended(scene.airflow, run)["state"] == "success"
    assert scene.attempt("celery", "half", "closed").planned["code_version"] == OTHER_VERSION
