"""The plan, its commands, and the manifests that make all rows of the cycle visible: written last.

Reads: the decided tables, `broker_load`, `bundle_load`, and the attempts at this cycle so far. Writes: `cycles`
(`planned`, then `closed`), between them `commands` and `outcomes`. Clusters that are not open get a manifest too, with
the reason. Skips: an attempt whose plan is on record already is not listed again, only completed if a try was killed
half-way. Fails: never for what it finds in the data. Nothing is sent: this version knows the mode `dry_run` alone.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput
from evenkeel.handover import Handover, Write
from evenkeel.lake.manifest import append_manifests, write_rows, writes_of
from evenkeel.lake.store import Lake
from evenkeel.lake.tables import TABLES
from evenkeel.lake.times import is_one_of
from evenkeel.rounds import plan_round
from evenkeel.sinks.dry_run import DryRun
from evenkeel.tasks.inputs import decide_rounds, round_inputs
from evenkeel.tasks.manifests import attempt_id, manifest_row, own_writes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)
MODES = ("dry_run",)
Plans = Mapping[str, Mapping[str, Any]]


def run(spark: SparkSession, handover: Handover) -> Handover:
    """Puts every cluster's cycle on record."""
    if handover.run.mode not in MODES:
        raise BadInput(f"mode {handover.run.mode!r} is not available: this version decides and records ({MODES[0]})")
    lake = Lake(handover.lake)
    plans, commands = _plan(spark, lake, handover)
    known = _attempts_so_far(spark, lake, handover)
    rows = {c.cluster: manifest_row(handover, c, plans.get(c.cluster, {}), _now()) for c in handover.cycles}
    rows = {cluster: _as_recorded(row, known) for cluster, row in rows.items()}
    unlisted = [row for row in rows.values() if not _has(known, row, "planned")]
    unclosed = {cluster: row for cluster, row in rows.items() if row["plan_id"] and not _has(known, row, "closed")}
    # Without a command nothing happens between the two rows of an attempt: one append holds both.
    idle = [row for cluster, row in unclosed.items() if not plans[cluster]["commands"]]
    append_manifests(spark, lake, [*unlisted, *(_closed(row, ()) for row in idle)])
    acting = {cluster: row for cluster, row in unclosed.items() if plans[cluster]["commands"]}
    begun = {cluster for cluster, row in acting.items() if _has(known, row, "planned")}
    writes = _act(spark, lake, handover, commands, sorted(acting), begun) if commands is not None and acting else ()
    append_manifests(spark, lake, [_closed(row, own_writes(writes, cluster)) for cluster, row in acting.items()])
    for cluster, row in sorted(rows.items()):
        log.info("%s at %s: %s%s", cluster, row["cycle_at"].isoformat(), row["status"], _why(row))
    return handover.with_writes(writes)


def _plan(spark: SparkSession, lake: Lake, handover: Handover) -> tuple[Plans, DataFrame | None]:
    """Each open cluster's plan row, and the commands of all of them."""
    if not handover.open_cycles():
        return {}, None
    inputs = round_inputs(spark, lake, handover, *plan_round.DECIDED_TABLES, "broker_load", "bundle_load")
    types = {"plan": plan_round.plan_type(), "commands": TABLES["commands"].body_type()}
    made = decide_rounds(inputs, plan_round.decide, types)
    return {row["cluster"]: row.asDict() for row in made["plan"].collect()}, made["commands"]


def _attempts_so_far(spark: SparkSession, lake: Lake, handover: Handover) -> list[Mapping[str, Any]]:
    """Manifest rows of these very cycles, oldest first."""
    chain = spark.read.format("delta").load(lake.path("cycles"))
    chain = chain.where(is_one_of((cycle.cluster, cycle.cycle_at) for cycle in handover.cycles))
    columns = ("cluster", "sequence", "attempt_id", "row_kind", "kind", "status", "reason", "plan_id", "writes")
    rows = [row.asDict(recursive=True) for row in chain.select(*columns).collect()]
    return sorted(rows, key=lambda row: (row["cluster"], row["sequence"]))


def _as_recorded(row: dict[str, Any], known: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row under the attempt that came to the same before, if one did; else as a further attempt."""
    before = [one for one in known if one["cluster"] == row["cluster"] and one["row_kind"] == "planned"]
    same = [one for one in before if _outcome(one) == _outcome(row)]
    if same:
        log.info("%s: the same plan is on record already; no further attempt", row["cluster"])
        listed = {"attempt_id": same[-1]["attempt_id"], "kind": same[-1]["kind"]}
        return {**row, **listed, "writes": write_rows(writes_of(row["cluster"], same[-1]["writes"]))}
    if row["kind"] == "live" and any(one["kind"] != "backfill" for one in before):
        return {**row, "kind": "rerun", "attempt_id": attempt_id({**row, "kind": "rerun"})}
    return row


def _outcome(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["plan_id"],) if row["plan_id"] else (row["status"], row["reason"])


def _has(known: Sequence[Mapping[str, Any]], row: Mapping[str, Any], row_kind: str) -> bool:
    return any(one["attempt_id"] == row["attempt_id"] and one["row_kind"] == row_kind for one in known)


def _act(
    spark: SparkSession,
    lake: Lake,
    handover: Handover,
    commands: DataFrame,
    clusters: Sequence[str],
    begun: Collection[str],
) -> tuple[Write, ...]:
    """Puts the commands on record, gives them to the sink, and puts on record what was seen of them.

    What a try that was killed has put on record already is not repeated; only clusters whose attempt has `begun`, its
    plan being on record, can have any.
    """
    from pyspark.sql import functions as F

    asked = commands.where(F.col("cluster").isin(list(clusters))).orderBy("cluster", "step")
    rows = [row.asDict(recursive=True) for row in asked.collect()]
    if not rows:
        return ()
    tried = [row for row in rows if row["cluster"] in begun]
    missing = asked.where(~F.col("command_id").isin(_on_record(spark, lake, "commands", tried)))
    writes = lake.append(spark, {"commands": missing}, handover=handover, task="publish")
    told = set(_on_record(spark, lake, "outcomes", tried))
    seen = DryRun().send([row for row in rows if row["command_id"] not in told])
    of = {row["command_id"]: {"cluster": row["cluster"], "cycle_at": row["cycle_at"]} for row in rows}
    outcomes = spark.createDataFrame(
        [{**of[one.command_id], **asdict(one)} for one in seen], TABLES["outcomes"].body_type()
    )
    return writes + lake.append(spark, {"outcomes": outcomes}, handover=handover, task="publish")


def _on_record(spark: SparkSession, lake: Lake, table: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which of the commands the table knows already."""
    if not rows:
        return []
    from pyspark.sql import functions as F

    clusters, ids = sorted({row["cluster"] for row in rows}), [row["command_id"] for row in rows]
    known = spark.read.format("delta").load(lake.path(table)).where(F.col("cluster").isin(clusters))
    found = known.where(F.col("command_id").isin(ids)).select("command_id").distinct().collect()
    return sorted(row["command_id"] for row in found)


def _closed(row: dict[str, Any], writes: Sequence[Write]) -> dict[str, Any]:
    listed = [*row["writes"], *write_rows(writes)]
    return {**row, "row_kind": "closed", "status": "closed", "writes": listed, "recorded_at": _now()}


def _why(row: Mapping[str, Any]) -> str:
    if row["plan_id"]:
        counts = f"{row['splits']} splits, {row['unloads']} unloads, {row['refusals']} refused"
        return f", plan {row['plan_id'][:12]}: {counts}"
    return f": {row['reason']}"


def _now() -> datetime:
    """The publisher's clock: the only one in a cycle, and no decision rests on it."""
    return datetime.now(UTC)
