"""Rows held against their manifests once files were put together, before the files that they came from are gone.

What comes of it stands in `proofs`: as long as those files stay the same, nobody has to digest their rows again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.handover import DataFile
from evenkeel.lake.delta_log import hashed, local_log
from evenkeel.lake.digest import Content, contents, nothing
from evenkeel.lake.small_appends import append_values
from evenkeel.lake.store import Lake
from evenkeel.maintenance.dates import Day
from evenkeel.maintenance.inventory import Inventory
from evenkeel.maintenance.statements import in_days
from evenkeel.spark.code import code_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BY = ("cluster", "cycle_date", "write_id")


@dataclass(frozen=True, slots=True)
class Doubt:
    """A date of a table with files that neither a manifest nor a proof knows; `files` are those that none lists."""

    table: str
    version: int
    day: Day
    rows: int
    files: tuple[str, ...]


@dataclass(slots=True)
class Proving:
    """What came of a table: the number of dates `proven` and of those `left`, and in words what was found `wrong`."""

    proven: int = 0
    rows: int = 0
    wrong: list[str] = field(default_factory=list)
    left: int = 0


@dataclass(frozen=True, slots=True)
class Days:
    """Which dates are looked at: those that are over, and whose rows are all promised, from `first` on."""

    today: date
    first: date | None = None

    def holds(self, day: date) -> bool:
        """Whether the date is looked at."""
        return day < self.today and (self.first is None or day >= self.first)


def prove(spark: SparkSession, lake: Lake, inventory: Inventory, upkeep_id: str, days: Days, most_rows: int) -> Proving:
    """Looks at dates in doubt, the newest first, up to a number of rows, and puts those on record that are right."""
    done, total = Proving(), 0
    chosen: list[Doubt] = []
    for doubt in doubtful(spark, lake, inventory, days):
        if total and total + doubt.rows > most_rows:
            done.left += 1
            continue
        total += doubt.rows
        chosen.append(doubt)
    if chosen:
        _look(spark, lake, chosen, upkeep_id, done)
    return done


def doubtful(spark: SparkSession, lake: Lake, inventory: Inventory, days: Days) -> Iterator[Doubt]:
    """Dates of a table that are in doubt, the newest first; none in an object store, whose files nobody hashes."""
    table = inventory.table.name
    if local_log(lake.path(table)) is None:
        return
    places = _files(inventory, days)
    if not places:
        return
    known = _proven(spark, lake, table)
    strange = {place: paths for place, paths in places.items() if not known.issuperset(paths)}
    if not strange:
        return
    known |= _listed(spark, lake, table, strange)
    for place in sorted(strange, key=lambda place: (place[1], place[0]), reverse=True):
        paths = strange[place]
        if not known.issuperset(paths):
            yield Doubt(table, inventory.version, place, sum(paths.values()), tuple(sorted(paths.keys() - known)))


def _files(inventory: Inventory, days: Days) -> dict[Day, dict[str, int]]:
    """Per place: path -> rows."""
    return {
        (cluster, day): {file.path: file.rows for file in files}
        for (cluster, day), files in inventory.places().items()
        if cluster is not None and day is not None and days.holds(day)
    }


def _proven(spark: SparkSession, lake: Lake, table: str) -> set[str]:
    from pyspark.sql import functions as F

    proofs = spark.read.format("delta").load(lake.path("proofs")).where(F.col("table_name") == table)
    return {row["path"] for row in proofs.select(F.explode("files.path").alias("path")).collect()}


def _listed(spark: SparkSession, lake: Lake, table: str, days: Iterable[Day]) -> set[str]:
    from pyspark.sql import functions as F

    files = _chain(spark, lake, days).select(F.explode("files").alias("file")).where(F.col("file.table") == table)
    return {row["path"] for row in files.select("file.path").collect()}


def _chain(spark: SparkSession, lake: Lake, days: Iterable[Day]) -> DataFrame:
    """The first manifest rows of all attempts at cycles of these dates."""
    rows = spark.read.format("delta").load(lake.path("cycles"))
    return rows.where(in_days(days)).where("row_kind = 'planned'")


def _look(spark: SparkSession, lake: Lake, doubts: Sequence[Doubt], upkeep_id: str, done: Proving) -> None:
    """Reads the rows of these dates of one table once, at the version that was looked at."""
    table, version = doubts[0].table, doubts[0].version
    days = [doubt.day for doubt in doubts]
    reader = spark.read.format("delta").option("versionAsOf", version)
    rows = reader.load(lake.path(table)).where(in_days(days))
    wanted = _wanted(spark, lake, table, days)
    there = {schema: contents(rows, table, schema, _BY) for schema in sorted({schema for schema, _ in wanted.values()})}
    proofs = []
    for doubt in doubts:
        listed = {key: content for key, (_, content) in wanted.items() if key[:2] == doubt.day}
        other = sum(there[wanted[key][0]].get(key, nothing()) != content for key, content in listed.items())
        if other:
            done.wrong.append(_told(doubt, other))
            continue
        done.proven += 1
        done.rows += sum(count for count, _ in listed.values())
        proofs.append(_row(doubt, upkeep_id, listed, [hashed(lake.path(table), path) for path in doubt.files]))
    if proofs:
        append_values(spark, lake, "proofs", proofs)


def _told(doubt: Doubt, writes: int) -> str:
    cluster, day = doubt.day
    return (
        f"{doubt.table} of {cluster}, {day}: rows are not what the manifests list ({writes:,} of their writes); "
        f"`evenkeel verify --cluster {cluster} --from {day} --to {day}` names them"
    )


def _wanted(
    spark: SparkSession, lake: Lake, table: str, days: Iterable[Day]
) -> dict[tuple[Any, ...], tuple[int, Content]]:
    """What manifests list: (cluster, date, write id) -> schema version, and rows with their digest."""
    from pyspark.sql import functions as F

    chain = _chain(spark, lake, days).select(
        "cluster", "cycle_date", F.coalesce("schema_version", F.lit(1)).alias("schema"), F.explode("writes").alias("w")
    )
    rows = chain.where(F.col("w.table") == table).select("cluster", "cycle_date", "schema", "w.*").collect()
    return {
        (row["cluster"], row["cycle_date"], row["write_id"]): (int(row["schema"]), (int(row["rows"]), row["digest"]))
        for row in rows
    }


def _row(doubt: Doubt, upkeep_id: str, listed: Mapping[Any, Content], files: Iterable[DataFile]) -> tuple[Any, ...]:
    cluster, day = doubt.day
    rows = sum(rows for rows, _ in listed.values())
    told = [(file.path, file.size, file.digest) for file in files]
    now = datetime.now(UTC)
    return (cluster, day, doubt.table, upkeep_id, doubt.version, len(listed), rows, told, now, code_version())
