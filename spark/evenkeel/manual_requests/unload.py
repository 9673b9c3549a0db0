"""An unload that an operator requests (Pulsar: NamespacesBase.internalUnloadNamespaceBundleAsync).

A destination that is listed and does not answer is refused; Pulsar would send look-ups to it until the broker's session
ends. Limits, recent unloads, and the spread of an anti-affinity group are not checked.
"""

from __future__ import annotations

import re

from evenkeel.manual_requests.request import (
    CONFLICT,
    NO_CONTENT,
    SERVER_ERROR,
    SPLIT_ALREADY,
    ClusterView,
    Granted,
    UnloadWish,
    bundle_meant,
    not_carried_out,
    refused,
)
from evenkeel.manual_requests.wish_schema import ALL
from evenkeel.model.amounts import plural
from evenkeel.model.bundles import bundle_name, is_heartbeat_or_sla, ranges_of
from evenkeel.model.consideration import Alternative, Considered, Rule
from evenkeel.model.words import destination_of, number

BROKER_SILENT = not_carried_out(
    "wish_broker_silent",
    "its destination is listed but gave no report; Pulsar itself would send clients there until it is found gone",
)
UNOWNED = not_carried_out("wish_unowned", "no broker owns the bundle, so there is nothing to unload")
UNLOADED_ALREADY = not_carried_out(
    "wish_unloaded_already", "an earlier request already unloads the bundle in this cycle"
)
BROKERS_OWN_NAMESPACE = not_carried_out("wish_brokers_own_namespace", "the bundle belongs to one broker alone")
THERE_ALREADY = not_carried_out("wish_there_already", "the destination has the bundle already")


def _no_such_broker_words(row: Considered) -> str:
    alike = " or ".join(a.name for a in row.alternatives)
    hint = f"; perhaps {alike} was meant" if alike else ""
    return (
        f"{row.subject}: the request is not carried out, because its destination is none of the "
        f"{plural(row.numbers.get('brokers'), 'broker id')} available{hint} (Pulsar's answer: HTTP "
        f"{number(row, 'http_status')})."
    )


def _to_destination(row: Considered) -> str:
    back = ", where it is now: it is unloaded and comes back" if row.numbers.get("returns") else ""
    return f"{row.subject} is unloaded from {row.broker}, as requested, and goes to {destination_of(row)}{back}."


NO_SUCH_BROKER = Rule("refused", "wish_no_such_broker", _no_such_broker_words)
REQUESTED = Rule(
    "unload",
    "wish",
    lambda row: f"{row.subject} is unloaded from {row.broker}, as requested; placement decides where it goes.",
)
REQUESTED_WITH_DESTINATION = Rule("unload", "wish_with_destination", _to_destination)

_SCHEME = re.compile(r"https?://")


def unloads_meant(namespace: str, bundle: str, destination: str | None, view: ClusterView) -> list[UnloadWish]:
    """Return one wish per bundle: the named bundle, or for ALL each bundle of the namespace, by range.

    Pulsar: `NamespacesBase.internalUnloadNamespaceAsync` unloads each bundle by itself. `grant_unload` refuses a
    namespace that does not exist.
    """
    if bundle != ALL or namespace not in view.boundaries:
        return [UnloadWish(namespace, bundle, destination)]
    return [UnloadWish(namespace, str(bundle_range)) for bundle_range in ranges_of(view.boundaries[namespace])]


def grant_unload(wish: UnloadWish, view: ClusterView) -> Granted:
    """Return the unload, with its destination if one was named, or why Pulsar would not make it."""
    bundle_range = bundle_meant(wish, view)
    if isinstance(bundle_range, Granted):
        return bundle_range
    bundle = bundle_name(wish.namespace, bundle_range)
    owner = view.owners.get(bundle)
    destination = broker_id(wish.destination or "") or None
    if destination is not None and destination not in view.brokers:
        alike = (broker for broker in sorted(view.brokers) if destination in broker)
        meant = tuple(Alternative(broker, "candidate", "name_alike") for broker in alike)
        numbers = {"brokers": len(view.brokers)}
        return refused(bundle, owner, NO_SUCH_BROKER, CONFLICT, alternatives=meant, numbers=numbers)
    if destination in view.silent:
        return refused(bundle, owner, BROKER_SILENT, NO_CONTENT)
    if owner is None:
        return refused(bundle, None, UNOWNED, NO_CONTENT)
    if bundle in view.splitting:
        return refused(bundle, owner, SPLIT_ALREADY, SERVER_ERROR)
    if bundle in view.unloading:
        return refused(bundle, owner, UNLOADED_ALREADY, SERVER_ERROR)
    if view.manager == "extensible":
        if is_heartbeat_or_sla(wish.namespace):
            return refused(bundle, owner, BROKERS_OWN_NAMESPACE, NO_CONTENT)
        if destination is not None and owner.endswith(destination):
            return refused(bundle, owner, THERE_ALREADY, SERVER_ERROR)
    return _granted(bundle, owner, destination)


def broker_id(text: str) -> str:
    """Return a broker's name without the scheme that Pulsar removes; "" for a blank name."""
    name = text.strip()
    return name[len(scheme.group()) :] if (scheme := _SCHEME.match(name)) else name


def _granted(bundle: str, owner: str, destination: str | None) -> Granted:
    rule = REQUESTED if destination is None else REQUESTED_WITH_DESTINATION
    named = () if destination is None else (Alternative(destination, "best", rule.name),)
    numbers = {"returns": int(destination == owner)}
    return Granted(rule.about_bundle(bundle, owner, alternatives=named, numbers=numbers), None, destination)
