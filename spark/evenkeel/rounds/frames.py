"""The rows that the rounds of a run need, and running a round for every cycle of every cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from evenkeel.handover import FAILED, ClusterCycle, CycleKey, Handover, Run, Write
from evenkeel.lake.data_files import rows_at_hand
from evenkeel.lake.rejected_records import record_key
from evenkeel.lake.schema import Table
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.model.past_commands import acts_of, split_children
from evenkeel.rounds import here
from evenkeel.rounds.loads import LOOKED_AT
from evenkeel.rounds.reading import BUNDLE_COLUMNS, Row, cycle_row
from evenkeel.rounds.window import FAILURES, FAILURES_TYPE, REMEMBERED, STATE, linked, with_settings_once
from evenkeel.settings import settings_in
from evenkeel.spark.column_types import schema_of, type_of
from evenkeel.spark.grouped import grouped_map
from evenkeel.spark.rows import plain_column
from evenkeel.spark.sql import united

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


MOST_HERE = 20_000
"""So many rows of bundles and brokers at most are decided on in this process."""
CYCLE_TYPE = (
    "cluster string, cycle_at timestamp, settings string, settings_digest string, manager string, mode string, "
    "kind string, snapshot_at timestamp, predecessor_cycle_at timestamp, predecessor_status string, "
    "wishes string, steering string"
)
CYCLE_NAMES = tuple(field.partition(" ")[0] for field in CYCLE_TYPE.split(", "))
PLANNER_MODES = ("shadow", "on")
"""The values of evenkeelPlanner with which the planner's tables are written."""
TARGETS = "planner_targets"
_CYCLE_TIMES = ("cycle_at", "snapshot_at", "predecessor_cycle_at")


def cycle_rows(spark: SparkSession, handover: Handover) -> DataFrame:
    """One row per open cycle: which one, with which settings, and after which other."""
    return _frame_of(spark, [cycle_row_of(cycle, handover.run) for cycle in linked(handover).open_cycles()])


def cycles_to_decide(spark: SparkSession, handover: Handover) -> DataFrame:
    """`cycle_rows` as `window.fold` takes them: a text of settings, which is most of a row, stands there once."""
    rows = [cycle_row_of(cycle, handover.run) for cycle in linked(handover).open_cycles()]
    return _frame_of(spark, with_settings_once(rows))


def _cycles_here(handover: Handover) -> list[Row]:
    """`cycle_rows` as workers get them: times as the plain form has them."""
    rows = [cycle_row_of(cycle, handover.run) for cycle in handover.open_cycles()]
    for name in _CYCLE_TIMES:
        times = plain_column([row[name] for row in rows], type_of("timestamp"), f"cycle.{name}")
        rows = [{**row, name: time} for row, time in zip(rows, times, strict=True)]
    return [*rows]


def _frame_of(spark: SparkSession, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    values = [tuple(row[name] for name in CYCLE_NAMES) for row in rows]
    return with_cycle_times(spark.createDataFrame(values, schema_of(CYCLE_TYPE.replace("timestamp", "string"))))


def cycle_row_of(cycle: ClusterCycle, run: Run) -> dict[str, Any]:
    """The columns of `CYCLE_TYPE` for a cycle whose settings are known, times as text."""
    return cycle_row(
        cycle.cluster,
        cycle.cycle_at,
        cycle.settings,
        cycle.settings_digest,
        manager=cycle.manager,
        mode=run.mode,
        kind=run.kind,
        snapshot_at=cycle.snapshot.cycle_at,
        predecessor=(cycle.predecessor.cycle_at, cycle.predecessor.status),
        wishes=cycle.wishes,
        acts=cycle.acts,
        pauses=cycle.pauses,
    )


def with_cycle_times(frame: DataFrame) -> DataFrame:
    """Rows of `CYCLE_TYPE` whose times were given as text."""
    from pyspark.sql import functions as F

    return frame.withColumns({name: F.to_timestamp(name) for name in _CYCLE_TIMES})


class RoundInputs:
    """What the rounds of a task are given, by name.

    `stored` has the writes of what is read from a table, in this process or by Spark. The rest was computed.
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, handover: Handover, *tables: str, is_whole: bool = True
    ) -> None:
        """Rows of this run that belong to open cycles. Unless they are to be `is_whole`, workers get of `bundle_load`
        and `split_decisions` no more than deciding looks at."""
        self._is_whole = is_whole
        self.spark, self.lake = spark, lake
        self.stored: dict[str, tuple[Write, ...]] = {table: handover.open_writes(table) for table in tables}
        self._computed: dict[str, DataFrame] = {}
        self._empty: dict[str, StructType] = {}

    def with_state(self, handover: Handover, *, needed: bool = True) -> tuple[Write, ...]:
        """Adds what the predecessors' strategies remember (see `state_writes`); gives the writes it is read from."""
        self.stored[STATE] = state_writes(handover, needed=needed)
        return self.stored[STATE]

    def add(self, name: str, frame: DataFrame) -> None:
        """Adds rows that were computed."""
        self._empty.pop(name, None)
        self._computed[name] = frame

    def add_empty(self, name: str, schema: StructType) -> None:
        """Adds an input that has no rows this time."""
        self._empty[name] = schema

    def frame(self, table: str) -> DataFrame:
        """The rows of a table, as Spark reads them."""
        return self.lake.read(self.spark, _table_of(table), self.stored[table])

    def frames(self) -> dict[str, DataFrame]:
        """All rows, as Spark has them."""
        empty = {name: self.spark.createDataFrame([], schema) for name, schema in self._empty.items()}
        stored = {name: self.frame(name) for name in self.stored}
        if not self._is_whole:
            stored |= {name: _what_is_looked_at(name, frame) for name, frame in stored.items() if name in _LARGE}
        return {**stored, **empty, **self._computed}

    def types(self) -> dict[str, StructType]:
        """The schemas that need not be asked for: a round never sees the stamp of a write."""
        from pyspark.sql.types import StructType

        found = {name: TABLES[_table_of(name)].body_type() for name in self.stored} | self._empty
        if not self._is_whole and "bundle_load" in found:
            found["bundle_load"] = StructType([found["bundle_load"][name] for name in BUNDLE_COLUMNS])
        return found

    def at_hand(self) -> dict[str, Sequence[Row]] | None:
        """The rows, read in this process; None where they are many, were computed, or are not at hand."""
        if self._computed or sum(w.rows for own in self.stored.values() for w in own) > MOST_HERE:
            return None
        found: dict[str, Sequence[Row]] = dict.fromkeys(self._empty, ())
        for name, writes in self.stored.items():
            rows = rows_at_hand(self.lake, _table_of(name), writes)
            if rows is None:
                return None
            found[name] = rows
        return found


_LARGE = frozenset({"bundle_load", "split_decisions"})


def _what_is_looked_at(name: str, frame: DataFrame) -> DataFrame:
    if name == "bundle_load":
        return frame.select(*BUNDLE_COLUMNS)
    return frame.where(F.col("outcome").isin(*LOOKED_AT))


def _table_of(name: str) -> str:
    """The table that an input of this name is read from."""
    return REMEMBERED if name == STATE else name


def predecessor_rows(
    spark: SparkSession, lake: Lake, handover: Handover, table: str
) -> tuple[DataFrame, tuple[Write, ...]]:
    """What the open cycles' predecessors left in `table`, and the writes it was read from.

    Of a window, the hand-over that is asked has to be `window.linked`.
    """
    reads = _left_before(handover, table)
    return lake.read(spark, table, reads), reads


def _left_before(handover: Handover, table: str) -> tuple[Write, ...]:
    return tuple(w for c in handover.open_cycles() for w in c.predecessor.writes if w.table == table)


def children_of_splits(cycle: ClusterCycle) -> dict[str, str]:
    """Bundle -> parent: what splits of late have made, as long as its own figures are not to be trusted yet."""
    if not any(act["kind"] == "split" for act in cycle.acts) or cycle.settings is None:
        return {}
    return split_children(acts_of(cycle.acts), cycle.at, settings_in(cycle.settings))


def has_planner(handover: Handover, *modes: str) -> bool:
    """Whether Evenkeel's own planner runs in an open cycle: in one of these modes, by default in any but off."""
    wanted = modes or PLANNER_MODES
    return any(settings_in(cycle.settings).evenkeelPlanner in wanted for cycle in handover.open_cycles())


def planned_inputs(handover: Handover) -> tuple[str, ...]:
    """The tables of the planner that shedding and placing read: none where it does not decide."""
    return (TARGETS,) if has_planner(handover, "on") else ()


def state_writes(handover: Handover, *, needed: bool = True) -> tuple[Write, ...]:
    """The writes of what the predecessors' strategies remember, as far as it is written, those of cycles of this run
    too; none where no strategy in force asks."""
    return _left_before(linked(handover), REMEMBERED) if needed else ()


WindowRound = Callable[..., Mapping[str, list[dict[str, Any]]]]
"""A round of a task over the cycles of a cluster (`window.fold`), called with `parameters`: `is_window`."""


class Made:
    """What the rounds of a task came to: rows by table, in this process or with Spark."""

    def __init__(self, spark: SparkSession, found: Mapping[str, DataFrame | pa.Table], types: Mapping[str, StructType]):
        """`types`: the schemas of what was found here."""
        self._spark, self._found, self._types = spark, found, types

    def frame(self, table: str) -> DataFrame:
        """The rows of one table as a frame; of rows that are here, one of one partition, hence one file per cluster."""
        found = self._found[table]
        return found if not isinstance(found, pa.Table) else here.frame_of(self._spark, found, self._types[table])

    def is_empty(self, table: str) -> bool:
        """Whether there are no rows of a table."""
        found = self._found[table]
        return not found.num_rows if isinstance(found, pa.Table) else found.isEmpty()

    def filled(self, tables: Iterable[str]) -> list[str]:
        """The tables that have rows, of these; of rows that are with Spark it is one question for all."""
        asked = [*tables]
        if all(isinstance(self._found[table], pa.Table) for table in asked):
            return [table for table in asked if not self.is_empty(table)]
        named = (self.frame(table).limit(1).select(F.lit(table).alias("table")) for table in asked)
        filled = {row["table"] for row in united(named).collect()}
        return [table for table in asked if table in filled]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of one table, fetched if they are with Spark."""
        found = self._found[table]
        if isinstance(found, pa.Table):
            rows: list[dict[str, Any]] = found.to_pylist()
            return rows
        return [row.asDict() for row in found.collect()]

    def frames(self, tables: Iterable[str]) -> dict[str, DataFrame]:
        """The rows of several tables."""
        return {table: self.frame(table) for table in tables}


def decide_rounds(
    handover: Handover,
    inputs: RoundInputs,
    decide: WindowRound,
    outputs: Sequence[Table] | Mapping[str, StructType],
    task: str,
) -> tuple[Made, Handover]:
    """Runs a round over the cycles of every cluster, and returns its rows per table.

    Where a run has one cycle of each cluster and their rows are few, they are read and decided on in this process; else
    workers decide, clusters in parallel: for few rows the way to a worker and back takes longer than all the rest.

    In a window, a cycle whose round raised an error is marked as failed in the hand-over that is returned, and the
    cycles after it are left out, for their averages rest on it; they have no rows. In a run of one cycle per cluster
    the error is raised.
    """
    types = dict(outputs) if isinstance(outputs, Mapping) else {table.name: table.body_type() for table in outputs}
    is_window = handover.is_window()
    parameters = {"is_window": is_window}
    rows = None if is_window else inputs.at_hand()
    if rows is not None:
        rows["cycle"] = _cycles_here(handover)
        return Made(inputs.spark, here.decided(rows, decide, types, parameters), types), handover
    if is_window:
        types[FAILURES] = schema_of(FAILURES_TYPE)
    frames = {"cycle": cycles_to_decide(inputs.spark, handover), **inputs.frames()}
    known = {"cycle": schema_of(CYCLE_TYPE), **inputs.types()}
    found = grouped_map(
        frames,
        by=["cluster"],
        decide=decide,
        outputs=types,
        parameters=parameters,
        schemas=known,
        on_disk=is_window,  # of some hundred cycles that is more than all else that the server holds
    )
    made = Made(inputs.spark, found, types)
    if not is_window:
        return made, handover
    failed = {(row["cluster"], row["cycle_at"]): row["error"] for row in made.rows(FAILURES)}
    return made, without_failed(handover, failed, task)


def without_failed(handover: Handover, errors: Mapping[CycleKey, str], task: str) -> Handover:
    """The hand-over with these cycles marked as failed, and without what comes after them."""
    first = dict(sorted(errors, reverse=True))
    after = {
        cycle.key: f"the cycle of {first[cycle.cluster]} before it failed in {task}, and it rests on that one: mend "
        "what is wrong there, and run it again"
        for cycle in handover.open_cycles()
        if cycle.cluster in first and cycle.cycle_at > first[cycle.cluster]
    }
    failed = {key: f"{task} failed: {error}" for key, error in errors.items()}
    return handover.leave_out(failed, status=FAILED).leave_out(after)


# The observed rows of a run without those that validate set aside.


def read_checked(lake: Lake, spark: SparkSession, handover: Handover, table: str) -> DataFrame:
    """Rows of an observed `table` of this run's open cycles, minus the rejected ones.

    A rejected record is named by `rejected.record_key`: the JSON list of the row's key columns, as text, in the order
    of the table's `key`, e.g. `["persistent://t/n/a","b1:8080"]`. Rows of `rejected` without a key are records that
    ingest could not make a row of, so nothing has to be taken away for them.
    """
    rows = lake.read(spark, table, handover.open_writes(table))
    return without_rejected(lake, spark, rows, table, handover.open_writes("rejected"))


def without_rejected(
    lake: Lake, spark: SparkSession, rows: DataFrame, table: str, writes: Sequence[Write]
) -> DataFrame:
    """The rows without the records that these writes of `rejected` name."""
    if not writes:
        return rows
    refused = (
        lake.read(spark, "rejected", writes)
        .where((F.col("rejected_from") == table) & F.col("record_key").isNotNull())
        .select("cluster", "cycle_at", "record_key")
        .distinct()
    )
    keyed = rows.withColumn("record_key", record_key(TABLES[table]))
    return keyed.join(F.broadcast(refused), ["cluster", "cycle_at", "record_key"], how="left_anti").drop("record_key")
