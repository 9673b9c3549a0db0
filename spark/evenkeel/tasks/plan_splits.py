"""Which bundles to split, and where to cut them.

Reads: `bundle_load`, `broker_load` (aggregate), `broker_reports`, `namespace_bundles`, `cluster_policies`, and of
`topic_stats` the hashes of the chosen bundles where the algorithm asks for them. Writes: `split_decisions`, a row per
bundle considered. Skips: clusters that are not open, and those whose
strategies are not available. Fails: never for what it finds in the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.handover import Handover
from evenkeel.lake.store import Lake
from evenkeel.lake.tables import TABLES
from evenkeel.rounds import split_round
from evenkeel.rounds.supported import why_undecidable
from evenkeel.settings import EffectiveSettings
from evenkeel.tasks.checked import read_checked
from evenkeel.tasks.inputs import decide_rounds, round_inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_DECISIONS = TABLES["split_decisions"]


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Decides on splits for every open cluster."""
    handover = handover.leave_out(undecidable(handover))
    lake = Lake(handover.lake)
    inputs = round_inputs(spark, lake, handover, "bundle_load", "broker_load", "broker_reports")
    inputs |= round_inputs(spark, lake, handover, "namespace_bundles", "cluster_policies")
    inputs["topic_hashes"] = topic_hashes(spark, lake, handover, inputs)
    decided = decide_rounds(inputs, split_round.decide, [SPLIT_DECISIONS])
    return handover.with_writes(lake.append(spark, decided, handover=handover, task="plan_splits"))


def undecidable(handover: Handover) -> dict[str, str]:
    """Clusters whose settings name a strategy that is not at hand, with what to do about it."""
    found = {
        cycle.cluster: why_undecidable(EffectiveSettings.from_json(cycle.settings or "").settings, cycle.manager)
        for cycle in handover.open_cycles()
    }
    return {cluster: reason for cluster, reason in found.items() if reason}


def topic_hashes(spark: SparkSession, lake: Lake, handover: Handover, inputs: dict[str, DataFrame]) -> DataFrame:
    """cluster, bundle, ascending hashes of all its topics: only for bundles chosen, and only where they are needed."""
    from pyspark.sql import functions as F

    empty = spark.createDataFrame([], "cluster string, bundle string, hashes array<bigint>")
    if not any(split_round.cuts_by_topics(cycle) for cycle in handover.open_cycles()):
        return empty
    rounds = {**inputs, "topic_hashes": empty}
    chosen = decide_rounds(rounds, split_round.choose, {"chosen": split_round.chosen_type()})["chosen"]
    if chosen.isEmpty():
        return empty
    topics = read_checked(lake, spark, handover, "topic_stats").select("cluster", "namespace", "topic", "hash")
    inside = (F.col("hash") >= F.col("lower")) & ((F.col("hash") < F.col("upper")) | F.col("is_last"))
    return (
        topics.distinct()
        .join(F.broadcast(chosen), on=["cluster", "namespace"], how="inner")
        .where(inside)
        .groupBy("cluster", "bundle")
        .agg(F.sort_array(F.collect_list("hash")).alias("hashes"))
    )
