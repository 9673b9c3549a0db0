"""The plan, its commands, and the manifests that make all rows of the cycle visible: written last.

Reads: the decided tables, `broker_load`, `bundle_load`, and the attempts at this cycle so far. Writes: `cycles`
(`planned`, then `closed`), between them `commands` and `outcomes`. Clusters that are not open get a manifest too, with
the reason. Skips: an attempt whose plan is on record already is not listed again, only completed if a try was killed
half-way. Fails: never for what it finds in the data. Nothing is sent: this version knows the mode `dry_run` alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput
from evenkeel.handover import Handover, Write
from evenkeel.lake.manifest import append_manifests, write_rows, writes_of
from evenkeel.lake.store import Lake
from evenkeel.lake.tables import TABLES
from evenkeel.rounds import plan_round
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
    plans, acted = _plan(spark, lake, handover)
    known = _attempts_so_far(spark, lake, handover)
    rows = {c.cluster: manifest_row(handover, c, plans.get(c.cluster, {}), _now()) for c in handover.cycles}
    rows = {cluster: _as_recorded(row, known) for cluster, row in rows.items()}
    append_manifests(spark, lake, [row for row in rows.values() if not _has(known, row, "planned")])
    unclosed = {cluster: row for cluster, row in rows.items() if row["plan_id"] and not _has(known, row, "closed")}
    writes = _act(spark, lake, handover, acted, sorted(unclosed)) if unclosed else ()
    append_manifests(spark, lake, [_closed(row, own_writes(writes, cluster)) for cluster, row in unclosed.items()])
    for cluster, row in sorted(rows.items()):
        log.info("%s at %s: %s%s", cluster, row["cycle_at"].isoformat(), row["status"], _why(row))
    return handover.with_writes(writes)


def _plan(spark: SparkSession, lake: Lake, handover: Handover) -> tuple[Plans, dict[str, DataFrame]]:
    """Each open cluster's plan row, and the frames of commands and outcomes."""
    if not handover.open_cycles():
        return {}, {}
    inputs = round_inputs(spark, lake, handover, *plan_round.DECIDED_TABLES, "broker_load", "bundle_load")
    types = {name: TABLES[name].body_type() for name in ("commands", "outcomes")}
    made = decide_rounds(inputs, plan_round.decide, {"plan": plan_round.plan_type(), **types})
    plans = {row["cluster"]: row.asDict() for row in made["plan"].collect()}
    return plans, {name: made[name] for name in types}


def _attempts_so_far(spark: SparkSession, lake: Lake, handover: Handover) -> list[Mapping[str, Any]]:
    """Manifest rows of these very cycles, oldest first."""
    from pyspark.sql import functions as F

    wanted = spark.createDataFrame([(c.cluster, c.cycle_at) for c in handover.cycles], "cluster string, at string")
    chain = spark.read.format("delta").load(lake.path("cycles"))
    chain = chain.join(F.broadcast(wanted.withColumn("cycle_at", F.to_timestamp("at"))), on=["cluster", "cycle_at"])
    columns = ("cluster", "sequence", "attempt_id", "row_kind", "kind", "status", "reason", "plan_id", "writes")
    return [row.asDict(recursive=True) for row in chain.select(*columns).orderBy("cluster", "sequence").collect()]


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
    spark: SparkSession, lake: Lake, handover: Handover, acted: Mapping[str, DataFrame], clusters: Sequence[str]
) -> tuple[Write, ...]:
    """Appends the commands, and what is known of them, that are not in the outbox yet.

    Commands come first: an outcome must never be on record without its command.
    """
    from pyspark.sql import functions as F

    writes: tuple[Write, ...] = ()
    for table in ("commands", "outcomes"):
        frame = acted[table].where(F.col("cluster").isin(list(clusters)))
        if frame.isEmpty():
            return writes
        key = list(TABLES[table].key)
        there = spark.read.format("delta").load(lake.path(table)).where(F.col("cluster").isin(list(clusters)))
        missing = frame.join(there.select(*key).distinct(), on=key, how="left_anti")
        writes += lake.append(spark, {table: missing}, handover=handover, task="publish")
    return writes


def _closed(row: dict[str, Any], writes: Sequence[Write]) -> dict[str, Any]:
    listed = [*row["writes"], *write_rows(writes)]
    return {**row, "row_kind": "closed", "status": "closed", "writes": listed, "recorded_at": _now()}


def _why(row: Mapping[str, Any]) -> str:
    if row["plan_id"]:
        return f", plan {row['plan_id'][:12]}: {row['splits']} splits, {row['unloads']} unloads, {row['refusals']} refused"
    return f": {row['reason']}"


def _now() -> datetime:
    """The publisher's clock: the only one in a cycle, and no decision rests on it."""
    return datetime.now(UTC)


