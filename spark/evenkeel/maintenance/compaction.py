"""Compaction of many small files into few: past dates, and tables not partitioned by date. Rows are unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from evenkeel.errors import LakeError
from evenkeel.lake.delta_log import LOG_FOLDER
from evenkeel.lake.schema import sql_text
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import TableFiles, delta_table, files_of
from evenkeel.lake.table_log import listing
from evenkeel.maintenance.inventory import Inventory
from evenkeel.maintenance.statements import change, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SMALL_BYTES = 128 * 1024 * 1024
# Manifests of some days: a file with so many is never rewritten, and files stay in the order of time.
CHAIN_BYTES = 16 * 1024 * 1024
_ENOUGH_SMALL = 20
_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Dates of a table (none: all of it) that one statement compacts; `files` is the number of small ones."""

    table: str
    files: int
    first: date | None = None
    last: date | None = None

    def condition(self) -> str:
        """Return the WHERE clause of the dates, with a blank before it; empty for a whole table."""
        if self.first is None or self.last is None:
            return ""
        return f" WHERE cycle_date >= DATE{sql_text(str(self.first))} AND cycle_date <= DATE{sql_text(str(self.last))}"


def batches(inventory: Inventory, today: date, most_files: int) -> list[Batch]:
    """Return the batches worth compacting, oldest first, up to a number of files; one date is never cut in two."""
    small = _small_files(inventory, today)
    result: list[Batch] = []
    total = 0
    for day, files in small.items():
        if total and total + files > most_files:
            break
        total += files
        if result and result[-1].files + files <= _AT_ONCE:
            result[-1] = Batch(inventory.table.name, result[-1].files + files, result[-1].first, day)
        else:
            result.append(Batch(inventory.table.name, files, day, day))
    return result


def _small_files(inventory: Inventory, today: date) -> dict[date | None, int]:
    """Return the number of files that would become fewer, per date."""
    dated = "cycle_date" in inventory.table.partition
    limit = SMALL_BYTES if dated else CHAIN_BYTES // 2
    counts: dict[date | None, int] = {}
    for (_, day), files in inventory.places().items():
        small = sum(file.size < limit for file in files)
        enough = day is not None and day < today and small >= 2 if dated else small >= _ENOUGH_SMALL
        if enough:
            counts[day] = counts.get(day, 0) + small
    return counts


def compact(spark: SparkSession, lake: Lake, todo: list[Batch]) -> Iterator[Batch]:
    """Carry the batches out one by one; yield each when it is done."""
    for batch in todo:
        sized = {}
        if batch.first is None:
            sized = {
                "spark.databricks.delta.optimize.minFileSize": str(CHAIN_BYTES // 2),
                "spark.databricks.delta.optimize.maxFileSize": str(CHAIN_BYTES),
            }
        with settings(spark, sized):
            change(spark, lake, batch.table, f"OPTIMIZE delta.`{lake.path(batch.table)}`{batch.condition()}")
        yield batch


def clean_log(path: str) -> None:
    """Remove log files older than the table's `delta.logRetentionDuration`.

    It keeps the last checkpoint before that moment and all that follows it: each version inside the period stays
    readable. Spark should do so whenever it writes a checkpoint, but does not always.
    """
    from deltalake.exceptions import DeltaError

    try:
        delta_table(path).cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise LakeError(f"the log of {path} cannot be cleaned: {error}") from error
    _drop_checksums(files_of(path))


def _drop_checksums(files: TableFiles) -> None:
    """Remove checksums of removed commits, Delta's own and those that Hadoop wrote in earlier versions or elsewhere."""
    first = min(listing(files).commits, default=0)
    for name in files.names(LOG_FOLDER):
        version = name.lstrip(".").partition(".")[0]
        if name.endswith(".crc") and version.isdigit() and int(version) < first:
            files.remove(f"{LOG_FOLDER}/{name}")
