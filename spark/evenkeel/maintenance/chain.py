"""The beginning of a chain of manifests past the audit period: an anchor first, then the rows go.

`cycles` is a chain per cluster, so only its beginning can be dropped. The anchor keeps the place and the digest of the
last row that goes; the first row that stays names that digest, and verification starts there. An upkeep killed between
the two leaves an anchor beside the row that it names, which says the same twice.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.lake.attempts import DECIDED_STATUSES
from evenkeel.lake.schema import sql_text
from evenkeel.lake.small_appends import append_values
from evenkeel.lake.store import Lake
from evenkeel.maintenance.statements import at, delete, one_of
from evenkeel.spark.code import code_version
from evenkeel.spark.sql import iso

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a cluster's chain is to begin: after the row `sequence`, the last that goes."""

    cluster: str
    sequence: int
    manifest_digest: str
    cycle_at: datetime
    recorded_at: datetime


def truncate(spark: SparkSession, lake: Lake, cutoff: date, now: datetime) -> tuple[int, int]:
    """Drops manifests past the audit period, and the wishes that only they took; returns the numbers of both.

    Where the chain does not hold at the place of the cut nothing is dropped: `evenkeel verify` has to name that first.
    """
    cuts = find_cuts(spark, lake, cutoff)
    wishes = _drop_wishes(spark, lake, cuts, cutoff)
    if not cuts:
        return 0, wishes
    _write_anchors(spark, lake, cuts, now)
    beginnings = " OR ".join(f"(cluster = {sql_text(one.cluster)} AND sequence <= {one.sequence})" for one in cuts)
    return delete(spark, lake, "cycles", beginnings), wishes


def find_cuts(spark: SparkSession, lake: Lake, cutoff: date) -> list[Cut]:
    """Per cluster the last row of the chain's beginning in which all is past the period.

    Both rows of an attempt stay together, and what the next cycle needs stays: the head of the chain, and the newest
    attempts that decided.
    """
    from pyspark.sql import functions as F

    chain = spark.read.format("delta").load(lake.path("cycles"))
    begins = {row["cluster"]: int(row["first"]) for row in _kept(_attempts(chain), cutoff).collect()}
    while begins:  # an attempt whose `closed` row stays keeps its `planned` row
        bound = F.lit(None)
        for cluster, first in begins.items():
            bound = F.when(F.col("cluster") == cluster, F.lit(first)).otherwise(bound)
        rows = _attempts(chain).where(F.col("last") >= bound).groupBy("cluster").agg(F.min("first").alias("first"))
        again = {row["cluster"]: int(row["first"]) for row in rows.collect()}
        if again == begins:
            break
        begins = again
    return [cut for cluster, first in sorted(begins.items()) if (cut := _cut(chain, cluster, first)) is not None]


def _attempts(chain: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    decided = (F.col("row_kind") == "planned") & F.col("status").isin(*DECIDED_STATUSES)
    return chain.groupBy("cluster", "attempt_id").agg(
        F.min("sequence").alias("first"),
        F.max("sequence").alias("last"),
        F.max(F.greatest("cycle_date", F.to_date("recorded_at"))).alias("youngest"),
        F.max(F.struct("cycle_at", "attempt")).alias("cycle"),
        F.max(F.when(decided, F.col("kind") == "backfill")).alias("is_backfill"),
    )


def _kept(attempts: DataFrame, cutoff: date) -> DataFrame:
    """Per cluster the first row of the attempts that have to stay."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    head = F.row_number().over(Window.partitionBy("cluster").orderBy(F.col("last").desc())) == 1
    newest = F.row_number().over(Window.partitionBy("cluster", "is_backfill").orderBy(F.col("cycle").desc())) == 1
    marked = attempts.withColumns({"is_head": head, "is_newest": newest & F.col("is_backfill").isNotNull()})
    is_fresh = F.col("youngest") >= F.lit(cutoff.isoformat()).cast("date")
    stays = is_fresh | F.col("is_head") | F.col("is_newest")
    return marked.where(stays).groupBy("cluster").agg(F.min("first").alias("first"))


def _cut(chain: DataFrame, cluster: str, first: int) -> Cut | None:
    from pyspark.sql import functions as F

    rows = chain.where((F.col("cluster") == cluster) & F.col("sequence").isin(first - 1, first))
    found: dict[int, Any] = {
        row["sequence"]: row
        for row in rows.select(
            "sequence", "manifest_digest", "previous_digest", iso("cycle_at").alias("cycle_at"),
            iso("recorded_at").alias("recorded_at"),
        ).collect()
    }  # fmt: skip
    if first - 1 not in found:
        return None
    gone = found[first - 1]
    if first not in found or found[first]["previous_digest"] != gone["manifest_digest"]:
        log.warning("%s: the chain does not hold at row %d; nothing of it is dropped. Run verify", cluster, first)
        return None
    times = (datetime.fromisoformat(gone[name]) for name in ("cycle_at", "recorded_at"))
    return Cut(cluster, first - 1, gone["manifest_digest"], *times)


def _write_anchors(spark: SparkSession, lake: Lake, cuts: list[Cut], now: datetime) -> None:
    known = {
        (row["cluster"], row["sequence"])
        for row in spark.read.format("delta").load(lake.path("anchors")).select("cluster", "sequence").collect()
    }
    rows = [
        (one.cluster, one.sequence, one.manifest_digest, one.cycle_at, one.recorded_at, now, code_version())
        for one in cuts
        if (one.cluster, one.sequence) not in known
    ]
    if rows:
        append_values(spark, lake, "anchors", rows)


def _drop_wishes(spark: SparkSession, lake: Lake, cuts: list[Cut], cutoff: date) -> int:
    """Wishes go before the manifests that took them: one that nobody seems to have taken would be carried out again."""
    from pyspark.sql import functions as F

    from evenkeel.spark.sql import any_of

    chain = spark.read.format("delta").load(lake.path("cycles")).where(F.size("wishes") > 0)
    goes = any_of((F.col("cluster") == one.cluster) & (F.col("sequence") <= one.sequence) for one in cuts)
    taken = chain.select("cluster", F.explode("wishes").alias("wish_id"), goes.alias("goes")).distinct().collect()
    stays = {row["wish_id"] for row in taken if not row["goes"]}
    goes_with = sorted({row["wish_id"] for row in taken if row["goes"]} - stays)
    before = datetime(cutoff.year, cutoff.month, cutoff.day, tzinfo=UTC)
    old = f"made_at < {at(before)}" + (f" AND NOT {one_of('wish_id', sorted(stays))}" if stays else "")
    also = f" OR {one_of('wish_id', goes_with)}" if goes_with else ""
    return delete(spark, lake, "wishes", f"({old}){also}")
