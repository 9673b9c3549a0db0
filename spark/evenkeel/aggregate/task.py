"""The load of bundles and brokers from topic figures.

Reads: the observed tables without rejected records, `rejected`, and the predecessor's `bundle_load` and
`split_decisions`; after a recent split, the predecessor's `topic_stats` too. Of a window, also the inputs of the split
rule. Writes: `bundle_load`, a row per bundle of the boundaries in force, and `broker_load`, a row per broker. Skips:
clusters that are not open. Never fails on data: unknown values stay NULL.

Spark sums up the topics, in whole thousandths; the rest is one round per cluster (`round.decide_cycles`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.aggregate import inputs
from evenkeel.aggregate.round import OUTPUTS, decide_cycles
from evenkeel.cycle.runner import Made, decide_rounds
from evenkeel.handover import Handover, Write
from evenkeel.lake.store import Lake
from evenkeel.plan_splits.task import inputs_of_rule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Sum up every open cycle."""
    if not handover.open_cycles():
        return handover
    lake = Lake(handover.lake)
    rows, handover, reads = _loads(spark, lake, handover)
    frames = rows.frames(OUTPUTS)
    return handover.with_writes(lake.append(spark, frames, handover=handover, task="aggregate", reads=reads))


def aggregated(spark: SparkSession, lake: Lake, handover: Handover) -> tuple[dict[str, DataFrame], tuple[Write, ...]]:
    """Return the rows of every open cluster, per table, and the earlier writes that they come from."""
    rows, _, reads = _loads(spark, lake, handover)
    return rows.frames(OUTPUTS), reads


def _loads(spark: SparkSession, lake: Lake, handover: Handover) -> tuple[Made, Handover, tuple[Write, ...]]:
    loads = inputs.read(spark, lake, handover)
    namespaces = inputs.add_sums(spark, loads)
    if handover.is_window():  # they depend on the splits of the previous cycle, not decided yet
        in_force = inputs.ranges_in_force(spark, loads, namespaces)
        inputs_of_rule(loads.rounds, handover, in_force)
    rows, handover = decide_rounds(handover, loads.rounds, decide_cycles, OUTPUTS, "aggregate")
    return rows, handover, loads.reads
