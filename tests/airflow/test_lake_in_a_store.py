"""Tasks over a lake in an object store: the connection becomes keys of task and Spark server."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenkeel import object_store
from evenkeel.airflow import steps
from evenkeel.object_store import FOLDER, access

pytestmark = pytest.mark.airflow
LAKE = "s3a://lakes/east"


@pytest.fixture(autouse=True)
def wired(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    extra = {"region_name": "eu-west-1", "endpoint_url": "https://store:9000"}
    connection = {"conn_type": "aws", "login": "key-id", "password": "se/cr+et", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_LAKE", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("EVENKEEL_HOME", str(tmp_path))
    monkeypatch.setenv("EVENKEEL_LAKE", LAKE)
    monkeypatch.setenv("EVENKEEL_LAKE_CONNECTION", "aws_lake")
    monkeypatch.setattr(object_store, "_resolve", None)


def told() -> tuple[Any, list[tuple[str, str]]]:
    said: list[tuple[str, str]] = []
    return SimpleNamespace(
        dag_id="rebalance", task_id="shed", xcom_push=lambda key, value: said.append((key, value))
    ), said


def test_a_task_takes_the_connection_and_hands_it_to_the_server_of_its_home(tmp_path: Path) -> None:
    ti, _ = told()
    with steps._explained_errors(ti):
        found = access()
    assert (found.access_key, found.region, found.endpoint) == ("key-id", "eu-west-1", "https://store:9000")
    assert "secret.key=se/cr+et" in (tmp_path / ".evenkeel" / FOLDER / "lakes.properties").read_text()


def test_an_unknown_connection_fails_the_task_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    monkeypatch.setenv("EVENKEEL_LAKE_CONNECTION", "aws_nobodys")
    ti, said = told()
    with (
        pytest.raises(AirflowFailException, match="EVENKEEL_LAKE_CONNECTION names a connection that is unknown"),
        steps._explained_errors(ti),
    ):
        pass
    assert [key for key, _ in said] == ["reason"]


def test_what_the_store_does_is_one_line_and_may_be_tried_again() -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    ti, said = told()
    with (
        pytest.raises(AirflowException, match="the lake s3a://lakes/east: the session token has expired") as failed,
        steps._explained_errors(ti),
    ):
        raise RuntimeError("java.nio.file.AccessDeniedException: ExpiredToken: The provided token has expired.")
    assert not isinstance(failed.value, AirflowFailException)
    assert said == [("reason", str(failed.value))]
