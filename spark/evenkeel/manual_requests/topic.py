"""A topic that an operator unloads (Pulsar: PersistentTopicsBase.internalUnloadTopic, `pulsar-admin topics unload`).

Its broker closes the topic, its clients look it up and connect again. The bundle keeps its owner, so no load moves and
nothing is placed. Of a partitioned topic Pulsar closes every partition; one partition is named with its number. Pulsar
itself answers whether the topic is loaded (404 if it is not).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenkeel.manual_requests.request import (
    NO_CONTENT,
    NOT_FOUND,
    SERVER_ERROR,
    ClusterView,
    Granted,
    not_carried_out,
)
from evenkeel.model.bundles import bundle_name, bundle_of
from evenkeel.model.consideration import Alternative, Considered, Rule
from evenkeel.model.topics import parse_topic

_LIES_IN = "bundle_of_topic"

NO_NAMESPACE = not_carried_out("wish_topic_no_namespace", "there is no such namespace")
UNOWNED = not_carried_out(
    "wish_topic_unowned",
    "no broker owns the bundle that it lies in, so it is loaded nowhere; of a partitioned topic name a partition, "
    "which may lie in another bundle",
)
BUNDLE_IS_SPLIT = not_carried_out("wish_topic_bundle_split", "the bundle that it lies in is split in this cycle")
BUNDLE_LEAVES = not_carried_out(
    "wish_topic_bundle_unloaded", "an earlier request unloads the bundle that it lies in, and with it this topic"
)
UNLOADED_ALREADY = not_carried_out("wish_topic_already", "an earlier request already unloads it in this cycle")


def _requested(row: Considered) -> str:
    return (
        f"{row.subject} is unloaded on {row.broker}, as requested: its clients connect again to the broker of "
        f"{row.alternatives[0].name}, which stays where it is."
    )


REQUESTED = Rule("unload", "wish_topic", _requested)


def grant_topic_unload(topic: str, view: ClusterView) -> Granted:
    """Return the unload of the topic of that full name, or why Pulsar would not make it."""
    name = parse_topic(topic)
    if name.namespace not in view.boundaries:
        return _refused(topic, None, NO_NAMESPACE, NOT_FOUND)
    bundle = bundle_name(name.namespace, bundle_of(view.boundaries[name.namespace], name.hash))
    owner = view.owners.get(bundle)
    if owner is None:
        return _refused(topic, None, UNOWNED, NOT_FOUND)
    if bundle in view.splitting:
        return _refused(topic, owner, BUNDLE_IS_SPLIT, SERVER_ERROR)
    if bundle in view.unloading:
        return _refused(topic, owner, BUNDLE_LEAVES, NO_CONTENT)
    if topic in view.unloading:
        return _refused(topic, owner, UNLOADED_ALREADY, NO_CONTENT)
    lies_in = (Alternative(bundle, "candidate", _LIES_IN),)
    return Granted(REQUESTED.about_topic(topic, owner, alternatives=lies_in))


def is_topic_unload(row: Mapping[str, Any]) -> bool:
    """Return True if a row of `unload_decisions` is a topic that is unloaded."""
    return bool(row["subject_kind"] == "topic" and row["outcome"] == "unload")


def bundle_left_to(verdict: Considered) -> str:
    """Return the bundle of a granted unload: its subject, or the bundle of its topic."""
    return verdict.alternatives[0].name if verdict.subject_kind == "topic" else verdict.subject


def bundle_of_topic(row: Mapping[str, Any]) -> str:
    """Return the bundle of the topic of such a row."""
    return next(str(alternative["name"]) for alternative in row["alternatives"] if alternative["rule"] == _LIES_IN)


def _refused(topic: str, owner: str | None, rule: Rule, status: int) -> Granted:
    return Granted(rule.about_topic(topic, owner, numbers={"http_status": status}))
