"""The lake: Delta tables by path under one root, written by appends only."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.errors import EngineError, LakeError, NoLake
from evenkeel.handover import CycleKey, DataFile, Handover, Write
from evenkeel.lake.delta_log import (
    added_files,
    committed_files,
    committed_rows,
    committed_version,
    files_by_cluster,
    newest_version,
    table_exists,
    until_committed,
    version_days,
    version_properties,
    write_ids_in,
)
from evenkeel.lake.digest import observed
from evenkeel.lake.schema import SCHEMA_VERSION, STAMP_NAMES, Column, Table, column_definition, sql_text
from evenkeel.lake.schemas import FROM_THE_FIRST, TABLES
from evenkeel.lake.table_files import delta_table, files_of, is_delta_table, is_readable_here
from evenkeel.object_store import canonical, is_object_store
from evenkeel.retrying import at_once
from evenkeel.spark.code import code_digest, code_version
from evenkeel.spark.file_systems import LOG_STORE, LOG_STORE_SETTING
from evenkeel.spark.sql import any_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from evenkeel.lake.roots import Rooted

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
MOST_OBSERVED = 8
"""The most cycles of a run whose digests are taken in the very job that writes. There each adds nine metrics, which
make that job slow (40 clusters took 5.2 s instead of 2.5); a second look at the files that were just written takes as
long for any number of cycles."""
MOST_HERE = 20_000
"""The most rows of a commit that are digested in this process."""
MOST_NAMED = 1_000
"""The most write ids that a condition lists."""
_TRIES = 5


def _full(path: str, name: str) -> str:
    files = files_of(path)
    return f"{path}/{name}" if files is None else files.full(name)


class Lake:
    """Tables under `root`, a folder or an object-store URL such as `s3a://bucket/evenkeel` (`s3://` is the same)."""

    def __init__(self, root: str) -> None:
        # The server may run in another folder than the command that names the lake.
        self.root = canonical(root).rstrip("/") if "://" in root else str(Path(root).absolute())

    def path(self, table: str) -> str:
        """The path or URL of a table."""
        return f"{self.root}/{table}"

    def ensure_tables(self, spark: SparkSession, names: Iterable[str] | None = None) -> None:
        """Creates the tables that are missing, by default those that every lake has, and adds columns that have joined
        since.

        Cheap where all exist, and safe with several callers at once. Raises EngineError for a Spark that would lose
        commits in the object store of this lake.
        """
        self._demand_safe_commits(spark)
        wanted = [*(FROM_THE_FIRST if names is None else names)]
        missing = [TABLES[name] for name in wanted if not table_exists(spark, self.path(name))]
        upgrade(spark, [(TABLES[name], self.path(name)) for name in wanted if TABLES[name] not in missing])
        if missing:
            log.info("creating %d tables under %s", len(missing), self.root)
            with ThreadPoolExecutor(_PARALLEL_APPENDS) as pool:
                list(pool.map(lambda table: self._create(spark, table), missing))

    def _demand_safe_commits(self, spark: SparkSession) -> None:
        if is_object_store(self.root) and spark.conf.get(LOG_STORE_SETTING, "") != LOG_STORE:
            raise EngineError(
                f"the lake {self.root}: this Spark writes Delta's log there so that two writers lose commits. Use the "
                "server that `evenkeel engine start` or `python -m evenkeel.spark` runs; nothing was written"
            )

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
        few: bool | None = None,
    ) -> tuple[Write, ...]:
        """Appends each frame to its table, in one commit, and says what was written.

        Gives one `Write` per table and cycle of the hand-over, in a window only for cycles with rows; `write_ids` says
        how they are named. A frame holds the table's `body_columns`, in any order. `reads` are the writes that the rows
        rest on, beyond those of the hand-over; all of them go into the commit's `userMetadata`. A frame without rows
        may leave no commit; then its table has no write. A write lists the files that hold its rows where the table is
        partitioned by cluster; in a store that only Spark knows it lists none.

        `few`: whether the frames have few rows; by default that is told by what the run has written so far. Their
        digests and roots are made of the files, in this process, where these can be read from here.

        Raises LakeError for rows of other clusters, or in a window of other cycles, than those of the hand-over.
        """
        read = [*handover.writes, *reads]
        if few is None:
            few = 0 < sum(write.rows for write in handover.writes) <= MOST_HERE and not handover.is_window()

        def one(item: tuple[str, DataFrame]) -> list[Write]:
            return self._append_one(item[0], item[1], handover, task, read, few=few)

        with ThreadPoolExecutor(_PARALLEL_APPENDS) as pool:
            return tuple(write for writes in pool.map(one, frames.items()) for write in writes)

    def _append_one(
        self, name: str, frame: DataFrame, handover: Handover, task: str, reads: Sequence[Write], *, few: bool
    ) -> list[Write]:
        from evenkeel.lake.write_ids import id_column, ids_of, new_try

        table, try_id = TABLES[name], new_try()
        ids = ids_of(handover, try_id)
        stamped = stamp(frame, table, id_column(handover, try_id))
        here = few and is_readable_here(self.path(name))
        is_observed = not here and len(ids) <= MOST_OBSERVED
        rows, digests_of = _observing(stamped, table, handover, ids, try_id) if is_observed else (stamped, None)
        before = newest_version(self.path(name))
        said = commit_metadata(handover, task, try_id, reads)
        _committed(lambda: rows.write.format("delta").mode("append").option("userMetadata", said).save(self.path(name)))
        spark = frame.sparkSession
        version = committed_version(spark, self.path(name), try_id, after=before)
        if version is None:
            return []
        told = None if digests_of is None else digests_of(rows)
        there, digests = told or self._digested(spark, table, version, try_id, ids, here=here)
        if there != sum(count for count, *_ in digests.values()):
            raise LakeError(
                f"{task} wrote {there} rows to {name} (version {version}), of which some are of no cycle of the run: "
                "nothing lists them. This is an error of Evenkeel's; please report it"
            )
        files = self._files_of(table, version, ids) if "cluster" in table.partition else {}
        log.info("%s wrote %d rows to %s (version %d)", task, there, name, version)
        return [
            Write(name, ids[key], version, rows, digest, key[0], files.get(key, ()), cycle_at=key[1], root=root)
            for key in (cycle.key for cycle in handover.cycles)
            for rows, digest, root in [digests[key]]
            if rows or not handover.is_window()
        ]

    def _digested(
        self, spark: SparkSession, table: Table, version: int, try_id: str, ids: Mapping[CycleKey, str], *, here: bool
    ) -> tuple[int, dict[CycleKey, Rooted]]:
        """How many rows a commit added, and what each cycle has of them: by one look at the files just written."""
        from pyspark.sql import functions as F

        from evenkeel.lake.roots import MOST_FETCHED, rooted_here, summed
        from evenkeel.lake.roots_here import rooted_files
        from evenkeel.lake.write_ids import try_of

        path = self.path(table.name)
        added = committed_rows(path, version)
        if here and added is not None and added <= MOST_HERE:
            by_cluster = files_by_cluster(path, version, try_id)
            found = None if by_cluster is None else rooted_files(table.name, by_cluster)
            if found is not None:
                return _shares(found, ids)
        files = added_files(path, [version], [try_id])
        if files is None:
            delta = spark.read.format("delta").option("versionAsOf", version).load(path)
            frame = delta.where(F.col("write_id").startswith(try_of(try_id)))
        else:
            frame = self._in_files(spark, table.name, files)
        by = ("cluster", "write_id")
        if added is not None and added <= MOST_FETCHED:
            return _shares(rooted_here(frame, table.name, SCHEMA_VERSION, by), ids)
        return _shares(summed(frame, table.name, SCHEMA_VERSION, by), ids)

    def _files_of(
        self, table: Table, version: int, ids: Mapping[CycleKey, str]
    ) -> dict[CycleKey, tuple[DataFile, ...]]:
        """Cycle -> the files of a commit that hold rows of it, each hashed once."""
        path = self.path(table.name)
        by_cluster = committed_files(path, version)
        if by_cluster is None:
            return {}
        if len({key[0] for key in ids}) == len(ids):
            return {key: by_cluster.get(key[0], ()) for key in ids}
        cycles = {(cluster, write_id): (cluster, at) for (cluster, at), write_id in ids.items()}
        found: dict[CycleKey, tuple[DataFile, ...]] = {}
        for cluster, files in by_cluster.items():
            for file in files:
                for write_id in write_ids_in(_full(path, file.path)):
                    key = cycles[cluster, write_id]
                    found[key] = (*found.get(key, ()), file)
        return found

    def read(self, spark: SparkSession, table: str, writes: Iterable[Write]) -> DataFrame:
        """Exactly the rows of these writes, as they were committed.

        Without any write of `table` the frame is empty and has the table's columns. Rows are read from the very files
        that the writes' commits added, where the log can be read from here and the files are still there: that takes a
        third of the time of asking Delta for the table's state. Else Delta finds them by write id in the table as it is
        now: the version that they were committed in may be past its period, and rows are compacted, never changed.
        """
        listed = [write for write in writes if write.table == table and write.rows]
        if not listed:
            return spark.createDataFrame([], TABLES[table].struct_type())
        path = self.path(table)
        files = added_files(path, {write.version for write in listed}, {write.write_id for write in listed})
        if files is None:
            delta = spark.read.format("delta").load(path)
            return with_all_columns(_rows_of(delta, listed), TABLES[table])
        return _rows_of(self._in_files(spark, table, files), listed).select(*TABLES[table].column_names())

    def _in_files(self, spark: SparkSession, table: str, files: Sequence[str]) -> DataFrame:
        """The rows of some of a table's files."""
        return spark.read.schema(TABLES[table].struct_type()).option("basePath", self.path(table)).parquet(*files)


def _shares(found: Mapping[tuple[str, ...], Rooted], ids: Mapping[CycleKey, str]) -> tuple[int, dict[CycleKey, Rooted]]:
    """How many rows there are, and what each cycle has of them; `found` is by cluster and write id."""
    from evenkeel.lake.roots import NOTHING

    own = {key: found.get((key[0], write_id), NOTHING) for key, write_id in ids.items()}
    return sum(count for count, *_ in found.values()), own


def _observing(
    stamped: DataFrame, table: Table, handover: Handover, ids: Mapping[CycleKey, str], try_id: str
) -> tuple[DataFrame, Callable[[DataFrame], tuple[int, dict[CycleKey, Rooted]] | None]]:
    """The rows, and what tells once they are written how many they are and what each cycle has of them (no roots); None
    where Spark has lost that."""
    from pyspark.sql import functions as F

    from evenkeel.lake.digest import ROW_DIGEST, all_rows, digest_metrics, row_digest, rows_and_digest

    def its_own(key: CycleKey) -> SparkColumn:
        own = F.col("cluster") == F.lit(key[0])
        return own & (F.col("write_id") == F.lit(ids[key])) if handover.is_window() else own

    digested = stamped.withColumn(ROW_DIGEST, row_digest([c for c in table.column_names() if c not in STAMP_NAMES]))
    watched, metrics_of = observed(digested, digest_metrics([its_own(key) for key in ids]), f"digest_{try_id}")

    def digests_of(written: DataFrame) -> tuple[int, dict[CycleKey, Rooted]] | None:
        metrics = metrics_of(written)
        if not metrics:
            return None
        return all_rows(metrics), {key: (*rows_and_digest(metrics, n), "") for n, key in enumerate(ids)}

    return watched.drop(ROW_DIGEST), digests_of


def _rows_of(frame: DataFrame, writes: Sequence[Write]) -> DataFrame:
    """The rows of these writes, by conditions where that are few, else by a join."""
    from pyspark.sql import functions as F

    from evenkeel.lake.write_ids import try_of

    own = sorted({(write.cluster, write.write_id) for write in writes})
    clusters, ids = ({one[part] for one in own} for part in (0, 1))
    frame = frame.where(F.col("cluster").isin(sorted(clusters)))
    if len(ids) <= MOST_NAMED and len(own) == len(clusters) * len(ids):
        return frame.where(F.col("write_id").isin(sorted(ids)))
    tries = sorted({try_of(write_id) for write_id in ids})
    if len(tries) <= MOST_NAMED:  # leads to the files; the join does not
        frame = frame.where(any_of(F.col("write_id").startswith(one) for one in tries))
    named = frame.sparkSession.createDataFrame(own, "cluster string, write_id string")
    return frame.join(F.broadcast(named), ["cluster", "write_id"], "left_semi")


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


def stamp(frame: DataFrame, table: Table, write_id: SparkColumn) -> DataFrame:
    """The frame with the table's columns in their order and types, and the stamp of this write."""
    from pyspark.sql import functions as F

    extra = {"write_id": write_id}
    if "cycle_date" in table.column_names():
        extra["cycle_date"] = F.to_date("cycle_at")
    stamped = frame.withColumns(extra)
    return stamped.select([F.col(c.name).cast(c.type).alias(c.name) for c in table.columns])


def commit_metadata(handover: Handover, task: str, try_id: str, reads: Sequence[Write]) -> str:
    """`userMetadata` of a commit: from it alone every row of the commit can be traced and recomputed.

    Cluster -> its cycle and that cycle's settings; in a window lists of both, and of the reads those of one try as one,
    by the beginning of their ids.
    """
    from evenkeel.lake.write_ids import try_of

    # The clusters of a run share their writes' ids.
    read = [[*one] for one in dict.fromkeys((write.table, write.version, write.write_id) for write in reads)]
    cycles: dict[str, Any] = {cycle.cluster: cycle.cycle_at for cycle in handover.cycles}
    settings: dict[str, Any] = {cycle.cluster: cycle.settings_digest for cycle in handover.cycles}
    if handover.is_window():
        read = [[*one] for one in sorted({(write.table, write.version, try_of(write.write_id)) for write in reads})]
        own = {name: [cycle for cycle in handover.cycles if cycle.cluster == name] for name in cycles}
        cycles = {name: [cycle.cycle_at for cycle in found] for name, found in own.items()}
        settings = {name: [cycle.settings_digest for cycle in found] for name, found in own.items()}
    body: dict[str, Any] = {
        "dag_id": handover.run.dag_id,
        "run_id": handover.run.run_id,
        "kind": handover.run.kind,
        "task_id": task,
        "write_id": try_id,
        "cycles": cycles,
        "settings": settings,
        "code_version": code_version(),
        "code_digest": code_digest(),
        "reads": read,
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
# A row needs no Spark: an operator who pauses a cluster waits for no server. In a store that speaks S3 both kinds
# of writers put a commit only where none is, so neither overwrites the other's. In any other store Spark writes, as
# everywhere else.


def append_row(lake: Lake, table: str, row: Mapping[str, Any], session: Session) -> None:
    """Appends one row; `session` is asked for Spark only where it is needed: on an object store that
    does not speak S3, and where columns have joined the table since it was made. Raises NoLake where there is none."""
    here = _opened_here(lake, table)
    if here is not None:
        from deltalake import write_deltalake

        write_deltalake(here, as_arrow(table, [row]), mode="append")
        return
    with session() as spark:
        lake.ensure_tables(spark, [table])
        append_values(spark, lake, table, [tuple(row[column.name] for column in TABLES[table].columns)])


def _opened_here(lake: Lake, table: str) -> DeltaTable | None:
    """The table, where this process can append rows to it without Spark."""
    path = lake.path(table)
    if not is_readable_here(path):
        return None
    if not is_delta_table(path):
        raise NoLake(f"there is no table {table} in {lake.root}: name the lake that cycles are written to (--lake)")
    opened = delta_table(path)
    there = {field.name for field in opened.schema().fields}
    return opened if there >= set(TABLES[table].column_names()) else None


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
    kinds |= {"binary": pa.binary(), "array<string>": pa.list_(pa.string())}
    return pa.schema([pa.field(one.name, kinds[one.type], nullable=one.nullable) for one in columns])
