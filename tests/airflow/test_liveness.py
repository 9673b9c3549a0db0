"""A task does not outlive the server that it waits for."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenkeel.spark.code import source_root

# Stuck as a task can be: in the main thread, waiting for a thread that waits for the server.
WAITING = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
sys.path.insert(0, {path!r})
from evenkeel.airflow.liveness import server_watched
told = Path({told!r})
with server_watched("127.0.0.1", {port}, told.write_text, knock_seconds=0.02):
    print("working", flush=True)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(time.sleep, {seconds}).result()
print("done", flush=True)
"""


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        yield listener


def _start(server: socket.socket, told: Path, seconds: float) -> subprocess.Popen[str]:
    port = server.getsockname()[1]
    script = WAITING.format(path=str(source_root()), told=str(told), port=port, seconds=seconds)
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


def test_a_task_ends_and_says_why_when_its_server_is_gone(server: socket.socket, tmp_path: Path) -> None:
    with _start(server, tmp_path / "told", seconds=600) as task:
        assert task.stdout is not None
        assert task.stdout.readline() == "working\n"
        address = "{}:{}".format(*server.getsockname())
        server.close()
        assert task.wait(60) == 1
    assert f"The Spark server at {address} takes no connections any more." in (tmp_path / "told").read_text()


def test_a_task_whose_server_answers_is_left_alone(server: socket.socket, tmp_path: Path) -> None:
    with _start(server, tmp_path / "told", seconds=0.5) as task:
        assert task.wait(60) == 0
        assert task.stdout is not None
        assert task.stdout.read() == "working\ndone\n"
    assert not (tmp_path / "told").exists()
