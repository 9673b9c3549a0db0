"""Airflow in parts, each a process of its own as on machines of their own, out of environments with a wheel."""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from devtools.local_airflow.home import USER, AirflowHome, tail
from devtools.local_airflow.rest import Rest
from devtools.local_airflow.service import DAG_ID
from evenkeel.airflow.order import AirflowError
from evenkeel.spark.home import kill_session
from evenkeel.spark.server import free_port
from tests.dags.waiting import LOOK_SECONDS, awaited
from tests.left_out import REDIS, lacking
from tests.wheels import of_wheel

END_SECONDS = 20.0
HEALTHY = ("metadatabase", "scheduler", "dag_processor", "triggerer")


@dataclass(frozen=True, slots=True)
class Part:
    """A part that was started: out of which environment, with which words behind `airflow`, and its process."""

    environment: Path
    words: tuple[str, ...]
    variables: Mapping[str, str]
    process: subprocess.Popen[bytes]


class AirflowParts:
    """The parts of one Airflow by name. `restarts`: whether what ends by itself is started again, as a service
    manager does."""

    def __init__(self, home: AirflowHome, environment: Mapping[str, str]) -> None:
        self.home, self.environment = home, dict(environment)
        self.url = self.environment["AIRFLOW__API__BASE_URL"]
        self.rest = Rest(self.url, USER, home.password())
        self.restarts = False
        self._parts: dict[str, Part] = {}

    def start(self, name: str, environment: Path, *words: str, **variables: str) -> None:
        """Starts `airflow WORDS` of that environment, with further variables, under a name that is free."""
        assert name not in self._parts
        given = {**self.environment, **of_wheel(environment), **variables}
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [str(environment / "bin" / "python"), "-m", "airflow", *words],
                env=given, cwd=self.home.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._parts[name] = Part(environment, words, variables, process)

    def stop(self, *names: str) -> None:
        """Asks these parts to end, and ends what is left of them after a while."""
        parts = [self._parts.pop(name) for name in names]
        for part in parts:
            part.process.terminate()
        until = time.monotonic() + END_SECONDS
        for part in parts:
            with suppress(subprocess.TimeoutExpired):
                part.process.wait(timeout=max(0.1, until - time.monotonic()))
            kill(part)

    def kill(self, name: str) -> None:
        """Ends a part at once, with what it has started."""
        kill(self._parts.pop(name))

    def close(self) -> None:
        """Ends all of them."""
        self.stop(*self._parts)

    def check(self) -> None:
        """Raises AirflowError where a part has ended by itself, or starts it again where `restarts` says so."""
        for name, part in list(self._parts.items()):
            if part.process.poll() is None:
                continue
            if not self.restarts:
                raise AirflowError(f"Airflow's part {name} has ended. {tail(self.log(name))}")
            self.kill(name)
            self.start(name, part.environment, *part.words, **part.variables)

    def log(self, name: str) -> Path:
        """What the part says."""
        return self.home.logs / f"part-{name}.log"

    def await_health(self) -> None:
        """Waits until all kinds of parts are healthy and the DAG is there."""
        awaited("a healthy Airflow", lambda: self._look(self._is_healthy))

    def ended(self, run_id: str) -> str:
        """Waits for the end of a run, also while the API server comes and goes; the run's state."""

        def over() -> str | None:
            state = str(self.rest.run(DAG_ID, run_id)["state"])
            return state if state in ("success", "failed") else None

        return str(awaited(f"the end of {run_id}", lambda: self._look(over)))

    def _look(self, found: Callable[[], Any]) -> Any:
        self.check()
        try:
            return found()
        except AirflowError:  # the API server does not answer yet
            return None

    def _is_healthy(self) -> bool:
        health = self.rest.get("/api/v2/monitor/health")
        if any((health.get(part) or {}).get("status") != "healthy" for part in HEALTHY):
            return False
        errors = self.rest.import_errors()
        assert not errors, errors
        return any(found["dag_id"] == DAG_ID for found in self.rest.get("/api/v2/dags")["dags"])

    def pause(self, *, paused: bool) -> None:
        """No task of the DAG's runs is started while it is paused; those that run go on to their end."""
        self.rest.patch(f"/api/v2/dags/{DAG_ID}", {"is_paused": paused})

    def clear(self, run_id: str) -> None:
        """Has all tasks of the run done anew."""
        body = {"dag_run_id": run_id, "dry_run": False, "only_failed": False, "reset_dag_runs": True}
        self.rest.post(f"/api/v2/dags/{DAG_ID}/clearTaskInstances", body)


def kill(part: Part) -> None:
    """Ends the part's process and all of its session."""
    if part.process.poll() is None:
        part.process.kill()
    kill_session(part.process.pid)  # it leads the session, and its number is ours until it is waited for
    part.process.wait()


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A Redis of a test's own for a `with` block: its URL; skips the test where there is none."""
    program = which("redis-server")
    if program is None:
        pytest.skip(lacking(REDIS))
    port = free_port()
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    process = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def answers() -> bool:
        assert process.poll() is None, "Redis has ended"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), LOOK_SECONDS):
            return True
        return False

    try:
        awaited("Redis", answers)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()
