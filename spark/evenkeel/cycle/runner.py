"""The runner: rounds decided for every cluster of a run, in this process or in workers of Spark.

A run that has one cycle of each cluster and reads few rows decides in this process: the transfer to a Python worker and
back takes longer than the rounds. Windows and runs of many rows decide in workers, clusters in parallel. Both run the
same function on the same rows in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from evenkeel.cycle import frames
from evenkeel.cycle.fold import FAILURES, FAILURES_TYPE, REMEMBERED, STATE
from evenkeel.cycle.loads import LOOKED_AT
from evenkeel.cycle.reading import BUNDLE_COLUMNS, Decided, Row
from evenkeel.errors import DecideFailed, EngineError
from evenkeel.handover import FAILED, CycleKey, Handover, Write
from evenkeel.lake.plain_rows import RowsByWrite, rows_at_hand, rows_by_write
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.spark.column_types import Columns, columns_of, schema_of
from evenkeel.spark.grouped import grouped_map, import_path
from evenkeel.spark.packing import plain_columns
from evenkeel.spark.row_order import in_content_order
from evenkeel.spark.rows import arrow_column, rows_of
from evenkeel.spark.sql import arrow_of, united

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


DecideCycles = Callable[..., Decided]
"""A round over the cycles of a cluster: called with the key, its rows and `parameters` if there are any."""


class RoundInputs:
    """The rows for the rounds of a task, by input.

    `stored` has the writes of inputs that are rows of tables. Others were computed: by Spark, or as Arrow tables of the
    size of bundles.
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, handover: Handover, *tables: str, is_whole: bool = True
    ) -> None:
        """Take rows of this run that belong to open cycles.

        Unless `is_whole`, workers get only the columns of `bundle_load` and the rows of `split_decisions` that deciding
        reads.
        """
        self._is_whole = is_whole
        self.is_window = handover.is_window()
        self.spark, self.lake = spark, lake
        self.read_file: RowsByWrite = rows_by_write
        self.stored: dict[str, tuple[Write, ...]] = {}
        self._tables: dict[str, str] = {}
        self._columns: dict[str, Sequence[str]] = {}
        self._rejected: dict[str, tuple[Write, ...]] = {}
        self._computed: dict[str, DataFrame] = {}
        self._local: dict[str, pa.Table] = {}
        self._empty: dict[str, StructType] = {}
        for table in tables:
            is_cut = table == "bundle_load" and not is_whole
            self.add_stored(table, handover.open_writes(table), columns=BUNDLE_COLUMNS if is_cut else ())

    def add_stored(
        self,
        name: str,
        writes: Sequence[Write],
        *,
        table: str | None = None,
        columns: Sequence[str] = (),
        rejected: Sequence[Write] = (),
    ) -> None:
        """Add rows of a table, by default the one of this name.

        `columns`: those that Spark is to read, all by default. `rejected`: the writes of `rejected` whose records are
        left out.
        """
        self.stored[name] = tuple(writes)
        self._tables[name], self._columns[name], self._rejected[name] = table or name, columns, tuple(rejected)

    def add_state(self, handover: Handover, *, needed: bool = True) -> tuple[Write, ...]:
        """Add the predecessors' remembered values (`frames.state_writes`); return the writes they are read from."""
        self.add_stored(STATE, frames.state_writes(handover, needed=needed), table=REMEMBERED)
        return self.stored[STATE]

    def add(self, name: str, frame: DataFrame) -> None:
        """Add rows that Spark computes."""
        self._empty.pop(name, None)
        self._computed[name] = frame

    def add_local(self, name: str, rows: pa.Table) -> None:
        """Add rows that were computed and fetched."""
        self._local[name] = rows

    def add_empty(self, name: str, schema: StructType) -> None:
        """Add an input that has no rows this time."""
        self._empty[name] = schema

    def frame(self, name: str) -> DataFrame:
        """Return the rows of a stored input as a frame, whole."""
        table = self._tables[name]
        rows = self.lake.read(self.spark, table, self.stored[name])
        return frames.without_rejected(self.lake, self.spark, rows, table, self._rejected[name])

    def _read(self, name: str) -> DataFrame:
        frame = self.frame(name)
        if name == "split_decisions" and not self._is_whole:
            frame = frame.where(F.col("outcome").isin(*LOOKED_AT))
        return frame.select(*self._columns[name]) if self._columns[name] else frame

    def frames(self) -> dict[str, DataFrame]:
        """Return all inputs as frames."""
        empty = {name: self.spark.createDataFrame([], schema) for name, schema in self._empty.items()}
        local = {name: local_frame(self.spark, rows) for name, rows in self._local.items()}
        return {**{name: self._read(name) for name in self.stored}, **empty, **local, **self._computed}

    def types(self) -> dict[str, StructType]:
        """Return the schemas that Spark need not be asked for: a round never sees the stamp of a write."""
        return {name: self._type(name) for name in self.stored} | self._empty

    def _type(self, name: str) -> StructType:
        from pyspark.sql.types import StructType

        whole, columns = TABLES[self._tables[name]].body_type(), self._columns[name]
        return StructType([whole[column] for column in columns]) if columns else whole

    @property
    def is_small(self) -> bool:
        """True if the rounds decide in this process: one cycle of each cluster, few rows, and none left in Spark."""
        rows = sum(write.rows for writes in self.stored.values() for write in writes)
        return not self.is_window and not self._computed and rows <= frames.MOST_HERE

    @cached_property
    def stored_rows(self) -> dict[str, Sequence[Row]]:
        """Return the rows of stored inputs in plain form: from the files of their writes, else fetched by Spark."""
        stored: dict[str, Sequence[Row]] = {}
        frames: dict[str, DataFrame] = {}
        for name, writes in self.stored.items():
            rows = None
            if not self._rejected[name]:
                rows = rows_at_hand(self.lake, self._tables[name], writes, self._columns[name], self.read_file)
            if rows is None:
                frames[name] = self._read(name)
            else:
                stored[name] = rows
        types = self.types()
        for name, table in fetched(frames).items():
            stored[name] = in_content_order(columns_of(types[name], name), table.select(types[name].names))
        return stored

    def of(self, clusters: Collection[str]) -> RoundInputs:
        """Return the inputs of some of the clusters; none of them may be left in Spark."""
        part = copy(self)
        part.__dict__.pop("stored_rows", None)
        part.stored, part._rejected = (
            {
                name: tuple(write for write in writes if write.cluster in clusters and write.rows)
                for name, writes in writes_by_input.items()
            }
            for writes_by_input in (self.stored, self._rejected)
        )
        names = pa.array([*clusters], pa.string())
        part._local = {
            name: table.filter(pc.is_in(table.column("cluster").cast("string"), names))
            for name, table in self._local.items()
        }
        return part

    def rows(self) -> dict[str, Sequence[Row]]:
        """Return all inputs as rows in plain form; none of them may be left in Spark."""
        local = {name: local_rows(table) for name, table in self._local.items()}
        return {**dict.fromkeys(self._empty, ()), **self.stored_rows, **local}


class Made:
    """Results of a task's rounds: rows by table, in this process or in Spark."""

    def __init__(
        self, spark: SparkSession, rows_by_table: Mapping[str, DataFrame | pa.Table], types: Mapping[str, StructType]
    ):
        """Take the rows; `types`: the schemas of the rows in this process."""
        self._spark, self._found, self._types = spark, rows_by_table, types

    def frame(self, table: str) -> DataFrame:
        """Return the rows of one table; those of this process in one partition, hence one file per cluster."""
        rows = self._found[table]
        return rows if not isinstance(rows, pa.Table) else frame_of(self._spark, rows, self._types[table])

    def frames(self, tables: Iterable[str]) -> dict[str, DataFrame]:
        """Return the rows of several tables."""
        return {table: self.frame(table) for table in tables}

    def is_empty(self, table: str) -> bool:
        """Return True if there are no rows of a table."""
        rows = self._found[table]
        return not rows.num_rows if isinstance(rows, pa.Table) else rows.isEmpty()

    def filled(self, tables: Iterable[str]) -> list[str]:
        """Return those of the tables that have rows; rows in Spark take one query for all."""
        names = [*tables]
        if all(isinstance(self._found[table], pa.Table) for table in names):
            return [table for table in names if not self.is_empty(table)]
        named = (self.frame(table).limit(1).select(F.lit(table).alias("table")) for table in names)
        filled = {row["table"] for row in united(named).collect()}
        return [table for table in names if table in filled]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of one table, fetched if they are in Spark."""
        held = self._found[table]
        if isinstance(held, pa.Table):
            rows: list[dict[str, Any]] = held.to_pylist()
            return rows
        return [row.asDict() for row in held.collect()]


def decide_rounds(
    handover: Handover,
    inputs: RoundInputs,
    decide: DecideCycles,
    outputs: Iterable[str] | Mapping[str, StructType],
    task: str,
) -> tuple[Made, Handover]:
    """Run `decide` for the cycles of every cluster and return its rows by output: tables by name, or schemas.

    A cycle whose round raised an error is marked as failed in the returned hand-over. The cycles after it are left out,
    since they rest on it; they have no rows. If a run of one cycle per cluster decides none, it raises DecideFailed.
    """
    types = outputs if isinstance(outputs, Mapping) else {name: TABLES[name].body_type() for name in outputs}
    types = {**types, FAILURES: schema_of(FAILURES_TYPE)}
    decided = decide_clusters(inputs, frames.cycle_rows(handover), decide, types)
    failed = {(row["cluster"], row["cycle_at"]): row["error"] for row in decided.rows(FAILURES)}
    if failed and not handover.is_window() and len(failed) == len(handover.open_cycles()):
        raise DecideFailed("; ".join(f"{cluster}: {failed[cluster, at]}" for cluster, at in sorted(failed)))
    return decided, without_failed(handover, failed, task)


def decide_clusters(
    inputs: RoundInputs,
    cycles: Sequence[Row],
    decide: DecideCycles,
    outputs: Mapping[str, StructType],
    parameters: Mapping[str, Any] | None = None,
) -> Made:
    """Run `decide` with these parameters once for each cluster of `cycles` (`frames.cycle_rows`).

    Small inputs are decided in this process, all others in workers of Spark.
    """
    if inputs.is_small:
        rows = {**inputs.rows(), "cycle": cycles}
        return Made(inputs.spark, _decided(rows, decide, outputs, parameters), outputs)
    found = grouped_map(
        {**inputs.frames(), "cycle": frames.cycle_frame(inputs.spark, cycles)},
        by=["cluster"],
        decide=decide,
        outputs=outputs,
        parameters=parameters,
        schemas={**inputs.types(), "cycle": schema_of(frames.CYCLE_TYPE)},
        # The rows of a window, some hundred cycles, are more than all else that the server holds.
        on_disk=inputs.is_window,
    )
    return Made(inputs.spark, found, outputs)


def _decided(
    rows: Mapping[str, Sequence[Row]],
    decide: DecideCycles,
    outputs: Mapping[str, StructType],
    parameters: Mapping[str, Any] | None,
) -> dict[str, pa.Table]:
    """Return the results of `decide` for each cluster in turn; raises DecideFailed as `grouped_map` does."""
    columns = {table: columns_of(schema, table) for table, schema in outputs.items()}
    results = {table: [_as_arrow(table, kinds, [], {})] for table, kinds in columns.items()}
    given = {} if parameters is None else {"parameters": dict(parameters)}
    by_cluster: dict[str, dict[str, list[Row]]] = {}
    for kind, its_rows in rows.items():
        for row in its_rows:
            by_cluster.setdefault(row["cluster"], {name: [] for name in rows})[kind].append(row)
    for cluster, cluster_rows in sorted(by_cluster.items()):
        key = {"cluster": cluster}
        try:
            answer = decide(key, cluster_rows, **given)
            unknown = ", ".join(sorted(answer.keys() - columns.keys()))
            if unknown:
                path = import_path(decide)
                raise EngineError(f"{path} returned rows for {unknown}, which is not an output of this call.")
            for table, its_rows in answer.items():
                if its_rows:
                    results[table].append(_as_arrow(table, columns[table], list(its_rows), key))
        except Exception as error:
            where = f"{import_path(decide)} on {json.dumps(key, ensure_ascii=False, separators=(',', ':'))}"
            line = (str(error).strip().splitlines() or [""])[0]
            raise DecideFailed(f"{where}: {type(error).__name__}: {line}") from error
    return {table: pa.concat_tables(parts) for table, parts in results.items()}


def without_failed(handover: Handover, errors: Mapping[CycleKey, str], task: str) -> Handover:
    """Return the hand-over with these cycles marked as failed, and without the cycles after them."""
    first = dict(sorted(errors, reverse=True))
    after = {
        cycle.key: f"the cycle of {first[cycle.cluster]} before it failed in {task}, and it rests on that one: "
        "repair that cycle, and run this one again"
        for cycle in handover.open_cycles()
        if cycle.cluster in first and cycle.cycle_at > first[cycle.cluster]
    }
    failed = {key: f"{task} failed: {error}" for key, error in errors.items()}
    return handover.leave_out(failed, status=FAILED).leave_out(after)


def fetched(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """Return the rows of all frames, fetched in parallel."""
    if not frames:
        return {}
    with ThreadPoolExecutor(len(frames)) as pool:
        return dict(zip(frames, pool.map(arrow_of, frames.values()), strict=True))


def local_rows(table: pa.Table) -> list[Row]:
    """Return the rows of an Arrow table in plain form (see `spark.rows`)."""
    return [*rows_of(table, columns_of(from_arrow_schema(table.schema), "fetched rows"))]


def local_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return an Arrow table as a frame. Without a schema, pyspark would rename all columns to their own names."""
    return spark.createDataFrame(table, from_arrow_schema(table.schema))


def _as_arrow(table: str, columns: Columns, rows: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> pa.Table:
    """Return rows as rules gave them; `given`: values of columns that a row leaves out."""
    plain = plain_columns(table, columns, rows, given)
    return pa.table({name: arrow_column(plain[name], kind) for name, kind in columns.items()})


def frame_of_rows(spark: SparkSession, table: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return rows of a table as a frame of one partition; a column that a row lacks is NULL."""
    schema = TABLES[table].body_type()
    return frame_of(spark, _as_arrow(table, columns_of(schema, table), rows, {}), schema)


def frame_of(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return the rows as a frame of one partition, hence one file per cluster."""
    return spark.createDataFrame(rows, schema).coalesce(1)
