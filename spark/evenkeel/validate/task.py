"""Whether what was observed can be trusted.

Reads: the observed tables. Writes: `validation_results`, a row per rule, table and cluster, passed or failed, and
`rejected`, a row per record set aside.
Skips: clusters that are not open. Leaves out clusters that break a rule of severity quarantine, with the reason.
Fails when: a suite in `expectations/` cannot be read or run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.handover import Handover
from evenkeel.lake.store import Lake
from evenkeel.settings import Settings, settings_in
from evenkeel.validate.facts import fetch
from evenkeel.validate.judging import judge
from evenkeel.validate.outcome import rejected_frame, result_frame
from evenkeel.validate.suites import SUITES, read_suites

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Checks the snapshots of all open clusters."""
    if not handover.open_cycles():
        return handover
    lake, suites = Lake(handover.lake), read_suites()
    tables = observed(spark, lake, handover)
    facts = fetch(tables, suites, sum(write.rows for write in handover.writes_of("topic_stats")))
    judgement = judge(facts, suites, settings_of(handover), tables["topic_stats"])
    frames = {"validation_results": result_frame(spark, handover, judgement)}
    rejected = rejected_frame(spark, handover, judgement, tables["topic_stats"])
    if rejected is not None:
        frames["rejected"] = rejected
    writes = lake.append(spark, frames, handover=handover, task="validate")
    return handover.with_writes(writes).leave_out(dict(judgement.quarantined))


def observed(spark: SparkSession, lake: Lake, handover: Handover) -> dict[str, DataFrame]:
    """The observed tables of this run's open clusters, as ingest wrote them."""
    from pyspark.sql import functions as F

    is_open = F.col("cluster").isin(handover.open_clusters())
    return {table: lake.read(spark, table, handover.writes_of(table)).where(is_open) for table in SUITES}


def settings_of(handover: Handover) -> dict[str, Settings]:
    """The settings in force, by open cluster."""
    return {cycle.cluster: settings_in(cycle.settings) for cycle in handover.open_cycles()}
