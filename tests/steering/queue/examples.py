"""Commands for tests."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel.steering.admin_request import request_text
from evenkeel.steering.queue.signing import Signature, keys_in

KEY = "a-key-that-pipeline-and-agents-share"
LAB = Signature("lab", keys_in(KEY, "tests"))
"""Both ends of the lab's queues."""
CYCLE = datetime.now(UTC).replace(microsecond=0)
RANGES = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff")


def command(step: int = 1, kind: str = "unload", namespace: str = "acme/ns0", place: int = 0, **other: Any) -> dict:
    """A row of `commands` that an agent takes."""
    bundle = f"{namespace}/{RANGES[place]}"
    split = kind == "split"
    row = {
        "plan_id": "plan-1",
        "cluster": "lab",
        "cycle_at": CYCLE,
        "step": step,
        "kind": kind,
        "bundle": bundle,
        "from_broker": "b1:8080",
        "destination": None if split else "b2:8080",
        "algorithm": "range_equally_divide" if split else None,
        "cuts": [(int(RANGES[place][:10], 16) + int(RANGES[place][11:], 16)) // 2] if split else None,
        "unload_children": False if split else None,
        "topic": None,
        "mode": "auto",
        "expires_at": datetime.now(UTC) + timedelta(minutes=10),
    } | other
    row = {"request": request_text(row)} | row
    words = f"{row['plan_id']} {row['cycle_at']} {row['kind']} {row['bundle']} {row['step']}"
    return {"command_id": hashlib.sha256(words.encode()).hexdigest()} | row


def owners(commands: list[dict]) -> dict[str, str]:
    """The owners that the commands rest on."""
    return {row["bundle"]: row["from_broker"] for row in commands}
