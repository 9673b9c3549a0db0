"""Many small files into few: dates that are over, and the tables that are not parted by date. Rows stay as they are."""

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
from evenkeel.maintenance.inventory import Inventory
from evenkeel.maintenance.statements import change, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SMALL_BYTES = 128 * 1024 * 1024
# Manifests of some days: a file that holds so many is never written again, and files stay in the order of time.
CHAIN_BYTES = 16 * 1024 * 1024
_ENOUGH_SMALL = 20
_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Dates of a table (none: all of it) that are compacted by one statement; `files` is the number of small ones."""

    table: str
    files: int
    first: date | None = None
    last: date | None = None

    def condition(self) -> str:
        """The WHERE clause of the dates, with a blank before it; empty for a whole table."""
        if self.first is None or self.last is None:
            return ""
        return f" WHERE cycle_date >= DATE{sql_text(str(self.first))} AND cycle_date <= DATE{sql_text(str(self.last))}"


def batches(inventory: Inventory, today: date, most_files: int) -> list[Batch]:
    """What is worth compacting, oldest first, up to a number of files; one date is never cut in two."""
    small = _small_files(inventory, today)
    found: list[Batch] = []
    total = 0
    for day, files in small.items():
        if total and total + files > most_files:
            break
        total += files
        if found and found[-1].files + files <= _AT_ONCE:
            found[-1] = Batch(inventory.table.name, found[-1].files + files, found[-1].first, day)
        else:
            found.append(Batch(inventory.table.name, files, day, day))
    return found


def _small_files(inventory: Inventory, today: date) -> dict[date | None, int]:
    """Per date, the number of files that would become fewer."""
    dated = "cycle_date" in inventory.table.partition
    limit = SMALL_BYTES if dated else CHAIN_BYTES // 2
    found: dict[date | None, int] = {}
    for (_, day), files in inventory.places().items():
        small = sum(file.size < limit for file in files)
        enough = day is not None and day < today and small >= 2 if dated else small >= _ENOUGH_SMALL
        if enough:
            found[day] = found.get(day, 0) + small
    return found


def compact(spark: SparkSession, lake: Lake, todo: list[Batch]) -> Iterator[Batch]:
    """Carries the batches out one by one; each is done as it is given."""
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


# Commits of a table's log that no promised version needs.


def clean_log(path: str) -> None:
    """Removes what is older than the table's `delta.logRetentionDuration`, but for the last checkpoint before that
    moment and all that follows it: each version inside the period stays readable.

    Spark should do so whenever it writes a checkpoint, and was seen not to.
    """
    from deltalake.exceptions import DeltaError

    try:
        delta_table(path).cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise LakeError(f"the log of {path} cannot be cleaned: {error}") from error
    _drop_checksums(files_of(path))


def _drop_checksums(files: TableFiles) -> None:
    """Checksums of commits that are gone, Delta's own and those that Hadoop wrote in earlier versions or elsewhere."""
    names = files.names(LOG_FOLDER)
    versions = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    first = min((int(version) for version in versions if version.isdigit()), default=0)
    for name in names:
        version = name.lstrip(".").partition(".")[0]
        if name.endswith(".crc") and version.isdigit() and int(version) < first:
            files.remove(f"{LOG_FOLDER}/{name}")
