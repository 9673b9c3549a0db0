"""Airflow's REST API, as far as a launcher needs it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenkeel.airflow.order import AirflowError

TIMEOUT_SECONDS = 30.0
LOCKED = "database is locked"
"""SQLite's words for a write that waited five seconds for another one. Nothing of the request is stored then.

Airflow's API server writes its audit log where it also ends other requests' transactions: on SQLite the two may wait
for each other until one of them is given up.
"""
LOCKED_TRIES = 5
LOCKED_PAUSE_SECONDS = 0.5


class RequestRefused(AirflowError):
    """Airflow's REST API answered with an error; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Rest:
    """A client for the Airflow at `url`, logged in as one user."""

    url: str
    user: str
    password: str
    _token: str | None = field(default=None, repr=False)

    def get(self, path: str, **query: Any) -> Any:
        """The JSON answer of GET `path`, e.g. `/api/v2/dags`."""
        asked = f"{path}?{urllib.parse.urlencode(query, doseq=True)}" if query else path
        return self._ask("GET", asked, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON answer of POST `path` with a JSON body."""
        return self._ask("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON answer of PATCH `path` with a JSON body."""
        return self._ask("PATCH", path, body)

    def trigger(self, dag: str, *, logical_date: str | None, conf: Mapping[str, Any]) -> str:
        """Start a run and return its run_id; `RequestRefused` with Airflow's words where the params are not valid."""
        answer = self.post(f"/api/v2/dags/{dag}/dagRuns", {"logical_date": logical_date, "conf": dict(conf)})
        return str(answer["dag_run_id"])

    def run(self, dag: str, run_id: str) -> dict[str, Any]:
        """The run of a DAG, as the API shows it."""
        return dict(self.get(f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run_id, safe='')}"))

    def tasks(self, dag: str, run_id: str) -> list[dict[str, Any]]:
        """The task instances of a run."""
        path = f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run_id, safe='')}/taskInstances"
        return list(self.get(path)["task_instances"])

    def log(self, dag: str, run_id: str, task: str, attempt: int) -> str:
        """The log of one try of a task, as text."""
        run = urllib.parse.quote(run_id, safe="")
        answer = self.get(f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}", full_content="true")
        return "\n".join(_log_line(entry) for entry in answer["content"])

    def xcom(self, dag: str, run_id: str, task: str, key: str) -> Any:
        """Return the value that a task left under a key, None without one."""
        run = urllib.parse.quote(run_id, safe="")
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/{key}"
        try:
            return self.get(path)["value"]
        except RequestRefused as refused:
            if refused.status == 404:
                return None
            raise

    def import_errors(self) -> str:
        """Return the errors that keep DAG files from being loaded; empty without any."""
        errors = self.get("/api/v2/importErrors")["import_errors"]
        return "\n".join(f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}" for error in errors)

    def token(self) -> str:
        """Return a new token. It also proves that the answer is from our own Airflow: no other program knows the
        password."""
        answer = self._send("POST", "/auth/token", {"username": self.user, "password": self.password}, None)
        return str(answer["access_token"])

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        for _ in range(LOCKED_TRIES - 1):
            try:
                return self._ask_once(method, path, body)
            except RequestRefused as refused:
                if refused.status != 500 or LOCKED not in str(refused):
                    raise
            time.sleep(LOCKED_PAUSE_SECONDS)
        return self._ask_once(method, path, body)

    def _ask_once(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        if self._token is None:
            self._token = self.token()
        try:
            return self._send(method, path, body, self._token)
        except RequestRefused as refused:
            if refused.status != 401:
                raise
            self._token = self.token()  # the one before has run out
            return self._send(method, path, body, self._token)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, token: str | None) -> Any:
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Accept", "application/json")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            # A proxy that is set for the outside world must not be asked for 127.0.0.1.
            with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RequestRefused(error.code, _reason(error)) from None
        except (OSError, ValueError) as error:
            raise AirflowError(f"Airflow at {self.url} does not answer {method} {path}: {error}") from None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _reason(error: urllib.error.HTTPError) -> str:
    text = error.read().decode("utf-8", errors="replace")
    try:
        detail = json.loads(text)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = text[:300]
    if isinstance(detail, dict) and "orig_error" in detail:  # its further words are the statement and a stack trace
        detail = f"{detail.get('reason')}: {detail['orig_error']}"
    return f"Airflow answers {error.code}: {detail if isinstance(detail, str) else json.dumps(detail)}"


def _log_line(entry: Any) -> str:
    if isinstance(entry, dict):
        return " ".join(str(entry[key]) for key in ("timestamp", "level", "event") if entry.get(key))
    return str(entry)
