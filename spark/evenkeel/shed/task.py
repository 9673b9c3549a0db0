"""Which bundles leave their broker, by the strategy in force, a drain or an operator's wish.

Reads: `bundle_load`, `broker_load` (aggregate), `split_decisions` (plan_splits), `broker_reports`, `cluster_policies`,
the predecessor's `strategy_state`, `namespace_bundles` where an unload is wished for, and with evenkeelPlanner on
`planner_targets` (plan_splits). Writes: `unload_decisions`, a row per broker and bundle considered and per wish, and
`strategy_state`. Skips: cycles that are not open. Fails: never for what it finds in the data.

With evenkeelAssumeUnloadsSucceed shedding also reads what placement assumed in the cycle before. In a window that is
not written yet: there `place.round.shed_window` finds it, which places on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.handover import Handover
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.acted import UNLOAD, UNLOAD_TOPIC
from evenkeel.lake.store import Lake
from evenkeel.rounds.frames import RoundInputs, WindowRound, decide_rounds, planned_inputs
from evenkeel.settings import settings_in
from evenkeel.shed.round import decide_window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUTS = ("bundle_load", "broker_load", "split_decisions", "broker_reports", "cluster_policies")
WISH_INPUTS = ("namespace_bundles",)
OUTPUTS = ("unload_decisions", "strategy_state")


def run(spark: SparkSession, handover: Handover, assuming: WindowRound = decide_window) -> Handover:
    """Sheds in every open cycle. `assuming`: the rounds of a window in which unloads are assumed to succeed."""
    lake = Lake(handover.lake)
    wished = any(wish["kind"] in (UNLOAD, UNLOAD_TOPIC) for cycle in handover.open_cycles() for wish in cycle.wishes)
    more = (*(WISH_INPUTS if wished else ()), *planned_inputs(handover))
    inputs = RoundInputs(spark, lake, handover, *INPUTS, *more, is_whole=False)
    reads = inputs.with_state(handover)
    decide = assuming if handover.is_window() and _assumes(handover) else decide_window
    made, handover = decide_rounds(handover, inputs, decide, [TABLES[name] for name in OUTPUTS], "shed")
    frames = made.frames(OUTPUTS)
    return handover.with_writes(lake.append(spark, frames, handover=handover, task="shed", reads=reads))


def _assumes(handover: Handover) -> bool:
    return any(settings_in(cycle.settings).evenkeelAssumeUnloadsSucceed for cycle in handover.open_cycles())
