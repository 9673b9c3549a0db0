"""What an AWS connection of Airflow's brings to the landing zone."""

import json
from pathlib import Path
from typing import Any

import pytest

from evenkeel.airflow.credentials import store_from_airflow
from evenkeel.errors import SettingsError
from evenkeel.object_store import S3Connection
from evenkeel.secret import Secret

pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(**members: Any) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_AWS_FAR", json.dumps({"conn_type": "aws", **members}))

    return make


def test_login_password_and_extra_become_keys_region_and_endpoint(known: Any) -> None:
    extra = {"aws_session_token": "tok/en+==", "region_name": "eu-west-1", "endpoint_url": "http://store:9000"}
    known(login="key-id", password="se/cr+et", extra=extra)
    found = store_from_airflow("aws_far")
    assert found == S3Connection("key-id", Secret("se/cr+et"), Secret("tok/en+=="), "eu-west-1", "http://store:9000")
    assert "cr+et" not in repr(found)
    assert "tok/en" not in repr(found)


def test_without_a_login_boto3_looks_for_itself(known: Any) -> None:
    known(extra={"region_name": "eu-west-1"})
    assert store_from_airflow("aws_far") == S3Connection(region="eu-west-1")


def test_a_connection_that_airflow_does_not_know() -> None:
    assert store_from_airflow("aws_nobodys") is None


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"login": "key-id"}, r"login \(access key id\) and password \(secret key\) go together"),
        ({"password": "secret"}, "go together"),
        ({"extra": {"aws_session_token": "secret"}}, "go together"),
        ({"login": "key-id", "password": "a b"}, "holds blanks"),
        ({"extra": {"region_name": 1}}, "`region_name` in its extra is not text"),
    ],
)
def test_what_cannot_be_used_is_named_and_not_shown(known: Any, members: dict[str, Any], expected: str) -> None:
    known(**members)
    with pytest.raises(SettingsError, match=f"connection aws_far: .*{expected}") as caught:
        store_from_airflow("aws_far")
    assert "a b" not in str(caught.value)
