"""Finding a command by its id, or by the beginning of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from evenkeel.errors import BadInput
from evenkeel.record.read import Record
from evenkeel.record.read.record import FIRST_MOMENT, LAST_MOMENT
from evenkeel.record.read.tables import text
from evenkeel.record.wording import time

_WHOLE = 64
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the outbox."""

    command_id: str
    plan_id: str
    cluster: str
    cycle_at: datetime
    bundle: str


def find_command(record: Record, beginning: str, clusters: Sequence[str]) -> Command:
    """The one command whose id begins so; BadInput where there is none, or several."""
    import pyarrow.compute as pc

    whole = len(beginning) >= _WHOLE
    condition = text("command_id") == beginning
    if not whole:
        condition = pc.starts_with(text("command_id"), pattern=beginning)
    columns = ["command_id", "plan_id", "cluster", "cycle_at", "bundle"]
    found: dict[str, Command] = {}
    for cluster in clusters:
        for row in record.outbox("commands", cluster, FIRST_MOMENT, LAST_MOMENT, columns, condition):
            found[row["command_id"]] = Command(**{name: row[name] for name in columns})
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        days = sorted({day for cluster in clusters for day in record.dates("commands", cluster)})
        kept = f"commands are kept from {days[0]} to {days[-1]}" if days else "no command is on record at all"
        raise BadInput(f"no command {beginning!r} is on record ({', '.join(clusters)}): {kept}.")
    newest = sorted(found.values(), key=lambda one: (one.cycle_at, one.command_id), reverse=True)[:_MOST_NAMED]
    named = "; ".join(f"{one.command_id[:16]} ({one.bundle}, {time(one.cycle_at)})" for one in newest)
    raise BadInput(f"{len(found)} commands begin with {beginning!r}: {named}. Give more of the id.")
