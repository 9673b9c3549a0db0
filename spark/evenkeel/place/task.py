"""Destinations of shed bundles, of bundles of drained brokers, and of bundles without owner.

Reads: `unload_decisions` (shed), `split_decisions` (plan_splits), `bundle_load`, `broker_load` (aggregate),
`broker_reports`, `cluster_policies`, the predecessor's `strategy_state`, and with evenkeelPlanner on `planner_targets`
(plan_splits). Writes: `placement_decisions`, a row per bundle that needs a broker, with every candidate and the filter
that removed it; `strategy_state` if a placement strategy keeps state, and with evenkeelAssumeUnloadsSucceed. Skips:
cycles that are not open. Never fails on data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.cycle.frames import planned_inputs
from evenkeel.cycle.reading import EXTENSIBLE
from evenkeel.cycle.runner import RoundInputs, decide_rounds
from evenkeel.handover import Handover
from evenkeel.lake.store import Lake
from evenkeel.place.round import decide_cycles, keeps_state
from evenkeel.settings import settings_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUTS = ("unload_decisions", "split_decisions", "bundle_load", "broker_load", "broker_reports", "cluster_policies")
OUTPUTS = ("placement_decisions", "strategy_state")


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Place the bundles of every open cycle."""
    lake = Lake(handover.lake)
    inputs = RoundInputs(spark, lake, handover, *INPUTS, *planned_inputs(handover), is_whole=False)
    keeps = any(keeps_state(settings_in(cycle.settings)) for cycle in handover.open_cycles())
    averages = any(cycle.manager == EXTENSIBLE for cycle in handover.open_cycles())
    reads = inputs.add_state(handover, needed=keeps or averages)
    rows, handover = decide_rounds(handover, inputs, decide_cycles, OUTPUTS, "place")
    # Without state there is no empty commit.
    frames = rows.frames(OUTPUTS if keeps else OUTPUTS[:1])
    return handover.with_writes(lake.append(spark, frames, handover=handover, task="place", reads=reads))
