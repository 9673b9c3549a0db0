"""Digests of rows, as they are listed in manifests, computed anew for many writes or attempts at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenkeel.lake.digest import ROW_DIGEST, lane_sums, read_lanes, row_digest, text_of_lanes
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Content = tuple[int, str]
"""Rows, and their digest."""


def with_row_digest(frame: DataFrame, table: str, version: int) -> DataFrame:
    """The rows with `ROW_DIGEST`, over the columns that the table had in a schema version."""
    columns = {column.name: column for column in TABLES[table].columns}
    covered = [name for name in TABLES[table].names_at(version) if name not in STAMP_NAMES]
    typed = frame.withColumns({name: frame[name].cast(columns[name].type) for name in covered})
    return typed.withColumn(ROW_DIGEST, row_digest(covered))


def contents(frame: DataFrame, table: str, version: int, by: Sequence[str]) -> dict[tuple[str, ...], Content]:
    """Rows and digest of each value of the `by` columns."""
    from pyspark.sql import functions as F

    grouped = with_row_digest(frame, table, version).groupBy(*by).agg(F.count("*").alias("rows"), *lane_sums("lane"))
    found = {}
    for row in grouped.collect():
        told = row.asDict()
        rows = int(told["rows"])
        found[tuple(told[name] for name in by)] = (rows, text_of_lanes(rows, read_lanes(told, "lane")))
    return found


def nothing() -> Content:
    """The content of a write without rows."""
    return 0, text_of_lanes(0)
