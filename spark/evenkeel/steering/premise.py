"""A command's premise and effect as the cluster shows them, and the look at the cluster.

An answer of 204 is not a proof: Pulsar gives it if no broker owned the bundle, if there was nothing to split, and
before clients have reconnected. So every judgement rests on ownership and boundaries as they were seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

from evenkeel.model.bundles import decode_number, namespace_of, range_of
from evenkeel.pulsar.admin.client import AdminClient
from evenkeel.pulsar.admin.http_exchange import admin_path, metadata_read, names_in

Command = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """The cluster at one moment, as far as one command is concerned.

    `boundaries`: of the bundle's namespace, ascending hash positions; empty if the namespace does not exist, None if no
    broker gave them. `owners`: brokers that own the bundle. `silent`: brokers that did not say who owns it.
    """

    boundaries: tuple[int, ...] | None
    owners: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()


class Sight(Enum):
    """State of a command's subject, compared with the command's goal."""

    UNTOUCHED = "as it was decided on"
    EFFECT = "as the command wants it"
    UNOWNED = "without an owner"
    ELSEWHERE = "otherwise than before and otherwise than wanted"
    GONE = "the bundle does not exist"
    UNKNOWN = "unknown"


def sight(command: Command, look: Look) -> Sight:
    """Return what is seen of the command's subject."""
    if look.boundaries is None:
        return Sight.UNKNOWN
    lower, upper = _edges(command)
    if command["kind"] == "split":
        return _sight_of_split(command, look.boundaries, lower, upper)
    if not _is_bundle(look.boundaries, lower, upper):
        return Sight.GONE
    return _sight_of_unload(command, look)


def _sight_of_split(command: Command, boundaries: tuple[int, ...], lower: int, upper: int) -> Sight:
    if _is_bundle(boundaries, lower, upper):
        return Sight.UNTOUCHED
    if not {lower, upper} <= set(boundaries):
        return Sight.GONE
    inside = [position for position in boundaries if lower < position < upper]
    # Other splits may have cut the children further: the wanted boundaries still exist.
    return Sight.EFFECT if set(command["cuts"] or ()) <= set(inside) and command["cuts"] else Sight.ELSEWHERE


def _sight_of_unload(command: Command, look: Look) -> Sight:
    source, destination = command["from_broker"], command["destination"]
    if destination is not None and look.owners == {destination}:
        return Sight.EFFECT
    if source in look.owners:
        return Sight.UNTOUCHED if look.owners == {source} else Sight.UNKNOWN
    if look.owners:
        return Sight.ELSEWHERE if len(look.owners) == 1 else Sight.UNKNOWN
    return Sight.UNKNOWN if look.silent else Sight.UNOWNED


def why_stale(command: Command, look: Look) -> str | None:
    """Return why the command must not be sent any more; None if its premise still holds."""
    bundle, source = command["bundle"], command["from_broker"]
    seen = sight(command, look)
    if seen is Sight.UNTOUCHED:
        return _why_not_split(command, look) if command["kind"] == "split" else None
    if look.boundaries == ():
        return f"namespace {namespace_of(bundle)} no longer exists"
    if seen is Sight.GONE or (command["kind"] == "split" and seen is not Sight.UNKNOWN):
        return f"{bundle} is not a bundle any more: {neighbours(command, look)}"
    if seen is Sight.UNOWNED:
        return f"{bundle} has no owner: it is assigned when a client looks it up"
    if seen is Sight.UNKNOWN:
        return f"the owner of {bundle} is unknown: {_who_is_silent(look)}"
    if look.owners == {source}:
        return f"{bundle} is on {source} already, where it is to go"
    return f"{bundle} has left {source} already and is on {', '.join(sorted(look.owners))}"


def _why_not_split(command: Command, look: Look) -> str | None:
    """Refuse a split without an owner: it would assign the bundle to a broker of Pulsar's choice."""
    if look.owners == {command["from_broker"]}:
        return None
    if look.silent and not look.owners:
        return f"the owner of {command['bundle']} is unknown: {_who_is_silent(look)}"
    where = f"is on {', '.join(sorted(look.owners))}" if look.owners else "has no owner"
    return f"{command['bundle']} {where}, and not on {command['from_broker']} any more"


def effect_in_words(command: Command, look: Look) -> str:
    """Return the observation, for the row of an outcome."""
    seen = sight(command, look)
    if command["kind"] == "split":
        if seen is Sight.EFFECT:
            return f"the namespace has the cuts {_hex(command['cuts'])}"
        return f"the bundle is {'whole' if seen is Sight.UNTOUCHED else neighbours(command, look)}"
    if seen is Sight.GONE:
        return neighbours(command, look)
    if look.owners:
        return f"the bundle is on {', '.join(sorted(look.owners))}"
    if seen is not Sight.UNOWNED:
        return _who_is_silent(look)
    bound = f", bound for {command['destination']}" if command["destination"] else ""
    return f"the bundle has left {command['from_broker']}{bound}; no client has looked it up yet, so no broker owns it"


def neighbours(command: Command, look: Look) -> str:
    """Return the boundaries that are in the bundle's range now."""
    if not look.boundaries:
        return "its namespace does not exist"
    lower, upper = _edges(command)
    inside = [position for position in look.boundaries if lower <= position <= upper]
    return f"within its range there are the boundaries {_hex(inside)}" if inside else "no boundary lies in its range"


def _who_is_silent(look: Look) -> str:
    if look.boundaries is None:
        return "no broker gave the boundaries of its namespace"
    if len(look.owners) > 1:
        return f"{' and '.join(sorted(look.owners))} list it at once"
    return f"no answer from {', '.join(sorted(look.silent))}"


def _is_bundle(boundaries: tuple[int, ...], lower: int, upper: int) -> bool:
    return (lower, upper) in pairwise(boundaries)


def _edges(command: Command) -> tuple[int, int]:
    bounds = range_of(command["bundle"])
    return bounds.lower, bounds.upper


def _hex(positions: Any) -> str:
    return ", ".join(f"0x{position:08x}" for position in positions)


# Looking at a running cluster: owner of a bundle, and boundaries of its namespace, through the admin API.
#
# The owner is requested by `GET /non-persistent/{namespace}/{range}`, which lists the bundle's non-persistent topics.
# Only its status and its redirects count. 200 is the owner's own answer, any other broker redirects to the owner, and
# 204 means that no broker owns the bundle (Pulsar: NonPersistentTopics.getListFromBundle). It holds on both managers
# and does not lag. Its result is composed without a wait, so it blocks no thread of the broker. It assigns no bundle,
# except for one that an extensible cluster frees between two steps of it. A broker that is acquiring the bundle answers
# when it has it.
#
# Other reads of ownership are not usable. A look-up assigns the bundle. The modular manager's load report lags by a
# stats period. `ownedNamespaces` can hang a modular broker for good while it acquires bundles
# (NamespaceService.getOwnedNameSpacesStatusAsync joins on the thread that completes acquisitions).

_LOOK_SECONDS = 10.0


class OwnershipReader:
    """Reads of one cluster; thread-safe."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client
        self._knows_brokers = False

    def look(self, command: Command) -> Look:
        """Look where the command's subject is now.

        The destination is asked first, then the source, then another broker, until one says who owns the bundle.
        """
        boundaries = self.boundaries(namespace_of(command["bundle"]))
        if boundaries is None or not _is_bundle(boundaries, *_edges(command)):
            return Look(boundaries)
        if not self._knows_brokers:  # their addresses, by which the client names the broker it is redirected to
            self._knows_brokers = bool(self.brokers())
        silent: set[str] = set()
        for broker in self._observers(command):
            owners, unheard = self._owners(command["bundle"], broker)
            silent |= unheard
            if owners is not None:
                return Look(boundaries, owners, frozenset(silent))
        return Look(boundaries, silent=frozenset(silent))

    def boundaries(self, namespace: str) -> tuple[int, ...] | None:
        """Return those of the namespace's bundles; empty if there is no such namespace, None if no broker gave them."""
        answer = self._client.ask(admin_path("namespaces", *namespace.split("/"), "bundles"))[-1]
        if answer.status == 404:
            return ()
        policies = answer.json
        try:
            return tuple(sorted(decode_number(text) for text in policies["boundaries"]))
        except (TypeError, KeyError, ValueError):
            return None

    def is_silent(self, broker: str) -> bool:
        """Return True if the broker does not answer a read of its metadata store, as it is down or hangs."""
        return self._client.ask(metadata_read(), broker=broker, timeout_s=_LOOK_SECONDS)[-1].status == 0

    def brokers(self) -> frozenset[str]:
        """Return the brokers that the cluster lists; a dead one stays listed until its session ends."""
        return frozenset(names_in(self._client.ask(admin_path("brokers"))[-1].json) or ())

    def _observers(self, command: Command) -> Iterator[str]:
        named = [broker for broker in (command["destination"], command["from_broker"]) if broker]
        yield from dict.fromkeys(named)
        yield from sorted(self.brokers() - set(named))[:1]

    def _owners(self, bundle: str, broker: str) -> tuple[frozenset[str] | None, set[str]]:
        """Return owners as this broker knows them, None if unknown; and the brokers that did not say."""
        path = admin_path("non-persistent", *namespace_of(bundle).split("/"), bundle.rpartition("/")[2])
        hops = self._client.ask(path, broker=broker, timeout_s=_LOOK_SECONDS)
        answer = hops[-1]
        answering = answer.broker if any(hop.is_redirect for hop in hops) else broker
        if answer.status == 204:
            return frozenset(), set()
        if isinstance(answer.json, list):
            return frozenset({answering}), set()
        return None, {answering}
