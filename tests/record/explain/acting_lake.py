"""A small lake in which commands were sent, held back and seen: three dates, with a split on the second."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from evenkeel.model.considered import Alternative, Rule
from evenkeel.place.placement import Placement
from evenkeel.place.rows import placement_row
from evenkeel.place.strategies.least_long_term_message_rate import LEAST_RATE
from evenkeel.plan_splits.rules.bundle_splitter_task import OVER_LIMIT
from evenkeel.rounds.reasons import reason_row
from evenkeel.shed.bundle_selection import HEAVIEST_FIRST, WANTED_REACHED
from evenkeel.shed.strategies import threshold_shedder
from tests.record.plausible import broker_load, bundle_load, settings
from tests.record.small_lake import Row, SmallLake, moment

B1, B2, B3 = (f"b{n}.example:8080" for n in (1, 2, 3))
MIB = 1024.0 * 1024.0
WHOLE = "acme/web/0x00000000_0x80000000"
CHILDREN = ("acme/web/0x00000000_0x40000000", "acme/web/0x40000000_0x80000000")
REST = "acme/web/0x80000000_0xffffffff"
OTHER = "acme/other/0x00000000_0xffffffff"
FIRST = moment("2026-03-01T03:12:37.500250")
SPLIT_AT = FIRST + timedelta(days=1)
AFTER = FIRST + timedelta(days=2)
SPLIT_ID, UNLOAD_ID, OTHER_ID = "5b1c" + "0" * 60, "a01d" + "1" * 60, "a01d" + "2" * 60


def below(broker: str, usage: float, mean: float) -> Row:
    return about(threshold_shedder.BELOW_THRESHOLD, broker, usage, mean + 0.1, {"mean_usage": mean})


def above(broker: str, usage: float, mean: float, wanted: float) -> Row:
    numbers = {"mean_usage": mean, "to_offload": wanted, "selected": 1}
    return about(threshold_shedder.ABOVE_THRESHOLD, broker, usage, mean + 0.1, numbers)


def about(rule: Rule, broker: str, usage: float, limit: float, numbers: dict[str, float]) -> Row:
    verdict = rule.about_broker(
        broker, setting="loadBalancerBrokerThresholdShedderPercentage",
        measured=usage, threshold=limit, unit="fraction", numbers=numbers,
    )  # fmt: skip
    return reason_row(verdict, "ThresholdShedder")


def taken(bundle: str, broker: str, throughput: float, rank: int, before: float, wanted: float) -> Row:
    following = Alternative(REST, "next", "wanted_reached", 0.3 * MIB)
    verdict = HEAVIEST_FIRST.about_bundle(
        bundle, broker, measured=before, threshold=wanted, unit="byte/s",
        alternatives=(following,), numbers={"bundle_throughput": throughput, "rank": rank},
    )  # fmt: skip
    return reason_row(verdict, "ThresholdShedder")


def left(bundle: str, broker: str, throughput: float, rank: int, gone: float, wanted: float) -> Row:
    verdict = WANTED_REACHED.about_bundle(
        bundle, broker, measured=gone, threshold=wanted, unit="byte/s",
        numbers={"bundle_throughput": throughput, "rank": rank},
    )  # fmt: skip
    return reason_row(verdict, "ThresholdShedder")


def placed() -> Row:
    verdict = LEAST_RATE.filtered.about_bundle(
        WHOLE, B1, measured=0.2, threshold=0.85, unit="fraction",
        setting="loadBalancerBrokerOverloadedThresholdPercentage",
        alternatives=(Alternative(B2, "best", "least_long_term_rate", 100.0),
                      Alternative(B3, "candidate", "higher_long_term_rate", 140.25),
                      Alternative(B1, "removed", "topics_over_limit")),
        numbers={"candidates": 2, "best": 1, "removed": 1, "score": 100.0},
    )  # fmt: skip
    placement = Placement(WHOLE, B2, (B2,), verdict.alternatives, verdict)
    return placement_row(placement, "shed", "LeastLongTermMessageRate", placement)


def split_row() -> Row:
    verdict = OVER_LIMIT["topics"].about_bundle(
        WHOLE, B2, measured=1100, threshold=1000, unit="count",
        setting="loadBalancerNamespaceBundleMaxTopics",
        numbers={"topics": 1100, "sessions": 4, "rate": 10.0, "throughput": 100.0},
    )  # fmt: skip
    cut = {"algorithm": "range_equally_divide", "cuts": [0x40000000], "children": list(CHILDREN)}
    return reason_row(verdict, "BundleSplitterTask") | cut


def guard(bundle: str, position: int) -> Row:
    why = "1 unload in one cycle is the most, and it is used up"
    return {
        "subject": bundle, "subject_kind": "bundle", "position": position, "kind": "unload", "broker": B1,
        "destination": B3, "outcome": "held", "rule": "unloads_per_cycle", "setting": "evenkeelMaxUnloadsPerCycle",
        "measured": 2.0, "threshold": 1.0, "margin": 1.0, "unit": "count",
        "sentence": f"{bundle} would be unloaded from {B1} to {B3} and is held back: {why}.",
    }  # fmt: skip


def command(command_id: str, plan_id: str, kind: str, bundle: str, **more: Any) -> Row:
    return {"command_id": command_id, "plan_id": plan_id, "step": 1, "kind": kind, "bundle": bundle, "mode": "auto",
            "request": f"PUT /admin/v2/namespaces/{bundle}/{kind}", "expires_at": AFTER, **more}  # fmt: skip


def stamped(at: Any, rows: list[Row]) -> list[Row]:
    return [{**row, "cluster": "prod", "cycle_at": at, "cycle_date": at.date(), "write_id": "w"} for row in rows]


def fill(root: Path) -> SmallLake:
    """Cluster `prod`: it unloads WHOLE and splits it, REST is held back; afterwards the children are there."""
    lake = SmallLake(root)
    loads = [broker_load(B1, 0.5), broker_load(B2, 0.2), broker_load(B3, 0.1, state="no_answer")]
    wanted = 1.5 * MIB
    lake.add("prod", FIRST, {
        "broker_load": loads,
        "bundle_load": [bundle_load(WHOLE, B1, 2 * MIB), bundle_load(REST, B1, 0.3 * MIB)],
        "settings": settings({}),
        "unload_decisions": [above(B1, 0.5, 0.3, wanted), below(B2, 0.2, 0.3), below(B3, 0.2, 0.3),
                             taken(WHOLE, B1, 2 * MIB, 1, 0.0, wanted), left(REST, B1, 0.3 * MIB, 2, 2 * MIB, wanted)],
        "placement_decisions": [placed()],
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
        command(OTHER_ID, "p2", "unload", OTHER, from_broker=B1, destination=B3)]))  # fmt: skip
    lake.add("prod", AFTER, {
        "broker_load": loads,
        "bundle_load": [bundle_load(name, B2, MIB) for name in CHILDREN] + [bundle_load(REST, B3, 0.3 * MIB)],
        "settings": settings({}),
        "unload_decisions": [below(B1, 0.2, 0.25), below(B2, 0.3, 0.25)],
    }, mode="auto", plan_id="p3")  # fmt: skip
    return lake
