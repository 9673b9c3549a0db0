"""The plan, its commands, and the manifests that make all rows of the cycle visible: written last.

Reads: the decided tables, `broker_load`, `bundle_load`, `broker_reports`, the attempts at this cycle so far, and, if
commands may be sent, `commands`, `outcomes`, `controls` and `approvals`. Writes: `guard_decisions`, `cycles`
(`planned`, then `closed`), between them `commands` and `outcomes`, and steps of the lease in `controls`. Cycles that
are not open get a manifest too, with the reason. Skips: an attempt whose plan is already recorded is not listed again,
only completed if a try was killed half-way. A plan that waits for an operator's approval is listed and not closed; the
task is to be run again once there is an answer. Never fails on data; if sending met an unforeseen error, it fails once
all is recorded.

With a log's key (`EVENKEEL_LOG_KEY`), the manifests are then added to the lake's transparency log; its errors stop
nothing in this task.

A window sends nothing: it records its commands as in a dry run, and then all its manifests at once. Its guards get the
harm that its cycles see, but it is not recorded: only runs of one cycle record harm.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from evenkeel.cycle.runner import RoundInputs, decide_rounds
from evenkeel.errors import BadInput
from evenkeel.handover import Commit, CycleKey, Handover, Write, commits_of
from evenkeel.lake.manifest import append_manifests
from evenkeel.lake.record import Record
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.schemas.acted import SPLIT
from evenkeel.lake.store import Lake
from evenkeel.lake.table_log import is_committed
from evenkeel.lake.task_reads import manifests_within, recent_acts
from evenkeel.model.amounts import amount
from evenkeel.model.past_commands import HARMED
from evenkeel.publish import plan as plan_round
from evenkeel.publish.dispatch import GateReasons, OutcomeRecorder, Sending, announce_controls
from evenkeel.publish.gate import DRY_RUN, SendingResult, gate_facts, gate_reasons, is_approved, longest_age, put_out
from evenkeel.publish.manifests import INPUTS, AttemptsSoFar, Plans, closed_row, manifest_rows
from evenkeel.spark.sql import with_moments
from evenkeel.steering.admin_request import ACTING
from evenkeel.steering.outcome import rehearsed
from evenkeel.transparency.publishing import log_commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger(__name__)
MODES = (DRY_RUN, *ACTING)


def run(spark: SparkSession, handover: Handover, sending: Sending | None = None) -> Handover:
    """Record every cycle, and execute the commands that may be sent, as `sending` describes."""
    if handover.run.mode not in MODES:
        raise BadInput(f"mode {handover.run.mode!r} is not known: it is one of {', '.join(MODES)}")
    if handover.is_window() and handover.run.mode != DRY_RUN:
        raise BadInput(
            f"a run of several cycles of a cluster decides on what was, and sends nothing: its mode is {DRY_RUN}, not "
            f"{handover.run.mode}. Run the newest cycle alone to have it carried out"
        )
    lake = Lake(handover.lake)
    if handover.run.mode != DRY_RUN and handover.run.kind != "backfill" and sending is not None:
        announce_controls(lake, handover.cycles, sending.signature, _now())
    plans, commands, handover = _plan(spark, lake, handover)
    known = _attempts_so_far(lake, handover)
    rows = manifest_rows(handover, plans, known, _now())
    handover = handover.with_cycles(
        replace(cycle, attempt_id=rows[cycle.key]["attempt_id"]) for cycle in handover.cycles
    )
    try:
        if handover.is_window():
            return _publish_window(spark, lake, handover, plans, commands, known, rows)
        return _publish_one_each(spark, lake, handover, plans, commands, known, rows, sending)
    finally:
        log_commits(lake.root, _made(handover, lake))


def _publish_window(
    spark: SparkSession,
    lake: Lake,
    handover: Handover,
    plans: Plans,
    commands: DataFrame | None,
    known: AttemptsSoFar,
    rows: Mapping[CycleKey, dict[str, Any]],
) -> Handover:
    unclosed = {key for key, row in rows.items() if row["plan_id"] and not known.has(row, "closed")}
    outbox = rehearse(spark, lake, handover, commands, {key for key in unclosed if plans[key]["commands"]})
    written: dict[CycleKey, list[Write]] = {}
    for write in (outbox_write for outbox_write in outbox if outbox_write.rows):
        written.setdefault((write.cluster, write.cycle_at), []).append(write)
    manifests = []
    for key, row in rows.items():
        manifests += [] if known.has(row, "planned") else [row]
        manifests += [closed_row(row, written.get(key, ()), _now())] if key in unclosed else []
    append_manifests(spark, lake, manifests)
    for cluster in sorted({key[0] for key in rows}):
        cluster_rows = [row for key, row in rows.items() if key[0] == cluster]
        counts = ", ".join(
            f"{count} {status}" for status, count in sorted(Counter(r["status"] for r in cluster_rows).items())
        )
        before = sum(known.has(row, "planned") for row in cluster_rows)
        log.info("%s: %d cycles, %s; %d were on record already", cluster, len(cluster_rows), counts, before)
    return handover.with_writes(outbox)


def _publish_one_each(
    spark: SparkSession,
    lake: Lake,
    handover: Handover,
    by_cycle: Plans,
    commands: DataFrame | None,
    known: AttemptsSoFar,
    by_key: Mapping[CycleKey, dict[str, Any]],
    sending: Sending | None,
) -> Handover:
    rows = {cluster: row for (cluster, _), row in by_key.items()}
    plans = {cluster: plan for (cluster, _), plan in by_cycle.items()}
    listed = {cluster for cluster, row in rows.items() if known.has(row, "planned")}
    unlisted = [row for cluster, row in rows.items() if cluster not in listed]
    unclosed = {cluster: row for cluster, row in rows.items() if row["plan_id"] and not known.has(row, "closed")}
    # Without a command nothing happens between the two rows of an attempt: one append holds both.
    idle = [row for cluster, row in unclosed.items() if not plans[cluster]["commands"]]
    append_manifests(spark, lake, [*unlisted, *(_closed(row, SendingResult()) for row in idle)])
    acting = {cluster: row for cluster, row in unclosed.items() if plans[cluster]["commands"]}
    if acting:  # a cluster's commands are in the log before they are sent; witnesses, which may be slow, come later
        log_commits(lake.root, _made(handover, lake), to_witnesses=False)
    begun = frozenset(cluster for cluster, row in acting.items() if known.has(row, "planned"))
    sent, awaiting = _act(spark, lake, handover, commands, acting, begun, sending)
    closing = {cluster: row for cluster, row in acting.items() if cluster not in awaiting.keys() | sent.unfinished}
    if closing and handover.run.mode != DRY_RUN:  # sending takes long enough for a rival to have closed it
        known = _attempts_so_far(lake, handover)
    closed = [_closed(row, sent) for row in closing.values() if not known.has(row, "closed")]
    append_manifests(spark, lake, closed)
    for cluster, row in sorted(rows.items()):
        if cluster in listed:
            log.info("%s: the same plan is on record already; no further attempt", cluster)
        why = sent.why.get(cluster) or (" waits for approval" if cluster in awaiting else "")
        log.info("%s at %s: %s%s %s", cluster, row["cycle_at"].isoformat(), row["status"], _why(row), why)
    if sent.error is not None:
        raise sent.error
    splits = _splits_asked(commands, awaiting)
    waiting = {
        cycle.cluster: {
            "plan_id": awaiting[cycle.cluster],
            "summary": summary(plans[cycle.cluster]),
            "splits": str(splits[cycle.cluster]),
            "expires_at": (cycle.at + longest_age(cycle)).isoformat(),
        }
        for cycle in handover.open_cycles()
        if cycle.cluster in awaiting
    }
    return replace(handover.with_writes(sent.writes), awaiting=waiting)


def _splits_asked(commands: DataFrame | None, clusters: Collection[str]) -> Counter[str]:
    """Return how many splits the plans of these clusters request, without those that guards hold back."""
    if commands is None or not clusters:
        return Counter()
    from pyspark.sql import functions as F

    splits = commands.where(F.col("cluster").isin(sorted(clusters)) & (F.col("kind") == SPLIT))
    return Counter(row["cluster"] for row in splits.select("cluster").collect())


def summary(plan: Mapping[str, Any]) -> str:
    """Return a plan in a sentence, for its approver."""
    held = f", {plan['held']} held back" if plan["held"] else ""
    text = f"{plan['commands']} commands ({plan['splits']} splits, {plan['unloads']} unloads decided{held})"
    if plan["moved_traffic_share"]:
        text += f" that move {amount(plan['moved_traffic_share'], 'fraction')} of the cluster's traffic"
    before, after = plan["before_max_over_mean"], plan["after_max_over_mean"]
    if before is not None and after is not None:
        text += f"; the busiest broker goes from {before:.2f} to {after:.2f} times the mean"
    return f"{text}."


def _plan(spark: SparkSession, lake: Lake, handover: Handover) -> tuple[Plans, DataFrame | None, Handover]:
    """Return each open cycle's plan row, all commands, and the hand-over with the guards' verdicts recorded.

    The manifest lists the guards' rows with all other decisions, so they are written before it; so is observed harm of
    past commands.
    """
    if not handover.open_cycles():
        return {}, None, handover
    guards = plan_round.GUARD_TABLE
    inputs = RoundInputs(
        spark, lake, handover, *plan_round.DECIDED_TABLES, "broker_load", "bundle_load", "broker_reports"
    )
    outcomes = plan_round.OUTCOMES
    tables = ("commands", guards, outcomes)
    types = {"plan": plan_round.plan_type(), **{name: TABLES[name].body_type() for name in tables}}
    published, handover = decide_rounds(handover, inputs, plan_round.decide_cycles, types, "publish")
    key_of = {(cycle.cluster, cycle.at): cycle.key for cycle in handover.cycles}
    plans = {key_of[row["cluster"], datetime.fromisoformat(row["cycle_at"])]: row for row in published.rows("plan")}
    objected = any(plan["guard_rows"] for plan in plans.values())
    rows = published.frames([guards]) if objected else {}
    harmed = any(plan["harm_rows"] for plan in plans.values())
    if harmed and handover.run.kind != "backfill" and not handover.is_window():
        rows[outcomes] = published.frame(outcomes)
    return (
        plans,
        published.frame("commands"),
        handover.with_writes(lake.append(spark, rows, handover=handover, task="publish")),
    )


def _made(handover: Handover, lake: Lake) -> list[Commit]:
    """Return the commits that the run has made so far."""
    return [*handover.commits, *commits_of(handover.writes), *lake.committed]


def _attempts_so_far(lake: Lake, handover: Handover) -> AttemptsSoFar:
    """Return the recorded attempts at these same cycles."""
    moments: dict[str, list[datetime]] = {}
    for cycle in handover.cycles:
        moments.setdefault(cycle.cluster, []).append(cycle.at)
    columns = (
        *("cluster", "cycle_at", "sequence", "attempt_id", "row_kind", "kind", "status", "reason", "mode"),
        *("plan_id", "writes", "files", *INPUTS),
    )
    record = Record(lake.root)
    rows = [
        row
        for cluster, times in moments.items()
        for row in manifests_within(record, cluster, min(times), max(times), columns)
    ]
    is_there = cache(lambda table, version, commit: is_committed(lake.path(table), version, commit))
    return AttemptsSoFar(
        sorted(rows, key=lambda row: (row["cluster"], row["sequence"])),
        # A cycle that may have been sent is not decided again: its commands may be among the rows that are lost.
        lambda write: handover.run.mode != DRY_RUN or is_there(write["table"], write["version"], write["commit"]),
    )


def _act(
    spark: SparkSession,
    lake: Lake,
    handover: Handover,
    commands: DataFrame | None,
    acting: Mapping[str, Mapping[str, Any]],
    begun: frozenset[str],
    sending: Sending | None,
) -> tuple[SendingResult, dict[str, str]]:
    """Results of the clusters' commands, and the plans that wait for an operator's approval: cluster -> plan."""
    if commands is None or not acting:
        return SendingResult(), {}
    reasons, awaiting = GateReasons(), {}
    if handover.run.mode != DRY_RUN:
        plans = {cluster: str(row["plan_id"]) for cluster, row in acting.items()}
        facts = gate_facts(spark, lake, handover, plans, sending, _now())
        reasons = gate_reasons(facts)
        awaiting = {
            cluster: plans[cluster]
            for cluster, known in facts.items()
            if cluster not in reasons.withheld and not is_approved(known)
        }
    going = sorted(acting.keys() - awaiting.keys())
    if not going:
        return SendingResult(), awaiting

    def gate(clusters: Sequence[str]) -> GateReasons:
        plans = {cluster: str(acting[cluster]["plan_id"]) for cluster in clusters}
        return gate_reasons(gate_facts(spark, lake, handover, plans, sending, _now()))

    return put_out(spark, lake, handover, commands, going, begun, reasons, sending, gate), awaiting


def _closed(row: Mapping[str, Any], sent: SendingResult) -> dict[str, Any]:
    """Return the closing row; a plan of which nothing was sent for a reason is `withheld`."""
    cluster = str(row["cluster"])
    cluster_writes = [write for write in sent.writes if write.cluster == cluster]
    status = "withheld" if cluster in sent.withheld else "closed"
    return closed_row(row, cluster_writes, _now(), status=status, reason=sent.why.get(cluster))


def _why(row: Mapping[str, Any]) -> str:
    if row["plan_id"]:
        counts = f"{row['splits']} splits, {row['unloads']} unloads, {row['refusals']} refused, {row['held']} held back"
        return f", plan {row['plan_id'][:12]}: {counts}"
    return f": {row['reason']}"


def _now() -> datetime:
    """Return the publisher's time: the only clock in a cycle, and no decision uses it."""
    return datetime.now(UTC)


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
    acts = recent_acts(lake, clusters, since=min(moments), until=max(moments))
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
    records.write(rehearsed(row for row in rows if known.get(row["command_id"]) is None))
    return tuple(records.writes)
