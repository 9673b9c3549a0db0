"""One Airflow on this machine: started on a free port, checked by its answers, ended with all its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from devtools.local_airflow.home import HOST, USER, AirflowHome, Wiring, tail
from devtools.local_airflow.rest import Rest
from evenkeel.airflow.dag_names import kind_of_dag
from evenkeel.airflow.order import AirflowError
from evenkeel.spark.home import identity, kill_session
from evenkeel.spark.server import free_port

SUPERVISOR = Path(__file__).with_name("supervisor.py")
DAG_ID = "rebalance"
START_SECONDS = 240.0
END_SECONDS = 15.0
TICK_SECONDS = 0.3
PORT_TRIES = 3
PORT_TAKEN = "address already in use"


@dataclass(frozen=True, slots=True)
class Airflow:
    """An Airflow that serves: where, for whom, and its supervisor's process."""

    home: AirflowHome
    url: str
    rest: Rest
    supervisor: subprocess.Popen[bytes]

    def leave(self) -> None:
        """Ask it to end, and do not wait: no run is under way any more."""
        if self.supervisor.poll() is None:
            self.supervisor.send_signal(signal.SIGTERM)

    def check(self) -> None:
        """Raise AirflowError if it has ended meanwhile."""
        if self.supervisor.poll() is not None:
            raise AirflowError(f"Airflow has ended. {tail(self.home.logs / 'supervisor.log')}")


@contextmanager
def airflow_for(home: Path, wiring: Wiring, *, say: Callable[[str], None] = lambda _line: None) -> Iterator[Airflow]:
    """An Airflow for a `with` block; ends with it, and also where this process is killed."""
    airflow = start(AirflowHome.of(home), wiring, say=say)
    try:
        yield airflow
    finally:
        stop(airflow.supervisor)


def start(home: AirflowHome, wiring: Wiring, *, say: Callable[[str], None] = lambda _line: None) -> Airflow:
    """Start scheduler, DAG processor and API server, and wait until all are healthy and the DAG is loaded."""
    say("creating Airflow's database")
    home.migrate(home.environment(wiring, free_port()))
    say("starting Airflow's scheduler, DAG processor and API server")
    for _ in range(PORT_TRIES):
        port = free_port()
        supervisor = _spawn(home, home.environment(wiring, port))
        try:
            rest = Rest(f"http://{HOST}:{port}", USER, home.password())
            if _await_health(home, supervisor, rest):
                return Airflow(home, rest.url, rest, supervisor)
        except BaseException:
            stop(supervisor)
            raise
        stop(supervisor)
    raise AirflowError(f"Airflow found no port: {PORT_TRIES} free ones were taken while it started.")


def stop(supervisor: subprocess.Popen[bytes]) -> None:
    """End all processes of an Airflow; harmless where they have ended already."""
    if supervisor.poll() is None:
        supervisor.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            supervisor.wait(timeout=END_SECONDS)
    kill_session(supervisor.pid)  # the supervisor leads its session; processes left in it have no further purpose
    supervisor.wait()


def _spawn(home: AirflowHome, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    owner = identity(os.getpid())
    with (home.logs / "supervisor.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", str(SUPERVISOR), str(owner), str(home.logs)],
            env=environment,
            cwd=home.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _await_health(home: AirflowHome, supervisor: subprocess.Popen[bytes], rest: Rest) -> bool:
    """Wait until this very Airflow is healthy and has the DAG; False if its port was taken meanwhile."""
    until = time.monotonic() + START_SECONDS
    missing = "an answer"
    while time.monotonic() < until:
        if supervisor.poll() is not None:
            if PORT_TAKEN in (home.logs / "api-server.log").read_text(encoding="utf-8", errors="replace"):
                return False
            raise AirflowError(f"Airflow did not start. {_why(home)}")
        try:
            missing = _missing(rest)
        except AirflowError as error:
            missing = str(error)
        if not missing:
            return True
        time.sleep(TICK_SECONDS)
    raise AirflowError(f"Airflow was not ready within {START_SECONDS:.0f} s: {missing}. {_why(home)}")


def _missing(rest: Rest) -> str:
    """Return what is missing; empty when all is ready. Judged by the answers' content: any server may hold a port."""
    health = rest.get("/api/v2/monitor/health")
    for part in ("metadatabase", "scheduler", "dag_processor"):
        if (health.get(part) or {}).get("status") != "healthy":
            return f"a healthy {part}"
    if any(kind_of_dag(dag["dag_id"]) == DAG_ID for dag in rest.get("/api/v2/dags")["dags"]):
        return ""
    errors = rest.import_errors()
    return f"the DAG {DAG_ID}" + (f" ({errors})" if errors else "")


def _why(home: AirflowHome) -> str:
    supervisor = (home.logs / "supervisor.log").read_text(encoding="utf-8", errors="replace")
    for component in ("api-server", "scheduler", "dag-processor"):
        if f"{component} ended" in supervisor:
            return f"The {component} ended. {tail(home.logs / f'{component}.log')}"
    return tail(home.logs / "supervisor.log")
