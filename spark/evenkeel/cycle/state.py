"""Values remembered from one cycle to the next, as rows of `strategy_state`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from evenkeel.cycle.reading import Row

FRAME = "frame"
THE_CLUSTER = "cluster"
SHED_AT = "shed_at"
ASSUMED_UNLOADED = "assumed_unloaded"
LOAD_AVERAGE = "weighted_max_ema"
PLANNER = "Planner"
"""The strategy name of the planner's remembered values and requests; a stored name."""


def state_row(strategy: str, subject: str, name: str, *, value: float | None = None, at: datetime | None = None) -> Row:
    """Return one remembered value as a row."""
    return {"strategy": strategy, "subject": subject, "name": name, "value": value, "at": at}


def shedder_state(rows: Iterable[Row], shedder: str) -> dict[str, dict[str, float]]:
    """Return the shedder's remembered values: name -> broker -> value. Those of another shedder do not count."""
    values: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["strategy"] == shedder:
            values.setdefault(row["name"], {})[row["subject"]] = row["value"]
    return values


def shed_at(rows: Iterable[Row]) -> int | None:
    """Return when a strategy last ran, epoch ms."""
    times = [_milliseconds(row["at"]) for row in rows if row["strategy"] == FRAME and row["name"] == SHED_AT]
    return max(times, default=None)


def assumed_unloaded(rows: Iterable[Row]) -> dict[str, int]:
    """Return bundle -> when its unload was assumed to have succeeded, epoch ms (evenkeelAssumeUnloadsSucceed)."""
    unloaded_at: dict[str, int] = {}
    for row in rows:
        if row["strategy"] == FRAME and row["name"] == ASSUMED_UNLOADED:
            # Shedding hands on the entries within the grace period, placement adds this cycle's: the later one counts.
            unloaded_at[row["subject"]] = max(_milliseconds(row["at"]), unloaded_at.get(row["subject"], 0))
    return unloaded_at


def state_rows(
    shedder: str, remembered: Mapping[str, Mapping[str, float]], last: int | None, recent: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the state after a shedding round, for the next cycle."""
    rows = [
        state_row(shedder, broker, name, value=value)
        for name, values in sorted(remembered.items())
        for broker, value in sorted(values.items())
    ]
    if last is not None:
        rows.append(state_row(FRAME, THE_CLUSTER, SHED_AT, at=_moment(last)))
    rows += [state_row(FRAME, bundle, ASSUMED_UNLOADED, at=_moment(at)) for bundle, at in sorted(recent.items())]
    return [dict(row) for row in rows]


def _milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
