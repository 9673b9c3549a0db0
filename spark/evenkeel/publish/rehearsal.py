"""The commands of a window: recorded as in a dry run, and never sent.

They are recorded before the manifests that list them: without sending, no intent has to be known first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from evenkeel.handover import CycleKey, Handover, Write
from evenkeel.lake.outbox import recent_acts
from evenkeel.lake.store import Lake
from evenkeel.model.past_commands import HARMED
from evenkeel.publish.dispatch import OutcomeRecorder
from evenkeel.spark.sql import with_moments
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.pulsar_admin import DryRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rehearse(
    spark: SparkSession, lake: Lake, handover: Handover, commands: DataFrame | None, cycles: Collection[CycleKey]
) -> tuple[Write, ...]:
    """Record the commands of these cycles, each with the outcome `dry_run`, and return the writes.

    Commands recorded by a killed try are not repeated.
    """
    from pyspark.sql import functions as F

    if commands is None or not cycles:
        return ()
    asked = {cycle.key: cycle for cycle in handover.cycles if cycle.key in cycles}
    clusters, moments = sorted({key[0] for key in asked}), [cycle.at for cycle in asked.values()]
    wanted = {(cycle.cluster, cycle.at) for cycle in asked.values()}
    every = with_moments(commands.where(F.col("cluster").isin(clusters)), ("cycle_at", "expires_at"))
    rows = [row for row in every if (row["cluster"], row["cycle_at"]) in wanted]
    rows.sort(key=lambda row: (row["cluster"], row["cycle_at"], row["step"]))
    acts = recent_acts(spark, lake, clusters, since=min(moments), until=max(moments))
    known = {act["command_id"]: act["outcome"] for act in acts if act["outcome"] != HARMED}
    records = OutcomeRecorder(spark, lake, handover, None)
    records.know(rows)
    missing = [(row["command_id"],) for row in rows if row["command_id"] not in known]
    if missing:
        frame = commands
        if len(missing) < len(every):
            named = spark.createDataFrame(missing, "command_id string")
            frame = commands.join(F.broadcast(named), "command_id", "left_semi")
        records.own(lake.append(spark, {"commands": frame}, handover=handover, task="publish"))
    outcomes: list[Outcome] = []
    left = [row for row in rows if known.get(row["command_id"]) is None]
    DryRun().send(left, stop=lambda: None, report=outcomes.append)
    records.write(outcomes)
    return tuple(records.writes)
