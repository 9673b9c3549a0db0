"""Moments as text and as timestamps of Spark. A datetime literal would ask the thread's first session for its rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from evenkeel.engine.flat import any_of

if TYPE_CHECKING:
    from pyspark.sql import Column


def moment(text: str) -> Column:
    """A timestamp given as ISO-8601 text, such as a hand-over's `cycle_at`."""
    from pyspark.sql import functions as F

    return F.to_timestamp(F.lit(text))


def iso(column: str) -> Column:
    """A timestamp column as ISO-8601 UTC text with microseconds, the form that hand-overs use."""
    from pyspark.sql import functions as F

    return F.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'+00:00'")


def is_one_of(cycles: Iterable[tuple[str, str]]) -> Column:
    """Whether a row belongs to one of these cycles, each a cluster and its `cycle_at` as text."""
    from pyspark.sql import functions as F

    return any_of((F.col("cluster") == cluster) & (F.col("cycle_at") == moment(at)) for cluster, at in cycles)
