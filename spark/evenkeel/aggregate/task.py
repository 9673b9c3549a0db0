"""Topic figures become the load of bundles and brokers.

Reads: the observed tables without rejected records, `rejected`, and the predecessor's `bundle_load` and
`split_decisions`; where a split was carried out of late, the predecessor's `topic_stats` too.
Writes: `bundle_load`, a row per bundle of the boundaries in force, and `broker_load`, a row per broker.
Skips: clusters that are not open. Fails: never for what it finds in the data; what is not known stays NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from evenkeel.aggregate.bundle_load import AVERAGES, SAMPLES, SINCE_QUOTA
from evenkeel.aggregate.observed_load import Observed, load_of
from evenkeel.handover import Handover, Write
from evenkeel.lake.store import Lake
from evenkeel.model.bundles import namespace_of
from evenkeel.model.past_commands import acts_of, unsettled_bundles
from evenkeel.rounds.frames import children_of_splits, predecessor_rows, read_checked
from evenkeel.rounds.loads import FORGOTTEN_THOUGH_REFUSED
from evenkeel.rounds.reading import EXTENSIBLE
from evenkeel.settings import settings_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Sums up every open cluster."""
    if not handover.open_cycles():
        return handover
    lake = Lake(handover.lake)
    load, reads = aggregated(spark, lake, handover)
    return handover.with_writes(lake.append(spark, load, handover=handover, task="aggregate", reads=reads))


def aggregated(spark: SparkSession, lake: Lake, handover: Handover) -> tuple[dict[str, DataFrame], tuple[Write, ...]]:
    """The rows of every open cluster, per table, and the earlier writes that they rest on."""
    previous, before = predecessor_rows(spark, lake, handover, "bundle_load")
    splits, decided = predecessor_rows(spark, lake, handover, "split_decisions")
    known = without_histories(previous, forgotten(splits, handover))
    seen, inherited = with_children(spark, lake, handover, observed(spark, lake, handover, known))
    return load_of(seen, weights(spark, handover)), before + decided + inherited


def forgotten(splits: DataFrame, handover: Handover) -> DataFrame:
    """cluster, bundle: those whose split the predecessor asked for. Pulsar forgets their history.

    Up to 4.x whether it is split or not; from 5.0 on only once it is, and then the bundle is not there any more.
    """
    from pyspark.sql import functions as F

    clusters = [cycle.cluster for cycle in handover.open_cycles() if settings_in(cycle.settings).generation == "4.x"]
    asked = (F.col("outcome") == "split") | F.col("rule").isin(sorted(FORGOTTEN_THOUGH_REFUSED))
    found = splits.where(F.col("cluster").isin(clusters) & asked)
    return found.select("cluster", F.col("subject").alias("bundle")).distinct()


def without_histories(previous: DataFrame, bundles: DataFrame) -> DataFrame:
    """Rows of bundle_load, those of `bundles` without averages and number of samples."""
    from pyspark.sql import functions as F

    marked = previous.join(F.broadcast(bundles.withColumn("is_forgotten", F.lit(True))), ["cluster", "bundle"], "left")
    histories = (*SAMPLES, *AVERAGES, SINCE_QUOTA)
    return marked.withColumns({name: F.expr(f"if(is_forgotten, null, {name})") for name in histories})


def observed(spark: SparkSession, lake: Lake, handover: Handover, previous: DataFrame) -> Observed:
    """What was observed of the open clusters, without the records that were set aside."""

    def checked(table: str) -> DataFrame:
        return read_checked(lake, spark, handover, table)

    def all_rows(table: str) -> DataFrame:
        return lake.read(spark, table, handover.open_writes(table))

    return Observed(
        topic_stats=checked("topic_stats"),
        namespace_bundles=checked("namespace_bundles"),
        bundle_ownership=checked("bundle_ownership"),
        broker_reports=all_rows("broker_reports"),
        previous=previous,
        rejected=all_rows("rejected") if handover.writes_of("rejected") else None,
        unsettled=_unsettled(spark, handover),
        quotas=_quotas(checked, handover),
    )


def _quotas(checked: Callable[[str], DataFrame], handover: Handover) -> DataFrame | None:
    """The resource quotas of clusters whose load manager starts bundles from them; the extensible one knows none."""
    starting = [cycle.cluster for cycle in handover.open_cycles() if cycle.manager != EXTENSIBLE]
    if not starting or not handover.writes_of("resource_quotas"):
        return None
    quotas = checked("resource_quotas")
    return quotas.where(quotas.cluster.isin(starting))


def _unsettled(spark: SparkSession, handover: Handover) -> DataFrame | None:
    """cluster, bundle: those that a command of late has upset; None if there are none."""
    rows = [
        (cycle.cluster, bundle)
        for cycle in handover.open_cycles()
        for bundle in unsettled_bundles(acts_of(cycle.acts), cycle.at, settings_in(cycle.settings))
    ]
    return spark.createDataFrame(rows, "cluster string, bundle string") if rows else None


def with_children(
    spark: SparkSession, lake: Lake, handover: Handover, seen: Observed
) -> tuple[Observed, tuple[Write, ...]]:
    """`seen` with the children of recent splits and what their topics showed before, and the writes read for that."""
    from pyspark.sql import functions as F

    concerned, rows = [], []
    for cycle in handover.open_cycles():
        made = children_of_splits(cycle)
        concerned += [cycle] if made else []
        rows += [(cycle.cluster, child, parent) for child, parent in made.items()]
    if not rows:
        return seen, ()
    topics, reads = predecessor_rows(spark, lake, handover.with_cycles(concerned), "topic_stats")
    namespaces = sorted({namespace_of(child) for _, child, _ in rows})
    children = spark.createDataFrame(rows, "cluster string, bundle string, parent string")
    return replace(seen, children=children, earlier_topics=topics.where(F.col("namespace").isin(namespaces))), reads


def weights(spark: SparkSession, handover: Handover) -> DataFrame:
    """Per open cluster the weight of each resource in force and whether the extensible manager's rules hold."""
    columns = "cluster string, is_extensible boolean, cpu_weight double, memory_weight double, "
    columns += "direct_memory_weight double, bandwidth_in_weight double, bandwidth_out_weight double"
    rows = []
    for cycle in handover.open_cycles():
        settings = settings_in(cycle.settings)
        rows.append(
            (
                cycle.cluster,
                cycle.manager == EXTENSIBLE,
                settings.loadBalancerCPUResourceWeight,
                settings.loadBalancerMemoryResourceWeight,
                settings.loadBalancerDirectMemoryResourceWeight,
                settings.bandwidth_in_weight,
                settings.bandwidth_out_weight,
            )
        )
    return spark.createDataFrame(rows, columns)
