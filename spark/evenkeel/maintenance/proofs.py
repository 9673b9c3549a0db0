"""What holds the record together while maintenance rewrites it: anchors of chains, and proofs of rewritten files.

The beginning of a chain of manifests past the audit period goes: an anchor is written first, then the rows go.
`cycles` is a chain per cluster, so only its beginning can be dropped. The anchor keeps the place and the digest of the
last row that goes; the first row that stays names that digest, and verification starts there. An upkeep killed between
the two leaves an anchor beside the row that it names, which says the same twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.handover import DataFile
from evenkeel.lake.delta_log import hashed
from evenkeel.lake.manifest import DECIDED_STATUSES
from evenkeel.lake.roots import NOTHING, Rooted, fits, rooted, summed
from evenkeel.lake.schema import sql_text
from evenkeel.lake.store import Lake, append_values
from evenkeel.lake.table_files import is_readable_here
from evenkeel.maintenance.inventory import Day, Inventory
from evenkeel.maintenance.statements import at, delete, in_days, one_of
from evenkeel.spark.code import code_version
from evenkeel.spark.sql import iso

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChainCut:
    """Where a cluster's chain is to begin: after the row `sequence`, the last that goes."""

    cluster: str
    sequence: int
    manifest_digest: str
    cycle_at: datetime
    recorded_at: datetime


def truncate(spark: SparkSession, lake: Lake, cutoff: date, now: datetime) -> tuple[int, int]:
    """Drops manifests past the audit period, and the wishes that only they took; returns the numbers of both.

    Where the chain does not hold at the place of the cut nothing is dropped: `evenkeel verify` has to name that first.
    """
    cuts = find_cuts(spark, lake, cutoff)
    wishes = _drop_wishes(spark, lake, cuts, cutoff)
    if not cuts:
        return 0, wishes
    _write_anchors(spark, lake, cuts, now)
    beginnings = " OR ".join(f"(cluster = {sql_text(one.cluster)} AND sequence <= {one.sequence})" for one in cuts)
    return delete(spark, lake, "cycles", beginnings), wishes


def find_cuts(spark: SparkSession, lake: Lake, cutoff: date) -> list[ChainCut]:
    """Per cluster the last row of the chain's beginning in which all is past the period.

    Both rows of an attempt stay together, and what the next cycle needs stays: the head of the chain, and the newest
    attempts that decided.
    """
    from pyspark.sql import functions as F

    chain = spark.read.format("delta").load(lake.path("cycles"))
    begins = {row["cluster"]: int(row["first"]) for row in _kept(_attempts(chain), cutoff).collect()}
    while begins:  # an attempt whose `closed` row stays keeps its `planned` row
        bound = F.lit(None)
        for cluster, first in begins.items():
            bound = F.when(F.col("cluster") == cluster, F.lit(first)).otherwise(bound)
        rows = _attempts(chain).where(F.col("last") >= bound).groupBy("cluster").agg(F.min("first").alias("first"))
        again = {row["cluster"]: int(row["first"]) for row in rows.collect()}
        if again == begins:
            break
        begins = again
    return [cut for cluster, first in sorted(begins.items()) if (cut := _cut(chain, cluster, first)) is not None]


def _attempts(chain: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    decided = (F.col("row_kind") == "planned") & F.col("status").isin(*DECIDED_STATUSES)
    return chain.groupBy("cluster", "attempt_id").agg(
        F.min("sequence").alias("first"),
        F.max("sequence").alias("last"),
        F.max(F.greatest("cycle_date", F.to_date("recorded_at"))).alias("youngest"),
        F.max(F.struct("cycle_at", "attempt")).alias("cycle"),
        F.max(F.when(decided, F.col("kind") == "backfill")).alias("is_backfill"),
    )


def _kept(attempts: DataFrame, cutoff: date) -> DataFrame:
    """Per cluster the first row of the attempts that have to stay."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    head = F.row_number().over(Window.partitionBy("cluster").orderBy(F.col("last").desc())) == 1
    newest = F.row_number().over(Window.partitionBy("cluster", "is_backfill").orderBy(F.col("cycle").desc())) == 1
    marked = attempts.withColumns({"is_head": head, "is_newest": newest & F.col("is_backfill").isNotNull()})
    is_fresh = F.col("youngest") >= F.lit(cutoff.isoformat()).cast("date")
    stays = is_fresh | F.col("is_head") | F.col("is_newest")
    return marked.where(stays).groupBy("cluster").agg(F.min("first").alias("first"))


def _cut(chain: DataFrame, cluster: str, first: int) -> ChainCut | None:
    from pyspark.sql import functions as F

    rows = chain.where((F.col("cluster") == cluster) & F.col("sequence").isin(first - 1, first))
    found: dict[int, Any] = {
        row["sequence"]: row
        for row in rows.select(
            "sequence", "manifest_digest", "previous_digest", iso("cycle_at").alias("cycle_at"),
            iso("recorded_at").alias("recorded_at"),
        ).collect()
    }  # fmt: skip
    if first - 1 not in found:
        return None
    gone = found[first - 1]
    if first not in found or found[first]["previous_digest"] != gone["manifest_digest"]:
        log.warning("%s: the chain does not hold at row %d; nothing of it is dropped. Run verify", cluster, first)
        return None
    times = (datetime.fromisoformat(gone[name]) for name in ("cycle_at", "recorded_at"))
    return ChainCut(cluster, first - 1, gone["manifest_digest"], *times)


def _write_anchors(spark: SparkSession, lake: Lake, cuts: list[ChainCut], now: datetime) -> None:
    known = {
        (row["cluster"], row["sequence"])
        for row in spark.read.format("delta").load(lake.path("anchors")).select("cluster", "sequence").collect()
    }
    rows = [
        (one.cluster, one.sequence, one.manifest_digest, one.cycle_at, one.recorded_at, now, code_version())
        for one in cuts
        if (one.cluster, one.sequence) not in known
    ]
    if rows:
        append_values(spark, lake, "anchors", rows)


def _drop_wishes(spark: SparkSession, lake: Lake, cuts: list[ChainCut], cutoff: date) -> int:
    """Wishes go before the manifests that took them: one that nobody seems to have taken would be carried out again."""
    from pyspark.sql import functions as F

    from evenkeel.spark.sql import any_of

    chain = spark.read.format("delta").load(lake.path("cycles")).where(F.size("wishes") > 0)
    goes = any_of((F.col("cluster") == one.cluster) & (F.col("sequence") <= one.sequence) for one in cuts)
    taken = chain.select("cluster", F.explode("wishes").alias("wish_id"), goes.alias("goes")).distinct().collect()
    stays = {row["wish_id"] for row in taken if not row["goes"]}
    goes_with = sorted({row["wish_id"] for row in taken if row["goes"]} - stays)
    before = datetime(cutoff.year, cutoff.month, cutoff.day, tzinfo=UTC)
    old = f"made_at < {at(before)}" + (f" AND NOT {one_of('wish_id', sorted(stays))}" if stays else "")
    also = f" OR {one_of('wish_id', goes_with)}" if goes_with else ""
    return delete(spark, lake, "wishes", f"({old}){also}")


# Rows held against their manifests once files were put together, before the files that they came from are gone.
#
# What comes of it stands in `proofs`: as long as those files stay the same, nobody has to digest their rows again.

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
    """Result for one table: the numbers of dates `proven` and `left`, and a sentence for each thing found `wrong`."""

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
    """Dates of a table that are in doubt, the newest first; none in a store that only Spark knows: nobody hashes files
    there."""
    table = inventory.table.name
    if not is_readable_here(lake.path(table)):
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
    versions = sorted({schema for schema, _ in wanted.values()})
    with_roots = {schema for schema, content in wanted.values() if content[2]}
    rows_of = {key: content[0] for key, (_, content) in wanted.items()}
    there = {
        schema: rooted(rows, table, schema, _BY, rows_of) if schema in with_roots else summed(rows, table, schema, _BY)
        for schema in versions
    }
    proofs = []
    for doubt in doubts:
        listed = {key: content for key, (_, content) in wanted.items() if key[:2] == doubt.day}
        other = sum(not fits(there[wanted[key][0]].get(key, NOTHING), content) for key, content in listed.items())
        if other:
            done.wrong.append(_told(doubt, other))
            continue
        done.proven += 1
        done.rows += sum(count for count, _, _ in listed.values())
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
) -> dict[tuple[Any, ...], tuple[int, Rooted]]:
    """What manifests list: (cluster, date, write id) -> schema version, and rows with their digest.

    The root is there where it is that of a single write.
    """
    from pyspark.sql import functions as F

    own = F.filter("writes", lambda write: write["table"] == table)
    root = F.get(F.filter("roots", lambda one: one["table"] == table), F.lit(0))["root"]
    is_one = F.size(F.filter(own, lambda write: write["rows"] > 0)) == 1
    chain = _chain(spark, lake, days).select(
        *("cluster", "cycle_date", F.coalesce("schema_version", F.lit(1)).alias("schema")),
        *(F.when(is_one, root).alias("root"), F.explode(own).alias("w")),
    )
    return {
        (row["cluster"], row["cycle_date"], row["write_id"]): (
            int(row["schema"]),
            (int(row["rows"]), row["digest"], (row["root"] or "") if row["rows"] else ""),
        )
        for row in chain.select("cluster", "cycle_date", "schema", "root", "w.*").collect()
    }


def _row(doubt: Doubt, upkeep_id: str, listed: Mapping[Any, Rooted], files: Iterable[DataFile]) -> tuple[Any, ...]:
    cluster, day = doubt.day
    rows = sum(rows for rows, _, _ in listed.values())
    told = [(file.path, file.size, file.digest) for file in files]
    now = datetime.now(UTC)
    return (cluster, day, doubt.table, upkeep_id, doubt.version, len(listed), rows, told, now, code_version())
