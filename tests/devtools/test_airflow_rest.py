"""The client of Airflow's REST API: what it asks again, and what it gives up on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from devtools.local_airflow import rest
from devtools.local_airflow.rest import LOCKED_TRIES, RequestRefused, Rest


@dataclass(slots=True)
class Server:
    """Answers with these errors, one request each, and then as Airflow does where all is well."""

    url: str = ""
    errors: list[tuple[int, object]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def serving(errors: list[tuple[int, object]]) -> Iterator[Server]:
    """A server on 127.0.0.1 for a `with` block."""
    state = Server(errors=errors)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer(201, {"access_token": "t"})

        def do_PATCH(self) -> None:
            state.asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            status, detail = state.errors.pop(0) if state.errors else (200, None)
            self._answer(status, {"detail": detail} if detail else {"done": True})

        def _answer(self, status: int, body: object) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def database_error(words: str) -> tuple[int, object]:
    """An error of the database, as Airflow's API server answers it with `[api] expose_stacktrace`."""
    return 500, {"reason": "Database error", "statement": "INSERT ...", "orig_error": words, "message": "long"}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "LOCKED_PAUSE_SECONDS", 0.0)


def test_a_request_that_found_the_database_locked_is_made_again() -> None:
    with serving([database_error("database is locked")] * (LOCKED_TRIES - 1)) as server:
        assert Rest(server.url, "admin", "p").patch("/x", {"note": "n"}) == {"done": True}
    assert server.asked == ['{"note": "n"}'] * LOCKED_TRIES


def test_a_database_that_stays_locked_is_said_in_its_own_words() -> None:
    with (
        serving([database_error("database is locked")] * LOCKED_TRIES) as server,
        pytest.raises(RequestRefused, match=r"^Airflow answers 500: Database error: database is locked$"),
    ):
        Rest(server.url, "admin", "p").patch("/x", {})
    assert len(server.asked) == LOCKED_TRIES


@pytest.mark.parametrize(
    "error",
    [database_error("no such table: dag_run"), (500, "cannot read the Dag"), (409, "database is locked")],
    ids=["database", "other", "conflict"],
)
def test_any_other_error_is_not_asked_again(error: tuple[int, object]) -> None:
    with serving([error]) as server, pytest.raises(RequestRefused):
        Rest(server.url, "admin", "p").patch("/x", {})
    assert len(server.asked) == 1
