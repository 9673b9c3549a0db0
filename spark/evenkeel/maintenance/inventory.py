"""Content of a table by its log alone, and the facts of the manifest chain about its dates.

Files are listed by partition, with size, age, rows and, if one write made it, that write. No data file is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from evenkeel.errors import NoLake
from evenkeel.lake.delta_log import LOG_FOLDER
from evenkeel.lake.manifest import DECIDED_STATUSES
from evenkeel.lake.record import Record
from evenkeel.lake.schema import Table
from evenkeel.lake.schemas import EVERY_TABLE
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import delta_table, files_of, is_delta_table
from evenkeel.lake.table_log import table_and_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Place = tuple[str | None, date | None]
"""A partition: cluster and date, None if the table is not partitioned by it."""


@dataclass(frozen=True, slots=True)
class File:
    """A data file; `write_id` is None if it holds rows of several writes, or of unknown ones.

    `path` is below the table's folder.
    """

    cluster: str | None
    date: date | None
    size: int
    rows: int
    written_at: datetime
    write_id: str | None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """A table's files, and the version at the look."""

    table: Table
    version: int
    files: tuple[File, ...]
    properties: Mapping[str, str]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    def oldest(self) -> date | None:
        """Return the oldest date of a file; None if no file has one."""
        return min((file.date for file in self.files if file.date is not None), default=None)

    def places(self) -> dict[Place, list[File]]:
        """Return files by partition, in the order of date and cluster."""
        by_place: dict[Place, list[File]] = {}
        for file in sorted(self.files, key=lambda file: (file.date or date.min, file.cluster or "")):
            by_place.setdefault((file.cluster, file.date), []).append(file)
        return by_place


def take_inventory(table: Table, path: str) -> Inventory:
    """Read the table's log; raises LakeError if there is no such table or its log is damaged."""
    opened, files = table_and_files(path)
    wanted = [name for name in files.column_names if name in _WANTED]
    configuration = dict(opened.metadata().configuration)
    return Inventory(table, int(opened.version()), tuple(map(_file, files.select(wanted).to_pylist())), configuration)


def bytes_on_disk(path: str) -> int:
    """Return the bytes of all files in the table's folder, versions and log included."""
    return sum(files_of(path).sizes())


_WANTED = frozenset(
    {
        *("path", "size_bytes", "modification_time", "num_records", "partition.cluster", "partition.cycle_date"),
        *("min.write_id", "max.write_id"),
    }
)
# Longer values are cut in statistics, and two with equal beginnings need not be equal.
_CUT = 32


def _file(row: Mapping[str, Any]) -> File:
    first, last = row.get("min.write_id"), row.get("max.write_id")
    return File(
        row.get("partition.cluster"),
        row.get("partition.cycle_date"),
        int(row["size_bytes"]),
        int(row["num_records"] or 0),
        datetime.fromtimestamp(row["modification_time"] / 1000, UTC),
        first if first is not None and first == last and len(first) <= _CUT else None,
        unquote(row["path"]),
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """One table: numbers of files and rows, and bytes of its rows (`live`), of its folder (`disk`) and its log.

    `last_date`: bytes of the newest whole date. `uncompacted`: the number of files of a single write.
    """

    table: str
    files: int
    rows: int
    live: int
    disk: int
    log_files: int
    log: int
    last_date: int
    uncompacted: int

    @property
    def history(self) -> int:
        """Bytes of files that only earlier versions name."""
        return max(0, self.disk - self.live - self.log)


@dataclass(frozen=True, slots=True)
class Lakeful:
    """All tables, the cycles on record, and the newest whole date with its number of cycles."""

    tables: tuple[Stored, ...]
    cycles: int
    last_date: date | None
    cycles_of_last_date: int


def measure(root: str) -> Lakeful:
    """Take the inventory of every table; raises NoLake if there is no lake."""
    lake = Lake(root)
    if not is_delta_table(lake.path("cycles")):
        raise NoLake(f"there is no lake at {root}: its `cycles` table is missing. Name the folder of the tables")
    inventories = {
        name: take_inventory(table, lake.path(name))
        for name, table in EVERY_TABLE.items()
        if is_delta_table(lake.path(name))
    }
    cycles = _cycles(lake)
    newest = max(cycles, default=None)
    whole = newest - timedelta(days=1) if newest and newest - timedelta(days=1) in cycles else newest
    tables = tuple(_stored(lake, name, inventory, whole) for name, inventory in inventories.items())
    return Lakeful(tables, sum(cycles.values()), whole, cycles.get(whole, 0) if whole else 0)


def _stored(lake: Lake, name: str, inventory: Inventory, day: date | None) -> Stored:
    log = [*files_of(lake.path(name)).sizes(LOG_FOLDER)]
    return Stored(
        table=name,
        files=len(inventory.files),
        rows=inventory.rows,
        live=inventory.size,
        disk=bytes_on_disk(lake.path(name)),
        log_files=len(log),
        log=sum(log),
        last_date=sum(file.size for file in inventory.files if file.date is not None and file.date == day),
        uncompacted=sum(file.write_id is not None for file in inventory.files),
    )


def _cycles(lake: Lake) -> dict[date, int]:
    """Return the cycles on record by date: clusters and moments, however often decided."""
    import pyarrow.compute as pc

    dataset = delta_table(lake.path("cycles")).to_pyarrow_dataset()
    planned = dataset.to_table(columns=["cluster", "cycle_at", "cycle_date"], filter=pc.field("row_kind") == "planned")
    distinct = planned.group_by(["cluster", "cycle_at", "cycle_date"]).aggregate([])
    counted = distinct.group_by("cycle_date").aggregate([("cycle_at", "count")])
    return dict(zip(counted["cycle_date"].to_pylist(), counted["cycle_at_count"].to_pylist(), strict=True))


Day = tuple[str, date]
"""A cluster's date."""


@dataclass(frozen=True, slots=True)
class DatesOnRecord:
    """Dates by the manifest chain.

    `recorded`: day -> when the last attempt at any of its cycles was recorded. `rests_on`: day -> days whose rows its
    cycles took over. `in_use`: days of the attempts that a next cycle takes its state from, and of theirs.
    """

    recorded: Mapping[Day, datetime]
    rests_on: Mapping[Day, frozenset[Day]]
    in_use: frozenset[Day]

    def is_past(self, day: Day, cutoff: date) -> bool:
        """Return True if the date, and every attempt at its cycles, is before the cutoff; a backfill makes a date
        recent."""
        recorded = self.recorded.get(day)
        return day[1] < cutoff and (recorded is None or recorded.date() < cutoff)

    def needed(self, cutoff: date) -> frozenset[Day]:
        """Return the days that must stay whatever their age: kept rows rest on them."""
        kept = (day for day in self.recorded if not self.is_past(day, cutoff))
        return self.in_use.union(*(self.rests_on.get(day, frozenset()) for day in kept))


def read_record(lake: Lake) -> DatesOnRecord:
    """Read `cycles`.

    Live cycles take state from the newest attempt that is not a backfill, a backfill from its own kind as well.
    """
    record, recorded, in_use = Record(lake.root), dict[Day, datetime](), set[Day]()
    rests_on: dict[Day, set[Day]] = {}
    names = ("cycle_at", "attempt", "row_kind", "status", "kind", "recorded_at", "predecessor_cycle_at")
    for cluster in record.clusters():
        links = record.links(cluster, *names[3:])
        newest: dict[bool, tuple[datetime, int, set[Day]]] = {}
        columns = (links.column(name).to_pylist() for name in names)
        for cycle_at, number, row_kind, status, kind, recorded_at, before in zip(*columns, strict=True):
            day: Day = (cluster, cycle_at.date())
            taken = set() if before is None else {(cluster, before.date())}
            recorded[day] = max(recorded.get(day, recorded_at), recorded_at)
            rests_on.setdefault(day, set()).update(taken - {day})
            attempt, is_backfill = (cycle_at, number, {day, *taken}), kind == "backfill"
            if row_kind == "planned" and status in DECIDED_STATUSES:
                newest[is_backfill] = max(newest.get(is_backfill, attempt), attempt, key=lambda one: one[:2])
        in_use |= {day for _, _, days in newest.values() for day in days}
    return DatesOnRecord(recorded, {day: frozenset(days) for day, days in rests_on.items()}, frozenset(in_use))


def unlisted_writes(spark: SparkSession, lake: Lake, table: str, days: Iterable[Day]) -> dict[Day, list[str]]:
    """Return the write ids in these days of a table that no manifest of the same cluster lists."""
    from pyspark.sql import functions as F

    from evenkeel.spark.sql import any_of

    wanted = any_of(
        (F.col("cluster") == cluster) & (F.col("cycle_date") == F.lit(day.isoformat()).cast("date"))
        for cluster, day in days
    )
    existing = (
        spark.read.format("delta").load(lake.path(table)).where(wanted).select("cluster", "cycle_date", "write_id")
    )
    chain = spark.read.format("delta").load(lake.path("cycles")).where(wanted)
    listed = chain.select("cluster", F.explode("writes.write_id").alias("write_id")).distinct()
    rows = existing.distinct().join(listed, on=["cluster", "write_id"], how="left_anti").collect()
    unlisted: dict[Day, list[str]] = {}
    for row in sorted(rows):
        unlisted.setdefault((row["cluster"], row["cycle_date"]), []).append(row["write_id"])
    return unlisted
