"""Which bundles leave their broker.

Reads: `bundle_load`, `broker_load` (aggregate), `split_decisions` (plan_splits), `broker_reports`, `cluster_policies`,
and the predecessor's `strategy_state`. Writes: `unload_decisions`, a row per broker and bundle considered, and
`strategy_state`. Skips: clusters that are not open. Fails: never for what it finds in the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.handover import Handover
from evenkeel.lake.store import Lake
from evenkeel.lake.tables import TABLES
from evenkeel.rounds import by_manager
from evenkeel.tasks.inputs import decide_rounds, predecessor_rows, round_inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUTS = ("bundle_load", "broker_load", "split_decisions", "broker_reports", "cluster_policies")
OUTPUTS = ("unload_decisions", "strategy_state")


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Sheds in every open cluster."""
    lake = Lake(handover.lake)
    inputs = round_inputs(spark, lake, handover, *INPUTS)
    inputs["state"], reads = predecessor_rows(spark, lake, handover, "strategy_state")
    decided = decide_rounds(inputs, by_manager.shed, [TABLES[name] for name in OUTPUTS])
    return handover.with_writes(lake.append(spark, decided, handover=handover, task="shed", reads=reads))
