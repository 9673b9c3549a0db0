"""The supervisor ends everything that it started, however stubborn; with stand-ins for Airflow's three components."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from evenkeel.spark.code import source_root
from evenkeel.spark.home import identity, session_members

# A component with a child of its own; both ignore SIGTERM, as Airflow's sometimes do.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[1] == "dag-processor" and {dies}:
    sys.exit(3)
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child])
print("ready", flush=True)
time.sleep(600)
"""
PATIENCE_SECONDS = 30

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(owner: int, dies: bool = False) -> subprocess.Popen[bytes]:
        package = tmp_path / "path" / "airflow"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(STUBBORN.format(dies=dies))
        shorter = "import sys; from devtools.local_airflow import supervisor as s; s.GRACE_SECONDS = 0.5; "
        script = shorter + f"from pathlib import Path; sys.exit(s.main({identity(owner)!r}, Path({str(tmp_path)!r})))"
        environment = {**os.environ, "PYTHONPATH": f"{package.parent}{os.pathsep}{source_root()}"}
        process = subprocess.Popen([sys.executable, "-c", script], env=environment, start_new_session=True)
        started.append(process)
        return process

    yield run
    for process in started:
        for member in session_members(process.pid):
            member.kill()
        process.wait()


def _await(what: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < until, "waited for too long"
        time.sleep(0.05)


def _all_ready(logs: Path) -> bool:
    names = ("api-server", "scheduler", "dag-processor")
    return all((logs / f"{name}.log").exists() and "ready" in (logs / f"{name}.log").read_text() for name in names)


def test_nothing_is_left_when_it_is_asked_to_end(start: Start, tmp_path: Path) -> None:
    supervisor = start(os.getpid())
    _await(lambda: _all_ready(tmp_path))
    assert len(session_members(supervisor.pid)) == 7
    supervisor.send_signal(signal.SIGTERM)
    supervisor.wait(PATIENCE_SECONDS)
    _await(lambda: session_members(supervisor.pid) == [])


def test_nothing_is_left_when_its_owner_was_killed(start: Start, tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    supervisor = start(owner.pid)
    _await(lambda: _all_ready(tmp_path))
    owner.kill()
    owner.wait()
    assert supervisor.wait(PATIENCE_SECONDS) == 0
    _await(lambda: session_members(supervisor.pid) == [])


def test_one_component_that_dies_takes_the_others_along(start: Start, tmp_path: Path) -> None:
    supervisor = start(os.getpid(), dies=True)
    assert supervisor.wait(PATIENCE_SECONDS) == 1
    _await(lambda: session_members(supervisor.pid) == [])


def test_a_supervisor_that_is_killed_itself_leaves_a_session_that_stop_can_end(start: Start, tmp_path: Path) -> None:
    from devtools.local_airflow.service import stop

    supervisor = start(os.getpid())
    _await(lambda: _all_ready(tmp_path))
    members = [process.pid for process in session_members(supervisor.pid)]
    supervisor.kill()
    stop(supervisor)
    _await(lambda: not any(_runs(pid) for pid in members))


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
