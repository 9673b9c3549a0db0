"""The client of Airflow's REST API: what it asks again, and what it gives up on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import pytest

from devtools.local_airflow import rest
from devtools.local_airflow.rest import LOCKED_TRIES, RequestRefused, Rest
from tests.serving import answering


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

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        if handler.command == "POST":
            return 201, b'{"access_token": "t"}'
        state.asked.append(body.decode())
        status, detail = state.errors.pop(0) if state.errors else (200, None)
        return status, json.dumps({"detail": detail} if detail else {"done": True}).encode()

    with answering(answer) as port:
        state.url = f"http://127.0.0.1:{port}"
        yield state


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
