"""The digests of writes, computed anew from the rows of a lake by Spark, as the write itself did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from evenkeel.handover import Write
from evenkeel.lake.digest import ROW_DIGEST, digest_metrics, row_digest, rows_and_digest
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def changed(spark: SparkSession, lake: Lake, writes: Iterable[Write]) -> list[tuple[str, int, int]]:
    """Writes of one cluster that no longer read as they were written: table, rows listed, rows found."""
    by_table: dict[str, list[Write]] = {}
    for write in writes:
        by_table.setdefault(write.table, []).append(write)
    found = []
    for table, own in sorted(by_table.items()):
        known = _digests(spark, lake, table, own)
        for write in own:
            rows, digest = known.get(write.write_id, (0, ""))
            if (rows, digest) != (write.rows, write.digest):
                found.append((table, write.rows, rows))
    return found


def _digests(spark: SparkSession, lake: Lake, table: str, writes: list[Write]) -> dict[str, tuple[int, str]]:
    from pyspark.sql import functions as F

    covered = [name for name in TABLES[table].column_names() if name not in STAMP_NAMES]
    digested = lake.read(spark, table, writes).withColumn(ROW_DIGEST, row_digest(covered))
    rows = digested.groupBy("write_id").agg(*digest_metrics([F.lit(True)])).collect()
    return {row["write_id"]: rows_and_digest(row.asDict(), 0) for row in rows}
