"""The digests of writes, computed anew from the rows of a lake by Spark, as the write itself did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from evenkeel.handover import Write
from evenkeel.lake.digest import ROW_DIGEST, digest_metrics, row_digest, rows_and_digest
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def digest_of(frame: DataFrame, write: Write) -> tuple[int, str]:
    """Rows and digest of a write's rows."""
    covered = [name for name in TABLES[write.table].column_names() if name not in STAMP_NAMES]
    digested = frame.withColumn(ROW_DIGEST, row_digest(covered))
    return rows_and_digest(digested.agg(*digest_metrics([write.cluster])).collect()[0].asDict(), 0)


def changed(spark, lake, writes: Iterable[Write]) -> list[tuple[str, int, int]]:
    """Writes that no longer read as they were written: table, rows listed, rows found."""
    found = []
    for write in writes:
        rows, digest = digest_of(lake.read(spark, write.table, [write]), write)
        if (rows, digest) != (write.rows, write.digest):
            found.append((write.table, write.rows, rows))
    return found
