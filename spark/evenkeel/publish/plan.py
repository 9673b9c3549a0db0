"""The plan of one cluster in one cycle: its digest, its commands, the guards' objections, and its expected effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evenkeel.cycle import reading
from evenkeel.cycle.fold import PLANNER, Round, fold
from evenkeel.cycle.memo import acts_only
from evenkeel.cycle.reading import Decided, Row, Rows
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.planner.round import OFF, ON, SHADOW
from evenkeel.publish.commands import Wanted, numbered, plan_id, wanted
from evenkeel.publish.guarding import guarded, harm_found, harms, outcome_rows, throughput, with_clients
from evenkeel.settings import Settings, digest_with
from evenkeel.spark.column_types import schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


DECIDED_TABLES = ("split_decisions", "unload_decisions", "placement_decisions")
GUARD_TABLE = "guard_decisions"
OUTCOMES = "outcomes"
# Columns of a decided table beside the decision itself; their wording may change without a change of the plan.
_NOT_DECIDED = frozenset({"cluster", "cycle_at", "sentence"}) | STAMP_NAMES
PLAN_TYPE = (
    "cluster string, cycle_at string, plan_id string, shedder string, placement string, splits int, unloads int, "
    "placements int, refusals int, held int, guard_rows int, harm_rows int, commands int, before_max_over_mean double, "
    "after_max_over_mean double, moved_traffic_share double"
)


def plan_type() -> StructType:
    """The schema of the plan's own row."""
    return schema_of(PLAN_TYPE)


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Return one row of `plan` with its figures, rows of `commands` and `guard_decisions`, and of `outcomes` for past
    harm.

    The plan's id covers the guards' verdicts too: an approval is for exactly what is sent. `splits` and `unloads` count
    decisions, `commands` counts requests. The forecast is of the requests, since the rest stays as it is.
    """
    planned = made_of(rows)
    cycle = reading.the_cycle(rows)
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    return {
        "plan": [planned.figures],
        "commands": planned.commands,
        GUARD_TABLE: [{**row, **stamp} for row in planned.objections],
        OUTCOMES: planned.harm,
    }


PLAN = Round(decide, carries={})


def decide_cycles(key: Row, rows: Rows) -> Decided:
    """Plan every cycle of a cluster (`fold`)."""
    return fold((PLAN,), key, rows)


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan: its row, its commands, the guards' verdicts, the load before and after, and rows of `outcomes` about past
    harm."""

    figures: dict[str, Any]
    asked: list[Wanted]
    commands: list[dict[str, Any]]
    objections: list[dict[str, Any]]
    change: Forecast
    harm: list[dict[str, Any]]


def made_of(rows: Rows) -> Plan:
    """Return the plan of the decided rows. If only acts are requested, its id is empty."""
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    decided = {table: rows[table] for table in DECIDED_TABLES}
    splits, placements = decided["split_decisions"], decided["placement_decisions"]
    plan = wanted(cycle, splits, placements, decided["unload_decisions"])
    harm_seen = harm_found(rows, settings)
    asked, verdicts = guarded(rows, plan, settings, harms(rows, harm_seen))
    rests_on = {**cycle, "settings_digest": _settings_digest(cycle, settings)}
    name = "" if acts_only(rows) else plan_id(rests_on, {**decided, GUARD_TABLE: verdicts}, _NOT_DECIDED)
    ownerless = [row for row in placements if row["cause"] == "no_owner"]
    change = forecast_of(rows, [*ownerless, *(act.decision for act in asked if act.command["kind"] == "unload")])
    by_planner = _is_by_planner(decided["unload_decisions"], settings)
    figures = {
        "plan_id": name,
        "shedder": PLANNER if by_planner else settings.loadBalancerLoadSheddingStrategy,
        "placement": PLANNER if by_planner else settings.loadBalancerLoadPlacementStrategy,
        "splits": sum(row["outcome"] == "split" for row in splits),
        "unloads": sum(act.command["kind"] == "unload" for act in plan),
        "placements": sum(row["outcome"] == "placed" for row in placements),
        "refusals": sum(row["outcome"] == "refused" for table in DECIDED_TABLES for row in decided[table]),
        "held": len(plan) - len(asked),
        "guard_rows": len(verdicts),
        "harm_rows": len(harm_seen),
        "commands": len(asked),
        "before_max_over_mean": change.before_max_over_mean,
        "after_max_over_mean": change.after_max_over_mean,
        "moved_traffic_share": change.moved_share,
    }
    harm = outcome_rows(cycle["cluster"], datetime.fromisoformat(cycle["cycle_at"]), harm_seen)
    commands = with_clients(numbered(name, cycle, asked, settings), rows)
    return Plan(figures, asked, commands, verdicts, change, harm)


def _is_by_planner(unloads: Sequence[Row], settings: Settings) -> bool:
    """Return True if Evenkeel's planner decided in place of the strategies in force.

    Then the planner's verdict on the cluster is among the unloads.
    """
    if settings.evenkeelPlanner != ON:
        return False
    return any(row["strategy"] == PLANNER and row["subject_kind"] == "cluster" for row in unloads)


def _settings_digest(cycle: Row, settings: Settings) -> str | None:
    """Return the digest of the plan's settings.

    A planner in shadow mode counts as one that is off: the plan is the same.
    """
    digest: str | None = cycle["settings_digest"]
    if settings.evenkeelPlanner != SHADOW or not cycle["settings"]:
        return digest
    return digest_with(cycle["settings"], "evenkeelPlanner", OFF)


def forecast_of(rows: Rows, placements: Sequence[Row]) -> Forecast:
    """Broker loads with these placements carried out."""
    loads = [row for row in rows["broker_load"] if row["weighted_usage"] is not None]
    usage = {row["broker"]: row["weighted_usage"] for row in loads}
    traffic = {row["broker"]: throughput(row) for row in loads}
    placed = [row for row in placements if row["outcome"] == "placed"]
    moving = {row["subject"] for row in placed}
    bundles = {row["bundle"]: throughput(row, "used_") for row in rows["bundle_load"] if row["bundle"] in moving}
    moves = [
        PlannedMove(row["subject"], row["broker"], row["destination"], bundles.get(row["subject"], 0.0))
        for row in placed
    ]
    return forecast(usage, traffic, moves)


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A bundle that changes its broker, with its throughput in byte/s, in and out. `source` None: it had no owner."""

    bundle: str
    source: str | None
    destination: str
    throughput: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Broker to weighted usage (fraction) before and after, and the share of the cluster's traffic that moves."""

    before: Mapping[str, float]
    after: Mapping[str, float]
    moved_share: float

    @property
    def before_max_over_mean(self) -> float | None:
        """Return the largest usage over the mean before the moves; None without a mean."""
        return max_over_mean(self.before.values())

    @property
    def after_max_over_mean(self) -> float | None:
        """Return the largest usage over the mean after the moves; None without a mean."""
        return max_over_mean(self.after.values())


def forecast(usage: Mapping[str, float], throughput: Mapping[str, float], moves: Iterable[PlannedMove]) -> Forecast:
    """Return usages after moves: a bundle moves the share of its broker's usage that it has of the broker's throughput.

    `usage` is a fraction per broker, `throughput` byte/s per broker. Brokers are assumed to be equally strong; a
    bundle from a broker without known throughput moves no usage.
    """
    after = dict(usage)
    moved = 0.0
    for move in sorted(moves, key=lambda move: move.bundle):
        moved += move.throughput
        source = move.source or ""
        whole = throughput.get(source, 0.0)
        if source not in usage or move.destination not in usage or whole <= 0.0:
            continue
        part = usage[source] * min(move.throughput / whole, 1.0)
        after[source] -= part
        after[move.destination] += part
    total = sum(throughput[broker] for broker in sorted(throughput))
    return Forecast(dict(usage), after, moved / total if total > 0 else 0.0)


def max_over_mean(values: Iterable[float]) -> float | None:
    """Largest value over the mean; None without values or where all are zero."""
    usages = sorted(values)
    mean = sum(usages) / len(usages) if usages else 0.0
    return usages[-1] / mean if mean > 0 else None
