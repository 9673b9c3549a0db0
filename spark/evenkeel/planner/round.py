"""The planner's round: rows of one cluster in one cycle in, rows of its tables and of its memory out.

It plans with every setting but `off`; whether it decides is for shedding and placement to ask (`decides`).

The memory is rows of `strategy_state`. Figures of the cluster have one row each. A broker has one row for all of its up
to twenty figures: `name` is `PACKED` and a JSON object that keeps every number bit for bit, and `at` is since when the
broker has had as many bundles. Older rows with one figure of a broker each are ignored; models are then learned again
within `FEWEST_SAMPLES` settled cycles. A wanted split is one row: the subject is the bundle, `name` is `WANTED` and a
JSON array, `at` is since when the split is wanted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from evenkeel.cycle import reading
from evenkeel.cycle.fold import PLANNER, THE_CLUSTER, state_row
from evenkeel.cycle.memo import acts_only
from evenkeel.cycle.reading import Decided, Row, Rows
from evenkeel.cycle.reasons import named, reason_row
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.model.consideration import Considered
from evenkeel.planner.figures import PlannerFigures
from evenkeel.planner.findings import findings
from evenkeel.planner.memory import BrokerMemory, PlannerMemory, Promise, WantedSplit
from evenkeel.planner.plan import PlannerPlan, plan
from evenkeel.planner.usage_model import FEWEST_SAMPLES, MOST_ERROR, SUM_NAMES, BrokerModel, UsageSums
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
    return reason_row(named(verdict, cluster), PLANNER)


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
        "is_used": model.is_used and model.reported is None,
        "sentence": _model_words(broker, resource, model, error, mean_error, figures),
    }


def _model_words(
    broker: str, resource: str, model: BrokerModel, error: float | None, mean: float | None, figures: PlannerFigures
) -> str:
    name = resource.replace("_", " ")
    if figures.is_by_traffic:
        return f"{broker}: no usage is known, so traffic alone counts."
    if model.reported is not None:
        counted = model.line.usage(figures.loads[resource][broker])
        return (
            f"{broker}, {name}: {100 * model.reported:.1f} % is too little for its load; it counts as "
            f"{100 * counted:.1f} %, by the usual proportion to traffic."
        )
    if model.is_alike:
        return f"{broker}, {name}: one line, with a base, explains the usage of all brokers; usage grows along it."
    if error is None or mean is None or model.sums.samples < FEWEST_SAMPLES:
        return (
            f"{broker}, {name}: {model.sums.samples:.0f} settled cycles are too few for a fit; usage counts in "
            "proportion to traffic."
        )
    compared = f"the fit was off by {100 * error:.1f} points, the mean by {100 * mean:.1f}"
    if model.is_used:
        return f"{broker}, {name}: {compared}; the fit is used."
    return (
        f"{broker}, {name}: {compared}; a fit counts from {MOST_ERROR} times the mean's error down, and if it is no "
        "worse than traffic's share, so usage counts in proportion to traffic."
    )


PACKED, WANTED = "broker ", "split "
MESSAGE_BYTES = "message_bytes"
_FIGURES = (MESSAGE_BYTES, "above", "is_acting", "reversals", "changes", "unsteady", "misses")
_SEEN, _FELL_BACK = "seen", "fell_back"
_LOAD, _SUMS, _PROMISE, _DEAF = "load", "sums", "promise", "deaf"


def rows_of(memory: PlannerMemory) -> list[dict[str, Any]]:
    """The rows, by subject and name."""
    return sorted(
        (dict(row) for kind in (_cluster_rows, _broker_rows, _split_rows) for row in kind(memory)),
        key=lambda row: (row["subject"], row["name"]),
    )


def memory_of(rows: Iterable[Row]) -> PlannerMemory:
    """Return the memory in the previous cycle's rows; empty without rows. Unreadable values are left out."""
    values: dict[str, float] = {}
    times: dict[str, datetime] = {}
    packed: dict[str, tuple[Mapping[str, Any], datetime | None]] = {}
    splits: dict[str, WantedSplit] = {}
    for row in rows:
        if row["strategy"] != PLANNER:
            continue
        subject, name, value = row["subject"], row["name"], row["value"]
        at = datetime.fromisoformat(row["at"]) if row["at"] is not None else None
        if name.startswith(PACKED):
            packed[subject] = _unpacked(name.removeprefix(PACKED)), at
        elif name.startswith(WANTED) and at is not None:
            split = _wanted_split(name.removeprefix(WANTED), at)
            splits |= {} if split is None else {subject: split}
        elif subject == THE_CLUSTER and at is not None:
            times[name] = at
        elif subject == THE_CLUSTER and value is not None and math.isfinite(value):
            values[name] = value
    known = sorted(packed.items())
    return PlannerMemory(
        at=times.get(_SEEN),
        message_bytes=values.get(MESSAGE_BYTES, 0.0),
        above=int(values.get("above", 0.0)),
        is_acting=bool(values.get("is_acting", 0.0)),
        reversals=values.get("reversals", 0.0),
        changes=values.get("changes", 0.0),
        unsteady=int(values.get("unsteady", 0.0)),
        misses=int(values.get("misses", 0.0)),
        fell_back=times.get(_FELL_BACK),
        brokers={
            broker: BrokerMemory(load[0], load[1], load[2], since)
            for broker, (packed_figures, since) in known
            if (load := _numbers(packed_figures.get(_LOAD), 3)) is not None
        },
        sums={
            (resource, broker): UsageSums(*sums)
            for broker, (packed_figures, _) in known
            for resource, packed_sums in sorted(_object(packed_figures.get(_SUMS)).items())
            if (sums := _numbers(packed_sums, len(SUM_NAMES))) is not None
        },
        promises={
            broker: one
            for broker, (packed_figures, _) in known
            if (one := _promise(packed_figures.get(_PROMISE))) is not None
        },
        deaf={
            broker: since
            for broker, (packed_figures, _) in known
            if (since := _time(packed_figures.get(_DEAF))) is not None
        },
        splits=dict(sorted(splits.items())),
    )


def wanted_splits_of(rows: Iterable[Row]) -> tuple[dict[str, WantedSplit], float]:
    """Return the splits that the previous cycle's rows request, and how many bytes a message counts as."""
    memory = memory_of(row for row in rows if not row["name"].startswith(PACKED))
    return dict(memory.splits), memory.message_bytes


def has_fallen_back(rows: Iterable[Row]) -> bool:
    """Return True if the strategy in force decided in the cycle before, since the planner promised too much."""
    return any(row["strategy"] == PLANNER and row["name"] == _FELL_BACK and row["at"] is not None for row in rows)


def bundles_wanted_split(rows: Iterable[Row]) -> list[str]:
    """The bundles that the planner wants, or wanted recently, to be split."""
    return [row["subject"] for row in rows if row["strategy"] == PLANNER and row["name"].startswith(WANTED)]


def _cluster_rows(memory: PlannerMemory) -> Iterator[Row]:
    for name, at in ((_SEEN, memory.at), (_FELL_BACK, memory.fell_back)):
        if at is not None:
            yield state_row(PLANNER, THE_CLUSTER, name, at=at)
    for name in _FIGURES:
        yield state_row(PLANNER, THE_CLUSTER, name, value=float(getattr(memory, name)))


def _broker_rows(memory: PlannerMemory) -> Iterator[Row]:
    sums: dict[str, dict[str, list[float]]] = {}
    for (resource, broker), usage_sums in memory.sums.items():
        sums.setdefault(broker, {})[resource] = [float(getattr(usage_sums, name)) for name in SUM_NAMES]
    for broker in memory.brokers.keys() | sums.keys() | memory.promises.keys() | memory.deaf.keys():
        known, promise = memory.brokers.get(broker), memory.promises.get(broker)
        packed: dict[str, Any] = {}
        if known is not None:
            packed[_LOAD] = [float(known.bundles), float(known.load), float(known.change)]
        if broker in sums:
            packed[_SUMS] = sums[broker]
        if promise is not None:
            figures = (float(figure) for figure in (promise.gain, promise.before, promise.load))
            packed[_PROMISE] = [promise.resource, promise.at.isoformat(), *figures]
        if broker in memory.deaf:
            packed[_DEAF] = memory.deaf[broker].isoformat()
        text = json.dumps(packed, separators=(",", ":"), sort_keys=True)
        yield state_row(PLANNER, broker, PACKED + text, at=known.since if known is not None else None)


def _split_rows(memory: PlannerMemory) -> Iterator[Row]:
    for bundle, split in memory.splits.items():
        refused_at = None if split.refused_at is None else split.refused_at.isoformat()
        values = [split.resource, float(split.room), float(split.alone), float(split.level), split.is_stuck, refused_at]
        values += [] if split.stay is None or split.leave is None else [float(split.stay), float(split.leave)]
        yield state_row(PLANNER, bundle, WANTED + json.dumps(values, separators=(",", ":")), at=split.since)


def _wanted_split(text: str, since: datetime) -> WantedSplit | None:
    try:
        resource, room, alone, level, is_stuck, refused_at, *parts = json.loads(text)
        known, of_parts = _numbers([room, alone, level], 3), _numbers(parts, 2 if parts else 0)
        if known is None or of_parts is None:
            return None
        refused = None if refused_at is None else datetime.fromisoformat(refused_at)
        wish = WantedSplit(since, str(resource), known[0], known[1], known[2], bool(is_stuck), refused)
        return wish._replace(stay=of_parts[0], leave=of_parts[1]) if of_parts else wish
    except (TypeError, ValueError):
        return None


def _unpacked(text: str) -> Mapping[str, Any]:
    try:
        return _object(json.loads(text))
    except ValueError:
        return {}


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _numbers(values: Any, count: int) -> list[float] | None:
    """Return so many finite numbers; None for anything else."""
    if not isinstance(values, list) or len(values) != count:
        return None
    return values if all(isinstance(number, float) and math.isfinite(number) for number in values) else None


def _promise(value: Any) -> Promise | None:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value[:2]):
        return None
    figures, at = _numbers(value[2:], 3), _time(value[1]) if len(value) > 1 else None
    return None if figures is None or at is None else Promise(at, value[0], figures[0], figures[1], figures[2])


def _time(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
