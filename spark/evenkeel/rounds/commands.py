"""The commands of a plan: what Pulsar would be asked to do, in which order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from evenkeel.settings import Settings

Row = Mapping[str, Any]


def plan_id(cycle: Row, decisions: Mapping[str, Sequence[Row]]) -> str:
    """Digest of what was decided: cluster, cycle, settings and the decision rows by column name, in any row order."""
    content = {
        "cluster": cycle["cluster"],
        "cycle_at": cycle["cycle_at"],
        "settings_digest": cycle["settings_digest"],
        "decisions": {table: sorted(_canonical(row) for row in rows) for table, rows in decisions.items()},
    }
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def commands(
    plan: str, cycle: Row, splits: Sequence[Row], placements: Sequence[Row], settings: Settings
) -> list[dict[str, Any]]:
    """Splits, then unloads, each in name order. A bundle without owner needs no command: Pulsar assigns it when asked.

    A command's time limit is the age at which the figures it rests on count as old.
    """
    acting = [_split(row) for row in splits if row["outcome"] == "split"]
    leaving = (row for row in placements if row["cause"] != "no_owner" and row["outcome"] == "placed")
    acting += [_unload(row, cycle["manager"]) for row in leaving]
    acting.sort(key=lambda row: (row["kind"] != "split", row["bundle"]))
    expires = datetime.fromisoformat(cycle["cycle_at"]) + timedelta(seconds=settings.evenkeelMaxReportAgeSeconds)
    return [
        {
            **command,
            "cluster": cycle["cluster"],
            "cycle_at": cycle["cycle_at"],
            "command_id": command_id(plan, command["kind"], command["bundle"], step),
            "plan_id": plan,
            "step": step,
            "mode": cycle["mode"],
            "expires_at": expires,
        }
        for step, command in enumerate(acting, start=1)
    ]


def command_id(plan: str, kind: str, bundle: str, step: int) -> str:
    """Digest that names one command of one plan."""
    return hashlib.sha256(_canonical([plan, kind, bundle, step]).encode()).hexdigest()


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


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
