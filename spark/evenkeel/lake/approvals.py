"""Operators' answers to plans."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.lake.commits import newest_version
from evenkeel.lake.store import Lake
from evenkeel.lake.times import with_moments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPROVED, REJECTED = "approved", "rejected"


def answer_row(
    cluster: str, plan_id: str, answer: str, by: str, note: str | None = None, at: datetime | None = None
) -> dict[str, Any]:
    """The row of an answer, given `at` that moment or now; the last one to a plan holds."""
    given = at or datetime.now(UTC)
    return {"cluster": cluster, "plan_id": plan_id, "answer": answer, "by": by, "at": given, "note": note}


def answers(spark: SparkSession, lake: Lake, plan_ids: Sequence[str]) -> list[dict[str, Any]]:
    """All answers to these plans, with `at` as an aware datetime."""
    if newest_version(lake.path("approvals")) == 0:
        return []
    from pyspark.sql import functions as F

    rows = spark.read.format("delta").load(lake.path("approvals")).where(F.col("plan_id").isin(list(plan_ids)))
    return with_moments(rows, ("at",))
