"""The planner's round: rows of one cluster in, rows of its three tables out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenkeel.model.bundles import namespace_of
from evenkeel.rounds import reading, state
from evenkeel.rounds.reading import Decided, Row, Rows

TABLES = ("planner_targets", "planner_models", "planner_findings")
STRATEGY = "Planner"
OFF, SHADOW, ON = "off", "shadow", "on"


def decide(key: Row, rows: Rows) -> Decided:
    """Rows of `TABLES` and of `strategy_state`; none of all with evenkeelPlanner off."""
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    if settings.evenkeelPlanner == OFF:
        return {**{table: [] for table in TABLES}, "strategy_state": []}
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    usage = {r["broker"]: float(r["weighted_usage"] or 0.0) for r in rows["broker_load"]}
    mean = sum(usage[b] for b in sorted(usage)) / len(usage) if usage else 0.0
    seen = next((r["value"] for r in rows["state"] if r["strategy"] == STRATEGY and r["name"] == "seen"), 0.0)
    targets = [
        _row(
            cycle["cluster"], "cluster", None, "kept", "target", mean, 1.1, {"floor": 0.1, "seen": seen, "target": 1.1}
        )
    ]
    targets += [_row(b, "broker", b, "kept", "within", usage[b], mean * 1.1, {}) for b in sorted(usage)]
    bundles = sorted(rows["bundle_load"], key=lambda r: (-(r["used_msg_throughput_in"] or 0.0), r["bundle"]))
    split = {r["subject"] for r in rows["split_decisions"] if r["outcome"] == "split"}
    owned = [r for r in bundles if r["owner"] in usage and r["bundle"] not in split]
    cool = min(sorted(usage), key=usage.__getitem__) if usage else None
    for position, one in enumerate([r for r in owned if r["owner"] != cool][:2], start=1):
        outcome = "unload" if position == 1 else "planned"
        targets.append(
            _row(one["bundle"], "bundle", one["owner"], outcome, "to_target", 0.1, 0.0, {})
            | {"destination": cool, "position": position, "gain": 0.05, "cost": 0.01, "needs_split": False}
            | {"alternatives": [{"name": cool, "verdict": "best", "rule": "planned_destination", "measured": 0.1}]}
        )
    models = [
        {"broker": b, "resource": "cpu", "base": 0.1, "slope": None, "regressor": None, "error": None}
        | {"mean_error": None, "samples": int(seen), "is_used": False, "sentence": f"{b}: too few cycles."}
        for b in sorted(usage)
    ]
    findings = [_row(b, "broker", b, "refused", "base_above_target", 0.9, 0.8, {}) for b in sorted(usage)[:1]]
    found = [{k: v for k, v in r.items() if k in _REASON} for r in findings]
    kept = [state.state_row(STRATEGY, state.THE_CLUSTER, "seen", value=seen + 1.0)]
    tables = dict(zip(TABLES, (targets, models, found), strict=True))
    return {t: [{**r, **stamp} for r in own] for t, own in {**tables, "strategy_state": kept}.items()}


_REASON = frozenset(
    [
        "subject",
        "subject_kind",
        "namespace",
        "broker",
        "strategy",
        "outcome",
        "rule",
        "setting",
        "measured",
        "threshold",
        "margin",
        "unit",
        "alternatives",
        "numbers",
        "sentence",
        "wish_id",
    ]
)


def _row(
    subject: str,
    kind: str,
    broker: str | None,
    outcome: str,
    rule: str,
    measured: float,
    threshold: float,
    numbers: Mapping[str, float],
) -> dict[str, Any]:
    return {
        "subject": subject,
        "subject_kind": kind,
        "broker": broker,
        "strategy": STRATEGY,
        "outcome": outcome,
        "namespace": namespace_of(subject) if kind == "bundle" else None,
        "setting": None,
        "rule": rule,
        "measured": measured,
        "threshold": threshold,
        "margin": measured - threshold,
        "unit": "fraction",
        "alternatives": [],
        "numbers": dict(numbers),
        "sentence": f"{subject}: {rule}.",
        "wish_id": None,
        "destination": None,
        "position": None,
        "gain": None,
        "cost": None,
        "needs_split": None,
        "basis": "traffic",
    }
