"""Reading `auth_plugin` and `auth_params`, by the names that Pulsar's own clients read.

They are in the configuration file, which holds no secret itself, or in the JSON of a connection. Messages name
parameters and never show their values.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from evenkeel.errors import SettingsError
from evenkeel.json_text import NotJson, parse_json
from evenkeel.pulsar.admin.authentication import (
    Authentication,
    Authorization,
    ClientCertificate,
    Fixed,
    FromFile,
    token,
)
from evenkeel.pulsar.admin.oauth2 import WELL_KNOWN, ClientCredentials, fault_of_url, oauth2
from evenkeel.secret import Secret

_KINDS = {
    "token": "token",
    "oauth2": "oauth2",
    "oauth2token": "oauth2",
    "tls": "tls",
    "basic": "basic",
}
_INSTEAD = "use `token`, `oauth2`, `tls` or `basic`; a broker takes several kinds at once (authenticationProviders)"
_REFUSED = {
    "athenz": f"Athenz is not supported: {_INSTEAD}",
    "sasl": f"Kerberos (SASL) is not supported: {_INSTEAD}",
    "keystoretls": "Java key stores are not supported: use `tls`, with tlsCertFile and tlsKeyFile as PEM files",
}
_TYPICAL = {
    "token": "token",
    "issuer_url": "oauth2",
    "issuerUrl": "oauth2",
    "tlsCertFile": "tls",
    "userId": "basic",
    "username": "basic",
}
"""Parameter -> the plugin that it belongs to, for JSON without `auth_plugin`."""
_OF_OAUTH2 = {
    "type": "type",
    "issuer_url": "issuer_url",
    "issuerUrl": "issuer_url",
    "private_key": "private_key",
    "privateKey": "private_key",
    "client_id": "client_id",
    "clientId": "client_id",
    "client_secret": "client_secret",
    "clientSecret": "client_secret",
    "audience": "audience",
    "scope": "scope",
    "trustCertsFilePath": "trustCertsFilePath",
    "wellKnownMetadataPath": "wellKnownMetadataPath",
}
_SECRETS = frozenset({"token", "client_secret", "clientSecret", "password"})


def authentication_of(plugin: str, params: str | Mapping[str, Any], place: str) -> Authentication:
    """Return the authentication that `auth_plugin` and `auth_params` say; no file is read.

    `plugin`: `token`, `oauth2`, `tls` or `basic`, or Pulsar's class of it. `params`: the text of a client.conf, or the
    members of its JSON. `place` names their origin, for messages. Raises `SettingsError` for anything else.
    """
    kind = _kind(plugin, place)
    if kind == "token":
        return _token(params, place)
    members = _members(params, place)
    if kind == "oauth2":
        return _oauth2(members, place)
    if kind == "tls":
        names = ("tlsCertFile", "tlsKeyFile")
        texts = _taken(members, place, **{name: name for name in names})
        certificate, key = (_absolute(_demanded(texts, name, place), name, place) for name in names)
        return ClientCertificate(certificate, key, place)
    texts = _taken(members, place, userId="userId", username="userId", password="password")
    return _basic(_demanded(texts, "userId", place), _demanded(texts, "password", place), place)


def authentication_in(text: str, place: str) -> Authentication:
    """Return the authentication in the text of a connection: a token, or JSON (`authentication_by`)."""
    if not text.lstrip().startswith("{"):
        return _token(text, place)
    return authentication_by(_members(text, place), place)


def authentication_by(members: Mapping[str, Any], place: str) -> Authentication:
    """Return the authentication that JSON of a connection says.

    It has `auth_plugin` and `auth_params`, or the members of `auth_params` alone.
    """
    if "auth_plugin" in members:
        plugin, params = members["auth_plugin"], members.get("auth_params", "")
        _refuse_unknown(members.keys() - {"auth_plugin", "auth_params"}, place)
        if not isinstance(plugin, str) or not isinstance(params, str | dict):
            raise SettingsError(f"{place}: `auth_plugin` is not text, or `auth_params` neither text nor an object")
        return authentication_of(plugin, params, place)
    plugins = {plugin for name, plugin in _TYPICAL.items() if name in members}
    if len(plugins) != 1:
        _refuse_unknown(members.keys() - _TYPICAL.keys(), place)
        raise SettingsError(f"{place}: it has no authentication: give `auth_plugin` and `auth_params`")
    return authentication_of(plugins.pop(), members, place)


def secret_in(plugin: str, params: str | Mapping[str, Any], place: str) -> str | None:
    """Return the parameter that holds a secret itself, instead of naming its file; None if there is none."""
    if _kind(plugin, place) == "token" and isinstance(params, str):
        return None if params.startswith(("file:", "env:")) else "the token"
    members = _members(params, place)
    return next((name for name, value in members.items() if name in _SECRETS or str(value).startswith("data:")), None)


def _kind(plugin: str, place: str) -> str:
    """Return the kind of a plugin, by its short name or its class in Java or Python."""
    name = plugin.strip().rpartition(".")[2].lower().removeprefix("authentication")
    if name in _REFUSED:
        raise SettingsError(f"{place}: {_REFUSED[name]}")
    if name not in _KINDS:
        raise SettingsError(f"{place}: `auth_plugin` is unknown: {_INSTEAD}")
    return _KINDS[name]


def _token(params: str | Mapping[str, Any], place: str) -> Authentication:
    text = params if isinstance(params, str) else _demanded(_taken(params, place, token="token"), "token", place)
    scheme, _, rest = text.strip().partition(":")
    if scheme == "file":
        return FromFile(_path_of(text.strip(), "auth_params", place), place, lambda text: token(_secret(text, place)))
    if scheme == "env":
        text = os.environ.get(rest, "")
    elif scheme in ("token", "data"):
        text = rest
    return token(_secret(text, place))


def _oauth2(members: Mapping[str, Any], place: str) -> Authentication:
    texts = _taken(members, place, **_OF_OAUTH2)
    if texts.get("type", "client_credentials") != "client_credentials":
        raise SettingsError(f"{place}: `type` is not client_credentials, the only flow that works without a person")
    if ("private_key" in texts) == ("client_secret" in texts):
        raise SettingsError(f"{place}: give `private_key`, or `client_id` with `client_secret`, in `auth_params`")
    issuer_url = _demanded(texts, "issuer_url", place).rstrip("/")
    if (fault := fault_of_url(issuer_url)) is not None:
        raise SettingsError(f"{place}: `issuer_url` {fault}")
    text = texts.get("private_key", "data:")
    if "client_secret" in texts:
        key = {"client_id": _demanded(texts, "client_id", place), "client_secret": texts["client_secret"]}
        text += f";base64,{_base64(json.dumps(key))}"
    trust = texts.get("trustCertsFilePath")
    return oauth2(
        ClientCredentials(
            issuer_url=issuer_url,
            private_key=_secret(text, place) if text.startswith("data:") else _path_of(text, "private_key", place),
            audience=texts.get("audience"),
            scope=texts.get("scope"),
            trust=None if trust is None else str(_absolute(trust, "trustCertsFilePath", place)),
            well_known=texts.get("wellKnownMetadataPath", WELL_KNOWN),
            place=place,
        )
    )


def _basic(user: str, password: str, place: str) -> Authentication:
    if ":" in user:
        raise SettingsError(f"{place}: a user name of Basic authentication has no colon")
    encoded = Secret(_base64(f"{user}:{password}"))
    try:
        return Fixed(Authorization("Basic", encoded, Secret(password)))
    except SettingsError:  # it has blanks, or is no ASCII: no server echoes it but as it was sent
        return Fixed(Authorization("Basic", encoded))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _secret(text: str, place: str) -> Secret:
    try:
        return Secret(text)
    except SettingsError as error:
        raise SettingsError(f"{place}: {error}") from None


def _members(params: str | Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Return the parameters of JSON, or of `name:value,name:value`."""
    if not isinstance(params, str):
        return params
    if params.lstrip().startswith("{"):
        try:
            members = parse_json(params)
        except NotJson:
            raise SettingsError(f"{place}: the text begins like JSON and is not JSON") from None
        assert isinstance(members, dict)
        return members
    return {part.partition(":")[0].strip(): part.partition(":")[2].strip() for part in params.split(",") if part}


def _taken(members: Mapping[str, Any], place: str, **names: str) -> dict[str, str]:
    """Return name -> text of the members that are not empty; `names`: spelling -> name.

    Raises `SettingsError` for other members, those that are not text, and two spellings of one name.
    """
    given = {name: value for name, value in members.items() if value not in (None, "")}
    _refuse_unknown(given.keys() - names.keys(), place)
    texts: dict[str, str] = {}
    for spelling, value in given.items():
        if not isinstance(value, str):
            raise SettingsError(f"{place}: `{spelling}` is not text")
        if names[spelling] in texts:
            raise SettingsError(f"{place}: `{spelling}` is given twice, in two spellings: leave one out")
        texts[names[spelling]] = value
    return texts


def _demanded(texts: Mapping[str, str], name: str, place: str) -> str:
    """Return the text of that name; raises `SettingsError` if it is missing."""
    if name not in texts:
        raise SettingsError(f"{place}: `{name}` is missing in `auth_params`")
    return texts[name]


def _path_of(text: str, name: str, place: str) -> Path:
    """Return the path that a text or a `file:` URL names."""
    if not text.startswith("file:"):
        return _absolute(text, name, place)
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        raise SettingsError(f"{place}: `{name}` names a file of another machine: write file:///PATH")
    return _absolute(unquote(parts.path), name, place)


def _absolute(text: str, name: str, place: str) -> Path:
    """Return the path; raises `SettingsError` for a relative one."""
    if not text.startswith("/") or "\0" in text:
        raise SettingsError(f"{place}: `{name}` is not an absolute path: write it from the root")
    return Path(text)


def _refuse_unknown(names: Iterable[str], place: str) -> None:
    words = ", ".join(f"`{name}`" for name in sorted(names))
    if words:
        raise SettingsError(f"{place}: {words} would be ignored. Leave it out, or correct its spelling")
