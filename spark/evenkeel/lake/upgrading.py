"""Lakes of earlier schema versions: columns that joined since are added, and no row is ever rewritten."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from evenkeel.lake.schema import Column, Table, column_definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def upgrade(spark: SparkSession, tables: Iterable[tuple[Table, str]]) -> None:
    """Adds to each table (with its path) the columns that it lacks; safe with several callers at once.

    Only tables that ever got a column are looked at.
    """
    for table, path in tables:
        if any(column.since > 1 for column in table.columns):
            _upgrade(spark, table, path)


def _upgrade(spark: SparkSession, table: Table, path: str) -> None:
    missing = _missing(spark, table, path)
    if not missing:
        return
    log.info("adding %s to table %s", ", ".join(column.name for column in missing), table.name)
    added = ", ".join(column_definition(column) for column in missing)
    try:
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({added})").collect()
    except Exception:
        # Two tasks may upgrade at once; whoever comes second finds the columns there.
        if _missing(spark, table, path):
            raise


def _missing(spark: SparkSession, table: Table, path: str) -> list[Column]:
    there = set(spark.read.format("delta").load(path).columns)
    return [column for column in table.columns if column.name not in there]
