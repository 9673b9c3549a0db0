"""Servers of their own, beside the shared one, because these tests end them in every way there is."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from evenkeel.cli.options import session
from evenkeel.errors import EngineError
from evenkeel.spark import server
from evenkeel.spark.code import source_root
from evenkeel.spark.command import ServerSettings
from evenkeel.spark.home import Home, identity, lives, pid_of, session_members
from evenkeel.spark.server import (
    Engine,
    airflow_connection,
    alive,
    engine_beside,
    engine_for,
    ensure,
    free_port,
    release,
    status,
    stop,
)
from evenkeel.spark.session import close, connect

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CHECKOUT = Path(__file__).resolve().parents[2]
SMALL = ServerSettings(memory="512m")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    stop(tmp_path)


def becomes_true(condition: Callable[[], bool], seconds: float = 30) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.1)
    return False


def is_gone(engine: Engine) -> bool:
    return not lives(engine.server) and not session_members(pid_of(engine.supervisor))


def python_processes_of(engine: Engine) -> list[int]:
    others = (pid_of(engine.server), pid_of(engine.supervisor))
    return [process.pid for process in session_members(pid_of(engine.supervisor)) if process.pid not in others]


def run_python_worker(engine: Engine) -> None:
    spark = connect(engine.url)
    frame = spark.range(4).mapInArrow(lambda batches: batches, "id bigint")
    assert frame.count() == 4
    close(spark)


@pytest.mark.exhaustive
def test_a_server_that_is_gone_or_other_than_asked_for_is_replaced_on_the_same_port(home: Path) -> None:
    first = ensure(home, settings=SMALL)
    run_python_worker(first)
    os.kill(pid_of(first.supervisor), signal.SIGKILL)
    assert becomes_true(lambda: not alive(first))
    assert lives(first.server), "the JVM must still be there for the next start to find"
    second = ensure(home, settings=SMALL)
    assert second.started_here
    assert is_gone(first)
    third = ensure(home, settings=ServerSettings(memory="520m"))
    assert third.started_here
    assert is_gone(second)
    assert first.port == second.port == third.port
    place = Home.of(home)
    state = place.read()
    assert state is not None
    assert status(home).state == "running"
    place.write(replace(state, code="0" * 64))
    assert status(home).state == "stale"


def test_many_share_one_server_whose_workers_changed_code_ends_and_the_last_to_leave_ends_it(home: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        engines = list(pool.map(lambda _: ensure(home, owner_pid=os.getpid(), settings=SMALL), range(2)))
    first = engines[0]
    assert first.url == engines[1].url
    assert sorted(engine.started_here for engine in engines) == [False, True]
    run_python_worker(first)
    daemon, *workers = python_processes_of(first)
    assert workers

    place = Home.of(home)
    state = place.read()
    assert state is not None
    place.write(replace(state, workers="0" * 64))
    assert status(home).state == "running"
    second = ensure(home, owner_pid=os.getpid(), settings=SMALL)
    assert (second.started_here, second.server) == (False, first.server)
    assert becomes_true(lambda: python_processes_of(second) == [daemon])
    run_python_worker(second)
    assert not {*workers} & {*python_processes_of(second)}
    new = python_processes_of(second)
    engines += [second, ensure(home, owner_pid=os.getpid(), settings=SMALL)]
    assert place.read() == state
    assert python_processes_of(second) == new, "the test must leave Python workers to be cleared away"

    last = engines.pop()
    for engine in engines:
        release(engine)
        assert alive(last)
    release(last)
    assert is_gone(last)
    assert not alive(last)
    assert status(home).state == "stopped"


@pytest.mark.exhaustive
def test_a_client_whose_server_died_gets_an_error_and_its_process_ends(home: Path) -> None:
    engine = ensure(home, settings=SMALL)
    code = (
        "import os, sys\n"
        "from evenkeel.spark.session import connect\n"
        "spark = connect(sys.argv[1])\n"
        "assert spark.range(3).count() == 3\n"
        "os.kill(int(sys.argv[2]), 9)\n"
        "try:\n    spark.range(3).count()\n"
        "except Exception as error:\n    print('answer', type(error).__name__)\n"
    )
    client = subprocess.run(
        [sys.executable, "-c", code, engine.url, str(engine.pid)],
        env={**os.environ, "PYTHONPATH": str(source_root())}, capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    assert client.stdout.startswith("answer ")
    assert becomes_true(lambda: is_gone(engine))


@pytest.mark.exhaustive
def test_a_server_out_of_memory_ends_and_a_command_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENKEEL_SPARK", raising=False)
    monkeypatch.setenv("EVENKEEL_HOME", str(home))
    monkeypatch.setenv("EVENKEEL_SERVER_MEMORY", "512m")
    said = r"ran out of memory: give it more than 512m \(EVENKEEL_SERVER_MEMORY\), and run the same command again"
    with pytest.raises(EngineError, match=said), session("test") as spark:
        spark.range(1).selectExpr("size(sequence(id, 200000000))").collect()
    assert status(home).state == "stopped"


@pytest.mark.exhaustive
def test_a_port_that_was_taken_meanwhile_is_left_to_its_taker(home: Path) -> None:
    with socket.socket() as taker:
        taker.bind(("127.0.0.1", 0))
        taker.listen()
        taken = taker.getsockname()[1]
        place = Home.of(home)
        place.add_owner(None)
        assert server._start(place, taken, SMALL) is None
        with engine_for(home, settings=SMALL) as engine:
            assert engine.port != taken
            run_python_worker(engine)


@pytest.mark.exhaustive
def test_no_process_stays_when_the_owner_is_killed(home: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{source_root()}:{CHECKOUT}"}
    owner = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.owner", str(home)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert owner.stdout is not None
    pid, supervisor = owner.stdout.readline().split()
    server_identity = identity(int(pid))
    assert server_identity is not None
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert becomes_true(lambda: not lives(server_identity) and not session_members(pid_of(supervisor)))
    assert status(home).state == "stopped"


@pytest.mark.exhaustive
def test_a_server_can_be_stopped_while_it_starts(home: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(ensure, home, settings=SMALL)
        assert becomes_true(lambda: status(home).state == "starting")
        state = Home.of(home).read()
        assert state is not None
        assert stop(home)
        with pytest.raises(EngineError, match="was stopped while it was starting"):
            starting.result()
    assert not lives(state.server)
    assert not session_members(pid_of(state.supervisor))


@pytest.mark.exhaustive
def test_a_server_starts_beside_the_block_on_the_port_that_its_clients_were_told_before(home: Path) -> None:
    port = free_port()
    told = airflow_connection(home, port)
    with engine_beside(home, port) as starting:
        engine = starting.result()
        assert engine.port == port
        assert engine.airflow_connection() == told
        run_python_worker(engine)
    assert is_gone(engine)


def test_a_block_that_ends_before_its_server_has_started_leaves_none(home: Path) -> None:
    with engine_beside(home, free_port()) as starting:
        pass
    assert starting.done()
    assert status(home).state == "stopped"
    assert not Home.of(home).has_owner()


@pytest.mark.exhaustive
def test_a_port_that_is_demanded_and_taken_is_named(home: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        with pytest.raises(EngineError, match=f"{taken} was taken"):
            ensure(home, settings=SMALL, port=taken)


def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    with pytest.raises(EngineError) as caught:
        ensure(home, settings=ServerSettings(memory="1k"))
    assert "The Spark Connect server did not start." in str(caught.value)
    assert "Too small maximum heap" in str(caught.value)
    assert status(home).state == "stopped"


def test_a_state_file_that_cannot_be_read_counts_as_none(home: Path) -> None:
    place = Home.of(home)
    (place.folder / "engine.json").write_text(json.dumps({"supervisor": 1})[:-1])
    assert place.read() is None
    assert status(home).state == "stopped"
    assert stop(home) is False
