"""The plan of one cluster in one cycle: its digest, its commands, and what it would change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenkeel.rounds import reading
from evenkeel.rounds.commands import commands, plan_id
from evenkeel.rounds.forecast import Forecast, Move, forecast
from evenkeel.rounds.reading import Row, Rows

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

DECIDED_TABLES = ("split_decisions", "unload_decisions", "placement_decisions")
# What a row of a decided table carries besides the decision itself; its wording may change without the plan changing.
_NOT_DECIDED = frozenset({"cluster", "cycle_at", "cycle_date", "write_id", "sentence"})
PLAN_TYPE = (
    "cluster string, plan_id string, shedder string, placement string, splits int, unloads int, placements int, "
    "refusals int, commands int, before_max_over_mean double, after_max_over_mean double, moved_traffic_share double"
)


def plan_type() -> StructType:
    """The schema of the plan's own row."""
    from pyspark.sql.types import StructType, _parse_datatype_string

    parsed = _parse_datatype_string(PLAN_TYPE)
    assert isinstance(parsed, StructType)
    return parsed


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """One row of `plan` with its figures, and the rows of `commands`."""
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    decided = {table: [_decision(row) for row in rows[table]] for table in DECIDED_TABLES}
    splits, placements = decided["split_decisions"], decided["placement_decisions"]
    plan = plan_id(cycle, decided)
    asked = commands(plan, cycle, splits, placements, settings)
    change = forecast_of(rows, placements)
    figures = {
        "plan_id": plan,
        "shedder": settings.loadBalancerLoadSheddingStrategy,
        "placement": settings.loadBalancerLoadPlacementStrategy,
        "splits": sum(row["outcome"] == "split" for row in splits),
        "unloads": sum(command["kind"] == "unload" for command in asked),
        "placements": sum(row["outcome"] == "placed" for row in placements),
        "refusals": sum(row["outcome"] == "refused" for table in DECIDED_TABLES for row in decided[table]),
        "commands": len(asked),
        "before_max_over_mean": change.before_max_over_mean,
        "after_max_over_mean": change.after_max_over_mean,
        "moved_traffic_share": change.moved_share,
    }
    return {"plan": [figures], "commands": asked}


def forecast_of(rows: Rows, placements: list[dict[str, Any]]) -> Forecast:
    """Broker loads with the plan carried out."""
    loads = [row for row in rows["broker_load"] if row["weighted_usage"] is not None]
    usage = {row["broker"]: row["weighted_usage"] for row in loads}
    throughput = {row["broker"]: _throughput(row, "") for row in loads}
    bundles = {row["bundle"]: _throughput(row, "used_") for row in rows["bundle_load"]}
    moves = [
        Move(row["subject"], row["broker"], row["destination"], bundles.get(row["subject"], 0.0))
        for row in placements
        if row["outcome"] == "placed"
    ]
    return forecast(usage, throughput, moves)


def _throughput(row: Row, prefix: str) -> float:
    return float((row[f"{prefix}msg_throughput_in"] or 0.0) + (row[f"{prefix}msg_throughput_out"] or 0.0))


def _decision(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _NOT_DECIDED}
