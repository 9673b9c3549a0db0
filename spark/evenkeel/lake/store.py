"""The lake: Delta tables by path under one root, written by appends only; exact comparison of two sets of rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.errors import EngineError, LakeError, NoLake
from evenkeel.handover import Commit, CycleKey, DataFile, Handover, Write, id_column, ids_of, new_try, try_of
from evenkeel.lake.delta_log import (
    AddedFile,
    commit_name,
    committed_version,
    newest_version,
    read_commit,
    rows_by_write,
    table_exists,
    until_committed,
    versions_carrying,
    written_files,
)
from evenkeel.lake.pending_commits import OUTSIDE_MANIFESTS, hand_on
from evenkeel.lake.schema import STAMP_NAMES, Column, Table, column_definition, sql_text
from evenkeel.lake.schemas import FROM_THE_FIRST, TABLES
from evenkeel.lake.table_files import delta_table, files_of, is_delta_table
from evenkeel.lake.table_metadata import demand_as_declared, properties_of
from evenkeel.object_store import canonical, is_object_store, load_client
from evenkeel.retrying import at_once
from evenkeel.spark.code import code_digest, code_version
from evenkeel.spark.file_systems import LOG_STORE, LOG_STORE_SETTING
from evenkeel.spark.sql import any_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger(__name__)

_PARALLEL_APPENDS = 4
MOST_NAMED = 1_000
"""The most write ids that a condition lists."""
_TRIES = 5


class Lake:
    """Tables under `root`, a folder or an object-store URL such as `s3a://bucket/evenkeel` (`s3://` is equal).

    `committed`: the commits of rows that were made through this object outside `append`, for the transparency log.
    """

    def __init__(self, root: str) -> None:
        # The server may run in another folder than the command that names the lake.
        self.root = canonical(root).rstrip("/") if "://" in root else str(Path(root).absolute())
        self.committed: list[Commit] = []

    def path(self, table: str) -> str:
        """Return the path or URL of a table."""
        return f"{self.root}/{table}"

    def ensure_tables(self, spark: SparkSession, names: Iterable[str] | None = None) -> None:
        """Create the missing tables, by default those that every lake has.

        It is cheap if all exist, and safe with several callers at once. Raises EngineError for a Spark that would lose
        commits in the object store of this lake, and LakeError for a table whose metadata no writer of Evenkeel left.
        """
        if is_object_store(self.root) and spark.conf.get(LOG_STORE_SETTING, "") != LOG_STORE:
            raise EngineError(
                f"the lake {self.root}: this Spark writes Delta's log in a way that loses commits of two writers. Use "
                "the server that `evenkeel engine start` or `python -m evenkeel.spark` runs; nothing was written"
            )
        wanted = [*(FROM_THE_FIRST if names is None else names)]
        missing = [TABLES[name] for name in wanted if not table_exists(self.path(name))]
        for name in wanted:
            demand_as_declared(TABLES[name], self.path(name))
        if missing:
            log.info("creating %d tables under %s", len(missing), self.root)
            with ThreadPoolExecutor(_PARALLEL_APPENDS) as pool:
                list(pool.map(lambda table: self._create(spark, table), missing))

    def _create(self, spark: SparkSession, table: Table) -> None:
        try:
            spark.sql(create_statement(table, self.path(table.name))).collect()
        except Exception:
            # Two tasks may create a table at once; the second one finds it.
            if not table_exists(self.path(table.name)):
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
        """Append each frame to its table, in one commit, and return the writes.

        It gives one `Write` per table and cycle of the hand-over, in a window only for cycles with rows; `write_ids`
        says how they are named. A frame holds the table's `body_columns`, in any order. `reads` are the writes that the
        rows rest on, beyond those of the hand-over; all of them go into the commit's `userMetadata`. A frame without
        rows may leave no commit; then its table has no write.

        Raises LakeError for rows of other clusters, or in a window of other cycles, than those of the hand-over.
        """
        read = [*handover.writes, *reads]

        def one(item: tuple[str, DataFrame]) -> list[Write]:
            return self._append_one(item[0], item[1], handover, task, read)

        load_client(self.root)
        with ThreadPoolExecutor(_PARALLEL_APPENDS) as pool:
            return tuple(write for writes in pool.map(one, frames.items()) for write in writes)

    def _append_one(
        self, name: str, frame: DataFrame, handover: Handover, task: str, reads: Sequence[Write]
    ) -> list[Write]:
        table, try_id, path = TABLES[name], new_try(), self.path(name)
        ids = ids_of(handover, try_id)
        rows = stamp(frame, table, id_column(handover, try_id))
        before = newest_version(path)
        user_metadata = commit_metadata(handover, task, try_id, reads)
        writer = rows.write.format("delta").mode("append").option("userMetadata", user_metadata)
        # Upkeep may change a property of the table meanwhile: such a try leaves nothing.
        again = "the table changed under an append; trying again"
        until_committed(lambda: writer.save(path), log, again, tries=_TRIES, pause=at_once)
        version = committed_version(path, try_id, after=before)
        if version is None:
            return []
        commit, added = read_commit(path, name, version)
        if name in OUTSIDE_MANIFESTS:
            hand_on(self.root, commit)
        files = _files_by_cycle(path, added, ids)
        counted = sum(rows for cycle_files in files.values() for rows in cycle_files.values())
        in_files = sum(added_file.rows for added_file in added)
        if in_files != counted:
            raise LakeError(
                f"{task} wrote {in_files} rows to {name} (version {version}), some of them of no cycle of the run: "
                "nothing lists them. This is an error of Evenkeel's; please report it"
            )
        log.info("%s wrote %d rows to %s (version %d)", task, in_files, name, version)
        return [
            Write(
                name,
                ids[key],
                version,
                sum(cycle_files.values()),
                commit.digest,
                key[0],
                tuple(cycle_files),
                cycle_at=key[1],
            )
            for key in (cycle.key for cycle in handover.cycles)
            if (cycle_files := files.get(key, {})) or not handover.is_window()
        ]

    def read(self, spark: SparkSession, table: str, writes: Iterable[Write]) -> DataFrame:
        """Return exactly the rows of these writes, as they were committed.

        Without any write of `table` the frame is empty and has the table's columns. If the files that the writes name
        exist, the rows are read from them: that takes a third of the time of asking Delta for the table's state. Else
        Delta finds them by write id in the current table: rows are compacted, never changed.
        """
        listed = [write for write in writes if write.table == table and write.rows]
        if not listed:
            return spark.createDataFrame([], TABLES[table].struct_type())
        files = written_files(self.path(table), listed)
        if files is None:
            frame = spark.read.format("delta").load(self.path(table))
        else:
            frame = self.in_files(spark, table, files)
        return _rows_of(frame, listed).select(*TABLES[table].column_names())

    def in_files(self, spark: SparkSession, table: str, files: Sequence[str]) -> DataFrame:
        """Return the rows of some of a table's files, by their full names."""
        if not files:
            return spark.createDataFrame([], TABLES[table].struct_type())
        return spark.read.schema(TABLES[table].struct_type()).option("basePath", self.path(table)).parquet(*files)

    def note(self, table: str, said: str, *, after: int) -> None:
        """Add the commits of a table after version `after` whose text contains `said` to `committed`, and sync them."""
        path = self.path(table)
        for version in versions_carrying(path, said, after):
            commit, _ = read_commit(path, table, version)
            files_of(path).sync([*(file.path for file in commit.files), commit_name(version)])
            self.committed.append(commit)
            hand_on(self.root, commit)


def _files_by_cycle(
    path: str, added: Sequence[AddedFile], ids: Mapping[CycleKey, str]
) -> dict[CycleKey, dict[DataFile, int]]:
    """Return cycle -> the files of a commit that hold rows of it, by path, each with the number of these rows."""
    place = files_of(path)
    cycles = {(cluster, write_id): (cluster, at) for (cluster, at), write_id in ids.items()}
    only: dict[str, str] = dict(cycles.keys()) if len({c for c, _ in ids}) == len(ids) else {}
    files_by_cycle: dict[CycleKey, dict[DataFile, int]] = {}
    for added_file in sorted(added, key=lambda added_file: added_file.file.path):
        write_id = only.get(added_file.cluster)
        rows = rows_by_write(place.full(added_file.file.path)) if write_id is None else {write_id: added_file.rows}
        for key, count in rows.items():
            if (added_file.cluster, key) in cycles:
                files_by_cycle.setdefault(cycles[added_file.cluster, key], {})[added_file.file] = count
    return files_by_cycle


def _rows_of(frame: DataFrame, writes: Sequence[Write]) -> DataFrame:
    """Return the rows of these writes, by conditions if they are few, else by a join."""
    from pyspark.sql import functions as F

    keys = sorted({(write.cluster, write.write_id) for write in writes})
    clusters, ids = ({key[part] for key in keys} for part in (0, 1))
    frame = frame.where(F.col("cluster").isin(sorted(clusters)))
    if len(ids) <= MOST_NAMED and len(keys) == len(clusters) * len(ids):
        return frame.where(F.col("write_id").isin(sorted(ids)))
    tries = sorted({try_of(write_id) for write_id in ids})
    if len(tries) <= MOST_NAMED:  # leads to the files; the join does not
        frame = frame.where(any_of(F.col("write_id").startswith(key) for key in tries))
    named = frame.sparkSession.createDataFrame(keys, "cluster string, write_id string")
    return frame.join(F.broadcast(named), ["cluster", "write_id"], "left_semi")


def create_statement(table: Table, path: str) -> str:
    """Return the table's DDL, with the comments that `DESCRIBE` and a catalog show."""
    columns = ",\n  ".join(column_definition(column) for column in table.columns)
    partitioned = f"PARTITIONED BY ({', '.join(table.partition)})\n" if table.partition else ""
    return (
        f"CREATE TABLE IF NOT EXISTS delta.`{path}` (\n  {columns}\n) USING delta\n"
        f"{partitioned}COMMENT {sql_text(table.comment)}\n"
        f"TBLPROPERTIES ({', '.join(f'{sql_text(k)} = {sql_text(v)}' for k, v in properties_of(table).items())})"
    )


def stamp(frame: DataFrame, table: Table, write_id: SparkColumn) -> DataFrame:
    """Return the frame with the table's columns in their order and types, and the stamp of this write."""
    from pyspark.sql import functions as F

    extra = {"write_id": write_id}
    if "cycle_date" in table.column_names():
        extra["cycle_date"] = F.to_date("cycle_at")
    stamped = frame.withColumns(extra)
    return stamped.select([F.col(c.name).cast(c.type).alias(c.name) for c in table.columns])


def commit_metadata(handover: Handover, task: str, try_id: str, reads: Sequence[Write]) -> str:
    """Return the `userMetadata` of a commit: from it alone every row of the commit can be traced and recomputed.

    It is cluster -> its cycle and that cycle's settings. In a window it is lists of both, and reads of one try are one
    entry, by the beginning of their ids.
    """
    # The clusters of a run share their writes' ids.
    read = [[*entry] for entry in dict.fromkeys((write.table, write.version, write.write_id) for write in reads)]
    cycles: dict[str, Any] = {cycle.cluster: cycle.cycle_at for cycle in handover.cycles}
    settings: dict[str, Any] = {cycle.cluster: cycle.settings_digest for cycle in handover.cycles}
    if handover.is_window():
        read = [[*entry] for entry in sorted({(write.table, write.version, try_of(write.write_id)) for write in reads})]
        cycles_by_cluster = {name: [cycle for cycle in handover.cycles if cycle.cluster == name] for name in cycles}
        cycles = {name: [cycle.cycle_at for cycle in of_cluster] for name, of_cluster in cycles_by_cluster.items()}
        settings = {
            name: [cycle.settings_digest for cycle in of_cluster] for name, of_cluster in cycles_by_cluster.items()
        }
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


# A few recorded rows, in tables that are written outside cycles.
#
# A row needs no Spark: an operator who pauses a cluster does not wait for a server. Both kinds of writers write a
# commit only if its version does not exist, so neither overwrites the other's.


def append_row(lake: Lake, table: str, row: Mapping[str, Any]) -> None:
    """Append one row; raises NoLake if there is no such table."""
    from deltalake import CommitProperties, write_deltalake

    path, try_id = lake.path(table), new_try()
    if not is_delta_table(path):
        raise NoLake(f"{lake.root} has no table {table}: name the lake that cycles are written to (--lake)")
    demand_as_declared(TABLES[table], path)
    opened = delta_table(path)
    before = opened.version()
    properties = CommitProperties(custom_metadata={"write_id": try_id})
    write_deltalake(opened, as_arrow(table, [row]), mode="append", commit_properties=properties)
    lake.note(table, try_id, after=before)


def append_values(spark: SparkSession, lake: Lake, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Append a few rows as one file; each has the values of all the table's columns, in their order."""
    frame = spark.createDataFrame(list(rows), TABLES[table].struct_type())
    append_frame(frame.coalesce(1), lake, table)


def append_frame(frame: DataFrame, lake: Lake, table: str, said: Mapping[str, Any] | None = None) -> None:
    """Append a frame of a table's rows; `said` goes into the commit's `userMetadata`."""
    path, write_id = lake.path(table), new_try()
    before = newest_version(path)
    text = json.dumps({**(said or {}), "write_id": write_id})
    frame.write.format("delta").mode("append").option("userMetadata", text).save(path)
    lake.note(table, write_id, after=before)


def as_arrow(table: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows of a table that has only plain columns."""
    import pyarrow as pa

    columns = TABLES[table].columns
    return pa.Table.from_pylist([{c.name: row[c.name] for c in columns} for row in rows], schema=arrow_schema(columns))


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the schema of columns with plain types, and of the tables' lists of them."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64()}
    kinds |= {"double": pa.float64(), "timestamp": pa.timestamp("us", tz="UTC"), "array<bigint>": pa.list_(pa.int64())}
    kinds |= {"binary": pa.binary(), "array<string>": pa.list_(pa.string())}
    return pa.schema([pa.field(column.name, kinds[column.type], nullable=column.nullable) for column in columns])


ROW = "row_json"
"""The column with a row's JSON."""


def surplus(before: DataFrame, after: DataFrame, table: str, by: Sequence[str]) -> DataFrame:
    """Return the rows that one side has more often than the other.

    The columns are `by`, the row's JSON (`ROW`, without the stamp of a write, columns by name, NULL named), and
    `surplus`: how many more there are before (above 0) or after (below 0). JSON tells 0.0 from -0.0; columns do not.
    """
    from pyspark.sql import functions as F

    columns = sorted(name for name in TABLES[table].column_names() if name not in STAMP_NAMES)
    body = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias(ROW)
    sides = [frame.select(*by, body, F.lit(count).alias("count")) for frame, count in ((before, 1), (after, -1))]
    counted = sides[0].unionByName(sides[1]).groupBy(*by, ROW).agg(F.sum("count").alias("surplus"))
    return counted.where(F.col("surplus") != 0)
