"""Topic figures become the load of bundles and brokers.

Reads: the observed tables without rejected records, `rejected`, and the predecessor's `bundle_load` and
`split_decisions`; where a split was carried out of late, the predecessor's `topic_stats` too.
Writes: `bundle_load`, a row per bundle of the boundaries in force, and `broker_load`, a row per broker.
Skips: clusters that are not open. Fails: never for what it finds in the data; what is not known stays NULL.

Spark sums up the topics. The rest is one round per cluster (`round.decide`), which runs in this process where its rows
are few, and in a grouped map where they are many: for few rows the grouped map alone takes longer than all the rest.
A window is a fold per cluster in a grouped map (`round.folded`): a cycle's averages rest on what the split rule says of
the one before, which plan_splits, that decides it again from these rows, has still to write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from evenkeel.aggregate import inputs
from evenkeel.aggregate.here import decide_here, fetched, rows_of
from evenkeel.aggregate.round import OUTPUTS, decide
from evenkeel.aggregate.topic_sums import local
from evenkeel.handover import Handover, Write
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.rounds.frames import CYCLE_TYPE, WindowRound, cycle_row_of, cycle_rows, without_failed
from evenkeel.rounds.here import frame_of_rows
from evenkeel.rounds.reading import Rows
from evenkeel.rounds.window import FAILURES, FAILURES_TYPE
from evenkeel.spark.column_types import schema_of
from evenkeel.spark.grouped import grouped_map

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MOST_ROWS_HERE = 50_000
"""So many rows of bundles and brokers at most are fetched for a round in this process: some 200 MB."""


SplitInputs = Callable[["SparkSession", Lake, Handover, "DataFrame"], Mapping[str, "DataFrame"]]
"""What the split rule looks at beside loads, reports and boundaries, of the bundles in force."""


def run(
    spark: SparkSession,
    handover: Handover,
    load_window: WindowRound | None = None,
    split_inputs: SplitInputs | None = None,
) -> Handover:
    """Sums up every open cycle. Of a window by `load_window`, which asks the split rule, with what that looks at."""
    if not handover.open_cycles():
        return handover
    lake = Lake(handover.lake)
    if handover.is_window():
        if load_window is None or split_inputs is None:
            raise ValueError("the averages of a window rest on what the split rule says")
        return _window(spark, lake, handover, load_window, split_inputs)
    load, reads = aggregated(spark, lake, handover)
    return handover.with_writes(lake.append(spark, load, handover=handover, task="aggregate", reads=reads))


def aggregated(
    spark: SparkSession, lake: Lake, handover: Handover, most_here: int = MOST_ROWS_HERE
) -> tuple[dict[str, DataFrame], tuple[Write, ...]]:
    """The rows of every open cluster, per table, and the earlier writes that they rest on."""
    found = inputs.read(spark, lake, handover)
    is_here = _rows(handover, found.reads) <= most_here
    tables: dict[str, pa.Table] = {}
    cycles = [cycle_row_of(cycle, handover.run) for cycle in handover.open_cycles()]
    rows: Rows | None = inputs.at_hand(lake, found) if is_here else None
    summed = None if rows is None else inputs.sums_at_hand(lake, handover, found, rows)
    if rows is not None and summed is not None:
        return _decided(spark, {**rows, **summed, "cycle": cycles}), found.reads
    if rows is None:
        tables = fetched({**(found.small if is_here else inputs.about_namespaces(found)), **inputs.set_aside(found)})
        rows = {name: rows_of(table) for name, table in tables.items()}
    sums = inputs.sums_of_topics(spark, found, rows)
    if is_here:
        summed = {name: rows_of(table) for name, table in sums.items()}
        return _decided(spark, {**rows, **summed, "cycle": cycles}), found.reads
    there = {name: local(spark, table) for name, table in sums.items()}
    if inputs.REJECTED in tables:
        there[inputs.REJECTED] = local(spark, tables[inputs.REJECTED])
    there |= {**found.small, "cycle": cycle_rows(spark, handover)}
    types = {table: TABLES[table].body_type() for table in OUTPUTS}
    return grouped_map(there, by=["cluster"], decide=decide, outputs=types, schemas=_known_types(found)), found.reads


def _decided(spark: SparkSession, given: Rows) -> dict[str, DataFrame]:
    loads = decide_here(given, decide, OUTPUTS)
    return {table: frame_of_rows(spark, table, loads[table]) for table in OUTPUTS}


def _window(
    spark: SparkSession, lake: Lake, handover: Handover, load_window: WindowRound, split_inputs: SplitInputs
) -> Handover:
    found = inputs.read(spark, lake, handover)
    tables = fetched({**inputs.about_namespaces(found), **inputs.set_aside(found)})
    rows = {name: rows_of(table) for name, table in tables.items()}
    given = {name: local(spark, table) for name, table in inputs.sums_of_topics(spark, found, rows).items()}
    if inputs.REJECTED in tables:
        given[inputs.REJECTED] = local(spark, tables[inputs.REJECTED])
    given |= {**found.small, "cycle": cycle_rows(spark, handover)}
    given |= split_inputs(spark, lake, handover, inputs.ranges_in_force(spark, found, rows))
    types = {table: TABLES[table].body_type() for table in OUTPUTS} | {FAILURES: schema_of(FAILURES_TYPE)}
    known = {"cycle": schema_of(CYCLE_TYPE)}
    parameters = {"is_window": True}
    loads = grouped_map(
        given, by=["cluster"], decide=load_window, outputs=types, parameters=parameters, schemas=known, on_disk=True
    )
    failed = {(row["cluster"], row["cycle_at"]): row["error"] for row in loads.pop(FAILURES).collect()}
    handover = without_failed(handover, failed, "aggregate")
    return handover.with_writes(lake.append(spark, loads, handover=handover, task="aggregate", reads=found.reads))


def _rows(handover: Handover, before: tuple[Write, ...]) -> int:
    """How many rows the round is given, without sums over topics; topics of cycles before are not among them."""
    read = [write for table in inputs.OBSERVED for write in handover.writes_of(table)]
    return sum(write.rows for write in (*read, *before) if write.table != "topic_stats")


def _known_types(found: inputs.LoadInputs) -> dict[str, StructType]:
    return {"cycle": schema_of(CYCLE_TYPE), **{name: inputs.type_of(name) for name in found.small}}
