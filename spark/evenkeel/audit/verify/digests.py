"""Digests of rows, as they are listed in manifests, computed anew for many writes or attempts at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenkeel.lake.digest import ROW_DIGEST, lanes, row_digest, text_of_lanes
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

    sums = [F.sum(lane).alias(f"lane_{n}") for n, lane in enumerate(lanes())]
    grouped = with_row_digest(frame, table, version).groupBy(*by).agg(F.count("*").alias("rows"), *sums)
    found = {}
    for row in grouped.collect():
        told = [str(row[f"lane_{n}"] or 0) for n in range(len(sums))]
        found[tuple(row[name] for name in by)] = (int(row["rows"]), text_of_lanes(int(row["rows"]), told))
    return found


def nothing() -> Content:
    """The content of a write without rows."""
    return 0, text_of_lanes(0, ["0"] * len(lanes()))
