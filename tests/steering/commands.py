"""Commands as rows of the table, for tests of what carries them out."""

from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel.steering.admin_request import request_text

NOW = datetime.now(UTC)


def unload(bundle: str, source: str, destination: str | None = None, *, step: int = 1, **more: Any) -> dict[str, Any]:
    row = {"kind": "unload", "from_broker": source, "destination": destination, "algorithm": None, "cuts": None}
    return _command(bundle, step, row | {"unload_children": None}, more)


def split(bundle: str, source: str, *cuts: int, step: int = 1, children: bool = False, **more: Any) -> dict[str, Any]:
    row = {"kind": "split", "from_broker": source, "destination": None, "algorithm": "range_equally_divide"}
    return _command(bundle, step, row | {"cuts": list(cuts), "unload_children": children}, more)


def unload_topic(bundle: str, topic: str, source: str, *, step: int = 1, **more: Any) -> dict[str, Any]:
    row = {"kind": "unload_topic", "from_broker": source, "destination": None, "algorithm": None, "cuts": None}
    return _command(bundle, step, row | {"unload_children": None, "topic": topic}, more)


def _command(bundle: str, step: int, row: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    command = {
        "command_id": f"{step}:{bundle}", "plan_id": "plan", "cluster": "lab", "cycle_at": NOW, "step": step,
        "bundle": bundle, "topic": None, "mode": "auto", "expires_at": NOW + timedelta(days=1), **row, **more,
    }  # fmt: skip
    # What is no command has no request; a test of that gives its own.
    return command if "request" in command else {"request": request_text(command)} | command
