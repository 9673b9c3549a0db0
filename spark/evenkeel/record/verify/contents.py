"""Whether the rows that manifests list are still the rows that were written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.handover import Write
from evenkeel.lake.digest import ROW_DIGEST, with_row_digest
from evenkeel.lake.roots import NOTHING, Rooted, fits, rooted, summed
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, with_all_columns
from evenkeel.lake.table_roots import SET, set_column
from evenkeel.record.read import Attempt
from evenkeel.record.verify.chain import CONTENT, Fault, Kept
from evenkeel.record.verify.root_sets import Makers, RootSet, of_several, root_sets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.types import StructType


_BY = ("cluster", SET)
_TABLES_AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Checked:
    """Faults, the rows with changed writes as they were once (where that can be read), and what is not whole.

    `missing`: (cluster, table, write id) of writes that are neither now nor at their version what they were.
    """

    faults: tuple[Fault, ...]
    rows: Rows
    missing: frozenset[tuple[str, str, str]] = frozenset()


def check_contents(rows: Rows, owners: Mapping[Write, Attempt], makers: Makers) -> Checked:
    """Compares each of these writes, which an attempt made or read, with its digest and with the root that its maker's
    manifest names.

    `makers`: attempts whose manifests are at hand; a write that none of them made has its digest alone.
    """
    # Of a write whose own manifest is not there, as in an export, the version is that of whoever read it.
    known = {write: makers.get((write.cluster, write.write_id), one).schema_version for write, one in owners.items()}
    sets = root_sets(owners, makers)
    listed = {write: _listed(write, sets.get(write)) for write in owners}
    faults: list[Fault] = []
    restored: dict[tuple[str, str], int] = {}
    missing: set[tuple[str, str, str]] = set()
    wrong: set[Write] = set()
    by_kind: dict[tuple[str, int], list[Write]] = {}
    for write in owners:
        by_kind.setdefault((write.table, known[write]), []).append(write)
    for (table, version), found in _each(rows, by_kind, listed):
        for write in by_kind[table, version]:
            content = found.get((write.cluster, write.write_id), NOTHING)
            if isinstance(content, str):
                words, is_kept = content, False
            elif fits(content, listed[write]):
                continue
            else:
                words, is_kept = _what_became(rows, write, content, listed[write], version)
            wrong.add(write)
            if is_kept:
                restored[table, write.write_id] = write.version
            else:
                missing.add((write.cluster, table, write.write_id))
            faults.append(_fault(owners[write], write, words))
    for one in of_several(sets, wrong):
        own = [write for write in one.writes if write in owners]
        words = _what_is_wrong(rows, one, known[own[0]])
        if words:
            missing |= {(write.cluster, one.table, write.write_id) for write in own}
            faults.append(_fault(owners[own[0]], own[0], words))
    lost = frozenset((table, write_id) for _, table, write_id in missing)
    return Checked(tuple(faults), replace(rows, restored=restored, lost=lost), frozenset(missing))


def _each(
    rows: Rows, by_kind: Mapping[tuple[str, int], Sequence[Write]], listed: Mapping[Write, Rooted]
) -> Iterator[tuple[tuple[str, int], Mapping[tuple[str, ...], Rooted | str]]]:
    """What is there of the writes, by table and schema version."""
    alike = sorted(by_kind)
    # A compacted table is one file, so one core reads it: several tables at a time keep the others busy.
    with ThreadPoolExecutor(_TABLES_AT_ONCE, "contents") as threads:
        asked = []
        for key in alike:
            with_roots = any(listed[write][2] for write in by_kind[key])
            sets = [(write,) for write in by_kind[key]]
            asked.append(threads.submit(_now, rows, key[0], sets, key[1], with_roots))
        yield from ((key, one.result()) for key, one in zip(alike, asked, strict=True))


def _what_is_wrong(rows: Rows, one: RootSet, version: int) -> str:
    """In words, what is wrong with rows of several writes that have one root; "" where nothing is."""
    first = one.writes[0]
    found = _now(rows, one.table, [one.writes], version, True).get((first.cluster, first.write_id), NOTHING)
    if isinstance(found, str):
        return found
    return "" if found[2] == one.root else _CHOSEN


_CHOSEN = (
    "the rows that are there have the digest that is listed, which is a sum, but not the Merkle root: somebody chose "
    "rows that look like those that were written"
)


def _listed(write: Write, one: RootSet | None) -> Rooted:
    return write.rows, write.digest, one.root if one is not None and one.is_one else ""


def _fault(one: Attempt, write: Write, words: str) -> Fault:
    place = f"write {write.write_id}, version {write.version}"
    return Fault(write.cluster, one.cycle_at, CONTENT, write.table, place, words, one.attempt_id)


def promised(attempts: Iterable[Attempt], kept: Kept) -> dict[Write, Attempt]:
    """All writes of these attempts that have to be there, and that they read; each once, with the attempt that made
    it, else with one that read it and needs it."""
    found: dict[Write, Attempt] = {}
    for one in attempts:
        if can_decide(one, kept):
            for write in one.reads:
                found.setdefault(write, one)
    for one in attempts:
        for write in kept.writes(one):
            found[write] = one
    return found


def can_decide(attempt: Attempt, kept: Kept) -> bool:
    """Whether all that the attempt decided on has to be there still, and what it decided; topics aside."""
    return all(kept.promises(attempt, write.table) for write in attempt.writes if write.table != "topic_stats")


def _now(
    rows: Rows, table: str, sets: Sequence[Sequence[Write]], version: int, with_roots: bool
) -> dict[tuple[str, ...], Rooted | str]:
    """What is there of each set of writes, by the cluster and id of its first; the error in its place where a file
    cannot be read.

    A damaged file spoils the whole job, so the sets are halved until it is alone.
    """
    writes = [write for own in sets for write in own]
    try:
        frame = _only(rows.now(table, sorted({write.cluster for write in writes})), writes)
    except Exception as error:  # Spark's own, for a table that is gone or whose log is broken
        words = f"its table cannot be read: {told_by_spark(error)}"
        return {(own[0].cluster, own[0].write_id): words for own in sets}
    try:
        named = frame.withColumn(SET, set_column(sets))
        if not with_roots:
            return {**summed(named, table, version, _BY)}
        listed = {(own[0].cluster, own[0].write_id): sum(write.rows for write in own) for own in sets}
        return {**rooted(named, table, version, _BY, listed)}
    except Exception as error:  # Spark's own, for whatever is wrong with a file
        if len(sets) == 1:
            words = f"its rows cannot be read: {told_by_spark(error)}"
            return {(writes[0].cluster, writes[0].write_id): words}
        middle = len(sets) // 2
        halves = (_now(rows, table, half, version, with_roots) for half in (sets[:middle], sets[middle:]))
        return {key: value for half in halves for key, value in half.items()}


def _only(frame: DataFrame, writes: Sequence[Write]) -> DataFrame:
    """By a condition and not by a join, after which Delta opens files that hold none of these."""
    from pyspark.sql import functions as F

    return frame.where(F.col("write_id").isin(sorted({write.write_id for write in writes})))


def _what_became(rows: Rows, write: Write, now: Rooted, listed: Rooted, version: int) -> tuple[str, bool]:
    """In words, and whether the write can be read as it was at the version that the manifest names."""
    if now[:2] == listed[:2]:
        counts = _CHOSEN
    elif now[0] != write.rows:
        counts = f"{now[0]} rows are there of {write.rows} listed"
    else:
        counts = "its rows are not what they were"
    try:
        once = _only(rows.at(write.table, write.version, [write.cluster]), [write])
        key = write.cluster, write.write_id
        own = once.withColumn(SET, set_column([(write,)]))
        if listed[2]:
            kept = rooted(own, write.table, version, _BY, {key: write.rows}).get(key, NOTHING)
        else:
            kept = summed(own, write.table, version, _BY).get(key, NOTHING)
    except Exception as error:  # Delta's own, for files or versions that are gone
        return f"{counts}; version {write.version} of the table cannot be read any more ({told_by_spark(error)})", False
    if not fits(kept, listed):
        return f"{counts}, at version {write.version} neither: a file was changed or lost: {_files(once)}", False
    present = _only(rows.now(write.table, [write.cluster]), [write])
    changed = differing(once, present, write.table, version, "write_id").get(write.write_id, [])
    return f"{counts}; changed by a later commit than version {write.version}: {'; '.join(changed)}", True


def _files(frame: DataFrame) -> str:
    from pyspark.sql import functions as F

    found = frame.select(F.input_file_name().alias("file")).distinct().limit(5).collect()
    return ", ".join(sorted(row["file"] for row in found)) or "none of its files is there"


def told_by_spark(error: Exception) -> str:
    """The line of Spark's error that names the file, else the first."""
    lines = [line.strip() for line in (str(error).strip() or type(error).__name__).splitlines() if line.strip()]
    return next((line for line in lines if ".parquet" in line), lines[0])[:400]


# Which rows are not what they were, or are not what is decided now, column by column.

MOST = 5
_LONGEST = 120


def differing(before: DataFrame, after: DataFrame, table: str, version: int, by: str) -> dict[str, list[str]]:
    """Value of `by` -> sentences on rows of `before` and `after` that only one side has, or that differ; see `MOST`."""
    from pyspark.sql import functions as F

    left, right = (with_row_digest(frame, table, version) for frame in (before, after))
    only_before = left.join(right.select(by, ROW_DIGEST), [by, ROW_DIGEST], "left_anti")
    only_after = right.join(left.select(by, ROW_DIGEST), [by, ROW_DIGEST], "left_anti")
    columns = [name for name in TABLES[table].names_at(version) if name not in STAMP_NAMES]

    def fetched(frame: DataFrame) -> list[Any]:
        body = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("body")
        rows = frame.select(by, body).groupBy(by).agg(F.sort_array(F.collect_list("body")).alias("bodies"))
        return rows.select(by, F.slice("bodies", 1, 50 * MOST).alias("bodies")).collect()

    sides = [
        {row[by]: [json.loads(body) for body in row["bodies"]] for row in fetched(f)} for f in (only_before, only_after)
    ]
    return {key: list(sentences(sides[0].get(key, []), sides[1].get(key, []), table)) for key in {*sides[0], *sides[1]}}


def sentences(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], table: str) -> Iterator[str]:
    """What became of each row, by its key; at most `MOST`."""
    old, new = ({_key(row, table): row for row in rows} for rows in (before, after))
    keys = sorted(old.keys() | new.keys())
    for key in keys[:MOST]:
        if key not in new:
            yield f"{key} is missing"
        elif key not in old:
            yield f"{key} was added"
        else:
            yield f"{key}: {_changes(old[key], new[key])}"
    if len(keys) > MOST:
        yield f"and {len(keys) - MOST} more"


def _key(row: Mapping[str, Any], table: str) -> str:
    return ", ".join(f"{name} {row[name]}" for name in TABLES[table].key if row.get(name) is not None) or "the row"


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    names = [name for name in new if old.get(name) != new[name] and name != "sentence"] or ["sentence"]
    return ", ".join(f"{name} {_short(old.get(name))} became {_short(new[name])}" for name in names[:MOST])


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# The rows that manifests list, of many attempts at once: each carries the id of the attempt that it is read for.
#
# Rows are read as they stand now, which is what an auditor would read. Where a table was changed after a write, the
# write is read at the version that the manifest names, as long as it is kept (`restored`).

ATTEMPT = "attempt_id"


class OnDemand:
    """A Spark session that is opened when somebody first asks for it, and closed at the end of the block."""

    def __init__(self, session: Callable[[], AbstractContextManager[SparkSession]]) -> None:
        self._session = session
        self._closing = ExitStack()
        self._spark: SparkSession | None = None

    def __enter__(self) -> OnDemand:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()

    @property
    def spark(self) -> SparkSession:
        """The session; the first access opens it."""
        if self._spark is None:
            self._spark = self._closing.enter_context(self._session())
        return self._spark


@dataclass(frozen=True)
class Rows:
    """The lake's rows of cycles within a span of time, of which some writes are read at an earlier version.

    `restored`: (table, write id) -> version; `lost`: (table, write id) of writes in files that cannot be read.
    """

    session: OnDemand
    lake: Lake
    since: datetime
    until: datetime
    restored: Mapping[tuple[str, str], int] = field(default_factory=dict)
    lost: frozenset[tuple[str, str]] = frozenset()

    @property
    def spark(self) -> SparkSession:
        """The session that reads the rows; the first access opens it."""
        return self.session.spark

    def of(self, table: str, wanted: Iterable[tuple[str, Write]]) -> DataFrame:
        """Rows of `table` for attempts (id, write): its columns, and `attempt_id` before them."""
        from pyspark.sql import functions as F

        asked = [(attempt, w) for attempt, w in wanted if w.table == table and w.rows]
        listed = sorted({(attempt, w.cluster, w.write_id) for attempt, w in asked})
        columns = [ATTEMPT, *TABLES[table].column_names()]
        if not listed:
            return self.spark.createDataFrame([], self._type(table))
        named = F.broadcast(self.spark.createDataFrame(listed, f"{ATTEMPT} string, cluster string, write_id string"))
        clusters = sorted({cluster for _, cluster, _ in listed})
        return self._rows(table, clusters, {w for _, w in asked}).join(named, ["cluster", "write_id"]).select(*columns)

    def _rows(self, table: str, clusters: Sequence[str], asked: set[Write]) -> DataFrame:
        from pyspark.sql import functions as F

        writes = {write.write_id for write in asked}
        lost = {write_id for name, write_id in self.lost if name == table}
        if lost:  # the table as a whole cannot be read: a join leads Delta to every file
            return self.lake.read(self.spark, table, [write for write in asked if write.write_id not in lost])
        earlier: dict[int, list[str]] = {}
        for (name, write_id), version in self.restored.items():
            if name == table and write_id in writes:
                earlier.setdefault(version, []).append(write_id)
        ids = sorted(write_id for one in earlier.values() for write_id in one)
        found = self.now(table, clusters).where(F.col("write_id").isin(sorted(writes - set(ids))))
        for version, own in sorted(earlier.items()):
            found = found.unionByName(self.at(table, version, clusters).where(F.col("write_id").isin(sorted(own))))
        return found

    def now(self, table: str, clusters: Sequence[str]) -> DataFrame:
        """All rows of these clusters in the span of time, as the table stands."""
        return self._within(self.spark.read.format("delta"), table, clusters)

    def at(self, table: str, version: int, clusters: Sequence[str]) -> DataFrame:
        """All rows of these clusters in the span of time, in an earlier version of the table."""
        return self._within(self.spark.read.format("delta").option("versionAsOf", version), table, clusters)

    def _within(self, reader: DataFrameReader, table: str, clusters: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as F

        first, last = (moment.date().isoformat() for moment in (self.since, self.until))
        frame = reader.load(self.lake.path(table))
        kept = frame.where(
            F.col("cluster").isin(list(clusters)) & F.col("cycle_date").between(F.lit(first), F.lit(last))
        )
        # By whole seconds, so that the statistics of files, which are cut to milliseconds, exclude none of them.
        begin, end = self.since - timedelta(seconds=1), self.until + timedelta(seconds=1)
        span = F.col("cycle_at").between(*(F.to_timestamp(F.lit(moment.isoformat())) for moment in (begin, end)))
        return with_all_columns(kept.where(span), TABLES[table])

    def _type(self, table: str) -> StructType:
        from pyspark.sql.types import StringType, StructField, StructType

        return StructType([StructField(ATTEMPT, StringType()), *TABLES[table].struct_type().fields])
