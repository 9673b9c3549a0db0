"""All decisions of many attempts taken again, in one grouped map, each on the rows that its manifest lists.

The workers compare as well: where all came out as recorded, which is nearly always, no rows have to come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenkeel.audit.verify.attempts_as_clusters import AttemptsAsClusters, as_clusters
from evenkeel.audit.verify.recorded import Again
from evenkeel.audit.verify.rows import ATTEMPT, Rows
from evenkeel.decisions.bundles import HIGHEST_HASH
from evenkeel.engine.grouped import grouped_map
from evenkeel.handover import Write
from evenkeel.lake.schema import STAMP_NAMES, ddl_type
from evenkeel.lake.tables import TABLES
from evenkeel.rounds import again, plan_round
from evenkeel.rounds.looked_at import columns_looked_at
from evenkeel.tasks.checked import read_checked
from evenkeel.tasks.inputs import CYCLE_NAMES, CYCLE_TYPE, with_cycle_times
from evenkeel.tasks.plan_splits import PERSISTENT_TYPE, TOPICS_TYPE, hashes_in, persistent_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

OBSERVED = ("broker_reports", "namespace_bundles", "cluster_policies", "bundle_load", "broker_load")
_TYPES = {
    "cycle": CYCLE_TYPE,
    "topic_hashes": TOPICS_TYPE,
    "persistent_topics": PERSISTENT_TYPE,
}
_DIFFERING = "table_name string"
_RECORDED = {again.recorded(table): table for table in again.OUTPUTS}
# A bundle that is not over any limit is `kept`, and nobody looks at its topics.
LOOKED_INTO = ("split", "refused", "skipped")


@dataclass(frozen=True, slots=True)
class Decided:
    """By attempt id: the plan, and the tables that came out otherwise; of those the rows decided now, by table."""

    plans: Mapping[str, Mapping[str, Any]]
    differing: Mapping[str, Sequence[str]]
    rows: Mapping[str, DataFrame]


def decisions_again(rows: Rows, own: Sequence[Again], version: int) -> Decided:
    """What these attempts, all of one schema version, decide now."""
    inputs = {table: rows.of(table, listed(own)) for table in OBSERVED}
    inputs |= {again.recorded(table): rows.of(table, listed(own)) for table in again.OUTPUTS}
    inputs["state"] = rows.of(again.STATE, [(one.attempt.attempt_id, w) for one in own for w in one.attempt.reads])
    inputs["cycle"] = _cycles(rows, own)
    inputs |= _topics(rows, own, inputs)
    inputs |= {table: inputs[table].select(*_type(table).names) for table in OBSERVED}
    types = {table: _with_attempt(TABLES[table].body_type()) for table in again.OUTPUTS}
    types |= {again.PLAN: _with_attempt(plan_round.plan_type()), again.DIFFERING: _with_attempt(ddl_type(_DIFFERING))}
    made = grouped_map(
        inputs,
        by=[ATTEMPT],
        decide=again.held_against,
        outputs=types,
        parameters={"columns": {table: covered(table, version) for table in again.OUTPUTS}},
        schemas={name: _type(name) for name in inputs},
    )
    plans = {row[ATTEMPT]: row.asDict() for row in made.pop(again.PLAN).collect()}
    differing: dict[str, list[str]] = {}
    for row in made.pop(again.DIFFERING).collect():
        differing.setdefault(row[ATTEMPT], []).append(row["table_name"])
    return Decided(plans, differing, made)


def covered(table: str, version: int) -> list[str]:
    """The columns that digests cover."""
    return [name for name in TABLES[table].names_at(version) if name not in STAMP_NAMES]


def listed(own: Sequence[Again]) -> list[tuple[str, Write]]:
    """The writes of each attempt."""
    return [(one.attempt.attempt_id, write) for one in own for write in one.attempt.writes]


def _cycles(rows: Rows, own: Sequence[Again]) -> DataFrame:
    text_type = f"{ATTEMPT} string, {CYCLE_TYPE.replace('timestamp', 'string')}"
    given = [(one.attempt.attempt_id, *map(one.cycle_row.__getitem__, CYCLE_NAMES)) for one in own]
    return with_cycle_times(rows.spark.createDataFrame(given, text_type))


def _topics(rows: Rows, own: Sequence[Again], inputs: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """What rounds see of topics: of the bundles that were looked into, and of namespaces that wishes speak of."""
    from pyspark.sql import functions as F

    spark, lake, run = rows.spark, AttemptsAsClusters(rows, own), as_clusters(rows.lake, own)
    bundles = inputs["bundle_load"].withColumn("cluster", F.col(ATTEMPT))
    found = persistent_topics(spark, lake, run, bundles)
    cutting = [one.attempt.attempt_id for one in own if one.needs_topics]
    hashes = spark.createDataFrame([], TOPICS_TYPE)
    if cutting:
        looked_into = F.col(ATTEMPT).isin(cutting) & F.col("outcome").isin(*LOOKED_INTO)
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
        return _with_attempt(ddl_type(_TYPES[name]))
    schema = TABLES[again.STATE if name == "state" else _RECORDED.get(name, name)].struct_type()
    wanted = columns_looked_at(name, schema.names) if name in OBSERVED else schema.names
    return _with_attempt(StructType([schema[column] for column in wanted]))


def _with_attempt(schema: StructType) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(ATTEMPT, StringType()), *schema.fields])
