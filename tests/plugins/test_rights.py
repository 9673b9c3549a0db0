"""Who may call what: every route of the desk, files of the look included, in a real Airflow app with its auth managers.

The app refuses to be made with a route that declares no right, and answers nothing where one joins it later.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.plugins.conftest import PLUGINS
from tests.plugins.here_reader import HereReader

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

CHECKOUT = PLUGINS.parent
FAB = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
PAGES = (
    *("/", "/cycles", "/cycle", "/cycle-commands", "/run", "/heat", "/heat/picture", "/heat/why"),
    *("/bundle", "/broker", "/what-if", "/what-if/run", "/what-if/new", "/what-if/started"),
    *("/settings", "/proof", "/proof-file", "/static/{name}"),
)


def has_fab() -> bool:
    """Whether the package with the FAB auth manager is installed."""
    try:
        return importlib.util.find_spec("airflow.providers.fab") is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(scope="module", params=["simple", pytest.param("fab", marks=pytest.mark.exhaustive)])
def answers(request: pytest.FixtureRequest, lake: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `every_route` printed under one of the auth managers."""
    if request.param == "fab" and not has_fab():
        pytest.skip("apache-airflow-providers-fab is not installed (extra dev): make setup-dev")
    home = tmp_path_factory.mktemp(f"airflow-{request.param}")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PLUGINS),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "none"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "viewer:viewer,operator:op",
        "EVENKEEL_LAKE": str(lake),
        "PYTHONPATH": f"{CHECKOUT / 'spark'}{os.pathsep}{CHECKOUT}",
    }
    if request.param == "fab":
        environment["AIRFLOW__CORE__AUTH_MANAGER"] = FAB
    for words in (["airflow", "db", "migrate"], ["tests.plugins.every_route", request.param]):
        done = subprocess.run(
            [sys.executable, "-m", *words], env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2_000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def statuses(answers: dict[str, Any], who: str) -> dict[str, int]:
    return {name: status for name, _, asked, status, _ in answers["answers"] if asked == who}


def test_every_route_of_the_desk_is_called(answers: dict[str, Any]) -> None:
    assert tuple(answers["routes"]) == PAGES
    for who in ("nobody", "stranger", "viewer", "operator"):
        assert {f"/evenkeel{path}" for path in PAGES} <= statuses(answers, who).keys()


def test_without_a_login_nothing_is_answered(answers: dict[str, Any]) -> None:
    assert set(statuses(answers, "nobody").values()) == {401}
    assert set(statuses(answers, "forged").values()) == {403}


def test_who_has_not_logged_in_is_shown_where_to(answers: dict[str, Any]) -> None:
    (address,) = answers["login"]
    assert "/auth/" in address
    assert "evenkeel" in address, "and is sent back"


def test_whoever_may_not_read_the_deciding_dag_sees_nothing_not_even_a_style(answers: dict[str, Any]) -> None:
    assert set(statuses(answers, "stranger").values()) == {403}


def test_a_viewer_reads_everything_and_acts_nowhere(answers: dict[str, Any]) -> None:
    found = statuses(answers, "viewer")
    missing = ("/run", "/proof-file", "/what-if/run", "/what-if/started")
    assert {path: found[f"/evenkeel{path}"] for path in PAGES} == {
        path: 404 if path in missing else 403 if path == "/what-if/new" else 200 for path in PAGES
    }
    assert {status for name, status in found.items() if name.startswith("/acts")} == {403}


def test_a_viewer_is_offered_no_form_that_refuses(answers: dict[str, Any]) -> None:
    assert answers["offers"] == {"viewer": False, "operator": True}


def test_an_operator_acts_from_a_page_of_this_site_or_with_a_token_and_each_act_has_an_audit_line(
    answers: dict[str, Any],
) -> None:
    found = statuses(answers, "operator")
    assert found["/evenkeel/what-if/new"] == 200
    for path in ("/acts/what-if", "/acts/approve"):
        assert (found[path], found[f"{path} bearer"], found[f"{path} else"]) == (200, 200, 403)
    lines = [(owner, event) for owner, event, _ in answers["audit"]]
    assert lines == [("operator", "evenkeel POST /what-if")] * 2 + [("operator", "evenkeel POST /approve")] * 2
    assert json.loads(answers["audit"][0][2]) == {
        "user": "operator", "route": "POST /what-if", "what": {"path": {}, "query": {}},
    }  # fmt: skip


def test_every_page_has_a_policy_also_one_that_refuses(answers: dict[str, Any]) -> None:
    pages = [
        policy for name, _, _, _, policy in answers["answers"] if not name.startswith("/acts") and "static" not in name
    ]
    assert pages
    assert all(policy.startswith("default-src 'none'") and "unsafe" not in policy for policy in pages)


def test_the_reader_begins_and_ends_with_the_app(answers: dict[str, Any]) -> None:
    pid, is_gone = answers["reader"]
    assert isinstance(pid, int)
    assert is_gone


def test_an_app_with_a_route_without_a_right_is_not_made() -> None:
    from evenkeel_page.app import UndeclaredRoute, make_app
    from evenkeel_page.routes import Route, show_clusters

    with pytest.raises(UndeclaredRoute, match="/secret declares no right"):
        make_app((Route("/secret", None, show_clusters),), reader=HereReader())


def test_a_route_that_joins_later_is_not_answered_and_neither_is_any_other(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_page.app import make_app
    from fastapi.staticfiles import StaticFiles
    from fastapi.testclient import TestClient

    monkeypatch.setenv("EVENKEEL_LAKE", str(lake))
    for join in (
        lambda app: app.get("/later")(lambda: "open"),
        lambda app: app.mount("/later", StaticFiles(directory=PLUGINS)),
        lambda app: app.add_route("/later", lambda request: None),
    ):
        app = make_app(guarded=False, reader=HereReader())
        assert TestClient(app).get("/static/desk.css").status_code == 200
        join(app)
        client = TestClient(app)
        assert {client.get(path).status_code for path in ("/later", "/later/evenkeel_plugin.py", "/")} == {403}


READS, EDITS = ("can_read", "DAGs"), ("can_edit", "DAGs")


@pytest.mark.skipif(not has_fab(), reason="apache-airflow-providers-fab is not installed (extra dev): make setup-dev")
@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("READ", {READS}),
        ("READ", {("can_read", "DAG:rebalance")}),
        ("WHAT_IF", {EDITS, ("can_create", "DAG Runs")}),
        ("WHAT_IF", {("can_edit", "DAG:replay"), ("can_create", "DAG Run:replay")}),
        ("APPROVE", {EDITS, ("can_edit", "HITL Detail")}),
        ("APPROVE", {("can_edit", "DAG:rebalance_approval"), ("can_edit", "HITL Detail")}),
    ],
)
def test_each_right_is_these_permissions_of_fab_and_no_fewer(
    name: str, needed: set[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAB's own answer to each right. Permissions of a user are given here, and not read from its tables."""
    from airflow.api_fastapi.core_api import security
    from airflow.models.dag import DagModel
    from airflow.providers.fab.auth_manager.fab_auth_manager import FabAuthManager
    from evenkeel_page import rights
    from fastapi import HTTPException, Request

    guard = getattr(rights, name).guard()
    monkeypatch.setattr(security, "get_auth_manager", lambda: object.__new__(FabAuthManager))
    monkeypatch.setattr(DagModel, "get_team_name", lambda dag_id: None)

    def status(permissions: set[tuple[str, str]]) -> int:
        try:
            guard(Request({"type": "http"}), SimpleNamespace(perms=permissions))
        except HTTPException as error:
            return error.status_code
        return 200

    assert status(needed) == 200
    assert {status(needed - {one}) for one in needed} == {403}
    assert status({("can_read", "DAG:another"), ("can_edit", "DAG:another"), ("can_read", "Website")}) == 403


def test_an_error_of_the_auth_manager_opens_nothing(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.api_fastapi import app as airflow_app
    from airflow.api_fastapi.core_api import security
    from airflow.models.dag import DagModel
    from evenkeel_page.app import make_app
    from fastapi.testclient import TestClient

    class Broken:
        async def get_user_from_token(self, token: str) -> object:
            return object()

        def is_authorized_dag(self, **_: object) -> bool:
            raise RuntimeError("no database")

    monkeypatch.setenv("EVENKEEL_LAKE", str(lake))
    monkeypatch.setattr(security, "get_auth_manager", Broken)
    monkeypatch.setattr(airflow_app, "get_auth_manager", Broken)
    monkeypatch.setattr(DagModel, "get_team_name", lambda dag_id: None)
    client = TestClient(make_app(reader=HereReader()), raise_server_exceptions=False)
    answer = client.get("/", headers={"Cookie": "_token=x"})
    assert answer.status_code == 500
    assert "no database" not in answer.text
    assert "Clusters, the most urgent first" not in answer.text
