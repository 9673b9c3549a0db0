"""Credentials from Airflow's connections, which the environment overrides.

Tokens and addresses of clusters; keys of stores, queues and transparency logs. A part that would be ignored is refused.
"""

from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import replace
from typing import Any

from evenkeel.errors import SettingsError
from evenkeel.object_store import S3Connection
from evenkeel.pulsar.admin.connection import Credentials, address_in, from_environment
from evenkeel.secret import Secret
from evenkeel.spark.session import classic_settings
from evenkeel.steering.queue.signing import SigningKeys, keys_from_environment, keys_in

PULSAR_PORT = 8080
_FIELDS = ("host", "port", "schema", "login", "password")


def from_airflow(connection: str) -> Credentials | None:
    """Return the credentials of a connection and its addresses; None if neither Airflow nor the environment knows it.

    The token is its password. Instead the extra may have `auth_plugin` and `auth_params`, or the members of
    `auth_params` alone, as Pulsar's clients read them. Addresses are `urls` in its extra, or its host. Raises
    SettingsError, without a value, for an unusable connection.
    """
    credentials = from_environment(connection)
    if credentials is not None:
        return credentials
    words = cluster_words(connection)
    return None if words is None else Credentials.of_words(words, f"connection {connection}")


def cluster_words(connection: str) -> dict[str, Any] | None:
    """Return the content of a cluster's connection in Airflow as plain texts, as `Credentials.of_words` reads them.

    None if Airflow does not know it. Raises SettingsError, without a value, for a part that would be ignored.
    """
    known = _known(connection)
    if known is None:
        return None
    extra = known.extra_dejson
    members = {name: value for name, value in extra.items() if name != "urls" and value not in (None, "")}
    addresses = {"urls"} if extra.get("urls") else {"host", "port", "schema"} if known.host else set()
    used = {*members} if not known.password else {"password"}
    if str(members.get("auth_plugin", "")).lower().endswith("basic") and not members.get("auth_params"):
        members["auth_params"] = {"userId": known.login, "password": known.password}
        used = {*members, "login", "password"}
    elif known.password:
        members = {"token": known.password}
    advice = (
        "the password is the token; other authentication is `auth_plugin` and `auth_params` in the extra, as in "
        "Pulsar's client.conf (for `basic`: login and password); addresses are the host, or `urls` in the extra"
    )
    _demand_used(connection, known, {*used, *addresses}, advice)
    try:
        return {"members": members, "urls": _urls(known, extra)}
    except SettingsError as error:
        raise SettingsError(f"connection {connection}: {error}") from None


def keys_from_airflow(name: str) -> SigningKeys | None:
    """The keys that sign a cluster's queues: the password of the connection of that name, unless the environment has
    them; None where neither knows it."""
    keys = keys_from_environment(name)
    if keys is not None:
        return keys
    known = _known(name)
    if known is None:
        return None
    keys = keys_in(known.password or "", f"connection {name}")
    _demand_used(name, known, {"password"}, "the keys of a queue are its password")
    return keys


def store_from_airflow(connection: str) -> S3Connection | None:
    """Return the content of an Airflow connection of kind AWS; None if Airflow does not know it.

    Login and password are key id and secret key; its extra may have `aws_session_token`, `region_name`, `endpoint_url`.
    Without a login boto3 finds credentials itself: then the connection is for region and endpoint only.
    """
    known = _known(connection)
    if known is None:
        return None
    names = ("aws_session_token", "region_name", "endpoint_url")
    extra = known.extra_dejson
    _demand_used(connection, known, {"login", "password", *names}, _OF_STORES)
    texts = {name: extra.get(name) for name in names}
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise SettingsError(f"connection {connection}: `{name}` in its extra is not text")
    if bool(known.login) != bool(known.password) or (texts["aws_session_token"] and not known.login):
        parts = "login (access key id) and password (secret key) go together, and a session token goes with them"
        raise SettingsError(f"connection {connection}: {parts}")
    try:
        return S3Connection(
            access_key=known.login or None,
            secret_key=Secret(known.password) if known.password else None,
            session_token=Secret(texts["aws_session_token"]) if texts["aws_session_token"] else None,
            region=texts["region_name"] or None,
            endpoint=texts["endpoint_url"] or None,
        )
    except SettingsError as error:
        raise SettingsError(f"connection {connection}: {error}") from None


def store_words(connection: str) -> dict[str, str | None] | None:
    """Return the content of `store_from_airflow` as plain texts, for a process without Airflow; None if unknown."""
    store = store_from_airflow(connection)
    return None if store is None else store.words()


def log_key_from_airflow(connection: str) -> Secret | None:
    """The private key of the transparency log: the password of a connection. None where Airflow does not know it."""
    known = _known(connection)
    if known is None:
        return None
    if not known.password:
        raise SettingsError(f"connection {connection} has no password: it is to be the log's private key")
    _demand_used(connection, known, {"password"}, "the log's private key is its password")
    return Secret(known.password)


def _known(connection: str) -> Any:
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        known = BaseHook.get_connection(connection)
    except AirflowNotFoundException:
        return None
    extra = known.extra_dejson
    if not isinstance(extra, dict) or (not extra and (known.extra or "{}").strip() != "{}"):
        raise SettingsError(f"connection {connection}: its extra is not a JSON object")
    return known


_OF_STORES = (
    "the keys are login and password, the extra has `aws_session_token`, `region_name` and `endpoint_url`. For a role "
    "or a profile leave the keys empty, and name a profile of ~/.aws/config, which boto3 reads, in AWS_PROFILE"
)


def _demand_used(connection: str, known: Any, used: Set[str], advice: str) -> None:
    """Raise SettingsError if a field of the connection, or a member of its extra, is set and not in `used`."""
    unused = [f"its {name}" for name in _FIELDS if getattr(known, name) and name not in used]
    unused += [
        f"`{name}` in its extra"
        for name, value in known.extra_dejson.items()
        if name not in used and value not in (None, "")
    ]
    if unused:
        raise SettingsError(f"connection {connection}: {', '.join(unused)} would be ignored. Leave it out: {advice}")


def _urls(known: Any, extra: dict[str, Any]) -> tuple[str, ...]:
    urls = extra.get("urls")
    if urls is None:
        return _of_host(known)
    if isinstance(urls, str):
        urls = [part.strip() for part in urls.split(",")]
    if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
        raise SettingsError('`urls` in its extra is not a list of addresses: write ["http://broker-1:8080"]')
    for url in urls:
        address_in(url)
    return tuple(urls)


def _of_host(known: Any) -> tuple[str, ...]:
    """The address of a connection's host, which may be a URL; its schema may be https, its port is 8080 by default."""
    if not known.host:
        return ()
    scheme, _, host = known.host.rpartition("://")
    address = address_in(f"{scheme or known.schema or 'http'}://{host}")
    named = address.port if f":{address.port}" in host else None
    port = known.port or named or (address.port if address.scheme == "https" else PULSAR_PORT)
    return (str(replace(address, port=port)),)


def classic_connection(master: str) -> str:
    """The connection, as JSON for `AIRFLOW_CONN_EVENKEEL_SPARK`, to `local[*]`, `spark://…`, `yarn` or `k8s://…`.

    Its tasks need a full JDK (JAVA_HOME), and in PYSPARK_PYTHON a Python with the packages of `requirements.txt`.
    """
    return json.dumps({"conn_type": "spark", "host": master, "extra": classic_settings(master)})
