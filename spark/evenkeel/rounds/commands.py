"""The commands of a plan: what Pulsar would be asked to do, in which order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from evenkeel.rounds.canonical import canonical, canonical_rows
from evenkeel.settings import Settings

Row = Mapping[str, Any]


def plan_id(cycle: Row, decisions: Mapping[str, Sequence[Row]], leaving_out: Collection[str] = ()) -> str:
    """Digest of what was decided: cluster, cycle, settings and the decision rows by column name, in any row order.

    `leaving_out`: columns that do not count.
    """
    content = {
        "cluster": cycle["cluster"],
        "cycle_at": cycle["cycle_at"],
        "settings_digest": cycle["settings_digest"],
        "decisions": {table: sorted(canonical_rows(rows, leaving_out)) for table, rows in decisions.items()},
    }
    return hashlib.sha256(canonical(content).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A command that the plan wants, before guards: what it asks for, and the row of the decision that it follows."""

    command: dict[str, Any]
    decision: Row


def wanted(cycle: Row, splits: Sequence[Row], placements: Sequence[Row]) -> list[Wanted]:
    """Splits, then unloads, each in name order. A bundle without owner needs no command: Pulsar assigns it when asked.

    Of bundles with the same lower edge the wider one comes first, so that a parent is split before its child.
    """
    acting = [Wanted(_split(row), row) for row in splits if row["outcome"] == "split"]
    leaving = (row for row in placements if row["cause"] != "no_owner" and row["outcome"] == "placed")
    acting += [Wanted(_unload(row, cycle["manager"]), row) for row in leaving]
    acting.sort(key=lambda one: str(one.command["request"]))
    acting.sort(key=lambda one: _edges(one)[1], reverse=True)
    return sorted(acting, key=lambda one: (one.command["kind"] != "split", _edges(one)[0]))


def numbered(plan: str, cycle: Row, asked: Sequence[Wanted], settings: Settings) -> list[dict[str, Any]]:
    """The rows of `commands` for what is asked, in its order, with steps from 1 on and without gaps.

    A command's id covers its step, so it is another one where an earlier command was held back. No id changes its
    meaning by that: the plan's id covers what guards came to, so whenever they come to something else, the plan is
    another one, and with it the ids of all its commands. A command's time limit is the age at which the figures it
    rests on count as old.
    """
    expires = datetime.fromisoformat(cycle["cycle_at"]) + timedelta(seconds=settings.evenkeelMaxReportAgeSeconds)
    return [
        {
            **one.command,
            "cluster": cycle["cluster"],
            "cycle_at": cycle["cycle_at"],
            "command_id": command_id(plan, one.command["kind"], one.command["bundle"], step, cycle["mode"]),
            "plan_id": plan,
            "step": step,
            "mode": cycle["mode"],
            "expires_at": expires,
        }
        for step, one in enumerate(asked, start=1)
    ]


def commands(
    plan: str, cycle: Row, splits: Sequence[Row], placements: Sequence[Row], settings: Settings
) -> list[dict[str, Any]]:
    """The rows of `commands` with nothing held back."""
    return numbered(plan, cycle, wanted(cycle, splits, placements), settings)


def command_id(plan: str, kind: str, bundle: str, step: int, mode: str) -> str:
    """Digest that names one command of one plan. That of a dry run is another one: it is not to be sent later."""
    rehearsed = ["dry_run"] if mode == "dry_run" else []
    return hashlib.sha256(canonical([plan, kind, bundle, step, *rehearsed]).encode()).hexdigest()


def _edges(one: Wanted) -> tuple[str, str]:
    """The bundle's name up to its lower edge, and its upper edge; as text both sort like the numbers."""
    name, _, upper = str(one.command["bundle"]).rpartition("_")
    return name, upper


def _split(row: Row) -> dict[str, Any]:
    """The cuts themselves are sent, so that what was decided is what is done, whatever topics come and go meanwhile."""
    query = f"splitAlgorithmName=specified_positions_divide&unload={str(bool(row['unload_children'])).lower()}"
    return {
        "kind": "split",
        "bundle": row["subject"],
        "from_broker": row["broker"],
        "destination": None,
        "algorithm": row["algorithm"],
        "cuts": row["cuts"],
        "unload_children": row["unload_children"],
        "request": f"PUT {_path(row['subject'])}/split?{query} {json.dumps(row['cuts'])}",
    }


def _unload(row: Row, manager: str) -> dict[str, Any]:
    destination = row["destination"] if _is_bound(row, manager) else None
    query = "" if destination is None else f"?destinationBroker={quote(destination, safe=':')}"
    return {
        "kind": "unload",
        "bundle": row["subject"],
        "from_broker": row["broker"],
        "destination": destination,
        "algorithm": None,
        "cuts": None,
        "unload_children": None,
        "request": f"PUT {_path(row['subject'])}/unload{query}",
    }


def _is_bound(row: Row, manager: str) -> bool:
    """Whether Pulsar is told where the bundle goes; else it goes where it is next looked up.

    A wish may leave that open, and so does the extensible manager while loadBalancerTransferEnabled is off.
    """
    if row["cause"] == "shed" and manager == "extensible":
        return bool(row["rule"] == "transferred")
    return bool(row["rule"] != "wish")


def _path(bundle: str) -> str:
    return "/admin/v2/namespaces/" + "/".join(quote(part, safe="") for part in bundle.split("/"))
