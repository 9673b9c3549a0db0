"""Load per broker, as observed and with the plan carried out: a forecast by share of traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.publish.plan import Move, forecast
from evenkeel.record.read import Row
from evenkeel.record.report.decisions import held_bundles

_RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")


@dataclass(frozen=True, slots=True)
class BrokerLine:
    """One broker: weighted usage and share of the cluster's traffic (fractions), traffic in byte/s.

    None where it is not known. `resource` names what its weighted usage comes from.
    """

    broker: str
    state: str
    state_reason: str
    is_leader: bool
    resource: str
    usage_before: float | None
    usage_after: float | None
    traffic_before: float
    traffic_after: float
    share_before: float | None
    share_after: float | None
    bundles_before: int
    bundles_after: int

    @property
    def changes(self) -> bool:
        """Whether the plan moves a bundle from or to it."""
        return self.bundles_before != self.bundles_after or self.traffic_before != self.traffic_after


def broker_lines(tables: Mapping[str, Sequence[Row]]) -> tuple[BrokerLine, ...]:
    """The cluster's brokers by name. Splits move nothing by themselves and are left out of the forecast.

    So are the unloads that guards hold back.
    """
    held = held_bundles(tables.get("guard_decisions", ()))["unload"]
    loads = tables["broker_load"]
    traffic = {row["bundle"]: _throughput(row) for row in tables["bundle_load"]}
    moves = [
        Move(row["subject"], row["broker"], row["destination"], traffic.get(row["subject"], 0.0))
        for row in tables["placement_decisions"]
        if row["outcome"] == "placed" and row["destination"] is not None and row["subject"] not in held
    ]
    owned: dict[str, list[str]] = {row["broker"]: [] for row in loads}
    for row in tables["bundle_load"]:
        if row["owner"] in owned:
            owned[row["owner"]].append(row["bundle"])
    before = {broker: sum(traffic[bundle] for bundle in bundles) for broker, bundles in owned.items()}
    usage = {row["broker"]: row["weighted_usage"] for row in loads if row["weighted_usage"] is not None}
    after_usage = forecast(usage, before, moves).after
    after, bundles_after = dict(before), {broker: len(bundles) for broker, bundles in owned.items()}
    for move in moves:
        for broker, sign in ((move.source, -1), (move.destination, 1)):
            if broker in after:
                after[broker] += sign * move.throughput
                bundles_after[broker] += sign
    total, total_after = sum(before.values()), sum(after.values())
    reasons = {row["broker"]: row["state_reason"] or "" for row in tables["broker_reports"]}
    return tuple(
        BrokerLine(
            broker=row["broker"],
            state=row["state"],
            state_reason=reasons.get(row["broker"], ""),
            is_leader=bool(row["is_leader"]),
            resource=_heaviest(row),
            usage_before=usage.get(row["broker"]),
            usage_after=after_usage.get(row["broker"]),
            traffic_before=before[row["broker"]],
            traffic_after=after[row["broker"]],
            share_before=before[row["broker"]] / total if total > 0 else None,
            share_after=after[row["broker"]] / total_after if total_after > 0 else None,
            bundles_before=len(owned[row["broker"]]),
            bundles_after=bundles_after[row["broker"]],
        )
        for row in sorted(loads, key=lambda row: str(row["broker"]))
    )


def foremost(lines: Sequence[BrokerLine]) -> list[BrokerLine]:
    """The lines that say most first: what the plan changes, then the busiest; a broker of unknown load before all."""
    return sorted(
        lines,
        key=lambda line: (line.usage_before is not None, not line.changes, -(line.usage_before or 0.0), line.broker),
    )


def _throughput(bundle: Row) -> float:
    return float((bundle["used_msg_throughput_in"] or 0.0) + (bundle["used_msg_throughput_out"] or 0.0))


def _heaviest(row: Row) -> str:
    """The resource with the largest weighted percentage, in words; empty where no usage is known."""
    if row["weighted_usage"] is None:
        return ""
    weighted = [(float(row[f"{name}_percent"] or 0.0) * float(row[f"{name}_weight"]), name) for name in _RESOURCES]
    value, name = max(weighted, key=lambda pair: pair[0])
    return name.replace("_", " ").replace("cpu", "CPU") if value > 0 else ""
