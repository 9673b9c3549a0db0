"""The desk as an app under Airflow's login: every route with its right, and the pages for errors.

This module reads nothing of the lake: `reader` makes pages in a separate process. A route without a declared right is
impossible. `make_app` refuses to make such an app, and an app that got one later answers 403 to everything.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException as StarletteHTTPException

from evenkeel_page import airflow_side, look
from evenkeel_page.reader import RETRY_AFTER_S, Reader, ReaderBusy, ReaderLost, ReaderTooSlow
from evenkeel_page.rights import Right, demand_own_page, note_act
from evenkeel_page.routes import ROUTES, Route, notice_response

log = logging.getLogger(__name__)


class UndeclaredRoute(Exception):
    """A route has no declared right."""


class Desk(FastAPI):
    """An app that answers by its declared routes or not at all."""

    declared: tuple[Any, ...] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse everything where a route has joined since the rights were declared."""
        if scope["type"] != "lifespan" and self.declared != tuple(self.router.routes):
            log.error("Evenkeel's desk answers nothing: it has routes without a declared right")
            if scope["type"] == "http":
                await PlainTextResponse("This page has no declared right.", 403)(scope, receive, send)
            return
        await super().__call__(scope, receive, send)


def make_app(routes: Sequence[Route] = ROUTES, *, guarded: bool = True, reader: Reader | None = None) -> FastAPI:
    """The desk; `guarded=False`: no Airflow login, for tests. Raises UndeclaredRoute for a route without a right."""
    app = Desk(title="Evenkeel", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_with_reader)
    app.state.reader = reader or Reader()
    guards = {}
    for route in routes:
        if not isinstance(route.right, Right):
            raise UndeclaredRoute(f"{route.path} declares no right")
        guards[route.path] = route.right.guard() if guarded else _nobody
        dependencies = [Depends(guards[route.path])]
        if set(route.methods) - {"GET", "HEAD"}:
            dependencies += [Depends(demand_own_page), Depends(note_act)] if guarded else []
        app.add_api_route(
            route.path, route.answer, methods=list(route.methods), dependencies=dependencies, response_model=None,
            response_class=Response,
        )  # fmt: skip
    _refuse_undeclared(app, guards)
    app.declared = tuple(app.router.routes)
    for kind, answer in _FAILURES.items():
        app.add_exception_handler(kind, answer)
    return app


def _nobody() -> None:
    """Return no user, in place of a guard."""


def _refuse_undeclared(app: FastAPI, guards: dict[str, Callable[..., Any]]) -> None:
    """UndeclaredRoute where a route of the app does not ask for its right first."""
    for route in app.router.routes:
        path = getattr(route, "path", "?")
        asked = [dependency.call for dependency in route.dependant.dependencies] if isinstance(route, APIRoute) else []
        if path not in guards or guards[path] not in asked[:1]:
            raise UndeclaredRoute(f"{path} declares no right")


@asynccontextmanager
async def _with_reader(app: FastAPI) -> AsyncIterator[None]:
    """The reader starts and ends with the API server; whatever is wrong with it, Airflow starts."""
    from anyio.to_thread import run_sync

    reader: Reader = app.state.reader
    try:
        import evenkeel.airflow.credentials
        import evenkeel.settings.configuration_file  # noqa: F401 (threads look for the lakes and their keys)

        await run_sync(reader.start)
        threading.Thread(target=_look_ahead, args=(reader,), name="evenkeel-first-look", daemon=True).start()
    except Exception as error:
        log.error("Evenkeel's reader cannot be started: %s", error)
    try:
        yield
    finally:
        await run_sync(reader.close)


def _look_ahead(reader: Reader) -> None:
    """Have the first page and a cycle's page made, so that the reader has their data for the first user."""
    try:
        reader.ask(airflow_side.job_for("clusters"))
        for lake in airflow_side.lakes().lakes:
            reader.ask(airflow_side.job_for("ahead", named=lake.name))
    except Exception as error:  # the error is shown on the page that a user requests
        log.info("Evenkeel's pages were not made ahead: %s", error)


_NOT_ALLOWED = "Ask the administrator of Airflow's users for it."


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    if error.status_code == 401:
        text = "You are not logged in to Airflow, or your session has ended."
        return look.closed(401, "Log in first", text, login=_login(request))
    if error.status_code == 403:
        right = getattr(request.state, "evenkeel_right", None)
        needs = "" if right is None else f"This page needs the right to {right.words}. "
        detail = "" if str(error.detail) == "Forbidden" else f" {error.detail}"
        return look.closed(403, "Not for you", f"{needs}{_NOT_ALLOWED}{detail}")
    if error.status_code == 404:
        return look.closed(404, "No such page", "Evenkeel's desk has no such page.", home=True)
    return look.closed(error.status_code, "That does not work", str(error.detail), home=True)


def _login(request: Request) -> str:
    """Return the login address with the way back; Airflow's front page if the auth manager has none."""
    from airflow.api_fastapi.app import get_auth_manager

    try:
        address: str = get_auth_manager().get_url_login(next_url=str(request.url))
    except Exception:
        address = "../"
    return address if address.startswith(("/", "http://", "https://", "../")) else "../"


def _on_bad_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    names = sorted({str(fault["loc"][-1]) for fault in error.errors()})
    text = f"The address lacks something, or holds what cannot be read: {', '.join(names)}."
    return notice_response(request, 400, "That cannot be read", text, ("Start from the list of clusters.",))


def _on_busy(request: Request, error: Exception) -> Response:
    text = "Too many pages are requested at the moment."
    advice = (f"This page is loaded again in {RETRY_AFTER_S} seconds.", "Close what you do not need: open pages renew.")
    again = dict.fromkeys(("Retry-After", "Refresh"), str(RETRY_AFTER_S))
    return notice_response(request, 503, "The desk is busy", text, advice, again)


def _on_slow(request: Request, error: Exception) -> Response:
    text = "This page took too long and was ended, so that others need not wait for it."
    advice = ("Ask for less at once: one cluster, a shorter time.", "If it happens again, look at the lake's disk.")
    return notice_response(request, 504, "That took too long", text, advice)


def _on_lost(request: Request, error: Exception) -> Response:
    text = f"The process that reads the tables did not finish this page: {error}. A new one has been started."
    return notice_response(request, 500, "The page was not finished", text, look.AGAIN)


def _on_anything(request: Request, error: Exception) -> Response:
    """Whatever no one foresaw: its traceback is in the API server's log, and no word of it on the page."""
    return notice_response(request, 500, "Something went wrong", "This page could not be made.", look.AGAIN)


_FAILURES: dict[Any, Callable[[Request, Exception], Response]] = {
    StarletteHTTPException: _on_http,
    HTTPException: _on_http,
    RequestValidationError: _on_bad_request,
    ReaderBusy: _on_busy,
    ReaderTooSlow: _on_slow,
    ReaderLost: _on_lost,
    Exception: _on_anything,
}
