"""A line of the status: a cluster's summary for an operator, and the order of clusters. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from evenkeel.status.attention import URGENCY, Attention, StatusRows, attention, is_newer

_CALM = len(URGENCY)
BARS = "▁▂▃▄▅▆▇█"
GAP = "·"


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The status of one cluster.

    `mode`: dry_run, approve or auto, of the newest cycle; its `state` is planned, closed, skipped, failed or withheld,
    and its `kind` is live, backfill or rerun. `balance`: largest broker usage over the mean in the newest cycle with
    such a figure, or None; `course`: the same of the last cycles, oldest first, None for a cycle without.
    `age_seconds`: of the newest cycle. `brokers`: number that reported. `needs`: the most urgent first.
    """

    cluster: str
    mode: str
    state: str
    kind: str
    cycle_at: datetime
    age_seconds: float
    balance: float | None
    course: tuple[float | None, ...]
    unloads: int
    splits: int
    brokers: int
    needs: tuple[Attention, ...]

    @property
    def mood(self) -> str:
        """Return the gravest mood of its needs: bad, warn, note, or calm."""
        moods = {need.mood for need in self.needs}
        return next((mood for mood in ("bad", "warn", "note") if mood in moods), "calm")


def line_of(rows: StatusRows, now: datetime) -> ClusterStatus:
    """The line of one cluster at a moment."""
    newest = rows.newest
    figures = [
        None if is_newer(attempt) else _finite(attempt.planned["before_max_over_mean"]) for attempt in rows.attempts
    ]
    known = [figure for figure in figures if figure is not None]
    return ClusterStatus(
        cluster=rows.cluster,
        mode=newest.mode,
        state=newest.status,
        kind=newest.kind,
        cycle_at=newest.cycle_at,
        age_seconds=(now - newest.cycle_at).total_seconds(),
        balance=known[-1] if known else None,
        course=tuple(figures),
        unloads=int(newest.planned["unloads"] or 0),
        splits=int(newest.planned["splits"] or 0),
        brokers=sum(row["state"] == "reported" for row in rows.broker_load),
        needs=attention(rows, now),
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def by_urgency(lines: Iterable[ClusterStatus]) -> list[ClusterStatus]:
    """The lines, the most urgent first: by the first need, then by the number of needs, then by name."""
    return sorted(
        lines, key=lambda line: (URGENCY[line.needs[0].kind] if line.needs else _CALM, -len(line.needs), line.cluster)
    )


def sparkline(course: Iterable[float | None]) -> str:
    """Return the course as a line of block characters: dots for unknown values, a constant course low."""
    values = [*course]
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return "".join(GAP if value is None else BARS[_step(value, low, high)] for value in values)


def _step(value: float, low: float, high: float) -> int:
    return 0 if high <= low else min(int((value - low) / (high - low) * len(BARS)), len(BARS) - 1)


def stretches(course: Iterable[float | None], width: float, height: float, margin: float = 2.0) -> list[str]:
    """The course as points of SVG polylines, one text for each stretch without a gap; a single value is a dot."""
    values = [*course]
    known = [value for value in values if value is not None]
    if not known:
        return []
    low, high = min(known), max(known)
    across = (width - 2 * margin) / max(len(values) - 1, 1)
    parts: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            parts.append([])
            continue
        share = 0.5 if high <= low else (value - low) / (high - low)
        parts[-1].append(f"{margin + place * across:.1f},{height - margin - share * (height - 2 * margin):.1f}")
    return [" ".join(points if len(points) > 1 else points * 2) for points in parts if points]
