"""Bundles that leave their broker, by the strategy in force, a drain or a manual request.

Reads: `bundle_load`, `broker_load` (aggregate), `split_decisions` (plan_splits), `broker_reports`, `cluster_policies`,
the predecessor's `strategy_state`, `namespace_bundles` for a manual unload, and with evenkeelPlanner on
`planner_targets` (plan_splits). Writes: `unload_decisions`, a row per broker and bundle considered and per manual
request, and `strategy_state`. Skips: cycles that are not open. Never fails on data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.cycle.frames import planned_inputs
from evenkeel.cycle.runner import RoundInputs, decide_rounds
from evenkeel.handover import Handover
from evenkeel.lake.schemas.acted import UNLOAD, UNLOAD_TOPIC
from evenkeel.lake.store import Lake
from evenkeel.shed.round import decide_cycles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUTS = ("bundle_load", "broker_load", "split_decisions", "broker_reports", "cluster_policies")
WISH_INPUTS = ("namespace_bundles",)
OUTPUTS = ("unload_decisions", "strategy_state")


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Shed in every open cycle."""
    lake = Lake(handover.lake)
    wished = any(wish["kind"] in (UNLOAD, UNLOAD_TOPIC) for cycle in handover.open_cycles() for wish in cycle.wishes)
    more = (*(WISH_INPUTS if wished else ()), *planned_inputs(handover))
    inputs = RoundInputs(spark, lake, handover, *INPUTS, *more, is_whole=False)
    reads = inputs.add_state(handover)
    rows, handover = decide_rounds(handover, inputs, decide_cycles, OUTPUTS, "shed")
    frames = rows.frames(OUTPUTS)
    return handover.with_writes(lake.append(spark, frames, handover=handover, task="shed", reads=reads))
