"""A small lake in which commands were sent, held back and seen: three dates, with a split on the second."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.audit.plausible import broker_load, bundle_load, candidate, decision, placement, settings
from tests.audit.small_lake import Row, SmallLake, moment

B1, B2, B3 = (f"b{n}.example:8080" for n in (1, 2, 3))
MIB = 1024.0 * 1024.0
WHOLE = "acme/web/0x00000000_0x80000000"
CHILDREN = ("acme/web/0x00000000_0x40000000", "acme/web/0x40000000_0x80000000")
REST = "acme/web/0x80000000_0xffffffff"
FIRST = moment("2026-03-01T03:12:37.500250")
SPLIT_AT = FIRST + timedelta(days=1)
AFTER = FIRST + timedelta(days=2)
SPLIT_ID, UNLOAD_ID, OTHER_ID = "5b1c" + "0" * 60, "a01d" + "1" * 60, "a01d" + "2" * 60


def below(broker: str, usage: float, mean: float) -> Row:
    return decision(
        broker, "broker", "kept", "below_threshold", f"{broker} is under its limit.", broker=broker, measured=usage,
        threshold=mean + 0.1, unit="fraction", numbers={"mean_usage": mean},
        setting="loadBalancerBrokerThresholdShedderPercentage",
    )  # fmt: skip


def above(broker: str, usage: float, mean: float, wanted: float) -> Row:
    row = below(broker, usage, mean) | {"outcome": "unload", "rule": "above_threshold"}
    return row | {"sentence": f"{broker} is over its limit.", "numbers": {"mean_usage": mean, "to_offload": wanted}}


def taken(bundle: str, broker: str, throughput: float, rank: int, before: float, wanted: float) -> Row:
    return decision(
        bundle, "bundle", "unload", "heaviest_first", f"{bundle} leaves {broker}.", broker=broker, measured=before,
        threshold=wanted, unit="byte/s", numbers={"bundle_throughput": throughput, "rank": float(rank)},
        alternatives=[{"name": REST, "verdict": "next", "rule": "wanted_reached", "measured": 0.3 * MIB}],
    )  # fmt: skip


def left(bundle: str, broker: str, throughput: float, rank: int, gone: float, wanted: float) -> Row:
    return decision(
        bundle, "bundle", "kept", "wanted_reached", f"{bundle} stays on {broker}.", broker=broker, measured=gone,
        threshold=wanted, unit="byte/s", numbers={"bundle_throughput": throughput, "rank": float(rank)},
    )  # fmt: skip


def split_row() -> Row:
    return decision(
        WHOLE, "bundle", "split", "topics_over_limit", f"{WHOLE} is split.", broker=B2, measured=1100.0,
        threshold=1000.0, unit="count", setting="loadBalancerNamespaceBundleMaxTopics", strategy="BundleSplitterTask",
        numbers={"topics": 1100.0, "sessions": 4.0, "rate": 10.0, "throughput": 100.0},
    ) | {"algorithm": "range_equally_divide", "cuts": [0x40000000], "children": list(CHILDREN)}  # fmt: skip


def guard(bundle: str, position: int) -> Row:
    return {
        "subject": bundle, "subject_kind": "bundle", "position": position, "kind": "unload", "broker": B1,
        "destination": B3, "outcome": "held", "rule": "unloads_per_cycle", "setting": "evenkeelMaxUnloadsPerCycle",
        "measured": 2.0, "threshold": 1.0, "margin": 1.0, "unit": "count", "sentence": f"{bundle} is held back.",
    }  # fmt: skip


def command(command_id: str, plan_id: str, kind: str, bundle: str, **more: Any) -> Row:
    return {"command_id": command_id, "plan_id": plan_id, "step": 1, "kind": kind, "bundle": bundle, "mode": "auto",
            "request": f"PUT /admin/v2/namespaces/{bundle}/{kind}", "expires_at": AFTER, **more}  # fmt: skip


def stamped(at: Any, rows: list[Row]) -> list[Row]:
    return [{**row, "cluster": "prod", "cycle_at": at, "cycle_date": at.date(), "write_id": "w"} for row in rows]


def fill(root: Path) -> SmallLake:
    """Cluster `prod`: it unloads WHOLE and splits it; afterwards its children are there."""
    lake = SmallLake(root)
    loads = [broker_load(B1, 0.5), broker_load(B2, 0.2), broker_load(B3, 0.1, state="no_answer")]
    wanted = 1.5 * MIB
    lake.add("prod", FIRST, {
        "broker_load": loads,
        "bundle_load": [bundle_load(WHOLE, B1, 2 * MIB), bundle_load(REST, B1, 0.3 * MIB)],
        "settings": settings({}),
        "unload_decisions": [above(B1, 0.5, 0.3, wanted), below(B2, 0.2, 0.3), below(B3, 0.2, 0.3),
                             taken(WHOLE, B1, 2 * MIB, 1, 0.0, wanted), left(REST, B1, 0.3 * MIB, 2, 2 * MIB, wanted)],
        "placement_decisions": [placement(WHOLE, B2, "shed", f"{WHOLE} goes to {B2}.",
                                          [candidate(B2, 100.0), candidate(B3, 140.25),
                                           candidate(B1, removed_by="topics_over_limit")], broker=B1)],
    }, mode="auto", plan_id="p1", unloads=1, placements=1, predecessor_status="none")  # fmt: skip
    lake.append("commands", stamped(FIRST, [
        command(UNLOAD_ID, "p1", "unload", WHOLE, from_broker=B1, destination=B2)]))  # fmt: skip
    lake.append("outcomes", stamped(FIRST, [
        {"command_id": UNLOAD_ID, "outcome": "unknown", "seen_at": FIRST + timedelta(seconds=5), "detail": "no answer"},
        {"command_id": UNLOAD_ID, "outcome": "done", "seen_at": FIRST + timedelta(seconds=9),
         "detail": f"the bundle is on {B2}"}]))  # fmt: skip
    lake.add("prod", SPLIT_AT, {
        "broker_load": loads,
        "bundle_load": [bundle_load(WHOLE, B2, 2 * MIB, topics=1100), bundle_load(REST, B1, 0.3 * MIB)],
        "settings": settings({}),
        "split_decisions": [split_row()],
        "unload_decisions": [below(B1, 0.3, 0.3), below(B2, 0.35, 0.3)],
        "guard_decisions": [guard(REST, 2)],
    }, mode="auto", plan_id="p2", splits=1)  # fmt: skip
    lake.append("commands", stamped(SPLIT_AT, [
        command(SPLIT_ID, "p2", "split", WHOLE, from_broker=B2),
        command(OTHER_ID, "p2", "unload", REST, from_broker=B1, destination=B3)]))  # fmt: skip
    lake.add("prod", AFTER, {
        "broker_load": loads,
        "bundle_load": [bundle_load(name, B2, MIB) for name in CHILDREN] + [bundle_load(REST, B3, 0.3 * MIB)],
        "settings": settings({}),
        "unload_decisions": [below(B1, 0.2, 0.25), below(B2, 0.3, 0.25)],
    }, mode="auto", plan_id="p3")  # fmt: skip
    return lake
