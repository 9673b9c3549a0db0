"""The rows that the rounds of a run need, as Spark frames, and running a round for every cycle of every cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenkeel.handover import FAILED, ClusterCycle, CycleKey, Handover, Run, Write
from evenkeel.lake.rejected_records import record_key
from evenkeel.lake.schema import Table
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.model.past_commands import acts_of, split_children
from evenkeel.rounds.reading import cycle_row
from evenkeel.rounds.window import FAILURES, FAILURES_TYPE, REMEMBERED, linked, with_settings_once
from evenkeel.settings import settings_in
from evenkeel.spark.column_types import schema_of
from evenkeel.spark.grouped import grouped_map

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


CYCLE_TYPE = (
    "cluster string, cycle_at timestamp, settings string, settings_digest string, manager string, mode string, "
    "kind string, snapshot_at timestamp, predecessor_cycle_at timestamp, predecessor_status string, "
    "wishes string, steering string"
)
CYCLE_NAMES = tuple(field.partition(" ")[0] for field in CYCLE_TYPE.split(", "))
_CYCLE_TIMES = ("cycle_at", "snapshot_at", "predecessor_cycle_at")


def cycle_rows(spark: SparkSession, handover: Handover) -> DataFrame:
    """One row per open cycle: which one, with which settings, and after which other."""
    return _frame_of(spark, [cycle_row_of(cycle, handover.run) for cycle in linked(handover).open_cycles()])


def cycles_to_decide(spark: SparkSession, handover: Handover) -> DataFrame:
    """`cycle_rows` as `window.fold` takes them: a text of settings, which is most of a row, stands there once."""
    rows = [cycle_row_of(cycle, handover.run) for cycle in linked(handover).open_cycles()]
    return _frame_of(spark, with_settings_once(rows))


def _frame_of(spark: SparkSession, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    values = [tuple(row[name] for name in CYCLE_NAMES) for row in rows]
    return with_cycle_times(spark.createDataFrame(values, CYCLE_TYPE.replace("timestamp", "string")))


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


def round_inputs(spark: SparkSession, lake: Lake, handover: Handover, *tables: str) -> dict[str, DataFrame]:
    """The cycles to decide, and of each table the rows of this run that belong to open ones."""
    inputs = {table: lake.read(spark, table, handover.open_writes(table)) for table in tables}
    return {"cycle": cycles_to_decide(spark, handover), **inputs}


def predecessor_rows(
    spark: SparkSession, lake: Lake, handover: Handover, table: str
) -> tuple[DataFrame, tuple[Write, ...]]:
    """What the open cycles' predecessors left in `table`, and the writes it was read from.

    Of a window, the hand-over that is asked has to be `window.linked`.
    """
    reads = tuple(w for c in handover.open_cycles() for w in c.predecessor.writes if w.table == table)
    return lake.read(spark, table, reads), reads


def children_of_splits(cycle: ClusterCycle) -> dict[str, str]:
    """Bundle -> parent: what splits of late have made, as long as its own figures are not to be trusted yet."""
    if not any(act["kind"] == "split" for act in cycle.acts) or cycle.settings is None:
        return {}
    return split_children(acts_of(cycle.acts), cycle.at, settings_in(cycle.settings))


def state_before(
    spark: SparkSession, lake: Lake, handover: Handover, *, needed: bool = True
) -> tuple[DataFrame, tuple[Write, ...]]:
    """What the predecessors' strategies remember, as far as it is written, those of cycles of this run too; no rows,
    and nothing read, where no strategy in force asks."""
    if needed:
        return predecessor_rows(spark, lake, linked(handover), REMEMBERED)
    return spark.createDataFrame([], TABLES[REMEMBERED].struct_type()), ()


WindowRound = Callable[..., Mapping[str, list[dict[str, Any]]]]
"""A round of a task over the cycles of a cluster (`window.fold`), called with `parameters`: `is_window`."""


def decide_rounds(
    handover: Handover,
    inputs: Mapping[str, DataFrame],
    decide: WindowRound,
    outputs: Sequence[Table] | Mapping[str, StructType],
    task: str,
) -> tuple[dict[str, DataFrame], Handover]:
    """Runs a round over the cycles of every cluster of `inputs`, clusters in parallel, and returns its rows per table.

    In a window, a cycle whose round raised an error is marked as failed in the hand-over that is returned, and the
    cycles after it are left out, for their averages rest on it; they have no rows. In a run of one cycle per cluster
    the error is raised.
    """
    types = dict(outputs) if isinstance(outputs, Mapping) else {table.name: table.body_type() for table in outputs}
    known = {name: schema for name in inputs if (schema := _known_type(name)) is not None}
    is_window = handover.is_window()
    if is_window:
        types[FAILURES] = schema_of(FAILURES_TYPE)
    parameters = {"is_window": is_window}
    made = grouped_map(inputs, by=["cluster"], decide=decide, outputs=types, parameters=parameters, schemas=known)
    if not is_window:
        return made, handover
    failed = made.pop(FAILURES).collect()
    return made, without_failed(handover, {(row["cluster"], row["cycle_at"]): row["error"] for row in failed}, task)


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


def _known_type(name: str) -> StructType | None:
    """The schema of an input, which need not be asked for."""
    if name == "cycle":
        return schema_of(CYCLE_TYPE)
    table = TABLES.get("strategy_state" if name == "state" else name)
    return None if table is None else table.struct_type()


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
