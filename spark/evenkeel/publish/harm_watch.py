"""Harm of past commands: searched in every cycle, recorded beside `done`, and handed to the guards.

The state of a bundle before its command is in the command itself (`commands.clients`). So a later cycle needs only the
command and its own `bundle_load`. Harm is a row of `outcomes` with the outcome `harmed`, beside the command's own
outcome. Later cycles read it with the commands of the previous day.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evenkeel.cycle import reading
from evenkeel.cycle.reading import Row, Rows
from evenkeel.model.harm import clients_of, harm_of, is_watched, samples_of, together
from evenkeel.model.past_commands import HARMED, Act, act_of
from evenkeel.publish.guards.situation import Harm, overlaps
from evenkeel.settings import Settings


@dataclass(frozen=True, slots=True)
class HarmSeen:
    """Harm that this cycle was the first to see."""

    act: Act
    detail: str


def harm_found(rows: Rows, settings: Settings) -> list[HarmSeen]:
    """Return past commands whose bundles were harmed in this cycle's observations, without already recorded harm.

    A command is not checked any more once a later one touched its bundle: either could have done the harm.
    """
    cycle = reading.the_cycle(rows)
    known = {row["command_id"] for row in reading.harm_rows(cycle)}
    now, before_at = datetime.fromisoformat(cycle["cycle_at"]), cycle.get("predecessor_cycle_at")
    previous = datetime.fromisoformat(before_at) if before_at else None
    given = {row["command_id"]: row for row in reading.act_rows(cycle) if row["command_id"] not in known}
    acts = reading.acts_before(cycle)
    watched = [
        candidate
        for candidate in acts
        if candidate.command_id in given and is_watched(candidate, now, previous, settings)
    ]
    seen = []
    for act in watched:
        samples = clients_of(given[act.command_id].get("clients"))
        bundle_rows = _rows_of(act, rows) if samples and not _is_followed(act, acts) else []
        harm = harm_of(samples, together(bundle_rows, now), _published(bundle_rows), settings) if bundle_rows else None
        if harm is not None:
            seen.append(HarmSeen(act, harm))
    return seen


def harms(rows: Rows, seen: Sequence[HarmSeen]) -> list[Harm]:
    """Return all harm known so far, recorded or just found."""
    cycle = reading.the_cycle(rows)
    now = datetime.fromisoformat(cycle["cycle_at"])
    on_record = [(act_of(row), datetime.fromisoformat(row["seen_at"])) for row in reading.harm_rows(cycle)]
    return [Harm(act.bundle, act.kind, at) for act, at in (*on_record, *((harm.act, now) for harm in seen))]


def outcome_rows(cluster: str, now: datetime, seen: Sequence[HarmSeen]) -> list[dict[str, Any]]:
    """The rows of `outcomes`; as every outcome they belong to the cycle of their command."""
    return [
        {
            "cluster": cluster,
            "cycle_at": harm.act.cycle_at,
            "command_id": harm.act.command_id,
            "outcome": HARMED,
            "seen_at": now,
            "detail": harm.detail,
        }
        for harm in seen
    ]


def with_clients(commands: Sequence[Mapping[str, Any]], rows: Rows) -> list[dict[str, Any]]:
    """Return the commands with the state of their bundles at the decision, and in the previous cycle."""
    cycle, asked = reading.the_cycle(rows), {command["bundle"] for command in commands}
    loads = {row["bundle"]: row for row in rows["bundle_load"] if row["bundle"] in asked} if asked else {}
    before_at = cycle.get("predecessor_cycle_at")
    return [
        {**command, "clients": samples_of(loads.get(command["bundle"]), cycle["cycle_at"], before_at)}
        for command in commands
    ]


def _rows_of(act: Act, rows: Rows) -> list[Row]:
    """Return the rows of the bundle, or of the children of a split; empty if one of them is missing."""
    wanted = set(act.children()) if act.kind == "split" else {act.bundle}
    bundle_rows = [row for row in rows["bundle_load"] if row["bundle"] in wanted]
    return bundle_rows if len(bundle_rows) == len(wanted) else []


def _is_followed(act: Act, acts: Sequence[Act]) -> bool:
    return any(
        later.touched and later.cycle_at > act.cycle_at and overlaps(later.bundle, act.bundle)
        for later in acts
        if later != act
    )


def _published(bundle_rows: Sequence[Row]) -> float | None:
    rates = [row["used_msg_rate_in"] for row in bundle_rows]
    return None if any(rate is None for rate in rates) else math.fsum(rates)
