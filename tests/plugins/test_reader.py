"""The process that reads for the desk: it is one, short queues stand before it, and it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import PLUGINS

pytestmark = pytest.mark.airflow

PAGES = "tests.plugins.trial_pages"
CHECKOUT = PLUGINS.parent
Make = Callable[..., Any]


@pytest.fixture
def reader() -> Iterator[Make]:
    """Makes readers of the trial pages, and ends them."""
    from evenkeel_page.reader import Reader

    made = []

    def make(**more: Any) -> Reader:
        made.append(Reader(**{"pages": PAGES, "longest": 20.0, **more}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def job(page: str, number: float = 0) -> Any:
    from evenkeel_page.reader import Job

    return Job(page, "lake", {"number": number})


def is_there(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def goes(pid: int, within: float = 10.0) -> bool:
    ends = time.monotonic() + within
    while is_there(pid) and time.monotonic() < ends:
        time.sleep(0.05)
    return not is_there(pid)


def test_one_process_makes_all_pages_and_ends_when_it_is_closed(reader: Make) -> None:
    one = reader()
    made = {one.ask(job("pid")).body for _ in range(3)}
    assert made == {str(one.pid)}
    assert one.pid != os.getpid()
    pid = one.pid
    one.close()
    assert goes(pid)


def test_a_reader_at_work_does_not_hold_up_the_end(reader: Make) -> None:
    from evenkeel_page.reader import ReaderLost

    one = reader()
    pid = int(one.ask(job("pid")).body)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(one.ask, job("sleep", 15))
        time.sleep(0.3)
        one.close()
        with pytest.raises(ReaderLost):
            work.result()
    assert goes(pid)
    assert one.pid is None, "and no other is started"


def test_what_takes_too_long_is_ended_and_the_next_request_has_a_new_reader(reader: Make) -> None:
    from evenkeel_page.reader import ReaderTooSlow

    one = reader(longest=0.5)
    first = int(one.ask(job("pid")).body)
    with pytest.raises(ReaderTooSlow):
        one.ask(job("sleep", 30))
    assert goes(first)
    assert int(one.ask(job("pid")).body) not in (first, os.getpid())


def test_a_reader_that_dies_at_work_is_told_of_and_started_anew(reader: Make) -> None:
    from evenkeel_page.reader import ReaderLost

    one = reader()
    with pytest.raises(ReaderLost, match="signal 11"):
        one.ask(job("die", signal.SIGSEGV))
    assert one.ask(job("pid")).status == 200


def test_a_reader_that_died_between_two_requests_is_not_noticed(reader: Make) -> None:
    one = reader()
    first = int(one.ask(job("pid")).body)
    os.kill(first, signal.SIGKILL)
    time.sleep(0.1)
    assert int(one.ask(job("pid")).body) != first


def test_ten_requests_at_once_are_answered_or_refused_at_once(reader: Make) -> None:
    from evenkeel_page.reader import ReaderBusy

    one = reader(most=3)
    one.ask(job("pid"))

    def ask(_: int) -> tuple[str, float]:
        began = time.monotonic()
        try:
            one.ask(job("sleep", 0.3))
            return "answered", time.monotonic() - began
        except ReaderBusy:
            return "refused", time.monotonic() - began

    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(ask, range(10)))
    refused = [took for kind, took in found if kind == "refused"]
    assert len(refused) == 7
    assert max(refused) < 0.3
    assert one.ask(job("pid")).status == 200, "there is room again"


def test_a_dozen_readers_at_once_are_all_answered(reader: Make) -> None:
    one = reader()
    one.ask(job("pid"))
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: one.ask(job("sleep", 0.1)).status, range(12)))
    assert found == [200] * 12


def test_who_waits_too_long_for_a_turn_is_refused(reader: Make) -> None:
    from evenkeel_page.reader import ReaderBusy

    one = reader(turn=0.2)
    one.ask(job("pid"))
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(one.ask, job("sleep", 1.5))
        time.sleep(0.2)
        with pytest.raises(ReaderBusy):
            one.ask(job("pid"))
        assert long.result().status == 200


def test_a_reader_that_holds_too_much_memory_ends(reader: Make) -> None:
    from evenkeel_page.reader import ReaderLost

    one = reader(memory=300 << 20)
    with pytest.raises(ReaderLost, match="more than 300 MiB"):
        one.ask(job("grow", 400))
    assert one.ask(job("pid")).status == 200


def test_a_reader_that_has_grown_makes_room_for_another_after_its_answer(reader: Make) -> None:
    one = reader(memory=1 << 30)
    first = int(one.ask(job("keep", 600)).body)
    assert goes(first)
    assert int(one.ask(job("pid")).body) != first


@pytest.mark.parametrize("page", [pytest.param("pid", marks=pytest.mark.exhaustive), "sleep"])
def test_a_killed_api_server_leaves_no_reader_also_not_one_at_work(page: str) -> None:
    code = (
        "import sys, threading, time\n"
        f"sys.path.insert(0, {str(PLUGINS)!r})\n"
        "from evenkeel_page.reader import Job, Reader\n"
        f"reader = Reader(pages={PAGES!r}, longest=100)\n"
        "reader.ask(Job('pid', ''))\n"
        f"threading.Thread(target=reader.ask, args=(Job({page!r}, '', {{'number': 60}}),), daemon=True).start()\n"
        "time.sleep(0.3)\n"
        "print(reader.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    paths = f"{CHECKOUT / 'spark'}{os.pathsep}{CHECKOUT}"
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    pid = int(server.stdout.readline())
    assert is_there(pid)
    server.kill()
    server.wait()
    assert goes(pid, 5.0)


def test_keys_of_a_store_reach_the_reader_and_are_shown_nowhere(reader: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenkeel_page import airflow_side
    from evenkeel_page.reader import Job

    from evenkeel.airflow import credentials
    from evenkeel.object_store import S3Connection
    from evenkeel.secret import Secret

    held = S3Connection("key-id", Secret("much-too-secret"), Secret("a-session"), "eu-1", "https://s3.example")
    monkeypatch.setattr(credentials, "store_from_airflow", lambda name: held if name == "s3" else None)
    monkeypatch.delenv("EVENKEEL_LAKE_CONNECTION", raising=False)
    assert airflow_side.store("s3a://bucket/lake") is None
    monkeypatch.setenv("EVENKEEL_LAKE_CONNECTION", "s3")
    assert airflow_side.store("/a/folder") is None
    words = airflow_side.store("s3a://bucket/lake")
    asked = Job("store", "s3a://bucket/lake", store=words)
    assert "much-too-secret" not in repr(asked)
    assert reader().ask(asked).body == "key-id much-too-secret a-session eu-1 https://s3.example"


# What a browser is told of it.


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        ("ReaderBusy", 503, "The desk is busy"),
        ("ReaderTooSlow", 504, "took too long and was ended"),
        ("ReaderLost", 500, "it ended by signal 9"),
        ("ValueError", 500, "This page could not be made."),
    ],
)
def test_each_end_has_a_page(
    raised: str, status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_page import reader as module
    from evenkeel_page.app import make_app
    from fastapi.testclient import TestClient

    class Failing(module.Reader):
        def ask(self, job: module.Job) -> module.Answer:
            raise getattr(module, raised, ValueError)("it ended by signal 9")

    monkeypatch.setenv("EVENKEEL_LAKE", str(tmp_path))
    client = TestClient(make_app(guarded=False, reader=Failing()), raise_server_exceptions=False)
    answer = client.get("/")
    assert answer.status_code == status
    assert said in answer.text
    assert "What to do" in answer.text
    assert answer.headers.get("retry-after") == ("3" if status == 503 else None)


def test_of_ten_requests_at_once_some_get_a_page_and_the_others_are_told_when_to_come_again(
    reader: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_page.app import make_app
    from fastapi.testclient import TestClient

    monkeypatch.setenv("EVENKEEL_LAKE", str(tmp_path))
    one = reader(most=3)
    one.ask(job("pid"))
    client = TestClient(make_app(guarded=False, reader=one), raise_server_exceptions=False)
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: client.get("/"), range(10)))
    codes = sorted(answer.status_code for answer in answers)
    assert set(codes) == {200, 503}
    assert codes.count(200) >= 3
    assert {answer.headers.get("retry-after") for answer in answers if answer.status_code == 503} == {"3"}


def test_a_reader_that_cannot_start_keeps_no_app_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenkeel_page import reader as module
    from evenkeel_page.app import make_app
    from fastapi.testclient import TestClient

    monkeypatch.setenv("EVENKEEL_LAKE", str(tmp_path))
    monkeypatch.setattr(module.sys, "executable", str(tmp_path / "no-python"))
    with TestClient(make_app(guarded=False), raise_server_exceptions=False) as client:
        answer = client.get("/")
        assert answer.status_code == 500
        assert "it cannot be started" in answer.text
        assert client.get("/static/desk.css").status_code == 200
