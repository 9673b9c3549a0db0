"""Moments as text and as timestamps of Spark. A datetime literal would ask the thread's first session for its rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evenkeel.engine.flat import any_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def moment(text: str) -> Column:
    """A timestamp given as ISO-8601 text, such as a hand-over's `cycle_at`."""
    from pyspark.sql import functions as F

    return F.to_timestamp(F.lit(text))


def iso(column: str) -> Column:
    """A timestamp column as ISO-8601 UTC text with microseconds, the form that hand-overs use."""
    from pyspark.sql import functions as F

    return F.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'+00:00'")


def with_moments(frame: DataFrame, times: Sequence[str]) -> list[dict[str, Any]]:
    """The frame's rows, collected, as dicts; the columns in `times` as aware datetimes, whatever this process' zone."""
    rows = frame.withColumns({name: iso(name) for name in times}).collect()
    return [_timed(row.asDict(recursive=True), times) for row in rows]


def _timed(row: dict[str, Any], times: Sequence[str]) -> dict[str, Any]:
    return {**row, **{name: datetime.fromisoformat(row[name]) for name in times if row[name] is not None}}


def is_one_of(cycles: Iterable[tuple[str, str]]) -> Column:
    """Whether a row belongs to one of these cycles, each a cluster and its `cycle_at` as text."""
    from pyspark.sql import functions as F

    return any_of((F.col("cluster") == cluster) & (F.col("cycle_at") == moment(at)) for cluster, at in cycles)
