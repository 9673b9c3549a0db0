"""The observed rows of a run without those that validate set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenkeel.checks.records import record_key
from evenkeel.handover import Handover, Write
from evenkeel.lake.store import Lake
from evenkeel.lake.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_checked(lake: Lake, spark: SparkSession, handover: Handover, table: str) -> DataFrame:
    """Rows of an observed `table` of this run's open clusters, minus the rejected ones.

    A rejected record is named by `rejected.record_key`: the JSON list of the row's key columns, as text, in the order
    of the table's `key`, e.g. `["persistent://t/n/a","b1:8080"]`. Rows of `rejected` without a key are records that
    ingest could not make a row of, so nothing has to be taken away for them.
    """
    is_open = F.col("cluster").isin(handover.open_clusters())
    rows = lake.read(spark, table, handover.writes_of(table)).where(is_open)
    return without_rejected(lake, spark, rows, table, handover.writes_of("rejected"))


def without_rejected(
    lake: Lake, spark: SparkSession, rows: DataFrame, table: str, writes: Sequence[Write]
) -> DataFrame:
    """The rows without the records that these writes of `rejected` name."""
    if not writes:
        return rows
    refused = (
        lake.read(spark, "rejected", writes)
        .where((F.col("rejected_from") == table) & F.col("record_key").isNotNull())
        .select("cluster", "cycle_at", "record_key")
        .distinct()
    )
    keyed = rows.withColumn("record_key", record_key(TABLES[table]))
    return keyed.join(F.broadcast(refused), ["cluster", "cycle_at", "record_key"], how="left_anti").drop("record_key")
