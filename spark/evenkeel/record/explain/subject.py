"""What a question is about: a bundle, a topic, a broker or a command."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from evenkeel.errors import BadInput, BadName, BadRange
from evenkeel.model.bundles import parse_range
from evenkeel.model.topics import parse_topic

Kind = Literal["bundle", "topic", "broker", "command"]

_RANGE = re.compile(r"(.+/.+)/(0[xX][0-9a-fA-F]+_0[xX][0-9a-fA-F]+)")
_BROKER = re.compile(r"[^/]+:\d{1,5}")
_COMMAND = re.compile(r"[0-9a-f]{4,64}")
_FORMS = (
    "a bundle (tenant/namespace/0x00000000_0x40000000), a topic (persistent://tenant/namespace/name), a broker "
    "(host:port) or a command id (four of its digits at least)"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """`name` is the bundle's canonical name, the topic's full name, the broker's id, or (the beginning of) the id."""

    kind: Kind
    name: str


def parse_subject(text: str) -> Subject:
    """The subject that a text names; BadInput where it is none of the four."""
    text = text.strip()
    if found := _RANGE.fullmatch(text):
        return Subject("bundle", f"{found[1]}/{_range(text, found[2])}")
    if "://" in text:
        return Subject("topic", parse_topic(text).name)
    if _BROKER.fullmatch(text):
        return Subject("broker", text)
    if _COMMAND.fullmatch(text.lower()):
        return Subject("command", text.lower())
    if text.count("/") == 2:
        return Subject("topic", parse_topic(text).name)
    if text.count("/") == 1:
        raise BadInput(f"{text!r} is a namespace, and each of its bundles has a course of its own: name {_FORMS}.")
    raise BadInput(f"{text[:80]!r} is nothing that can be explained: name {_FORMS}.")


def _range(text: str, given: str) -> str:
    try:
        return str(parse_range(given))
    except (BadRange, BadName) as error:
        raise BadInput(f"{text!r} is no bundle: {error}.") from error
