"""From verdicts to rows of the decided tables."""

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
    """The verdict; one about the cluster as a whole under the cluster's name."""
    return verdict._replace(subject=cluster) if verdict.subject_kind == "cluster" else verdict


def telling(verdicts: Iterable[Considered], rows: Rows) -> list[Considered]:
    """The verdicts to be recorded: all, or those after which something happens, is refused, or is planned for later."""
    if not acts_only(rows):
        return [*verdicts]
    return [
        one
        for one in verdicts
        if one.outcome in _ACTS or (one.alternatives and any(other.rule == PLANNED for other in one.alternatives))
    ]


def reason_row(verdict: Considered, strategy: str, wish_id: str | None = None) -> dict[str, Any]:
    """The columns that all decided tables share. `wish_id` is that of the wish that was judged, if one was."""
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
    """A count or a limit as its column holds it; rules count in whole numbers."""
    return None if figure is None else float(figure)


def _namespace(verdict: Considered) -> str | None:
    if verdict.subject_kind == "bundle":
        return namespace_of(verdict.subject)
    return parse_topic(verdict.subject).namespace if verdict.subject_kind == "topic" else None
