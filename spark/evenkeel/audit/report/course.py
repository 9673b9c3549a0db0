"""The course over the cycles: usage per broker, the band in which the shedder lets be, and what was decided when."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from evenkeel.audit.read import Attempt, Row
from evenkeel.audit.report.gather import THRESHOLD_KEY, Course
from evenkeel.rounds.state import usage_averages

_KINDS = {"split_decisions": "split", "unload_decisions": "unload", "placement_decisions": "placement"}


@dataclass(frozen=True, slots=True)
class Act:
    """Something decided in a cycle of the course, in a sentence."""

    kind: str
    outcome: str
    subject: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Point:
    """One cycle of the course; usages (or shares, see `CourseModel`) are fractions per broker, empty where left out.

    `compared` is what the shedder compares (its remembered average where it keeps one, else the usage itself).
    """

    at: datetime
    status: str
    reason: str
    decided: bool
    is_shown: bool
    usage: Mapping[str, float]
    compared: Mapping[str, float]
    mean: float | None
    limit: float | None
    splits: int
    unloads: int
    placements: int
    refusals: int
    plan_id: str | None
    acts: tuple[Act, ...]

    @property
    def max_over_mean(self) -> float | None:
        """Largest usage as observed over the mean of all."""
        values = list(self.usage.values())
        mean = sum(values) / len(values) if values else 0.0
        return max(values) / mean if mean > 0 else None


@dataclass(frozen=True)
class CourseModel:
    """The course of one cluster, oldest first. `threshold` is how far over the mean a broker is shed from.

    `is_share`: usages are 0 throughout, as where all resource weights are 0; the points hold each broker's share of the
    traffic instead, and no threshold.
    """

    points: tuple[Point, ...]
    brokers: tuple[str, ...]
    threshold: float | None
    is_remembered: bool
    is_share: bool
    earlier: int
    later: int

    @property
    def acting(self) -> tuple[Point, ...]:
        return tuple(point for point in self.points if point.acts)


def course_model(course: Course, settings: Sequence[Row], shown: Attempt) -> CourseModel:
    """The course, busiest broker first."""
    values = {row["key"]: row["value"] for row in settings}
    named = (attempt.planned["shedder"] for attempt in (shown, *reversed(course.attempts)))
    shedder = next((name for name in named if name), "")
    threshold = json.loads(values[THRESHOLD_KEY]) / 100.0 if THRESHOLD_KEY in values else None
    if shedder != "ThresholdShedder":
        threshold = None
    remembered = any(usage_averages(rows, shedder) for rows in course.state.values())
    points = tuple(_point(course, attempt, shown, shedder, threshold) for attempt in course.attempts)
    shares = tuple(
        _with_shares(point, course.broker_load[one.attempt_id])
        for point, one in zip(points, course.attempts, strict=True)
    )
    is_share = any(point.usage for point in shares) and not any(
        usage for point in points for usage in (*point.usage.values(), *point.compared.values())
    )
    if is_share:
        points, threshold, remembered = shares, None, False
    peaks: dict[str, float] = {}
    for point in points:
        for broker, usage in point.compared.items():
            peaks[broker] = max(usage, peaks.get(broker, 0.0))
    brokers = tuple(sorted(peaks, key=lambda broker: (-peaks[broker], broker)))
    return CourseModel(points, brokers, threshold, remembered, is_share, course.earlier, course.later)


def _point(course: Course, attempt: Attempt, shown: Attempt, shedder: str, threshold: float | None) -> Point:
    name, row = attempt.attempt_id, attempt.planned
    loads = course.broker_load[name] if attempt.decided else []
    usage = {load["broker"]: float(load["weighted_usage"]) for load in loads if load["weighted_usage"] is not None}
    remembered = {b: value for b, value in usage_averages(course.state[name], shedder).items() if b in usage}
    compared = remembered or usage
    mean = sum(compared.values()) / len(compared) if compared else None
    return Point(
        at=attempt.cycle_at,
        status=attempt.status,
        reason=attempt.reason or "",
        decided=attempt.decided,
        is_shown=attempt.cycle_at == shown.cycle_at,
        usage=usage,
        compared=compared,
        mean=mean,
        limit=None if mean is None or threshold is None else mean + threshold,
        splits=row["splits"] or 0,
        unloads=row["unloads"] or 0,
        placements=row["placements"] or 0,
        refusals=row["refusals"] or 0,
        plan_id=attempt.plan_id,
        acts=_acts(course, name),
    )


def _with_shares(point: Point, loads: Sequence[Row]) -> Point:
    """The point with shares of the traffic (fractions) in the place of usages; none where there is no traffic."""
    known = [load for load in loads if load["broker"] in point.usage]
    flow = {row["broker"]: float((row["msg_throughput_in"] or 0) + (row["msg_throughput_out"] or 0)) for row in known}
    total = sum(flow.values())
    shares = {broker: value / total for broker, value in flow.items()} if total > 0 else {}
    return replace(point, usage=shares, compared=shares, mean=1 / len(shares) if shares else None, limit=None)


def _acts(course: Course, attempt_id: str) -> tuple[Act, ...]:
    return tuple(
        Act(kind, row["outcome"], row["subject"], row["sentence"])
        for table, kind in _KINDS.items()
        for row in course.acts[table][attempt_id]
    )
