"""The rows that manifests list, of many attempts at once: each carries the id of the attempt that it is read for.

Rows are read as they stand now, which is what an auditor would read. Where a table was changed after a write, the write
is read at the version that the manifest names, as long as it is kept (`restored`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from evenkeel.handover import Write
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake, with_all_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.types import StructType

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
        """The same in an earlier version of the table."""
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
