"""Which bundles leave their broker, by the strategy in force, a drain or an operator's wish.

Reads: `bundle_load`, `broker_load` (aggregate), `split_decisions` (plan_splits), `broker_reports`, `cluster_policies`,
the predecessor's `strategy_state`, and `namespace_bundles` where an unload is wished for. Writes: `unload_decisions`, a
row per broker and bundle considered and per wish, and `strategy_state`. Skips: clusters that are not open. Fails: never
for what it finds in the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.handover import Handover
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.acted import UNLOAD, UNLOAD_TOPIC
from evenkeel.lake.store import Lake
from evenkeel.rounds.frames import decide_rounds, predecessor_rows, round_inputs
from evenkeel.shed.round import decide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUTS = ("bundle_load", "broker_load", "split_decisions", "broker_reports", "cluster_policies")
WISH_INPUTS = ("namespace_bundles",)
OUTPUTS = ("unload_decisions", "strategy_state")


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Sheds in every open cluster."""
    lake = Lake(handover.lake)
    wished = any(wish["kind"] in (UNLOAD, UNLOAD_TOPIC) for cycle in handover.open_cycles() for wish in cycle.wishes)
    inputs = round_inputs(spark, lake, handover, *INPUTS, *(WISH_INPUTS if wished else ()))
    inputs["state"], reads = predecessor_rows(spark, lake, handover, "strategy_state")
    decided = decide_rounds(inputs, decide, [TABLES[name] for name in OUTPUTS])
    return handover.with_writes(lake.append(spark, decided, handover=handover, task="shed", reads=reads))
