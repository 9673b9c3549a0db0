"""The planner's round: rows of one cluster in one cycle in, rows of its tables out.

It plans with every setting but `off`; whether it decides is for shedding and placement to ask (`decides`).
"""

from __future__ import annotations

from typing import Any

from evenkeel.cycle import reading
from evenkeel.cycle.memo import acts_only
from evenkeel.cycle.reading import Decided, Row, Rows
from evenkeel.cycle.reasons import named, reason_row
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.model.consideration import Considered
from evenkeel.planner.figures import PlannerFigures
from evenkeel.planner.findings import findings
from evenkeel.planner.memory_rows import STRATEGY, memory_of, rows_of
from evenkeel.planner.plan import PlannerPlan, plan
from evenkeel.planner.usage_model import FEWEST_SAMPLES, MOST_ERROR, BrokerModel
from evenkeel.planner.verdicts import PlannerVerdict, verdicts
from evenkeel.planner.view import NETWORK
from evenkeel.planner.view_from_rows import view_of
from evenkeel.settings import Settings

TABLES = PLANNER_TABLES
TARGETS, MODELS, FINDINGS = TABLES
OFF, SHADOW, ON = "off", "shadow", "on"


def decide(key: Row, rows: Rows) -> Decided:
    """Rows of `TABLES` and of `strategy_state`; none of all with evenkeelPlanner off."""
    settings = reading.settings_of(rows)
    if settings.evenkeelPlanner == OFF:
        return {**{table: [] for table in TABLES}, "strategy_state": []}
    cycle = reading.the_cycle(rows)
    view, apart = view_of(rows, settings)
    planned = plan(view, memory_of(rows.get("state", ())), settings)
    recorded = _told(verdicts(view, planned, settings, apart), rows)
    decided = {
        TARGETS: [_target_row(verdict, cycle["cluster"]) for verdict in recorded],
        MODELS: [] if acts_only(rows) else model_rows(planned),
        FINDINGS: []
        if acts_only(rows)
        else [_reason(finding, cycle["cluster"]) for finding in findings(view, planned, settings)],
        "strategy_state": rows_of(planned.memory),
    }
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    return {table: [{**row, **stamp} for row in table_rows] for table, table_rows in decided.items()}


def decides(rows: Rows, settings: Settings) -> bool:
    """Return True if the planner decides the unloads of this cycle, and not the strategy in force."""
    if settings.evenkeelPlanner != ON:
        return False
    return any(row["subject_kind"] == "cluster" and row["outcome"] != "skipped" for row in rows.get(TARGETS, ()))


def _told(every: list[PlannerVerdict], rows: Rows) -> list[PlannerVerdict]:
    """Return the verdicts to record: with acts alone, the cluster's verdict and its acts."""
    if not acts_only(rows):
        return every
    return [
        verdict
        for verdict in every
        if verdict.considered.outcome in ("unload", "placed") or verdict.considered.subject_kind == "cluster"
    ]


def _target_row(verdict: PlannerVerdict, cluster: str) -> dict[str, Any]:
    return {
        **_reason(verdict.considered, cluster),
        "destination": verdict.destination,
        "position": verdict.position,
        "gain": verdict.gain,
        "cost": verdict.cost,
        "needs_split": verdict.needs_split,
        "basis": verdict.basis,
    }


def _reason(verdict: Considered, cluster: str) -> dict[str, Any]:
    return reason_row(named(verdict, cluster), STRATEGY)


def model_rows(plan: PlannerPlan) -> list[dict[str, Any]]:
    """Rows of `planner_models`: broker and resource."""
    figures = plan.figures
    if figures is None:
        return []
    return [
        _model_row(broker, resource, figures.models[resource][broker], figures)
        for broker in sorted(figures.usage)
        for resource in figures.resources
    ]


def _model_row(broker: str, resource: str, model: BrokerModel, figures: PlannerFigures) -> dict[str, Any]:
    sums, tried = model.sums, model.sums.tried > 0
    error = sums.error / sums.tried if tried else None
    mean_error = sums.mean_error / sums.tried if tried else None
    return {
        "broker": broker,
        "resource": resource,
        "base": model.line.base,
        "slope": model.line.slope,
        "regressor": "byte/s" if resource in NETWORK else "byte/s and messages",
        "error": error,
        "mean_error": mean_error,
        "samples": int(sums.samples),
        "is_used": model.is_used,
        "sentence": _model_words(broker, resource, model, error, mean_error, figures),
    }


def _model_words(
    broker: str, resource: str, model: BrokerModel, error: float | None, mean: float | None, figures: PlannerFigures
) -> str:
    name = resource.replace("_", " ")
    if figures.is_by_traffic:
        return f"{broker}: no usage is known, so traffic alone counts."
    if model.is_alike:
        return f"{broker}, {name}: one line, with a base, explains the usage of all brokers; it is used."
    if error is None or mean is None or model.sums.samples < FEWEST_SAMPLES:
        return (
            f"{broker}, {name}: {model.sums.samples:.0f} settled cycles are too few for a fit; usage counts in "
            "proportion to traffic."
        )
    compared = f"the fit was off by {100 * error:.1f} points, the mean by {100 * mean:.1f}"
    if model.is_used:
        return f"{broker}, {name}: {compared}; the fit is used."
    return (
        f"{broker}, {name}: {compared}; a fit is used at {MOST_ERROR} times the mean's error or less, and no more "
        "than that of traffic's share, so usage counts in proportion to traffic."
    )
