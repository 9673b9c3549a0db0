"""Calls every route of the desk in a real Airflow app, as nobody, a stranger, a viewer and an operator; prints what
came back. A stranger has logged in and has no role that may do anything.

Run as a process of its own, since an Airflow has one auth manager for as long as it lives:
`python -m tests.plugins.every_route simple|fab`, with AIRFLOW_HOME, the plugins folder and EVENKEEL_LAKE set, and the
database made. The last line is JSON: {"routes": [path, …], "answers": [[path, method, who, status, headers], …],
"audit": [[owner, event, extra], …], "reader": [pid before, whether it is gone at the end], "login": address in the
page that asks for a login}.
"""

import importlib
import json
import os
import re
import sys
import time
from typing import Any

from fastapi import Request
from fastapi.responses import PlainTextResponse, Response

BUSY_TRIES = 11
ADDRESSES = {
    "/": "/",
    "/cycles": "/cycles",
    "/cycle": "/cycle?cluster=lab&at=latest",
    "/cycle-commands": "/cycle-commands?cluster=lab&at=latest",
    "/run": "/run?dag_id=rebalance&run_id=none",
    "/heat": "/heat?cluster=lab",
    "/heat/picture": "/heat/picture?cluster=lab",
    "/heat/why": "/heat/why?cluster=lab&namespace=acme/ns1&lower=0&upper=4294967295&from=1795249400&to=1795249500",
    "/bundle": "/bundle?cluster=lab&name=acme/ns1/0x70000000_0x80000000",
    "/broker": "/broker?cluster=lab&name=127.0.0.1:19080",
    "/what-if": "/what-if",
    "/what-if/run": "/what-if/run?id=none",
    "/what-if/new": "/what-if/new",
    "/what-if/started": "/what-if/started?run_id=none",
    "/settings": "/settings",
    "/proof": "/proof",
    "/proof-file": "/proof-file?cluster=lab&at=latest",
    "/static/{name}": "/static/desk.css",
}
"""Of each route an address that answers 200, or 404 where there is no such run or replay, or no log."""


def acting_routes() -> tuple[Any, ...]:
    """Routes that act, as later pages will have: one of each right that the desk's own routes do not need yet."""
    from evenkeel_page.rights import APPROVE, WHAT_IF
    from evenkeel_page.routes import Route

    def act(request: Request) -> Response:
        return PlainTextResponse("done")

    return Route("/what-if", WHAT_IF, act, ("POST",)), Route("/approve", APPROVE, act, ("POST",))


def main(manager: str) -> None:
    """Prints the answers."""
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from fastapi.testclient import TestClient
    from starlette.routing import Mount

    app = create_app(apps="core")
    own: Any = next(route.app for route in app.router.routes if isinstance(route, Mount) and route.path == "/evenkeel")
    from evenkeel_page.app import make_app

    acts: Any = make_app(acting_routes(), reader=own.state.reader)
    app.router.routes.insert(0, Mount("/acts", acts))
    tokens = {"nobody": None, **(_simple_tokens() if manager == "simple" else _fab_tokens(get_auth_manager()))}
    answers = []
    with TestClient(app, base_url="http://testserver", raise_server_exceptions=False) as client:
        began = own.state.reader.pid
        for who, token in tokens.items():
            cookies = {} if token is None else {"_token": token}
            for route in own.router.routes:
                path = f"/evenkeel{ADDRESSES[route.path]}"
                for method in sorted(route.methods):
                    answers.append(_call(client, method, path, who, cookies, {}, f"/evenkeel{route.path}"))
            for route in acts.router.routes:
                path = f"/acts{route.path}"
                origin = {"Origin": "http://testserver"}
                answers.append(_call(client, "POST", path, who, cookies, origin, path))
                answers.append(
                    _call(client, "POST", path, who, cookies, {"Origin": "http://else.where"}, f"{path} else")
                )
                bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
                answers.append(_call(client, "POST", path, who, {}, bearer, f"{path} bearer"))
        offers = {}
        for who in ("viewer", "operator"):
            client.cookies.clear()
            text = client.get("/evenkeel/what-if", headers={"Cookie": f"_token={tokens[who]}"}).text
            offers[who] = "what-if/new" in text
        client.cookies.clear()
        login = re.findall(r'href="([^"]+)">Log in', client.get("/evenkeel/cycles").text)
        answers.append(_call(client, "GET", "/evenkeel/", "forged", {"_token": "a.b.c"}, {}, "/evenkeel/"))
    found = {
        "routes": [route.path for route in own.router.routes],
        "answers": answers,
        "audit": _audit(),
        "login": login,
        "offers": offers,
        "reader": [began, own.state.reader.pid is None and not os.path.exists(f"/proc/{began}")],
    }
    print(json.dumps(found))


def _call(
    client: Any, method: str, path: str, who: str, cookies: dict[str, str], headers: dict[str, str], name: str
) -> list[Any]:
    client.cookies.clear()
    sent = {**headers, **({"Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())} if cookies else {})}
    for _ in range(BUSY_TRIES):
        answer = client.request(method, path, headers=sent, follow_redirects=False)
        if method != "GET" or answer.status_code != 503 or "Retry-After" not in answer.headers:
            break
        time.sleep(float(answer.headers["Retry-After"]))  # a busy machine: the desk says when to come again
    return [name, method, who, answer.status_code, answer.headers.get("content-security-policy", "")]


def _simple_tokens() -> dict[str, str]:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    roles = {"stranger": None, "viewer": "viewer", "operator": "op"}
    make = get_auth_manager().generate_jwt
    return {who: make(SimpleAuthManagerUser(username=who, role=role)) for who, role in roles.items()}


def _fab_tokens(manager: Any) -> dict[str, str]:
    create_flask_app = importlib.import_module("airflow.providers.fab.www.app").create_app
    found = {}
    with create_flask_app(enable_plugins=False).app_context():
        security = manager.security_manager
        for who, role in (("stranger", "Public"), ("viewer", "Viewer"), ("operator", "Op")):
            user = security.find_user(username=who) or security.add_user(
                who, who, who, f"{who}@example.org", security.find_role(role), password="none-needed"
            )
            found[who] = manager.generate_jwt(user)
    return found


def _audit() -> list[list[str]]:
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        lines = session.scalars(select(Log).where(Log.event.like("evenkeel %")).order_by(Log.id))
        return [[line.owner, line.event, line.extra] for line in lines]


if __name__ == "__main__":
    main(sys.argv[1])
