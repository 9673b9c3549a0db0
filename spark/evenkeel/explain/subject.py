"""Subjects of questions: a bundle, a topic, a broker or a command, which is found by the beginning of its id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evenkeel.errors import BadInput, BadName, BadRange
from evenkeel.explain.wording import time
from evenkeel.lake.record import Record, Row
from evenkeel.lake.record.known_files import FIRST_MOMENT, LAST_MOMENT
from evenkeel.lake.record.tables import text
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
    """Return the subject that a text names; BadInput if it is none of the four."""
    text = text.strip()
    if match := _RANGE.fullmatch(text):
        return Subject("bundle", f"{match[1]}/{_range(text, match[2])}")
    if "://" in text:
        return Subject("topic", parse_topic(text, scalable=True).name)
    if _BROKER.fullmatch(text):
        return Subject("broker", text)
    if _COMMAND.fullmatch(text.lower()):
        return Subject("command", text.lower())
    if text.count("/") == 2:
        return Subject("topic", parse_topic(text, scalable=True).name)
    if text.count("/") == 1:
        raise BadInput(f"{text!r} is a namespace, and each of its bundles has a course of its own: name {_FORMS}.")
    raise BadInput(f"{text[:80]!r} is nothing that can be explained: name {_FORMS}.")


def _range(text: str, given: str) -> str:
    try:
        return str(parse_range(given))
    except (BadRange, BadName) as error:
        raise BadInput(f"{text!r} is not a bundle: {error}.") from error


_WHOLE = 64
_MOST_NAMED = 5


def find_command(record: Record, beginning: str, clusters: Sequence[str]) -> Row:
    """Return the only command of the outbox whose id begins with this text; BadInput without one, or with several."""
    import pyarrow.compute as pc

    whole = len(beginning) >= _WHOLE
    condition = text("command_id") == beginning
    if not whole:
        condition = pc.starts_with(text("command_id"), pattern=beginning)
    columns = ["command_id", "plan_id", "cluster", "cycle_at", "bundle"]
    commands: dict[str, Row] = {}
    for cluster in clusters:
        for row in record.outbox("commands", cluster, FIRST_MOMENT, LAST_MOMENT, columns, condition):
            commands[row["command_id"]] = row
    if len(commands) == 1:
        return next(iter(commands.values()))
    if not commands:
        days = sorted({day for cluster in clusters for day in record.dates("commands", cluster)})
        kept = f"commands are kept from {days[0]} to {days[-1]}" if days else "no command is on record at all"
        raise BadInput(f"no command {beginning!r} is on record ({', '.join(clusters)}): {kept}.")
    newest = sorted(commands.values(), key=lambda row: (row["cycle_at"], row["command_id"]), reverse=True)
    named = "; ".join(
        f"{row['command_id'][:16]} ({row['bundle']}, {time(row['cycle_at'])})" for row in newest[:_MOST_NAMED]
    )
    raise BadInput(f"{len(commands)} commands begin with {beginning!r}: {named}. Give more of the id.")
