"""Credentials and addresses out of Airflow's connections."""

import base64
import json
import os
from typing import Any

import pytest

from evenkeel.airflow.credentials import (
    from_airflow,
    keys_from_airflow,
    log_key_from_airflow,
    store_from_airflow,
)
from evenkeel.errors import SettingsError
from evenkeel.pulsar.admin.connection import Credentials
from evenkeel.pulsar.admin.oauth2 import OAuth2
from tests.transparency.logs import LOG_KEY

pytestmark = pytest.mark.airflow
TOKEN = "t0k3n-of-the-test"


@pytest.fixture(scope="module", autouse=True)
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Airflow is imported here at the latest; where another test did so before, its home stays."""
    os.environ.setdefault("AIRFLOW_HOME", str(tmp_path_factory.mktemp("airflow")))
    os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Any:
    def define(**members: Any) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_EAST", json.dumps({"conn_type": "http", **members}))

    return define


@pytest.mark.parametrize(
    ("members", "urls"),
    [
        ({"password": TOKEN}, ()),
        ({"extra": {"token": TOKEN}}, ()),
        (
            {"password": TOKEN, "extra": {"urls": ["http://b1:8080", "http://b2:8080"]}},
            ("http://b1:8080", "http://b2:8080"),
        ),
        (
            {"password": TOKEN, "extra": {"urls": "http://b1:8080, http://b2:8080"}},
            ("http://b1:8080", "http://b2:8080"),
        ),
        ({"password": TOKEN, "host": "b1"}, ("http://b1:8080",)),
        ({"password": TOKEN, "host": "b1", "port": 8081}, ("http://b1:8081",)),
        ({"password": TOKEN, "host": "b1", "port": 8443, "schema": "https"}, ("https://b1:8443",)),
        ({"password": TOKEN, "host": "https://b1"}, ("https://b1:443",)),
        ({"password": TOKEN, "host": "http://b1:8090/pulsar"}, ("http://b1:8090/pulsar",)),
    ],
)
def test_the_token_and_the_addresses(connection: Any, members: dict[str, Any], urls: tuple[str, ...]) -> None:
    connection(**members)
    found = from_airflow("east")
    assert found is not None
    assert header(found) == f"Bearer {TOKEN}"
    assert found.urls == urls


def header(found: Credentials | None) -> str | None:
    assert found is not None
    authorization = found.authentication.authorization(0)
    return None if authorization is None else authorization.header()


@pytest.mark.parametrize(
    "members",
    [
        {"extra": {"auth_plugin": "token", "auth_params": f"token:{TOKEN}"}},
        {"extra": {"auth_plugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken", "auth_params": TOKEN}},
        {"host": "b1", "extra": {"auth_plugin": "basic", "auth_params": {"userId": "ann", "password": TOKEN}}},
        {"host": "b1", "login": "ann", "password": TOKEN, "extra": {"auth_plugin": "basic"}},
    ],
)
def test_the_extra_has_what_pulsars_clients_read(connection: Any, members: dict[str, Any]) -> None:
    connection(**members)
    basic = base64.b64encode(f"ann:{TOKEN}".encode()).decode()
    assert header(from_airflow("east")) == (f"Basic {basic}" if "basic" in str(members) else f"Bearer {TOKEN}")


def test_the_extra_has_the_json_of_oauth2_and_of_tls(connection: Any) -> None:
    issuer = {"issuer_url": "https://login.example", "client_id": "me", "client_secret": TOKEN}
    for extra in (issuer, {"auth_plugin": "oauth2", "auth_params": json.dumps(issuer)}):
        connection(host="b1", extra={**extra, "scope": ""} if extra is issuer else extra)
        found = from_airflow("east")
        assert found is not None
        assert isinstance(found.authentication, OAuth2)
        assert found.urls == ("http://b1:8080",)
        assert TOKEN not in repr(found) + repr(vars(found.authentication))
    connection(extra={"urls": ["https://b1:8443"], "tlsCertFile": "/x.pem", "tlsKeyFile": "/x.key"})
    found = from_airflow("east")
    assert found is not None
    assert found.authentication.needs_tls


def test_the_environment_wins_and_a_connection_may_have_no_token(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection(host="b1")
    assert header(from_airflow("east")) is None
    monkeypatch.setenv("EVENKEEL_TOKEN_EAST", TOKEN)
    assert header(from_airflow("east")) == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "members",
    [
        {"password": f"two words {TOKEN}"},
        {"password": TOKEN, "extra": {"urls": [1]}},
        {"password": TOKEN, "extra": {"urls": ["b1:8080"]}},
        {"extra": {"token": [TOKEN]}},
        {"password": TOKEN, "login": TOKEN},
        {"password": TOKEN, "extra": {"token": f"other-{TOKEN}"}},
        {"password": TOKEN, "host": "b1", "extra": {"urls": ["http://b2:8080"]}},
        {"password": TOKEN, "port": 8081},
        {"password": TOKEN, "schema": "https"},
        {"extra": {"issuer_url": "https://login.example", "client_secret": TOKEN}},
        {"login": "ann", "extra": {"auth_plugin": "basic"}},
        {"login": "ann", "password": TOKEN, "extra": {"auth_plugin": "basic", "auth_params": {"userId": "bob"}}},
        {"login": "ann", "extra": {"auth_plugin": "token", "auth_params": TOKEN}},
        {"extra": {"auth_plugin": "athenz", "auth_params": TOKEN}},
        {"password": TOKEN, "extra": {"auth_plugin": "org.apache.pulsar.client.impl.auth.oauth2"}},
        {"password": TOKEN, "extra": {"verify": False}},
        {"password": TOKEN, "extra": [TOKEN]},
    ],
)
def test_what_cannot_be_used_is_refused_unshown(connection: Any, members: dict[str, Any]) -> None:
    connection(**members)
    with pytest.raises(SettingsError, match="connection east: ") as refused:
        from_airflow("east")
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("look", [from_airflow, keys_from_airflow, log_key_from_airflow, store_from_airflow])
@pytest.mark.parametrize(
    "extra", ["client_id", "issuer_url", "role_arn", "external_id", "profile_name", "config_kwargs", "a_word_of_1999"]
)
def test_no_extra_is_ignored_whatever_the_connection_is_for(connection: Any, look: Any, extra: str) -> None:
    both = {"login": "key-id"} if look is store_from_airflow else {}
    secret = "p" * 32 if look is not log_key_from_airflow else LOG_KEY.secret().reveal()
    connection(password=secret, extra={extra: ""}, **both)
    assert look("east") is not None, "a form of Airflow's leaves empty members"
    connection(password=secret, extra={extra: {"a": 1}}, **both)
    with pytest.raises(SettingsError, match=f"connection east: `{extra}` in its extra would be ignored. Leave it out"):
        look("east")


def test_what_to_do_instead_is_named(connection: Any) -> None:
    connection(password=TOKEN, extra={"issuer_url": "https://login.example"})
    with pytest.raises(
        SettingsError, match=r"`auth_plugin` and `auth_params` in the extra, as in Pulsar's client.conf"
    ):
        from_airflow("east")
    connection(extra={"role_arn": "arn:aws:iam::1:role/lake", "external_id": "e"})
    with pytest.raises(SettingsError, match=r"`role_arn` in its extra, `external_id` in its extra .*AWS_PROFILE"):
        store_from_airflow("east")
    connection(host="http://store:9000", login="key-id", password="secret")
    with pytest.raises(SettingsError, match=r"its host would be ignored.*`endpoint_url`"):
        store_from_airflow("east")


def test_a_connection_that_nobody_knows_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_EAST", raising=False)
    assert from_airflow("nowhere_at_all") is None


def test_the_keys_of_a_queue_are_the_connections_password(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    connection(password=f"{'n' * 32},{'o' * 32}")
    found = keys_from_airflow("east")
    assert found is not None
    assert [key.reveal() for key in found] == ["n" * 32, "o" * 32]
    monkeypatch.setenv("EVENKEEL_KEYS_EAST", "e" * 32)
    found = keys_from_airflow("east")
    assert found is not None
    assert [key.reveal() for key in found] == ["e" * 32]
    assert keys_from_airflow("nowhere_at_all") is None


def test_a_connection_without_a_key_is_refused(connection: Any) -> None:
    connection(host="b1")
    with pytest.raises(SettingsError, match="connection east holds no key"):
        keys_from_airflow("east")
