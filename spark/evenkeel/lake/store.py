"""The lake: Delta tables by path under one root, written by appends only."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.errors import NoLake
from evenkeel.handover import Handover, Write
from evenkeel.lake.delta_log import (
    added_files,
    committed_files,
    committed_version,
    local_log,
    newest_version,
    table_exists,
    until_committed,
    version_days,
    version_properties,
)
from evenkeel.lake.digest import observed
from evenkeel.lake.schema import STAMP_NAMES, Column, Table, column_definition, sql_text
from evenkeel.lake.schemas import OF_RECORD, TABLES
from evenkeel.retrying import at_once
from evenkeel.spark.code import code_digest, code_version

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    Session = Callable[[], AbstractContextManager[SparkSession]]


log = logging.getLogger(__name__)

# A checkpoint costs as much as a dozen appends, so it is rare. Readers find their files by partition, cycle and write:
# statistics of all other columns took half the time of a small append.
_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "cycle_at,write_id",
    "delta.checkpointInterval": "100",
    "delta.enableDeletionVectors": "false",
}
# Of small tables whose rows an auditor compares between two versions. A table that only grows pays nothing for it;
# in the others upkeep's own deletions would be kept once more, as changes.
_WITH_CHANGE_FEED = frozenset({"acted", "wished"})
_PARALLEL_APPENDS = 4
_TRIES = 5


class Lake:
    """Tables under `root`, a folder or an object-store URL such as `s3a://bucket/evenkeel`."""

    def __init__(self, root: str) -> None:
        # The server may run in another folder than the command that names the lake.
        self.root = root.rstrip("/") if "://" in root else str(Path(root).absolute())

    def path(self, table: str) -> str:
        """The path or URL of a table."""
        return f"{self.root}/{table}"

    def ensure_tables(self, spark: SparkSession, names: Iterable[str] | None = None) -> None:
        """Creates the tables that are missing, by default those of the record, and adds columns that have joined since.

        Cheap where all exist, and safe with several callers at once.
        """
        missing = [TABLES[name] for name in (names or OF_RECORD) if not table_exists(spark, self.path(name))]
        upgrade(spark, [(TABLES[n], self.path(n)) for n in (names or OF_RECORD) if TABLES[n] not in missing])
        if missing:
            log.info("creating %d tables under %s", len(missing), self.root)
            with ThreadPoolExecutor(_PARALLEL_APPENDS) as pool:
                list(pool.map(lambda table: self._create(spark, table), missing))

    def _create(self, spark: SparkSession, table: Table) -> None:
        try:
            spark.sql(create_statement(table, self.path(table.name))).collect()
        except Exception:
            # Two tasks may create at once; whoever comes second finds the table there.
            if not table_exists(spark, self.path(table.name)):
                raise

    def append(
        self,
        spark: SparkSession,
        frames: Mapping[str, DataFrame],
        *,
        handover: Handover,
        task: str,
        reads: Sequence[Write] = (),
    ) -> tuple[Write, ...]:
        """Appends each frame to its table under a write id of its own and says what was written.

        Gives one `Write` per table and cluster of the hand-over. A frame holds the table's `body_columns`, in any
        order. `reads` are the writes that the rows rest on, beyond those of the hand-over; all of
        them go into the commit's `userMetadata`. A frame without rows may leave no commit; then its table has no write.
        A write lists the files of its own cluster where the table is partitioned by cluster and lies in a folder; on an
        object store it lists none.
        """
        read = [*handover.writes, *reads]

        def one(item: tuple[str, DataFrame]) -> list[Write]:
            return self._append_one(item[0], item[1], handover, task, read)

        with ThreadPoolExecutor(_PARALLEL_APPENDS) as pool:
            return tuple(write for writes in pool.map(one, frames.items()) for write in writes)

    def _append_one(
        self, name: str, frame: DataFrame, handover: Handover, task: str, reads: Sequence[Write]
    ) -> list[Write]:
        from evenkeel.lake.digest import ROW_DIGEST, digest_metrics, row_digest, rows_and_digest

        table, write_id = TABLES[name], uuid.uuid4().hex
        stamped = stamp(frame, table, write_id)
        before = newest_version(self.path(name))
        covered = [column for column in table.column_names() if column not in STAMP_NAMES]
        clusters = [cycle.cluster for cycle in handover.cycles]
        digested = stamped.withColumn(ROW_DIGEST, row_digest(covered))
        watched, metrics_of = observed(digested, digest_metrics(clusters), f"digest_{write_id}")
        rows = watched.drop(ROW_DIGEST)
        said = commit_metadata(handover, task, write_id, reads)
        _committed(lambda: rows.write.format("delta").mode("append").option("userMetadata", said).save(self.path(name)))
        metrics = metrics_of(rows)
        version = committed_version(frame.sparkSession, self.path(name), write_id, after=before)
        if version is None:
            return []
        files = committed_files(self.path(name), version) if "cluster" in table.partition else None
        writes = []
        for n, cluster in enumerate(clusters):
            count, digest = rows_and_digest(metrics, n)
            writes.append(Write(name, write_id, version, count, digest, cluster, (files or {}).get(cluster, ())))
        log.info("%s wrote %d rows to %s (version %d)", task, sum(w.rows for w in writes), name, version)
        return writes

    def read(self, spark: SparkSession, table: str, writes: Iterable[Write]) -> DataFrame:
        """Exactly the rows of these writes, as they were committed.

        Without any write of `table` the frame is empty and has the table's columns. Rows are read from the very files
        that the writes' commits added, where the log can be read from here and the files are still there: that takes a
        third of the time of asking Delta for the table's state. Else Delta finds them by write id in the table as it is
        now: the version that they were committed in may be past its period, and rows are compacted, never changed.
        """
        from pyspark.sql import functions as F

        listed = [write for write in writes if write.table == table and write.rows]
        if not listed:
            return spark.createDataFrame([], TABLES[table].struct_type())
        ids, path = sorted({write.write_id for write in listed}), self.path(table)
        files = added_files(path, {write.version for write in listed}, ids)
        if files is None:
            frame = spark.read.format("delta").load(path)
        else:
            frame = spark.read.schema(TABLES[table].struct_type()).option("basePath", path).parquet(*files)
        found = frame.where(F.col("write_id").isin(ids))
        if files is None:
            return with_all_columns(found, TABLES[table])
        return found.select(*TABLES[table].column_names())


def with_all_columns(frame: DataFrame, table: Table) -> DataFrame:
    """Rows of a version that may be older than some of the table's columns: NULL there."""
    from pyspark.sql import functions as F

    there = set(frame.columns)
    return frame.select(
        [F.col(c.name) if c.name in there else F.lit(None).cast(c.type).alias(c.name) for c in table.columns]
    )


def create_statement(table: Table, path: str) -> str:
    """The table's DDL, with the comments that `DESCRIBE` and a catalog show."""
    columns = ",\n  ".join(column_definition(column) for column in table.columns)
    properties = {**_PROPERTIES, **version_properties(version_days(table.name))}
    if not {"cycle_at", "write_id"} <= set(table.column_names()):
        del properties["delta.dataSkippingStatsColumns"]
    elif table.name == "cycles":
        properties["delta.dataSkippingStatsColumns"] += ",sequence"  # leads to the head of the chain
    if table.layer in _WITH_CHANGE_FEED:
        properties["delta.enableChangeDataFeed"] = "true"
    if table.serializable:
        properties["delta.isolationLevel"] = "Serializable"
    partitioned = f"PARTITIONED BY ({', '.join(table.partition)})\n" if table.partition else ""
    return (
        f"CREATE TABLE IF NOT EXISTS delta.`{path}` (\n  {columns}\n) USING delta\n"
        f"{partitioned}COMMENT {sql_text(table.comment)}\n"
        f"TBLPROPERTIES ({', '.join(f'{sql_text(k)} = {sql_text(v)}' for k, v in properties.items())})"
    )


def stamp(frame: DataFrame, table: Table, write_id: str) -> DataFrame:
    """The frame with the table's columns in their order and types, and the stamp of this write."""
    from pyspark.sql import functions as F

    extra = {"write_id": F.lit(write_id)}
    if "cycle_date" in table.column_names():
        extra["cycle_date"] = F.to_date("cycle_at")
    stamped = frame.withColumns(extra)
    return stamped.select([F.col(c.name).cast(c.type).alias(c.name) for c in table.columns])


def commit_metadata(handover: Handover, task: str, write_id: str, reads: Sequence[Write]) -> str:
    """`userMetadata` of a commit: from it alone every row of the commit can be traced and recomputed."""
    body: dict[str, Any] = {
        "dag_id": handover.run.dag_id,
        "run_id": handover.run.run_id,
        "kind": handover.run.kind,
        "task_id": task,
        "write_id": write_id,
        "cycles": {cycle.cluster: cycle.cycle_at for cycle in handover.cycles},
        "settings": {cycle.cluster: cycle.settings_digest for cycle in handover.cycles},
        "code_version": code_version(),
        "code_digest": code_digest(),
        "reads": [[write.table, write.version, write.write_id] for write in reads],
    }
    return json.dumps(body, sort_keys=True, ensure_ascii=False)


def _committed(append: Callable[[], None]) -> None:
    """Appends, and once more where upkeep changed a property of the table meanwhile: such a try has left nothing."""
    until_committed(append, log, "the table changed under an append; trying again", tries=_TRIES, pause=at_once)


# Lakes of earlier schema versions: columns that joined since are added, and no row is ever rewritten.


def upgrade(spark: SparkSession, tables: Iterable[tuple[Table, str]]) -> None:
    """Adds to each table (with its path) the columns that it lacks; safe with several callers at once.

    Only tables that ever got a column are looked at.
    """
    for table, path in tables:
        if any(column.since > 1 for column in table.columns):
            _upgrade(spark, table, path)


def _upgrade(spark: SparkSession, table: Table, path: str) -> None:
    missing = _missing(spark, table, path)
    if not missing:
        return
    log.info("adding %s to table %s", ", ".join(column.name for column in missing), table.name)
    added = ", ".join(column_definition(column) for column in missing)
    try:
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({added})").collect()
    except Exception:
        # Two tasks may upgrade at once; whoever comes second finds the columns there.
        if _missing(spark, table, path):
            raise


def _missing(spark: SparkSession, table: Table, path: str) -> list[Column]:
    there = set(spark.read.format("delta").load(path).columns)
    return [column for column in table.columns if column.name not in there]


# A few rows put on record, in tables that are written outside cycles.
#
# Where the lake is a folder a row needs no Spark: an operator who pauses a cluster waits for no server. On an object
# store two kinds of writers could overwrite each other's commits, so there Spark writes, as everywhere else.


def append_row(lake: Lake, table: str, row: Mapping[str, Any], session: Session) -> None:
    """Appends one row; `session` is asked for Spark only where it is needed."""
    path = lake.path(table)
    if local_log(path) is None:
        with session() as spark:
            lake.ensure_tables(spark, [table])
            append_values(spark, lake, table, [tuple(row[column.name] for column in TABLES[table].columns)])
        return
    from deltalake import DeltaTable, write_deltalake

    if not DeltaTable.is_deltatable(path):
        raise NoLake(f"there is no table {table} in {lake.root}: name the lake that cycles are written to (--lake)")
    write_deltalake(path, as_arrow(table, [row]), mode="append")


def append_values(spark: SparkSession, lake: Lake, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Appends a few rows as one file; each has the values of all the table's columns, in their order."""
    frame = spark.createDataFrame(list(rows), TABLES[table].struct_type())
    frame.coalesce(1).write.format("delta").mode("append").save(lake.path(table))


def as_arrow(table: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows of a table that has plain columns only."""
    import pyarrow as pa

    columns = TABLES[table].columns
    return pa.Table.from_pylist([{c.name: row[c.name] for c in columns} for row in rows], schema=arrow_schema(columns))


# Columns as Arrow has them, for rows that are made or written without Spark.


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The schema of columns with plain types, or with lists of them as far as tables have such."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64()}
    kinds |= {"double": pa.float64(), "timestamp": pa.timestamp("us", tz="UTC"), "array<bigint>": pa.list_(pa.int64())}
    return pa.schema([pa.field(one.name, kinds[one.type], nullable=one.nullable) for one in columns])
