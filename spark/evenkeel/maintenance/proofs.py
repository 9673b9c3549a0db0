"""Integrity of the record while maintenance rewrites it: anchors of chains, and proofs of rewritten files.

The beginning of a chain of manifests past the audit period is dropped: an anchor is written first, then the rows are
deleted. `cycles` is a chain per cluster, so only its beginning can be dropped. The anchor keeps the place and the
digest of the last dropped row. The first remaining row names that digest, and verification starts at it. An upkeep
killed between the two leaves an anchor beside the row that it names, which repeats the same fact.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from evenkeel.errors import LakeError
from evenkeel.handover import DataFile
from evenkeel.lake.delta_log import hashed
from evenkeel.lake.manifest import DECIDED_STATUSES
from evenkeel.lake.record import Record, read_table
from evenkeel.lake.schema import sql_text
from evenkeel.lake.store import Lake, append_values, surplus
from evenkeel.lake.table_files import files_of
from evenkeel.maintenance.inventory import Day, Inventory
from evenkeel.maintenance.statements import at, delete, in_days, one_of
from evenkeel.spark.code import code_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger(__name__)


class ChainCut(NamedTuple):
    """New beginning of a cluster's chain: after the row `sequence`, the last that is dropped."""

    cluster: str
    sequence: int
    manifest_digest: str
    cycle_at: datetime
    recorded_at: datetime


def truncate(spark: SparkSession, lake: Lake, cutoff: date, now: datetime) -> tuple[int, int]:
    """Drop manifests past the audit period, and the wishes that only they took; return the numbers of both.

    If the chain is broken at the place of the cut nothing is dropped: `evenkeel verify` has to name that first.
    """
    cuts = _find_cuts(lake, cutoff)
    wishes = _drop_wishes(spark, lake, cuts, cutoff)
    if not cuts:
        return 0, wishes
    _write_anchors(spark, lake, cuts, now)
    beginnings = " OR ".join(f"(cluster = {sql_text(cut.cluster)} AND sequence <= {cut.sequence})" for cut in cuts)
    return delete(spark, lake, "cycles", beginnings), wishes


def _find_cuts(lake: Lake, cutoff: date) -> list[ChainCut]:
    """Return per cluster the last row of the chain's beginning in which all is past the period."""
    record = Record(lake.root)
    chains = ((name, record.links(name, "kind", "status", "recorded_at")) for name in record.clusters())
    return [cut for name, links in chains if (cut := _cut(name, links, cutoff)) is not None]


def _cut(cluster: str, links: Any, cutoff: date) -> ChainCut | None:
    """Return where a chain is cut; None if all of it stays. `links`: see `Record.links`.

    Both rows of an attempt stay together, and the needs of the next cycle stay: the head of the chain, and the newest
    attempts that decided.
    """
    names = ("sequence", "attempt_id", "cycle_at", "recorded_at", "row_kind", "status", "kind", "attempt")
    places: dict[int, int] = {}
    spans: dict[str, tuple[int, int]] = {}
    newest: dict[bool, tuple[datetime, int, str]] = {}
    stays: set[str] = set()
    columns = (links.column(name).to_pylist() for name in names)
    rows = zip(*columns, strict=True)
    for place, (sequence, attempt, cycle_at, recorded_at, row_kind, status, kind, number) in enumerate(rows):
        places[sequence] = place
        spans[attempt] = spans.get(attempt, (sequence, sequence))[0], sequence
        if max(cycle_at, recorded_at).date() >= cutoff:
            stays.add(attempt)
        if row_kind == "planned" and status in DECIDED_STATUSES:
            decided = cycle_at, number, attempt
            newest[kind == "backfill"] = max(newest.get(kind == "backfill", decided), decided)
    stays |= {attempt, *(decided[2] for decided in newest.values())}
    first, before = min(spans[attempt][0] for attempt in stays), 0
    while first != before:  # an attempt whose `closed` row stays keeps its `planned` row
        first, before = min(begin for begin, end in spans.values() if end >= first), first
    if first - 1 not in places:
        return None
    dropped, kept = (links.slice(places[sequence], 1).to_pylist()[0] for sequence in (first - 1, first))
    if kept["previous_digest"] != dropped["manifest_digest"]:
        log.warning("%s: the chain does not hold at row %d; nothing of it is dropped. Run verify", cluster, first)
        return None
    return ChainCut(cluster, first - 1, dropped["manifest_digest"], dropped["cycle_at"], dropped["recorded_at"])


def _write_anchors(spark: SparkSession, lake: Lake, cuts: list[ChainCut], now: datetime) -> None:
    known = {(row["cluster"], row["sequence"]) for row in read_table(lake.root, "anchors")}
    rows = [(*cut, now, code_version()) for cut in cuts if (cut.cluster, cut.sequence) not in known]
    if rows:
        append_values(spark, lake, "anchors", rows)


def _drop_wishes(spark: SparkSession, lake: Lake, cuts: list[ChainCut], cutoff: date) -> int:
    """Drop wishes before the manifests that took them: one that seems untaken would be carried out again."""
    from pyspark.sql import functions as F

    from evenkeel.spark.sql import any_of

    chain = spark.read.format("delta").load(lake.path("cycles")).where(F.size("wishes") > 0)
    goes = any_of((F.col("cluster") == cut.cluster) & (F.col("sequence") <= cut.sequence) for cut in cuts)
    taken = chain.select("cluster", F.explode("wishes").alias("wish_id"), goes.alias("goes")).distinct().collect()
    stays = {row["wish_id"] for row in taken if not row["goes"]}
    goes_with = sorted({row["wish_id"] for row in taken if row["goes"]} - stays)
    before = datetime(cutoff.year, cutoff.month, cutoff.day, tzinfo=UTC)
    old = f"made_at < {at(before)}" + (f" AND NOT {one_of('wish_id', sorted(stays))}" if stays else "")
    also = f" OR {one_of('wish_id', goes_with)}" if goes_with else ""
    return delete(spark, lake, "wishes", f"({old}){also}")


@dataclass(frozen=True, slots=True)
class Doubt:
    """A date of a table with files of no write that a manifest lists, and of no row of `proofs`.

    `before`: the files that such rows or manifests name and that the table no longer has; `after`: paths of the files
    in doubt; `rows`: number of rows of these.
    """

    table: str
    version: int
    day: Day
    rows: int
    before: tuple[DataFile, ...]
    after: tuple[str, ...]


@dataclass(slots=True)
class Proving:
    """Result for one table: the numbers of dates `proven` and `left`, and a sentence for each fault in `wrong`."""

    proven: int = 0
    rows: int = 0
    wrong: list[str] = field(default_factory=list)
    left: int = 0


def prove(
    spark: SparkSession, lake: Lake, inventory: Inventory, upkeep_id: str, days: tuple[date, date], most_rows: int
) -> Proving:
    """Check dates in doubt, the newest first, up to a number of rows; record those whose rows are right.

    `days`: the first date, whose rows are all promised, and the date before which the dates are.
    """
    done, total = Proving(), 0
    chosen: list[Doubt] = []
    for doubt in _doubtful(spark, lake, inventory, days):
        if total and total + doubt.rows > most_rows:
            done.left += 1
            continue
        total += doubt.rows
        chosen.append(doubt)
    if chosen:
        _compare(spark, lake, chosen, upkeep_id, done)
    return done


def _doubtful(spark: SparkSession, lake: Lake, inventory: Inventory, days: tuple[date, date]) -> Iterator[Doubt]:
    """Yield the dates of a table that are in doubt, the newest first."""
    table, (first, end) = inventory.table.name, days
    places = {
        (cluster, day): {file.path: file.rows for file in files}
        for (cluster, day), files in inventory.places().items()
        if cluster is not None and day is not None and first <= day < end
    }
    known, replaced = _on_record(lake, table)
    strange = {day: rows for day, rows in places.items() if not rows.keys() <= known.get(day, {}).keys()}
    for day, files in _listed(spark, lake, table, strange).items():
        known.setdefault(day, {}).update(files)
    for day in sorted(strange, key=lambda day: (day[1], day[0]), reverse=True):
        rows, vouched = strange[day], known.get(day, {})
        after = tuple(sorted(rows.keys() - vouched.keys()))
        replaced_paths = sorted(vouched.keys() - rows.keys() - replaced.get(day, set()))
        if after:
            number = sum(rows[path] for path in after)
            yield Doubt(table, inventory.version, day, number, tuple(vouched[path] for path in replaced_paths), after)


def _on_record(lake: Lake, table: str) -> tuple[dict[Day, dict[str, DataFile]], dict[Day, set[str]]]:
    """Return the files that `proofs` names by date, and the paths of those whose rows are in other files since."""
    known: dict[Day, dict[str, DataFile]] = {}
    replaced: dict[Day, set[str]] = {}
    for row in read_table(lake.root, "proofs", {"table_name": [table]}):
        day = row["cluster"], row["cycle_date"]
        known.setdefault(day, {}).update((file_row["path"], _file(file_row)) for file_row in row["files_after"])
        replaced.setdefault(day, set()).update(file_row["path"] for file_row in row["files_before"])
    return known, replaced


def _listed(spark: SparkSession, lake: Lake, table: str, days: Iterable[Day]) -> dict[Day, dict[str, DataFile]]:
    """Return the files of the writes that manifests list, by date."""
    from pyspark.sql import functions as F

    write_ids = F.transform(F.filter("writes", lambda write: write["table"] == table), lambda write: write["write_id"])
    of_own = F.filter("files", lambda file: (file["table"] == table) & F.array_contains(write_ids, file["write_id"]))
    files: dict[Day, dict[str, DataFile]] = {}
    rows = _chain(spark, lake, days).select("cluster", "cycle_date", F.explode(of_own).alias("file"))
    for row in rows.select("cluster", "cycle_date", "file.path", "file.size", "file.digest").distinct().collect():
        files.setdefault((row["cluster"], row["cycle_date"]), {})[row["path"]] = _file(row)
    return files


def _file(row: Any) -> DataFile:
    return DataFile(row["path"], int(row["size"]), row["digest"])


def _chain(spark: SparkSession, lake: Lake, days: Iterable[Day]) -> DataFrame:
    """Return the first manifest rows of all attempts at cycles of these dates."""
    rows = spark.read.format("delta").load(lake.path("cycles"))
    return rows.where(in_days(days) or "false").where("row_kind = 'planned'")


def _compare(spark: SparkSession, lake: Lake, doubts: Sequence[Doubt], upkeep_id: str, done: Proving) -> None:
    """Compare the rows of listed writes in all these files, once, and record what is right."""
    from pyspark.sql import functions as F

    table, place = doubts[0].table, files_of(lake.path(doubts[0].table))
    whole = [doubt for doubt in doubts if not _changed(lake, doubt, done)]
    if not whole:
        return
    listed_write = F.explode(F.filter("writes", lambda write: write["table"] == table)).alias("write")
    chain = _chain(spark, lake, [doubt.day for doubt in whole])
    listed = chain.select("cluster", "cycle_date", listed_write).select(
        "cluster", "cycle_date", "write.write_id", "write.rows"
    )
    by = ("cluster", "cycle_date", "write_id")

    def rows_in(paths: Iterable[str]) -> DataFrame:
        rows = lake.in_files(spark, table, [place.full(path) for path in paths])
        return rows.join(F.broadcast(listed.select(*by)), [*by], "left_semi")

    before = rows_in(file.path for doubt in whole for file in doubt.before)
    after = rows_in(path for doubt in whole for path in doubt.after)
    other = (
        surplus(before, after, table, by).groupBy("cluster", "cycle_date").agg(F.countDistinct("write_id").alias("n"))
    )
    wrong = {(row["cluster"], row["cycle_date"]): int(row["n"]) for row in other.collect()}
    counts = {
        (row["cluster"], row["cycle_date"]): (int(row["writes"]), int(row["rows"]))
        for row in listed.groupBy("cluster", "cycle_date")
        .agg(F.count("*").alias("writes"), F.sum("rows").alias("rows"))
        .collect()
    }
    proofs = []
    for doubt in whole:
        if doubt.day in wrong:
            number = f"{wrong[doubt.day]:,} of their writes"
            done.wrong.append(_told(doubt, f"rows are not what they were before files were put together ({number})"))
            continue
        done.proven += 1
        writes, rows = counts.get(doubt.day, (0, 0))
        done.rows += rows
        new_files = [hashed(lake.path(table), path) for path in doubt.after]
        proofs.append(_row(doubt, upkeep_id, writes, rows, new_files))
    if proofs:
        append_values(spark, lake, "proofs", proofs)


def _changed(lake: Lake, doubt: Doubt, done: Proving) -> bool:
    """Return True if a source file of rows differs from its record; it is added to what is wrong."""
    for file in doubt.before:
        try:
            if hashed(lake.path(doubt.table), file.path) == file:
                continue
            words = f"{file.path} was changed after it was written"
        except LakeError:
            words = f"{file.path} is gone"
        done.wrong.append(_told(doubt, f"{words}, so the rows of the files that came of it cannot be compared"))
        return True
    return False


def _told(doubt: Doubt, words: str) -> str:
    cluster, day = doubt.day
    return (
        f"{doubt.table} of {cluster}, {day}: {words}; `evenkeel verify --cluster {cluster} --from {day} --to {day}` "
        "names them"
    )


def _row(doubt: Doubt, upkeep_id: str, writes: int, rows: int, new_files: Sequence[DataFile]) -> tuple[Any, ...]:
    before, after = ([(file.path, file.size, file.digest) for file in files] for files in (doubt.before, new_files))
    now = datetime.now(UTC)
    return (*doubt.day, doubt.table, upkeep_id, doubt.version, writes, rows, before, after, now, code_version())
