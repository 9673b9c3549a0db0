"""All decisions of many attempts taken again, each on the rows that its manifest lists.

The workers compare as well: where all came out as recorded, which is nearly always, no rows have to come back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evenkeel.aggregate.task import aggregated
from evenkeel.cycle.frames import CYCLE_NAMES, CYCLE_TYPE, read_checked, with_cycle_times
from evenkeel.cycle.state import PLANNER
from evenkeel.handover import Handover, Run, Write
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.model.bundles import HIGHEST_HASH
from evenkeel.plan_splits.task import PERSISTENT_TYPE, TOPICS_TYPE, hashes_in, persistent_topics
from evenkeel.publish import plan as plan_round
from evenkeel.repetition import repeat as again
from evenkeel.repetition.projections import columns_looked_at
from evenkeel.spark.column_types import schema_of
from evenkeel.spark.grouped import grouped_map
from evenkeel.verify.contents import ATTEMPT, Rows
from evenkeel.verify.recorded_cycle import RecordedCycle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


OBSERVED = ("broker_reports", "namespace_bundles", "cluster_policies", "bundle_load", "broker_load")
_TYPES = {
    "cycle": CYCLE_TYPE,
    "topic_hashes": TOPICS_TYPE,
    "persistent_topics": PERSISTENT_TYPE,
}
_NAMED = "table_name string"
_RECORDED = {again.recorded(table): table for table in again.OUTPUTS}
# A bundle that is not over any limit is `kept`, and nobody looks at its topics.
LOOKED_INTO = ("split", "refused", "skipped")


@dataclass(frozen=True, slots=True)
class Decided:
    """By attempt id: the plan, and the tables that came out otherwise; of those the rows decided now, by table.

    `reworded`: attempts with a table in which nothing differs but the sentences.
    """

    plans: Mapping[str, Mapping[str, Any]]
    differing: Mapping[str, Sequence[str]]
    reworded: Collection[str]
    rows: Mapping[str, DataFrame]


def decisions_again(rows: Rows, own: Sequence[RecordedCycle], *, to_the_word: bool) -> Decided:
    """Return what these attempts decide now; `to_the_word`: sentences have to be the same too."""
    inputs = {table: rows.of(table, listed(own)) for table in OBSERVED}
    inputs |= {again.recorded(table): rows.of(table, listed(own)) for table in again.OUTPUTS}
    inputs["state"] = rows.of(again.STATE, [(one.attempt.attempt_id, w) for one in own for w in one.attempt.reads])
    inputs["cycle"] = _cycles(rows, own)
    inputs |= _topics(rows, own, inputs)
    inputs |= {table: inputs[table].select(*_type(table).names) for table in OBSERVED}
    types = {table: _with_attempt(TABLES[table].body_type()) for table in again.OUTPUTS}
    types |= {again.PLAN: _with_attempt(plan_round.plan_type())}
    types |= dict.fromkeys((again.DIFFERING, again.REWORDED), _with_attempt(schema_of(_NAMED)))
    made = grouped_map(
        inputs,
        by=[ATTEMPT],
        decide=again.held_against,
        outputs=types,
        parameters=compared(to_the_word=to_the_word),
        schemas={name: _type(name) for name in inputs},
    )
    plans = {row[ATTEMPT]: row.asDict() for row in made.pop(again.PLAN).collect()}
    differing: dict[str, list[str]] = {}
    for row in made.pop(again.DIFFERING).collect():
        differing.setdefault(row[ATTEMPT], []).append(row["table_name"])
    reworded = {row[ATTEMPT] for row in made.pop(again.REWORDED).collect()}
    return Decided(plans, differing, reworded, made)


def compared(*, to_the_word: bool) -> dict[str, dict[str, list[str]]]:
    """Return the parameters of `again.held_against`."""
    columns = {table: covered(table) for table in again.OUTPUTS}
    wording = {
        table: [name for name in names if name == again.WORDING and not to_the_word] for table, names in columns.items()
    }
    return {"columns": columns, "wording": wording}


def covered(table: str) -> list[str]:
    """Return the columns of a table that are compared: all but the stamp of the write."""
    return [name for name in TABLES[table].column_names() if name not in STAMP_NAMES]


def listed(own: Sequence[RecordedCycle]) -> list[tuple[str, Write]]:
    """The writes of each attempt."""
    return [(one.attempt.attempt_id, write) for one in own for write in one.attempt.writes]


def _cycles(rows: Rows, own: Sequence[RecordedCycle]) -> DataFrame:
    text_type = f"{ATTEMPT} string, {CYCLE_TYPE.replace('timestamp', 'string')}"
    given = [(one.attempt.attempt_id, *map(one.cycle_row.__getitem__, CYCLE_NAMES)) for one in own]
    return with_cycle_times(rows.spark.createDataFrame(given, text_type))


def _topics(rows: Rows, own: Sequence[RecordedCycle], inputs: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """What rounds see of topics: of the bundles that were looked into, and of namespaces that wishes speak of."""
    from pyspark.sql import functions as F

    spark, lake, run = rows.spark, AttemptsAsClusters(rows, own), as_clusters(rows.lake, own)
    bundles = inputs["bundle_load"].withColumn("cluster", F.col(ATTEMPT))
    found = persistent_topics(spark, lake, run, bundles)
    cutting = [one.attempt.attempt_id for one in own if one.needs_topics]
    planning = [one.attempt.attempt_id for one in own if one.planner_looks_at_topics]
    hashes = spark.createDataFrame([], TOPICS_TYPE)
    if cutting or planning:
        of_planner = F.col(ATTEMPT).isin(planning) & (F.col("strategy") == PLANNER)
        looked_into = (F.col(ATTEMPT).isin(cutting) | of_planner) & F.col("outcome").isin(*LOOKED_INTO)
        subjects = inputs["split_decisions"].where(looked_into & (F.col("subject_kind") == "bundle"))
        named = subjects.select(F.col(ATTEMPT).alias("cluster"), F.col("subject").alias("bundle")).distinct()
        ranges = bundles.select("cluster", "namespace", "bundle", "owner", "lower", "upper")
        chosen = named.join(ranges, ["cluster", "bundle"]).withColumn("is_last", F.col("upper") == F.lit(HIGHEST_HASH))
        hashes = hashes_in(chosen, read_checked(lake, spark, run, "topic_stats"))
    return {name: one.withColumn(ATTEMPT, F.col("cluster")) for name, one in {**found, "topic_hashes": hashes}.items()}


def _type(name: str) -> StructType:
    """What the rounds are given of an input, after the id of its attempt."""
    from pyspark.sql.types import StructType

    if name in _TYPES:
        return _with_attempt(schema_of(_TYPES[name]))
    schema = TABLES[again.STATE if name == "state" else _RECORDED.get(name, name)].struct_type()
    wanted = columns_looked_at(name, schema.names) if name in OBSERVED else schema.names
    return _with_attempt(StructType([schema[column] for column in wanted]))


def _with_attempt(schema: StructType) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(ATTEMPT, StringType()), *schema.fields])


# `bundle_load` and `broker_load` summed up again from the topics on record, by the task's own code.

LOADS = ("bundle_load", "broker_load")


def loads_again(rows: Rows, own: Sequence[RecordedCycle]) -> dict[str, DataFrame]:
    """The rows of `LOADS` that these attempts come to now, with `attempt_id`, without the stamp of a write."""
    from pyspark.sql import functions as F

    clusters = [(one.attempt.attempt_id, one.attempt.cluster) for one in own]
    names = F.broadcast(rows.spark.createDataFrame(clusters, f"{ATTEMPT} string, cluster string"))
    made, _ = aggregated(rows.spark, AttemptsAsClusters(rows, own), as_clusters(rows.lake, own))
    return {
        table: frame.withColumnRenamed("cluster", ATTEMPT).join(names, ATTEMPT).select(ATTEMPT, *_body(table))
        for table, frame in made.items()
    }


def _body(table: str) -> list[str]:
    return [column.name for column in TABLES[table].body_columns()]


# Attempts given to the tasks' own code, many at once.
#
# Tasks keep clusters apart by name, and a run has one cycle of each. So every attempt is given to them as a cluster of
# its own, named by its id: what they compute in SQL goes by that name alone.


class AttemptsAsClusters(Lake):
    """The lake as tasks read it, with each attempt's id for its cluster's name."""

    def __init__(self, rows: Rows, own: Sequence[RecordedCycle]) -> None:
        super().__init__(rows.lake.root)
        self._rows = rows
        self._clusters = {one.attempt.attempt_id: one.attempt.cluster for one in own}

    def read(self, spark: SparkSession, table: str, writes: Iterable[Write]) -> DataFrame:
        """The rows of these writes, each named for the attempt that asks for it."""
        from pyspark.sql import functions as F

        wanted = [(write.cluster, replace(write, cluster=self._clusters[write.cluster])) for write in writes]
        found = self._rows.of(table, wanted).withColumn("cluster", F.col(ATTEMPT))
        return found.select(*TABLES[table].column_names())


def as_clusters(lake: Lake, own: Sequence[RecordedCycle]) -> Handover:
    """The hand-over of a run whose clusters are these attempts."""
    cycles = []
    for one in own:
        name = one.attempt.attempt_id
        before = replace(
            one.cycle.predecessor, writes=tuple(replace(write, cluster=name) for write in one.attempt.reads)
        )
        cycles.append(replace(one.cycle, cluster=name, predecessor=before))
    writes = tuple(
        replace(write, cluster=one.attempt.attempt_id, cycle_at=one.cycle.cycle_at)
        for one in own
        for write in one.attempt.writes
    )
    return Handover(lake.root, Run("verify", "verify"), tuple(cycles), writes)
