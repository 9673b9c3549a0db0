"""Conversion of verdicts to rows of the decided tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evenkeel.cycle.memo import acts_only
from evenkeel.cycle.reading import Rows
from evenkeel.model.bundles import namespace_of
from evenkeel.model.consideration import PLANNED, Considered
from evenkeel.model.topics import parse_topic

_ACTS = frozenset({"split", "unload", "placed", "refused"})


def named(verdict: Considered, cluster: str) -> Considered:
    """Return the verdict; one about the cluster as a whole gets the cluster's name."""
    return verdict._replace(subject=cluster) if verdict.subject_kind == "cluster" else verdict


def telling(verdicts: Iterable[Considered], rows: Rows) -> list[Considered]:
    """Return the verdicts to record: all, or those with an act, a refusal, or a later plan."""
    if not acts_only(rows):
        return [*verdicts]
    return [
        verdict
        for verdict in verdicts
        if verdict.outcome in _ACTS
        or (verdict.alternatives and any(other.rule == PLANNED for other in verdict.alternatives))
    ]


def reason_row(verdict: Considered, strategy: str, wish_id: str | None = None) -> dict[str, Any]:
    """Return the columns common to all decided tables. `wish_id` is that of the judged wish, if any."""
    numbers = verdict.numbers
    return {
        "subject": verdict.subject,
        "subject_kind": verdict.subject_kind,
        "namespace": _namespace(verdict),
        "broker": verdict.broker,
        "strategy": strategy,
        "outcome": verdict.outcome,
        "rule": verdict.rule,
        "setting": verdict.setting,
        "measured": _double(verdict.measured),
        "threshold": _double(verdict.threshold),
        "margin": _double(verdict.margin),
        "unit": verdict.unit or None,
        "alternatives": [
            {"name": a.name, "verdict": a.verdict, "rule": a.rule or None, "measured": _double(a.measured)}
            for a in verdict.alternatives
        ],
        "numbers": {name: float(numbers[name]) for name in sorted(numbers)},
        "sentence": verdict.sentence(),
        "wish_id": wish_id,
    }


def _double(figure: float | None) -> float | None:
    """Return a count or a limit as its column holds it; rules count in whole numbers."""
    return None if figure is None else float(figure)


def _namespace(verdict: Considered) -> str | None:
    if verdict.subject_kind == "bundle":
        return namespace_of(verdict.subject)
    return parse_topic(verdict.subject).namespace if verdict.subject_kind == "topic" else None
