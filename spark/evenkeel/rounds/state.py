"""What is remembered from one cycle to the next, as rows of `strategy_state`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from evenkeel.rounds.reading import Row

FRAME = "frame"
THE_CLUSTER = "cluster"
SHED_AT = "shed_at"
ASSUMED_UNLOADED = "assumed_unloaded"
USAGE_AVERAGE = "usage_average"


def state_row(strategy: str, subject: str, name: str, *, value: float | None = None, at: datetime | None = None) -> Row:
    """One thing remembered."""
    return {"strategy": strategy, "subject": subject, "name": name, "value": value, "at": at}


def shedder_state(rows: Iterable[Row], shedder: str) -> dict[str, float]:
    """Broker to what the shedder remembers of it; what another shedder left behind does not count."""
    return {row["subject"]: row["value"] for row in rows if row["strategy"] == shedder and row["name"] == USAGE_AVERAGE}


def shed_at(rows: Iterable[Row]) -> int | None:
    """When a strategy last ran, epoch ms."""
    times = [_milliseconds(row["at"]) for row in rows if row["strategy"] == FRAME and row["name"] == SHED_AT]
    return max(times, default=None)


def assumed_unloaded(rows: Iterable[Row]) -> dict[str, int]:
    """Bundle to when its unload was assumed to have succeeded, epoch ms (evenkeelAssumeUnloadsSucceed)."""
    assumed = (row for row in rows if row["strategy"] == FRAME and row["name"] == ASSUMED_UNLOADED)
    return {row["subject"]: _milliseconds(row["at"]) for row in assumed}


def state_rows(
    shedder: str, usage: Mapping[str, float], last: int | None, recent: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The state after a shedding round, to be read by the next cycle."""
    rows = [state_row(shedder, broker, USAGE_AVERAGE, value=value) for broker, value in sorted(usage.items())]
    if last is not None:
        rows.append(state_row(FRAME, THE_CLUSTER, SHED_AT, at=_moment(last)))
    rows += [state_row(FRAME, bundle, ASSUMED_UNLOADED, at=_moment(at)) for bundle, at in sorted(recent.items())]
    return [dict(row) for row in rows]


def _milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
