"""Bundles with a history in the lake: their resource quotas need not be requested.

A bundle has a history if the predecessor's averages of it have had a sample. It has none if the predecessor requested
its split: Pulsar 4.x then forgets the history, also if the split does not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from evenkeel.cycle.fold import PLANNER
from evenkeel.cycle.loads import FORGOTTEN_THOUGH_REFUSED
from evenkeel.lake.store import Lake
from evenkeel.lake.task_reads import find_predecessors
from evenkeel.times import utc_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenkeel.handover import CycleKey, Predecessor

HistoryLookup = Callable[[Sequence[str], datetime], Mapping[str, frozenset[str]]]
"""Function from clusters and the moment to decide to each cluster's bundles with a history."""


def bundles_with_history(
    spark: SparkSession, lake: Lake, clusters: Sequence[str], at: datetime
) -> Mapping[str, frozenset[str]]:
    """Return each cluster's bundles that have a history in the predecessor of a live cycle at that moment."""
    from pyspark.sql import functions as F

    before = find_predecessors(lake, [(cluster, utc_text(at), None) for cluster in clusters], kind="live")
    loads = _of(spark, lake, before, "bundle_load")
    if loads is None:
        return {}
    # Averages that began from a resource quota and have had no sample have the same count.
    known = loads.where("long_samples > 0 and coalesce(samples_since_quota, 1) > 0").select("cluster", "bundle")
    splits = _of(spark, lake, before, "split_decisions")
    if splits is not None:
        requested = (F.col("outcome") == "split") | F.col("rule").isin(sorted(FORGOTTEN_THOUGH_REFUSED))
        requested &= F.col("strategy") != PLANNER
        forgotten = splits.where(requested).select("cluster", F.col("subject").alias("bundle")).distinct()
        known = known.join(forgotten, ["cluster", "bundle"], how="left_anti")
    rows = known.groupBy("cluster").agg(F.collect_set("bundle").alias("bundles")).collect()
    return {row["cluster"]: frozenset(row["bundles"]) for row in rows}


def _of(spark: SparkSession, lake: Lake, before: Mapping[CycleKey, Predecessor], table: str) -> DataFrame | None:
    """Return the rows that these attempts wrote to a table; None if they wrote none."""
    writes = [write for attempt in before.values() for write in attempt.writes if write.table == table and write.rows]
    return lake.read(spark, table, writes) if writes else None
