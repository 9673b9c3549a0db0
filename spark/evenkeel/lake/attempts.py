"""Which attempt at an earlier cycle a later cycle takes its state from."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.handover import Predecessor
from evenkeel.lake.manifest import writes_of
from evenkeel.lake.store import Lake
from evenkeel.spark.sql import any_of, iso, moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Statuses of an attempt that decided; a skipped or failed one has no state to hand on.
DECIDED_STATUSES = ("planned", "closed", "withheld")
_NEAR = timedelta(days=1)


def find_predecessors(
    spark: SparkSession, lake: Lake, cycles: list[tuple[str, str, str | None]], *, kind: str
) -> dict[str, Predecessor]:
    """For each (cluster, cycle_at, expected previous cycle_at): the attempt whose state is taken over.

    A live cycle takes state from attempts that are no backfill; a backfill takes it from a backfill's attempt at the
    predecessor, else from the live one. If the expected cycle is not on record the newest older one serves, and the
    status says so.
    """
    found = _newest_before(spark, lake, [(cluster, at) for cluster, at, _ in cycles], kind, _NEAR)
    # Nearly always it is the cycle a minute or so before, and statistics lead there. Only who has none asks the chain.
    rest = [(cluster, at) for cluster, at, _ in cycles if cluster not in found]
    found |= _newest_before(spark, lake, rest, kind, None)
    return {cluster: _predecessor(found.get(cluster), expected) for cluster, _, expected in cycles}


def _newest_before(
    spark: SparkSession, lake: Lake, cycles: list[tuple[str, str]], kind: str, near: timedelta | None
) -> dict[str, Any]:
    """Per cluster the row of the attempt to take over from, looked for in the time just before if `near` is given."""
    from pyspark.sql import functions as F

    if not cycles:
        return {}
    attempts = spark.read.format("delta").load(lake.path("cycles")).where(F.col("row_kind") == "planned")
    decided = attempts.where(F.col("status").isin(*DECIDED_STATUSES))
    if kind != "backfill":
        decided = decided.where(F.col("kind") != "backfill")
    if near is not None:
        oldest = min(datetime.fromisoformat(at) for _, at in cycles) - near
        decided = decided.where(F.col("cycle_at") >= moment(oldest.isoformat()))
    earlier = [(F.col("cluster") == cluster) & (F.col("cycle_at") < moment(at)) for cluster, at in cycles]
    is_backfill = (F.col("kind") == "backfill").cast("int")
    rows = (
        decided.where(any_of(earlier))
        .groupBy(F.col("cluster"))
        .agg(
            F.max_by(
                F.struct(iso("cycle_at").alias("cycle_at"), "attempt_id", "writes"),
                F.struct("cycle_at", is_backfill, "attempt"),
            ).alias("newest")
        )
        .select("cluster", "newest.*")
        .collect()
    )
    return {row["cluster"]: row for row in rows}


def _predecessor(row: Any, expected: str | None) -> Predecessor:
    if row is None:
        return Predecessor(status="none" if expected is None else "missing", expected_at=expected)
    cycle_at = row["cycle_at"]
    status = "used" if expected in (None, cycle_at) else "older"
    return Predecessor(status, cycle_at, row["attempt_id"], expected, writes_of(row["cluster"], row["writes"]))
