"""An unload that an operator asks for (Pulsar: NamespacesBase.internalUnloadNamespaceBundleAsync).

A destination that is listed and does not answer is refused, where Pulsar sends look-ups there until the broker's
session ends. Whether the bundle is over any limit, was unloaded lately, or is spread evenly by its anti-affinity group
is not asked.
"""

from __future__ import annotations

import re
from dataclasses import replace

from evenkeel.manual_requests.request import (
    CONFLICT,
    NO_CONTENT,
    SERVER_ERROR,
    ClusterView,
    Granted,
    UnloadWish,
    bundle_meant,
    refused,
)
from evenkeel.model.bundles import bundle_name, is_heartbeat_or_sla
from evenkeel.model.considered import Alternative, considered

_SCHEME = re.compile(r"https?://")


def grant_unload(wish: UnloadWish, view: ClusterView) -> Granted:
    """The unload, with its destination if one was named, or why Pulsar would not make it."""
    found = bundle_meant(wish, view)
    if isinstance(found, Granted):
        return found
    bundle = bundle_name(wish.namespace, found)
    owner = view.owners.get(bundle)
    destination = broker_id(wish.destination or "") or None
    if destination is not None and destination not in view.brokers:
        return _no_such_broker(bundle, owner, destination, view)
    if destination in view.silent:
        return refused(bundle, owner, "wish_broker_silent", NO_CONTENT)
    if owner is None:
        return refused(bundle, None, "wish_unowned", NO_CONTENT)
    if bundle in view.splitting:
        return refused(bundle, owner, "wish_split_already", SERVER_ERROR)
    if bundle in view.unloading:
        return refused(bundle, owner, "wish_unloaded_already", SERVER_ERROR)
    if view.manager == "extensible":
        if is_heartbeat_or_sla(wish.namespace):
            return refused(bundle, owner, "wish_brokers_own_namespace", NO_CONTENT)
        if destination is not None and owner.endswith(destination):
            return refused(bundle, owner, "wish_there_already", SERVER_ERROR)
    return _granted(bundle, owner, destination)


def broker_id(text: str) -> str:
    """A broker as it was named, without the scheme that Pulsar takes off; a blank name is none."""
    name = text.strip()
    return name[len(found.group()) :] if (found := _SCHEME.match(name)) else name


def _no_such_broker(bundle: str, owner: str | None, destination: str, view: ClusterView) -> Granted:
    """The refusal of a name that is no available broker's id; those that contain it are what may have been meant."""
    alike = (broker for broker in sorted(view.brokers) if destination in broker)
    meant = tuple(Alternative(broker, "candidate", "name_alike") for broker in alike)
    made = refused(bundle, owner, "wish_no_such_broker", CONFLICT, numbers={"brokers": len(view.brokers)})
    return replace(made, verdict=made.verdict._replace(alternatives=meant))


def _granted(bundle: str, owner: str, destination: str | None) -> Granted:
    rule = "wish" if destination is None else "wish_with_destination"
    named = () if destination is None else (Alternative(destination, "best", rule),)
    numbers = {"returns": int(destination == owner)}
    return Granted(
        considered(bundle, "bundle", owner, "unload", rule, alternatives=named, numbers=numbers), None, destination
    )
