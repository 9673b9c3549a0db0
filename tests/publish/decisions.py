"""Decided rows from which plans and guards are made: b1 carries fifteen bundles, b2 and b3 are idle."""

import json
from typing import Any

from tests.cycle.rows import MIB, bundle, cycle, report, rows

B1, B2, B3 = (f"b{n}:8080" for n in (1, 2, 3))
EARLIER = "2026-11-21T08:17:04.000000+00:00"
NAMES = [bundle(n, B1)["bundle"] for n in range(15)]


def split(n: int, **more: Any) -> dict[str, Any]:
    row = {"subject": NAMES[n], "broker": B1, "outcome": "split", "strategy": "BundleSplitterTask", "cuts": [1 << 27]}
    return row | {"algorithm": "range_equally_divide", "unload_children": False, "wish_id": None} | more


def placed(n: int, to: str = B2, **more: Any) -> dict[str, Any]:
    row = {"subject": NAMES[n], "broker": B1, "cause": "shed", "outcome": "placed", "destination": to}
    return row | {"rule": "least_long_term_rate", "strategy": "LeastLongTermMessageRate", "wish_id": None} | more


def load(broker: str, usage: float | None, throughput: float = 0.0, **more: Any) -> dict[str, Any]:
    row = {"broker": broker, "state": "reported", "weighted_usage": usage, "msg_throughput_in": throughput}
    return row | {"msg_throughput_out": 0.0} | more


def known(*decisions: dict[str, Any], settings: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """b1 carries 15 bundles of 1 MiB/s, b2 and b3 are idle."""
    held = {"evenkeelMaxMovedTrafficPercent": 100.0} | (settings or {})
    steering = {"acts": more.pop("acts", []), "pauses": more.pop("pauses", [])}
    found = rows([report(name, 50.0) for name in (B1, B2, B3)], [bundle(n, B1, MIB) for n in range(15)])
    found |= {
        "cycle": [{**cycle(**held), "steering": json.dumps(steering)}],
        "placement_decisions": [row for row in decisions if "cause" in row],
    }
    found |= {"split_decisions": [row for row in decisions if "cause" not in row]}
    found |= {"broker_load": [load(B1, 0.8, 15 * MIB), load(B2, 0.1), load(B3, 0.1)]}
    return found | more


def act(n: int, outcome: str | None = "done", **more: Any) -> dict[str, Any]:
    row = {"command_id": f"c{n}", "kind": "unload", "bundle": NAMES[n], "from_broker": B2, "destination": B1}
    row |= {"cuts": None, "unload_children": None}
    return row | {"outcome": outcome, "seen_at": None if outcome is None else EARLIER, "cycle_at": EARLIER} | more
