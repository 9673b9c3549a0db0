"""Which addresses belong to the cluster, so that a token and a command go to no other."""

from __future__ import annotations

import json
from threading import Lock
from urllib.parse import urljoin, urlsplit

from evenkeel.errors import SettingsError
from evenkeel.pulsar.admin.connection import Address, AdminConnection, address_in
from evenkeel.pulsar.admin.http_exchange import Hop
from evenkeel.pulsar.answers import Kind, subject_of


class KnownBrokers:
    """The configured addresses and the brokers that the cluster has listed or that a caller named; thread-safe.

    A redirect is followed to a host among them, or wherever a *broker* among them sends us on the same scheme (the
    owner may be a broker that is listed no more, or not yet). It is not followed from https to http, and a configured
    address that is no broker (a proxy, a login page) cannot send us to a host that the cluster does not list.
    """

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection
        self._hosts = {address.host.lower() for address in connection.addresses()}
        self._ids: dict[tuple[str, str, int], str] = {}
        self._lock = Lock()

    def address_of(self, broker: str) -> Address:
        """The address of the broker, which is known from now on; `SettingsError` where the name is no broker id."""
        address = self._connection.address_of(broker)
        with self._lock:
            self._ids[_origin(address)] = broker
            self._hosts.add(address.host.lower())
        return address

    def name_of(self, address: Address) -> str:
        """The broker id of an address, where one is known, else host:port."""
        return self._ids.get(_origin(address), address.name)

    def learn(self, hop: Hop) -> None:
        """Takes the brokers from an answer that lists them; any other answer teaches nothing."""
        if hop.status != 200 or hop.method != "GET" or subject_of(hop.path).kind != Kind.BROKERS:
            return
        try:
            names = json.loads(hop.body)
        except (ValueError, RecursionError):
            return
        for name in names if isinstance(names, list) else ():
            try:
                self.address_of(str(name))
            except SettingsError:
                continue

    def may_follow(self, origin: Address, target: Address) -> bool:
        """Whether what was sent to `origin` may be sent to `target` as well."""
        if origin.scheme == "https" and target.scheme == "http":
            return False
        if target.host.lower() in self._hosts:
            return True
        return _origin(origin) in self._ids and origin.scheme == target.scheme


def redirected_to(address: Address, hop: Hop) -> tuple[Address, str]:
    """Address and path of the `Location` of an answer; `SettingsError` where it has none that can be used."""
    if not hop.location:
        raise SettingsError("it does not say where to")
    try:
        parts = urlsplit(urljoin(f"{address.scheme}://{address.name}{hop.path}", hop.location))
    except ValueError:  # brackets that hold no IPv6 address
        raise SettingsError("that is no address") from None
    target = address_in(f"{parts.scheme}://{parts.netloc}")
    return target, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _origin(address: Address) -> tuple[str, str, int]:
    return address.scheme, address.host.lower(), address.port
