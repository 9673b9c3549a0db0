"""Access to a cluster's admin API: addresses, authentication, trusted certificates, and the sources of credentials."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from evenkeel.errors import SettingsError
from evenkeel.pulsar.admin.auth_params import authentication_by, authentication_in
from evenkeel.pulsar.admin.authentication import Authentication, FromFile, trusting
from evenkeel.secret import FILE, text_given, variable_name

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Destination of requests: an origin, and the path that a gateway may have in front of `/admin/v2`."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @property
    def name(self) -> str:
        """The address as host:port, the form of a broker id."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.name}{self.prefix}"


@dataclass(frozen=True, slots=True)
class AdminConnection:
    """Admin addresses of one cluster, tried in this order; the one that answered last comes first.

    `broker_url` gives the address of a broker known by its id host:port, like `https://{host}:8443`. Without it the
    address is the scheme of the first one and the id. `ca_file` holds the certificates to trust instead of the
    system's. Raises `SettingsError` for values that cannot work.
    """

    urls: tuple[str, ...]
    authentication: Authentication = field(default_factory=Authentication)
    ca_file: str | None = None
    check_hostname: bool = True
    broker_url: str | None = None

    def __post_init__(self) -> None:
        if not self.urls:
            raise SettingsError("no admin address: give at least one, like http://broker-1:8080")
        schemes = {address.scheme for address in self.addresses()}
        if len(schemes) > 1:
            raise SettingsError(
                f"admin addresses mix http and https ({', '.join(self.urls)}): a cluster is one or both"
            )
        if self.authentication.needs_tls and schemes != {"https"}:
            raise SettingsError("a client certificate needs https:// addresses: give the brokers' TLS port")
        self.address_of("host:8080")

    def addresses(self) -> tuple[Address, ...]:
        """Return the configured addresses."""
        return tuple(address_in(url) for url in self.urls)

    def address_of(self, broker: str) -> Address:
        """Return the address of a broker by its id; raises `SettingsError` for a name that is not an id."""
        first = self.addresses()[0]
        named = _split(broker if "://" in broker else f"{first.scheme}://{broker}")
        host, port = _host_of(named, broker), _port_of(named, broker)
        if named.path.strip("/") or named.query or named.fragment or named.username is not None:
            raise SettingsError(f"{broker!r} is not a broker id: those are host:port")
        if self.broker_url is None:
            return Address(first.scheme, host, port)
        bracketed = f"[{host}]" if ":" in host else host
        try:
            return address_in(self.broker_url.format(host=bracketed, port=port))
        except (KeyError, IndexError, ValueError):
            raise SettingsError(
                f"broker_url {self.broker_url!r} is not a template: write it like https://{{host}}:8443 "
                "({port} is the port of the broker id)"
            ) from None

    def tls(self) -> ssl.SSLContext:
        """Return the trust of https connections, and their client certificate if there is one.

        Raises `SettingsError` for a file that cannot be used.
        """
        context = trusting(self.ca_file, "ca_file")
        context.check_hostname = self.check_hostname
        self.authentication.present_in(context)
        return context


def address_in(url: str) -> Address:
    """Return the address in a URL; raises SettingsError, without showing them, for credentials, a query or the API's
    path."""
    parts = _split(url)
    if "@" in parts.netloc:
        raise SettingsError("an admin address holds credentials: give `auth_params` or a connection instead")
    if parts.scheme not in _PORTS:
        raise SettingsError(f"admin address {url!r} is not an http:// or https:// address")
    prefix = parts.path.rstrip("/")
    if parts.query or parts.fragment or prefix.endswith(("/admin", "/admin/v2")):
        raise SettingsError(f"admin address {url!r} holds more than an address: leave out /admin/v2 and what follows")
    return Address(parts.scheme, _host_of(parts, url), _port_of(parts, url), prefix)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # brackets that hold no IPv6 address
        raise SettingsError(f"{url!r} is not an address: write host:port, or http://host:port") from None


def _host_of(parts: SplitResult, text: str) -> str:
    host = parts.hostname
    if not host or any(sign.isspace() or sign in "/\\@?#" for sign in host):
        raise SettingsError(f"{text!r} names no host: write host:port, or http://host:port")
    return host


def _port_of(parts: SplitResult, text: str) -> int:
    try:
        port = parts.port
    except ValueError:
        raise SettingsError(f"{text!r} has no usable port: write host:port, or http://host:port") from None
    return _PORTS.get(parts.scheme, 80) if port is None else port


# Sources of credentials. A configuration names a connection, or files: never a secret itself.

VARIABLE = "EVENKEEL_TOKEN_"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Content of a connection: the authentication, and the admin addresses if it names any."""

    authentication: Authentication
    urls: tuple[str, ...] = ()

    @classmethod
    def of_words(cls, words: Mapping[str, Any], place: str) -> Credentials:
        """Return the content from `members`, the JSON of the authentication (empty: none), and `urls`."""
        members = words["members"]
        authentication = authentication_by(members, place) if members else Authentication()
        return cls(authentication, tuple(words["urls"]))


Resolver = Callable[[str], Credentials | None]
"""Function from the name of a connection to its content; None if the name is unknown."""


def variable_of(connection: str) -> str:
    """Return the environment variable that holds the content of a connection: `EVENKEEL_TOKEN_PULSAR_EAST`."""
    return variable_name(VARIABLE, connection)


def from_environment(connection: str, environment: Mapping[str, str] = os.environ) -> Credentials | None:
    """Return the credentials in the connection's variable, or in the file that its `…_FILE` names."""
    return from_variable(variable_of(connection), environment)


def from_variable(name: str, environment: Mapping[str, str] = os.environ) -> Credentials | None:
    """Return the credentials in a variable, or in the file that `<name>_FILE` names: a token, or JSON as in Pulsar.

    The file is read again when it changes. Raises `SettingsError` for both at once, and for what cannot be used.
    """
    given = text_given(name, environment)
    if given is None:
        return None
    text, place = given
    authentication: Authentication
    if place == name:
        authentication = authentication_in(text, place)
    else:
        authentication = FromFile(Path(environment[place]), place, partial(authentication_in, place=place))
    authentication.check()
    return Credentials(authentication)


def resolved(connection: str, resolve: Resolver) -> Credentials:
    """Return the content of the connection; raises `SettingsError` if no source knows it."""
    credentials = resolve(connection)
    if credentials is None:
        name = variable_of(connection)
        raise SettingsError(
            f"connection {connection!r} is unknown: set {name} to the token or to JSON with `auth_plugin` and "
            f"`auth_params`, or {name + FILE} to a file that holds it; in Airflow, a connection of that name with the "
            "token as its password, or with that JSON as its extra, does as well"
        )
    return credentials
