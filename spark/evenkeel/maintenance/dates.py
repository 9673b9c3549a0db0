"""What the chain of manifests says of each date: how fresh it is, and which earlier dates its cycles rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from evenkeel.lake.attempts import DECIDED_STATUSES
from evenkeel.lake.store import Lake
from evenkeel.spark.sql import iso

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Day = tuple[str, date]
"""A cluster's date."""


@dataclass(frozen=True, slots=True)
class Record:
    """`recorded`: day -> when the last attempt at any of its cycles was put on record. `rests_on`: day -> days whose
    rows its cycles took over. `in_use`: days of the attempts that a next cycle takes its state from, and of theirs."""

    recorded: Mapping[Day, datetime]
    rests_on: Mapping[Day, frozenset[Day]]
    in_use: frozenset[Day]

    def is_past(self, day: Day, cutoff: date) -> bool:
        """Whether the date, and every attempt at its cycles, lies before the cutoff; a backfill makes a date fresh."""
        recorded = self.recorded.get(day)
        return day[1] < cutoff and (recorded is None or recorded.date() < cutoff)

    def needed(self, cutoff: date) -> frozenset[Day]:
        """Days that must stay whatever their age: what is kept rests on them."""
        kept = (day for day in self.recorded if not self.is_past(day, cutoff))
        return self.in_use.union(*(self.rests_on.get(day, frozenset()) for day in kept))


def read_record(spark: SparkSession, lake: Lake) -> Record:
    """Asks `cycles`, one row per cluster and date."""
    from pyspark.sql import functions as F

    chain = spark.read.format("delta").load(lake.path("cycles"))
    before = F.to_date("predecessor_cycle_at")
    rows = (
        chain.groupBy("cluster", "cycle_date")
        .agg(F.max("recorded_at").alias("recorded_at"), F.collect_set(before).alias("before"))
        .select("cluster", "cycle_date", iso("recorded_at").alias("recorded_at"), "before")
        .collect()
    )
    recorded = {(r["cluster"], r["cycle_date"]): datetime.fromisoformat(r["recorded_at"]) for r in rows}
    rests_on = {
        (r["cluster"], r["cycle_date"]): frozenset((r["cluster"], d) for d in r["before"] if d != r["cycle_date"])
        for r in rows
    }
    return Record(recorded, rests_on, _in_use(chain))


def _in_use(chain: DataFrame) -> frozenset[Day]:
    """Live cycles take state from the newest attempt that is no backfill, a backfill from its own kind as well."""
    from pyspark.sql import functions as F

    decided = chain.where((F.col("row_kind") == "planned") & F.col("status").isin(*DECIDED_STATUSES))
    newest = (
        decided.groupBy("cluster", (F.col("kind") == "backfill").alias("is_backfill"))
        .agg(
            F.max_by(
                F.struct("cycle_date", F.to_date("predecessor_cycle_at").alias("before")),
                F.struct("cycle_at", "attempt"),
            ).alias("newest")
        )
        .select("cluster", "newest.cycle_date", "newest.before")
        .collect()
    )
    return frozenset((r["cluster"], day) for r in newest for day in (r["cycle_date"], r["before"]) if day is not None)


def unlisted_writes(spark: SparkSession, lake: Lake, table: str, days: Iterable[Day]) -> dict[Day, list[str]]:
    """Write ids in these days of a table that no manifest of the same cluster lists."""
    from pyspark.sql import functions as F

    from evenkeel.spark.sql import any_of

    wanted = any_of(
        (F.col("cluster") == cluster) & (F.col("cycle_date") == F.lit(day.isoformat()).cast("date"))
        for cluster, day in days
    )
    there = spark.read.format("delta").load(lake.path(table)).where(wanted).select("cluster", "cycle_date", "write_id")
    chain = spark.read.format("delta").load(lake.path("cycles")).where(wanted)
    listed = chain.select("cluster", F.explode("writes.write_id").alias("write_id")).distinct()
    rows = there.distinct().join(listed, on=["cluster", "write_id"], how="left_anti").collect()
    found: dict[Day, list[str]] = {}
    for row in sorted(rows):
        found.setdefault((row["cluster"], row["cycle_date"]), []).append(row["write_id"])
    return found
