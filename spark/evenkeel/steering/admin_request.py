"""The admin request that carries a command out, made only of the command's fields.

`commands.request` records its text for people. That text is never sent: a writer of the table could otherwise send any
request in the super user's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from evenkeel.errors import BadInput, BadName
from evenkeel.lake.schemas.acted import SPLIT, UNLOAD, UNLOAD_TOPIC
from evenkeel.model.bundles import namespace_of, range_of
from evenkeel.model.topics import parse_topic

METHOD = "PUT"
ACTING = ("approve", "auto")
"""Modes of a run that may send commands."""
WITH_ARTICLE = {SPLIT: "a split", UNLOAD: "an unload", UNLOAD_TOPIC: "an unload of a topic"}
_NO_NAMES = frozenset({"", ".", ".."})  # the last two would lead to another path
_BROKER_ID = re.compile(r"[^\s/\\?#@%&=]{1,255}:[0-9]{1,5}")


def request_of(command: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the PUT to send: its path with its query, names quoted, and the JSON body of a split, None for others.

    Cuts are ascending and each once, since the modular manager never answers to duplicate ones.

    Pulsar: `NamespacesBase.internalSplitNamespaceBundle`, `internalUnloadNamespaceBundle`,
    `PersistentTopicsBase.internalUnloadTopic`.
    """
    return _path(command), json.dumps(sorted(set(command["cuts"]))) if command["kind"] == SPLIT else None


def request_text(command: Mapping[str, Any]) -> str:
    """Return the request as the table `commands` records it: method, path and body, with the decided cuts."""
    text = f"{METHOD} {_path(command)}"
    return f"{text} {json.dumps(command['cuts'])}" if command["kind"] == SPLIT else text


def _path(command: Mapping[str, Any]) -> str:
    if command["kind"] == UNLOAD_TOPIC:
        topic = parse_topic(command["topic"])
        return f"/admin/v2/{topic.domain}/{topic.namespace}/{quote(topic.local_name, safe='')}/unload"
    bundle = "/".join(quote(part, safe="") for part in command["bundle"].split("/"))
    start = f"/admin/v2/namespaces/{bundle}/{command['kind']}"
    if command["kind"] == SPLIT:
        # The cuts themselves are sent, so that the decided split is done, whatever topics come and go meanwhile.
        children = str(bool(command["unload_children"])).lower()
        return f"{start}?splitAlgorithmName=specified_positions_divide&unload={children}"
    destination = command["destination"]
    return start if destination is None else f"{start}?destinationBroker={quote(destination, safe=':')}"


ANY_BROKER = "*"


def acquiring_broker(command: Mapping[str, Any]) -> str | None:
    """Return the broker that acquires bundles because of the command.

    It is `ANY_BROKER` if Pulsar chooses it, None if none does. A split's children are acquired by its broker, and once
    more by any broker if they are unloaded.
    """
    if command["kind"] == UNLOAD:
        return command["destination"] or ANY_BROKER
    if command["kind"] == SPLIT:
        return ANY_BROKER if command["unload_children"] else str(command["from_broker"])
    return None


def demand_sense(command: Mapping[str, Any]) -> None:
    """Raise `BadInput` if the fields, each of its type, do not make a command of a plan, or if `request` differs."""
    kind = command["kind"]
    if kind not in (SPLIT, UNLOAD, UNLOAD_TOPIC):
        raise BadInput(f"unknown kind {shown(kind)} of command")
    names = namespace_of(command["bundle"]).split("/")
    if len(names) < 2 or not _NO_NAMES.isdisjoint(names) or not command["bundle"].isprintable():
        raise BadInput(f"{shown(command['bundle'])} is not a bundle's name")
    _demand_cuts(kind, command["cuts"], command["bundle"])
    _demand_topic(kind, command.get("topic"), command["bundle"])
    if kind != UNLOAD and command["destination"] is not None:
        raise BadInput(f"{WITH_ARTICLE[kind]} has no destination, and this one has {shown(command['destination'])}")
    for column in ("from_broker", "destination"):
        broker = command[column]
        if broker is not None and not _BROKER_ID.fullmatch(broker):
            raise BadInput(f"{column} {shown(broker)} is not a broker id: those are host:port")
    if command["mode"] not in ACTING:
        raise BadInput(f"mode {shown(command['mode'])} sends nothing: it has to be {' or '.join(ACTING)}")
    if command["request"] != request_text(command):
        raise BadInput(
            f"its request {shown(command['request'])} is not that of its fields, {shown(request_text(command))}"
        )


def _demand_cuts(kind: str, cuts: Sequence[int] | None, bundle: str) -> None:
    lower, upper = (bounds := range_of(bundle)).lower, bounds.upper
    if kind != SPLIT:
        if cuts is not None:
            raise BadInput(f"{WITH_ARTICLE[kind]} has no cuts, and this one has {shown(cuts)}")
    elif not cuts or not all(lower < cut < upper for cut in cuts):
        raise BadInput(f"cuts {shown(cuts)} do not lie inside {bundle}")


def _demand_topic(kind: str, topic: str | None, bundle: str) -> None:
    """Demand that a topic is named for a topic's unload, and is in the bundle whose owner the command was decided
    on."""
    if kind != UNLOAD_TOPIC:
        if topic is not None:
            raise BadInput(f"{WITH_ARTICLE[kind]} names no topic, and this one names {shown(topic)}")
        return
    try:
        name = parse_topic(topic or "")
    except BadName as error:
        raise BadInput(f"{WITH_ARTICLE[kind]} names one: {error}") from None
    if topic != name.canonical or not topic.isprintable() or name.local_name in _NO_NAMES:
        raise BadInput(f"{shown(topic)} is not a topic's name")
    if name.namespace != namespace_of(bundle) or not range_of(bundle).includes(name.hash):
        raise BadInput(f"{shown(topic)} does not lie in {bundle}")


def shown(value: object) -> str:
    """Return the value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
