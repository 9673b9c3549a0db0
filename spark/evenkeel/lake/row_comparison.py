"""Exact comparison of two sets of a table's rows in Spark: every column, every bit of a figure, duplicates counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW = "row_json"
"""The column with a row's JSON."""


def surplus(before: DataFrame, after: DataFrame, table: str, by: Sequence[str]) -> DataFrame:
    """Return the rows that one side has more often than the other.

    The columns are `by`, the row's JSON (`ROW`, without the stamp of a write, columns by name, NULL named), and
    `surplus`: how many more there are before (above 0) or after (below 0). JSON tells 0.0 from -0.0, which grouping by
    the columns would not.
    """
    from pyspark.sql import functions as F

    columns = sorted(name for name in TABLES[table].column_names() if name not in STAMP_NAMES)
    body = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias(ROW)
    sides = [frame.select(*by, body, F.lit(count).alias("count")) for frame, count in ((before, 1), (after, -1))]
    counted = sides[0].unionByName(sides[1]).groupBy(*by, ROW).agg(F.sum("count").alias("surplus"))
    return counted.where(F.col("surplus") != 0)
