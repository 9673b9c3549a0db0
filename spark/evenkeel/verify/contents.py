"""Comparison of the rows of writes that their files do not prove with the rows that were written.

Rows are read as the table has them now, as an auditor would read it. If a table was changed after a write, the rows of
the write are read from its own files, as long as these exist (`restored`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from evenkeel.handover import Write
from evenkeel.lake.record import Attempt
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import ROW, Lake, surplus
from evenkeel.repetition import ATTEMPT as ATTEMPT
from evenkeel.verify.chain import CONTENT, Fault, Kept
from evenkeel.verify.file_proofs import Files, WriteKey, key_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of comparing rows.

    `faults`: all faults. `rows`: the rows, of changed writes from their own files if these still exist. `missing`:
    writes whose rows cannot be read as they were written.
    """

    faults: tuple[Fault, ...]
    rows: Rows
    missing: frozenset[WriteKey] = frozenset()


def check_contents(rows: Rows, owners: Mapping[Write, Attempt], files: Files) -> Checked:
    """Check writes that their files do not prove; `owners`: write -> the attempt that wrote or read it.

    If all files of a write are unchanged, its rows are compared with the rows that the table has now. They do not
    differ after an upkeep that was killed before it recorded its files.
    """
    faults: list[Fault] = []
    missing: set[WriteKey] = set()
    by_table: dict[str, list[Write]] = {}
    for write, owner in owners.items():
        if lost := files.not_as_written(write):
            missing.add(key_of(write))
            faults.append(_fault(owner, write, _lost(rows, write, lost)))
        else:
            by_table.setdefault(write.table, []).append(write)
    restored: set[WriteKey] = set()
    for table, writes in sorted(by_table.items()):
        for write, words in _compared(rows, table, writes):
            restored.add(key_of(write))
            faults.append(_fault(owners[write], write, words))
    return Checked(tuple(faults), replace(rows, restored=frozenset(restored | missing)), frozenset(missing))


def _lost(rows: Rows, write: Write, lost: Sequence[str]) -> str:
    words = f"its rows cannot be read as they were written: {', '.join(lost)}"
    try:
        count = _only(rows.now(write.table, [write.cluster]), [write]).count()
    except Exception as error:  # Spark's own, for any fault of the table or a file
        return f"{words}; the table cannot be read: {spark_error_line(error)}"
    return words if count == write.rows else f"{words}; {count} rows are there of {write.rows} listed"


def _compared(rows: Rows, table: str, writes: Sequence[Write]) -> Iterator[tuple[Write, str]]:
    """Yield the writes whose rows were changed, with their differences in words.

    A damaged file fails the whole job, so the writes are halved until its write is alone.
    """
    clusters = sorted({write.cluster for write in writes})
    try:
        now = _only(rows.now(table, clusters), writes)
        changes = differing(rows.lake.read(rows.spark, table, writes), now, table, "write_id")
        counted = now.groupBy("write_id").count().collect() if changes else []
    except Exception as error:  # Spark's own
        if len(writes) == 1:
            yield writes[0], f"its rows cannot be read: {spark_error_line(error)}"
            return
        middle = len(writes) // 2
        for half in (writes[:middle], writes[middle:]):
            yield from _compared(rows, table, half)
        return
    counts = {row["write_id"]: row["count"] for row in counted}
    for write in writes:
        if write.write_id in changes:
            count = counts.get(write.write_id, 0)
            same_count = count == write.rows
            number = _CHANGED if same_count else f"{count} rows are there of {write.rows} listed"
            by = f"changed by a later commit than version {write.version}"
            yield write, f"{number}; {by}: {'; '.join(changes[write.write_id])}"


_CHANGED = "its rows are not what they were"


def _fault(attempt: Attempt, write: Write, words: str) -> Fault:
    place = f"write {write.write_id}, version {write.version}"
    return Fault(write.cluster, attempt.cycle_at, CONTENT, write.table, place, words, attempt.attempt_id)


def promised(attempts: Sequence[Attempt], kept: Kept) -> dict[Write, Attempt]:
    """Return the writes that these attempts wrote or need to read and that have to be there.

    Each write has the attempt that wrote it, else one that read it.
    """
    readers = {write: attempt for attempt in attempts if can_decide(attempt, kept) for write in attempt.reads}
    return readers | {write: attempt for attempt in attempts for write in kept.writes(attempt)}


def can_decide(attempt: Attempt, kept: Kept) -> bool:
    """Return True if all inputs and decisions of the attempt, except topics, still have to be there."""
    return all(kept.promises(attempt, write.table) for write in attempt.writes if write.table != "topic_stats")


def _only(frame: DataFrame, writes: Sequence[Write]) -> DataFrame:
    """Return the rows of these writes by a condition: for a join Delta would also open files without any of them."""
    from pyspark.sql import functions as F

    return frame.where(F.col("write_id").isin(sorted({write.write_id for write in writes})))


def spark_error_line(error: Exception) -> str:
    """Return the line of Spark's error that names the file, else the first."""
    lines = [line.strip() for line in (str(error).strip() or type(error).__name__).splitlines() if line.strip()]
    return next((line for line in lines if ".parquet" in line), lines[0])[:400]


MOST = 5
"""The most sentences on the differences of a write or an attempt, and the most columns in one of them."""
_LONGEST = 120


def differing(before: DataFrame, after: DataFrame, table: str, by: str) -> dict[str, list[str]]:
    """Return value of `by` -> at most `MOST` sentences on its rows in `before` and `after` that differ.

    `before` and `after` have the columns of `table` and `by`.
    """
    from pyspark.sql import functions as F

    row = F.struct("surplus", ROW)
    unequal = surplus(before, after, table, (by,)).groupBy(by).agg(F.sort_array(F.collect_list(row)).alias("rows"))
    changes = {}
    for group in unequal.select(by, F.slice("rows", 1, 100 * MOST).alias("rows")).collect():
        sides: tuple[list[Any], list[Any]] = ([], [])
        for number, body in group["rows"]:
            sides[number < 0].append(json.loads(body))
        changes[group[by]] = list(sentences(*sides, table)) or ["another number of equal rows"]
    return changes


def sentences(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], table: str) -> Iterator[str]:
    """Yield the difference of each row, by its key; at most `MOST`, and the number of the others."""
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


class OnDemand:
    """A Spark session that is opened at its first use, and closed at the end of the block.

    It has the attributes of the session, so it can be passed in place of one.
    """

    def __init__(self, session: Callable[[], AbstractContextManager[SparkSession]]) -> None:
        self._session = session
        self._closing = ExitStack()
        self._spark: SparkSession | None = None

    def __enter__(self) -> OnDemand:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spark, name)

    @property
    def spark(self) -> SparkSession:
        """Return the session; the first access opens it."""
        if self._spark is None:
            self._spark = self._closing.enter_context(self._session())
        return self._spark


@dataclass(frozen=True)
class Rows:
    """The rows of cycles between `since` and `until`; rows of `restored` writes are read from their own files."""

    session: OnDemand
    lake: Lake
    since: datetime
    until: datetime
    restored: frozenset[WriteKey] = frozenset()

    @property
    def spark(self) -> SparkSession:
        """Return the session that reads the rows; the first access opens it."""
        return self.session.spark

    def of(self, table: str, wanted: Iterable[tuple[str, Write]]) -> DataFrame:
        """Return the rows of `table` that attempts (id, write) want: `attempt_id` and the columns of the table."""
        from pyspark.sql import functions as F

        with_rows = [(attempt, w) for attempt, w in wanted if w.table == table and w.rows]
        listed = sorted({(attempt, w.cluster, w.write_id) for attempt, w in with_rows})
        columns = [ATTEMPT, *TABLES[table].column_names()]
        if not listed:
            return self.spark.createDataFrame([], with_attempt(TABLES[table].struct_type()))
        named = F.broadcast(self.spark.createDataFrame(listed, f"{ATTEMPT} string, cluster string, write_id string"))
        clusters = sorted({cluster for _, cluster, _ in listed})
        rows = self._rows(table, clusters, {w for _, w in with_rows})
        return rows.join(named, ["cluster", "write_id"]).select(*columns)

    def _rows(self, table: str, clusters: Sequence[str], writes: set[Write]) -> DataFrame:
        restored = [write for write in writes if key_of(write) in self.restored]
        if not restored:
            return _only(self.now(table, clusters), [*writes])
        # The table as a whole may not be readable: for a join Delta opens every file.
        others = self.lake.read(self.spark, table, [write for write in writes if key_of(write) not in self.restored])
        return others.unionByName(self.lake.read(self.spark, table, restored))

    def now(self, table: str, clusters: Sequence[str]) -> DataFrame:
        """Return all rows of these clusters in the span of time, as the table has them now."""
        from pyspark.sql import functions as F

        first, last = (moment.date().isoformat() for moment in (self.since, self.until))
        frame = self.spark.read.format("delta").load(self.lake.path(table))
        of_dates = frame.where(
            F.col("cluster").isin(list(clusters)) & F.col("cycle_date").between(F.lit(first), F.lit(last))
        )
        # Whole seconds: the statistics of files are cut to milliseconds and would exclude a file of the span.
        begin, end = self.since - timedelta(seconds=1), self.until + timedelta(seconds=1)
        span = F.col("cycle_at").between(*(F.to_timestamp(F.lit(moment.isoformat())) for moment in (begin, end)))
        return of_dates.where(span).select(*TABLES[table].column_names())


def with_attempt(schema: StructType) -> StructType:
    """Return the schema with the column of the attempt's id before the others."""
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(ATTEMPT, StringType()), *schema.fields])
