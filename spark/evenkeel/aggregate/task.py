"""Topic figures become the load of bundles and brokers.

Reads: the observed tables without rejected records, `rejected`, and the predecessor's `bundle_load` and
`split_decisions`; after a recent split, the predecessor's `topic_stats` too. Of a window, what the split rule reads.
Writes: `bundle_load`, a row per bundle of the boundaries in force, and `broker_load`, a row per broker.
Skips: clusters that are not open. Never fails on data: what is not known stays NULL.

Spark sums up the topics, in whole thousandths; the rest is one round per cluster (`round.decide_cycles`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.aggregate import inputs
from evenkeel.aggregate.round import OUTPUTS, decide_cycles
from evenkeel.cycle.runner import decide_rounds
from evenkeel.handover import Handover
from evenkeel.lake.store import Lake
from evenkeel.plan_splits.task import inputs_of_rule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Sum up every open cycle."""
    if not handover.open_cycles():
        return handover
    lake = Lake(handover.lake)
    found = inputs.read(spark, lake, handover)
    namespaces = inputs.add_sums(spark, found)
    if handover.is_window():  # the averages of a cycle rest on the splits of the one before, which are not decided yet
        in_force = inputs.ranges_in_force(spark, found, namespaces)
        inputs_of_rule(found.rounds, handover, in_force)
    made, handover = decide_rounds(handover, found.rounds, decide_cycles, OUTPUTS, "aggregate")
    frames = made.frames(OUTPUTS)
    return handover.with_writes(lake.append(spark, frames, handover=handover, task="aggregate", reads=found.reads))
