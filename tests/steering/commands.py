"""Commands as rows of the table, for tests of what carries them out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

NOW = datetime.now(UTC)


def _path(bundle: str) -> str:
    return "/admin/v2/namespaces/" + "/".join(quote(part, safe="") for part in bundle.split("/"))


def unload(bundle: str, source: str, destination: str | None = None, *, step: int = 1, **more: Any) -> dict[str, Any]:
    query = f"?destinationBroker={destination}" if destination else ""
    row = {"kind": "unload", "from_broker": source, "destination": destination, "algorithm": None, "cuts": None}
    row |= {"unload_children": None, "request": f"PUT {_path(bundle)}/unload{query}"}
    return _command(bundle, step) | row | more


def split(bundle: str, source: str, *cuts: int, step: int = 1, children: bool = False, **more: Any) -> dict[str, Any]:
    query = f"splitAlgorithmName=specified_positions_divide&unload={str(children).lower()}"
    row = {"kind": "split", "from_broker": source, "destination": None, "algorithm": "range_equally_divide"}
    row |= {"cuts": list(cuts), "unload_children": children, "request": f"PUT {_path(bundle)}/split?{query} {[*cuts]}"}
    return _command(bundle, step) | row | more


def _command(bundle: str, step: int) -> dict[str, Any]:
    return {
        "command_id": f"{step}:{bundle}", "plan_id": "plan", "cluster": "lab", "cycle_at": NOW, "step": step,
        "bundle": bundle, "mode": "auto", "expires_at": NOW + timedelta(days=1),
    }  # fmt: skip
