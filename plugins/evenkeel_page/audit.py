"""The audit line of an act: user, route and content, in Airflow's audit log and in the API server's log.

It is written before the act. If the line cannot be written, the act does not happen.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import Request

log = logging.getLogger("evenkeel_page.audit")
_LONGEST = 4_000


def note(request: Request) -> None:
    """A dependency of FastAPI's, after the right of the route: writes the line of this request."""
    user = request.state.evenkeel_user
    words = {"query": dict(request.query_params), "path": dict(request.path_params)}
    write_line(str(user.get_name()), f"{request.method} {request.scope['route'].path}", words)


def write_line(user: str, route: str, words: dict[str, Any]) -> None:
    """Write one line: JSON, so that no name can make a second line."""
    text = json.dumps({"user": user, "route": route, "what": words}, sort_keys=True, default=str)[:_LONGEST]
    log.warning("evenkeel audit %s", text)
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add(Log(event=f"evenkeel {route}"[:60], owner=user, owner_display_name=user, extra=text))
