"""Looking at a running cluster: who owns a bundle, and how its namespace is divided, through the admin API.

Of all reads of ownership only `ownedNamespaces` can be used: a look-up would assign the bundle. A broker tells of
itself alone; others redirect to it. One that answers that it owns nothing is not ready yet, for a ready broker owns at
least its own heartbeat bundle: so an empty answer is no answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from evenkeel.model.bundles import decode_number, namespace_of
from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.http_exchange import Hop, admin_path
from evenkeel.steering.premise import Command, Look

_AT_ONCE = 8


class OwnershipReader:
    """Reads of one cluster; thread-safe. `pulsar_name`: the cluster's name in Pulsar, which its paths carry."""

    def __init__(self, client: AdminClient, pulsar_name: str) -> None:
        self._client = client
        self._name = pulsar_name
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="look")  # its threads end with this object

    def look(self, command: Command) -> Look:
        """Where the command's subject is now. The brokers concerned are asked first, the others only if need be."""
        boundaries = self.boundaries(namespace_of(command["bundle"]))
        named = [broker for broker in (command["from_broker"], command["destination"]) if broker]
        owners, silent = self._owners(command["bundle"], named)
        if not owners:
            others = sorted(self.brokers() - set(named))
            more, quiet = self._owners(command["bundle"], others)
            owners, silent = owners | more, silent | quiet
        return Look(boundaries, frozenset(owners), frozenset(silent))

    def boundaries(self, namespace: str) -> tuple[int, ...] | None:
        """Of the namespace's bundles; empty if there is no such namespace, None if nobody could tell."""
        answer = self._client.ask(admin_path("namespaces", *namespace.split("/"), "bundles"))[-1]
        if answer.status == 404:
            return ()
        found = json_of(answer)
        try:
            return tuple(sorted(decode_number(text) for text in found["boundaries"]))
        except (TypeError, KeyError, ValueError):
            return None

    def owned_by(self, broker: str) -> frozenset[str] | None:
        """The bundles that a broker owns now; None if it cannot tell (down, or not ready)."""
        answer = self._client.ask(admin_path("brokers", self._name, broker, "ownedNamespaces"), broker=broker)[-1]
        found = json_of(answer)
        return frozenset(found) if isinstance(found, dict) and found else None

    def brokers(self) -> frozenset[str]:
        """The brokers that the cluster lists; a dead one stays listed until its session ends."""
        found = json_of(self._client.ask(admin_path("brokers"))[-1])
        return frozenset(found) if isinstance(found, list) else frozenset()

    def _owners(self, bundle: str, brokers: Iterable[str]) -> tuple[set[str], set[str]]:
        asked = list(brokers)
        others = [self._pool.submit(self.owned_by, broker) for broker in asked[1:]]
        told = [self.owned_by(broker) for broker in asked[:1]] + [other.result() for other in others]
        pairs = list(zip(asked, told, strict=True))
        owners = {broker for broker, owned in pairs if owned is not None and bundle in owned}
        return owners, {broker for broker, owned in pairs if owned is None}


def json_of(answer: Hop) -> Any:
    """The JSON of an answer of 200, else None."""
    if answer.status != 200:
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        return None
