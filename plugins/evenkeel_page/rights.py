"""Rights of the desk's routes, in terms of every Airflow auth manager: methods on DAGs; and the audit of acts.

Airflow's `is_authorized_custom_view()` is never used: the simple auth manager returns True for every logged-in user.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import HTTPException, Request

from evenkeel.airflow.dag_names import APPROVAL_DAG, DECIDING_DAG, REPLAY_DAG, dag_of_rights

ANYONE = "anyone"


@dataclass(frozen=True)
class Right:
    """A user's right on a DAG or (`entity`) a part of it; `words` ends "this needs the right to …"."""

    name: str
    method: Literal["GET", "POST", "PUT", "DELETE"]
    dag_id: str
    words: str
    entity: DagAccessEntity | None = None

    def guard(self) -> Callable[..., Any]:
        """Return a dependency of FastAPI's: 401 without a login, 403 without the right, else nothing."""
        allowed = requires_access_dag(self.method, self.entity, self.dag_id)

        def demand(request: Request, user: GetUserDep) -> None:
            request.state.evenkeel_user = user
            request.state.evenkeel_right = self
            allowed(request, user)

        return demand

    def holder(self, request: Request) -> str:
        """Return the id of the request's user if they have the right, else ""; `ANYONE` in an app without guards."""
        user = getattr(request.state, "evenkeel_user", None)
        if user is None:
            return ANYONE
        try:
            requires_access_dag(self.method, self.entity, self.dag_id)(request, user)
        except HTTPException:
            return ""
        return str(user.get_id())


_DECIDING, _APPROVAL = dag_of_rights(DECIDING_DAG), dag_of_rights(APPROVAL_DAG)
READ = Right("read", "GET", _DECIDING, f"read the DAG {_DECIDING}")
WHAT_IF = Right("what-if", "POST", REPLAY_DAG, f"trigger the DAG {REPLAY_DAG}", DagAccessEntity.RUN)
APPROVE = Right("approve", "PUT", _APPROVAL, f"answer required actions of {_APPROVAL}", DagAccessEntity.HITL_DETAIL)


def demand_own_page(request: Request) -> None:
    """403 for a request that acts and comes from a page of another site: the login's cookie goes with such a request as
    well. A token in the header is sent by no one but the user's own program."""
    if request.headers.get("authorization", "").lower().startswith("bearer "):
        return
    origin = urlsplit(request.headers.get("origin", ""))
    if not origin.netloc or origin.netloc != request.headers.get("host"):
        raise HTTPException(403, "A request that acts must come from a page of this site, or carry a token.")


# The audit line of an act: user, route and content, in Airflow's audit log and in the API server's log. It is written
# before the act. If the line cannot be written, the act does not happen.

audit_log = logging.getLogger("evenkeel_page.audit")
_LONGEST = 4_000


def note_act(request: Request) -> None:
    """A dependency of FastAPI's, after the right of the route: writes the line of this request."""
    user = request.state.evenkeel_user
    words = {"query": dict(request.query_params), "path": dict(request.path_params)}
    write_line(str(user.get_name()), f"{request.method} {request.scope['route'].path}", words)


def write_line(user: str, route: str, words: dict[str, Any]) -> None:
    """Write one line: JSON, so that no name can make a second line."""
    text = json.dumps({"user": user, "route": route, "what": words}, sort_keys=True, default=str)[:_LONGEST]
    audit_log.warning("evenkeel audit %s", text)
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add(Log(event=f"evenkeel {route}"[:60], owner=user, owner_display_name=user, extra=text))
