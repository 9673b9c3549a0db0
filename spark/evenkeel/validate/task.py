"""Whether what was observed can be trusted.

Reads: the observed tables. Writes: `validation_results`, a row per rule, table and cluster, passed or failed, and
`rejected`, a row per record set aside.
Skips: clusters that are not open. Leaves out clusters that break a rule of severity quarantine, with the reason.
Fails when: a suite in `expectations/` cannot be read or run.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenkeel.handover import Handover
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.settings import Settings, settings_in
from evenkeel.spark.sql import first_of
from evenkeel.validate.facts import LACKS_A_RATE, fetch, is_broken, rejected_rows
from evenkeel.validate.judging import TOPICS, Judgement, broken_words, judge
from evenkeel.validate.suites import SUITES, read_suites

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, SparkSession

    from evenkeel.handover import Handover
    from evenkeel.validate.facts import Row


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Checks the snapshots of all open clusters."""
    if not handover.open_cycles():
        return handover
    lake, suites = Lake(handover.lake), read_suites()
    tables = observed(spark, lake, handover)
    facts = fetch(tables, suites, sum(write.rows for write in handover.writes_of("topic_stats")))
    judgement = judge(facts, suites, settings_of(handover), tables["topic_stats"])
    frames = {"validation_results": result_frame(spark, handover, judgement)}
    rejected = rejected_frame(spark, handover, judgement, tables["topic_stats"])
    if rejected is not None:
        frames["rejected"] = rejected
    writes = lake.append(spark, frames, handover=handover, task="validate")
    quarantined = dict(judgement.quarantined)
    reasons = {c.key: quarantined[c.cluster] for c in handover.open_cycles() if c.cluster in quarantined}
    return handover.with_writes(writes).leave_out(reasons)


def observed(spark: SparkSession, lake: Lake, handover: Handover) -> dict[str, DataFrame]:
    """The observed tables of this run's open clusters, as ingest wrote them."""
    return {table: lake.read(spark, table, handover.open_writes(table)) for table in SUITES}


def settings_of(handover: Handover) -> dict[str, Settings]:
    """The settings in force, by open cluster."""
    return {cycle.cluster: settings_in(cycle.settings) for cycle in handover.open_cycles()}


# The rows that validate writes.

_STRANGE, _RATELESS = "topics_have_a_namespace", "loaded_topics_have_rates"


def result_frame(spark: SparkSession, handover: Handover, judgement: Judgement) -> DataFrame:
    """Rows of validation_results."""
    times = {cycle.cluster: cycle.at for cycle in handover.cycles}
    rows = [
        {"cluster": finding.cluster, "cycle_at": times[finding.cluster], **finding.row()}
        for finding in judgement.findings
    ]
    return _frame(spark, "validation_results", rows)


def rejected_frame(
    spark: SparkSession, handover: Handover, judgement: Judgement, topic_stats: DataFrame
) -> DataFrame | None:
    """Rows of rejected; None if nothing is set aside."""
    times = {cycle.cluster: cycle.at for cycle in handover.cycles}
    paths = {cycle.cluster: cycle.snapshot.path for cycle in handover.cycles}
    frames = []
    if judgement.records:
        rows = [
            {**record, "cycle_at": times[record["cluster"]], "file": paths[record["cluster"]]}
            for record in judgement.records
        ]
        frames.append(_frame(spark, "rejected", rows))
    if judgement.broken_topic_rules:
        frames.append(_rejected_topics(spark, judgement, topic_stats, _files(paths)))
    return reduce(lambda one, other: one.unionByName(other), frames) if frames else None


def _rejected_topics(spark: SparkSession, judgement: Judgement, topic_stats: DataFrame, files: Column) -> DataFrame:
    reasons = {}
    marks = []
    rows = topic_stats
    for rule in judgement.broken_topic_rules:
        if rule.kind == "expectation":
            breaks, words = is_broken(rule), broken_words(rule)
        elif rule.name == _RATELESS:
            breaks, words = F.expr(LACKS_A_RATE), "it is loaded and a rate is missing."
        else:
            strange = spark.createDataFrame(list(judgement.strange_namespaces), "cluster string, namespace string")
            marked = strange.withColumn("is_strange", F.lit(True))
            rows = rows.join(F.broadcast(marked), ["cluster", "namespace"], how="left")
            breaks, words = F.col("is_strange").isNotNull(), "the cluster has no such namespace."
        marks.append(F.when(breaks, F.lit(rule.name)))
        reasons[rule.name] = f"{words} {rule.advice}".strip()
    broken = rows.withColumn("broken", F.array_compact(F.array(*marks))).where("size(broken) > 0")
    return rejected_rows(broken, TOPICS, F.col("broken"), reasons, files)


def _files(paths: dict[str, str]) -> Column:
    return first_of(((F.col("cluster") == cluster, path) for cluster, path in sorted(paths.items())), F.lit(""))


def _frame(spark: SparkSession, table: str, rows: Iterable[Row]) -> DataFrame:
    from pyspark.sql.types import StructType

    body = StructType([field for field in TABLES[table].struct_type().fields if field.name not in STAMP_NAMES])
    # Unlike a Connect server, a classic master takes no integer for a double.
    doubles = {field.name for field in body.fields if field.dataType.typeName() == "double"}

    def plain(name: str, value: Any) -> Any:
        return float(value) if name in doubles and value is not None else value

    return spark.createDataFrame([tuple(plain(name, row.get(name)) for name in body.names) for row in rows], body)
