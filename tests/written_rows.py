"""The content of a write, whatever its order, its files and its write id: two writes with the same rows are equal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.handover import Write
from evenkeel.lake.plain_rows import found_rows
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows_digest(lake: str | Path, write: Write) -> str:
    """The SHA-256 over the rows of a write, sorted; "" where its files do not hold them (any more)."""
    if not write.rows:
        return hashlib.sha256().hexdigest()
    columns = [name for name in TABLES[write.table].column_names() if name not in STAMP_NAMES]
    found = found_rows(Lake(str(lake)), write, columns)
    if found is None:
        return ""
    rows = sorted(repr(sorted(row.items())) for row in found.to_pylist())
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def changed(spark: SparkSession, lake: Lake, before: Lake, writes: Iterable[Write]) -> list[tuple[str, int, int]]:
    """Writes that Spark no longer reads as in the lake before: table, rows listed, rows found."""
    found = []
    for write in writes:
        now, then = (sorted(map(repr, one.read(spark, write.table, [write]).collect())) for one in (lake, before))
        if now != then or len(now) != write.rows:
            found.append((write.table, write.rows, len(now)))
    return found
