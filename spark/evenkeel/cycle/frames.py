"""Rows for the rounds: one per cycle, and rows of tables by the hand-over, without the records that validate rejected.

A rejected record has two names: a key for a machine to find it again, and a place in words for an operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenkeel.cycle.fold import REMEMBERED
from evenkeel.cycle.reading import Row, cycle_row
from evenkeel.handover import ClusterCycle, CycleKey, Handover, Predecessor, Run, Write
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.model.past_commands import acts_of, split_children
from evenkeel.settings import settings_in
from evenkeel.settings.compatibility import why_undecidable
from evenkeel.spark.column_types import schema_of, type_of
from evenkeel.spark.rows import plain_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from evenkeel.lake.schema import Table


MOST_HERE = 50_000
"""Most rows of bundles and brokers, some 200 MB, with which a run decides in this process; else it decides in workers
of Spark (`runner`)."""
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


def cycle_rows(handover: Handover) -> list[Row]:
    """Return one row per open cycle in plain form: its cycle, its settings, and its predecessor.

    A text of settings, which is most of a row, is only in the first row of those of a cluster that share it.
    """
    rows = with_settings_once(cycle_row_of(cycle, handover.run) for cycle in linked(handover).open_cycles())
    for name in _CYCLE_TIMES:
        times = plain_column([row[name] for row in rows], type_of("timestamp"), f"cycle.{name}")
        rows = [{**row, name: time} for row, time in zip(rows, times, strict=True)]
    return [*rows]


def cycle_frame(spark: SparkSession, cycles: Sequence[Row]) -> DataFrame:
    """Return rows of cycles as a frame of `CYCLE_TYPE`."""
    values = [tuple(row[name] for name in CYCLE_NAMES) for row in cycles]
    frame = spark.createDataFrame(values, schema_of(CYCLE_TYPE.replace("timestamp", "string")))
    return frame.withColumns({name: F.to_timestamp(name) for name in _CYCLE_TIMES})


def with_settings_once(cycles: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return cycle rows with the text of settings only in the first row of those of a cluster that share the digest."""
    seen: set[tuple[str, str | None]] = set()
    result = []
    for row in cycles:
        shared = (row["cluster"], row["settings_digest"])
        result.append({**row, "settings": None} if shared in seen else dict(row))
        seen.add(shared)
    return result


def cycle_row_of(cycle: ClusterCycle, run: Run) -> dict[str, Any]:
    """Return the columns of `CYCLE_TYPE` for a cycle whose settings are known, times as text."""
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


def predecessor_rows(
    spark: SparkSession, lake: Lake, handover: Handover, table: str
) -> tuple[DataFrame, tuple[Write, ...]]:
    """Return the rows of `table` that the (`linked`) open cycles' predecessors wrote, and their writes."""
    reads = left_before(handover, table)
    return lake.read(spark, table, reads), reads


def left_before(handover: Handover, table: str) -> tuple[Write, ...]:
    """Return the writes of `table` that the open cycles' predecessors left; a window's hand-over must be `linked`."""
    return tuple(w for c in handover.open_cycles() for w in c.predecessor.writes if w.table == table)


def children_of_splits(cycle: ClusterCycle) -> dict[str, str]:
    """Return bundle -> parent: children of recent splits, until their own figures can be trusted."""
    if not any(act["kind"] == "split" for act in cycle.acts) or cycle.settings is None:
        return {}
    return split_children(acts_of(cycle.acts), cycle.at, settings_in(cycle.settings))


def has_planner(handover: Handover, *modes: str) -> bool:
    """Return True if Evenkeel's own planner runs in an open cycle: in one of these modes, by default in any but off."""
    wanted = modes or PLANNER_MODES
    return any(settings_in(cycle.settings).evenkeelPlanner in wanted for cycle in handover.open_cycles())


def planned_inputs(handover: Handover) -> tuple[str, ...]:
    """Return the planner's tables that shedding and placing read: none if the planner does not decide."""
    return (TARGETS,) if has_planner(handover, "on") else ()


def state_writes(handover: Handover, *, needed: bool = True) -> tuple[Write, ...]:
    """Return the writes of the predecessors' remembered values, also of this run; none if no strategy needs them."""
    return left_before(linked(handover), REMEMBERED) if needed else ()


def read_checked(lake: Lake, spark: SparkSession, handover: Handover, table: str) -> DataFrame:
    """Return rows of an observed `table` of this run's open cycles, minus the rejected ones.

    `rejected.record_key` names a rejected record: the JSON list of the row's key columns, as text, in the order of the
    table's `key`, e.g. `["persistent://t/n/a","b1:8080"]`. Rows of `rejected` without a key are records from which
    ingest made no row, so no row is removed for them.
    """
    rows = lake.read(spark, table, handover.open_writes(table))
    return without_rejected(lake, spark, rows, table, handover.open_writes("rejected"))


def without_rejected(
    lake: Lake, spark: SparkSession, rows: DataFrame, table: str, writes: Sequence[Write]
) -> DataFrame:
    """Return the rows without the records that these writes of `rejected` name."""
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


def linked(handover: Handover) -> Handover:
    """Return the hand-over with each cycle's predecessor as this run has it.

    If that is a cycle of the run itself, it has its moment and its writes of this run so far; its attempt has no id
    yet. A cycle that plan_splits will leave out is not a predecessor from the first task on. Use the result to read,
    not to hand on: if a cycle is left out later, the recorded predecessor serves again.
    """
    if not handover.is_window():
        return handover
    written: dict[CycleKey, list[Write]] = {}
    for write in handover.writes:
        written.setdefault((write.cluster, write.cycle_at), []).append(write)
    before = handover.leave_out(undecidable(handover)).within()
    return handover.with_cycles(
        replace(cycle, predecessor=_taken_over(cycle, before[cycle.key], written)) if cycle.key in before else cycle
        for cycle in handover.cycles
    )


def _taken_over(cycle: ClusterCycle, before: CycleKey, written: Mapping[CycleKey, Sequence[Write]]) -> Predecessor:
    expected, at = cycle.predecessor.expected_at, before[1]
    status = "used" if expected in (None, at) else "older"
    return Predecessor(status, at, None, expected, tuple(written.get(before, ())))


def undecidable(handover: Handover) -> dict[CycleKey, str]:
    """Return the cycles whose strategies do not go together, or whose load manager is unknown, with what to do."""
    reasons = {
        cycle.key: why_undecidable(settings_in(cycle.settings), cycle.manager) for cycle in handover.open_cycles()
    }
    return {key: reason for key, reason in reasons.items() if reason}


# Text and column, in turn; a part whose column is NULL is left out.
_PLACES = {
    "topic_stats": (("topic ", "topic"), (" on broker ", "broker")),
    "broker_reports": (("broker ", "broker"),),
    "bundle_ownership": (("bundle ", "bundle"), (" on broker ", "broker")),
    "namespace_bundles": (("namespace ", "namespace"),),
    "cluster_policies": (("cluster ", "cluster"),),
    "raw_answers": (("answer ", "n"), (" of ", "broker"), (" to ", "path")),
}


def record_key(table: Table) -> Column:
    """Return the row's key columns as a JSON list of texts, e.g. `["persistent://t/n/a","b1:8080"]`."""
    return F.to_json(F.array(*[F.col(name).cast("string") for name in table.key]), {"ignoreNullFields": "false"})


def place(table: Table) -> Column:
    """Return the place of the record, in words."""
    parts = [F.concat(F.lit(text), F.col(name).cast("string")) for text, name in _PLACES[table.name]]
    return F.concat(*[F.coalesce(part, F.lit("")) for part in parts])


def place_of(table: str, row: Mapping[str, Any]) -> str:
    """Return the place of a record, in words, as `place` has it."""
    return "".join(f"{text}{row[name]}" for text, name in _PLACES[table] if row[name] is not None)


def place_columns(table: str) -> list[str]:
    """Return the columns that `place_of` reads."""
    return [name for _, name in _PLACES[table]]
