"""Unloads that an operator requests, of a bundle and of a topic.

Of a bundle (Pulsar: NamespacesBase.internalUnloadNamespaceBundleAsync): a destination that is listed and does not
answer is refused; Pulsar would send look-ups to it until the broker's session ends. Limits, recent unloads, and the
spread of an anti-affinity group are not checked.

Of a topic (Pulsar: PersistentTopicsBase.internalUnloadTopic, `pulsar-admin topics unload`): its broker closes it, its
clients look it up and connect again. The bundle keeps its owner, so no load moves and nothing is placed. Of a
partitioned topic Pulsar closes every partition; one partition is named with its number. Pulsar itself answers whether
the topic is loaded (404 if it is not).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evenkeel.manual_requests.request import (
    CONFLICT,
    NO_CONTENT,
    NOT_FOUND,
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
from evenkeel.model.bundles import bundle_name, bundle_of, is_heartbeat_or_sla, ranges_of
from evenkeel.model.consideration import Alternative, Considered, Rule, destination_of, number
from evenkeel.model.topics import parse_topic

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


_LIES_IN = "bundle_of_topic"

TOPIC_NO_NAMESPACE = not_carried_out("wish_topic_no_namespace", "there is no such namespace")
TOPIC_UNOWNED = not_carried_out(
    "wish_topic_unowned",
    "no broker owns the bundle that it lies in, so it is loaded nowhere; of a partitioned topic name a partition, "
    "which may lie in another bundle",
)
TOPIC_BUNDLE_IS_SPLIT = not_carried_out("wish_topic_bundle_split", "the bundle that it lies in is split in this cycle")
TOPIC_BUNDLE_LEAVES = not_carried_out(
    "wish_topic_bundle_unloaded", "an earlier request unloads the bundle that it lies in, and with it this topic"
)
TOPIC_UNLOADED_ALREADY = not_carried_out("wish_topic_already", "an earlier request already unloads it in this cycle")


def _topic_words(row: Considered) -> str:
    return (
        f"{row.subject} is unloaded on {row.broker}, as requested: its clients connect again to the broker of "
        f"{row.alternatives[0].name}, which stays where it is."
    )


TOPIC_REQUESTED = Rule("unload", "wish_topic", _topic_words)


def grant_topic_unload(topic: str, view: ClusterView) -> Granted:
    """Return the unload of the topic of that full name, or why Pulsar would not make it."""
    name = parse_topic(topic)
    if name.namespace not in view.boundaries:
        return _topic_refused(topic, None, TOPIC_NO_NAMESPACE, NOT_FOUND)
    bundle = bundle_name(name.namespace, bundle_of(view.boundaries[name.namespace], name.hash))
    owner = view.owners.get(bundle)
    if owner is None:
        return _topic_refused(topic, None, TOPIC_UNOWNED, NOT_FOUND)
    if bundle in view.splitting:
        return _topic_refused(topic, owner, TOPIC_BUNDLE_IS_SPLIT, SERVER_ERROR)
    if bundle in view.unloading:
        return _topic_refused(topic, owner, TOPIC_BUNDLE_LEAVES, NO_CONTENT)
    if topic in view.unloading:
        return _topic_refused(topic, owner, TOPIC_UNLOADED_ALREADY, NO_CONTENT)
    lies_in = (Alternative(bundle, "candidate", _LIES_IN),)
    return Granted(TOPIC_REQUESTED.about_topic(topic, owner, alternatives=lies_in))


def is_topic_unload(row: Mapping[str, Any]) -> bool:
    """Return True if a row of `unload_decisions` is a topic that is unloaded."""
    return bool(row["subject_kind"] == "topic" and row["outcome"] == "unload")


def bundle_left_to(verdict: Considered) -> str:
    """Return the bundle of a granted unload: its subject, or the bundle of its topic."""
    return verdict.alternatives[0].name if verdict.subject_kind == "topic" else verdict.subject


def bundle_of_topic(row: Mapping[str, Any]) -> str:
    """Return the bundle of the topic of such a row."""
    return next(str(alternative["name"]) for alternative in row["alternatives"] if alternative["rule"] == _LIES_IN)


def _topic_refused(topic: str, owner: str | None, rule: Rule, status: int) -> Granted:
    return Granted(rule.about_topic(topic, owner, numbers={"http_status": status}))
