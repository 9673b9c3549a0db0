"""The plan, its commands, and the manifests that make all rows of the cycle visible: written last.

Reads: the decided tables, `broker_load`, `bundle_load`, `broker_reports`, the attempts at this cycle so far, and, where
commands may go out, `commands`, `outcomes`, `controls` and `approvals`. Writes: `guard_decisions`, `cycles` (`planned`,
then `closed`), between them `commands` and `outcomes`, and steps of the lease in `controls`. Clusters that are not open
get a manifest too, with the reason. Skips: an attempt whose plan is on record already is not listed again, only
completed if a try was killed half-way. A plan that waits for an operator's approval is listed and not closed; to be run
again once there is an answer. Fails: never for what it finds in the data; where sending met an error that nobody
foresaw, once all is on record.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput
from evenkeel.handover import OPEN, ClusterCycle, Handover, Write
from evenkeel.lake.manifest import append_manifests, file_rows, write_rows, writes_of
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.model.amounts import amount
from evenkeel.publish import plan as plan_round
from evenkeel.publish.dispatch import Sending
from evenkeel.publish.dispatch_sqs import announce_controls
from evenkeel.publish.gate import DRY_RUN, SendingResult, gate_facts, is_approved, longest_age, put_out, why_withheld
from evenkeel.rounds.frames import children_of_splits, decide_rounds, round_inputs
from evenkeel.spark.code import code_digest, code_version
from evenkeel.spark.sql import is_one_of
from evenkeel.steering.admin_request import ACTING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger(__name__)
MODES = (DRY_RUN, *ACTING)
Plans = Mapping[str, Mapping[str, Any]]


def run(spark: SparkSession, handover: Handover, sending: Sending | None = None) -> Handover:
    """Puts every cluster's cycle on record, and carries out what may be carried out; `sending` says how."""
    if handover.run.mode not in MODES:
        raise BadInput(f"mode {handover.run.mode!r} is not known: it is one of {', '.join(MODES)}")
    lake = Lake(handover.lake)
    if handover.run.mode != DRY_RUN and handover.run.kind != "backfill" and sending is not None:
        announce_controls(spark, lake, handover.cycles, sending.signature, _now())
    plans, commands, guarded = _plan(spark, lake, handover)
    handover = handover.with_writes(guarded)
    known = _attempts_so_far(spark, lake, handover)
    rows = {c.cluster: manifest_row(handover, c, plans.get(c.cluster, {}), _now()) for c in handover.cycles}
    rows = {cluster: _as_recorded(row, known) for cluster, row in rows.items()}
    unlisted = [row for row in rows.values() if not _has(known, row, "planned")]
    unclosed = {cluster: row for cluster, row in rows.items() if row["plan_id"] and not _has(known, row, "closed")}
    # Without a command nothing happens between the two rows of an attempt: one append holds both.
    idle = [row for cluster, row in unclosed.items() if not plans[cluster]["commands"]]
    append_manifests(spark, lake, [*unlisted, *(_closed(row, SendingResult()) for row in idle)])
    acting = {cluster: row for cluster, row in unclosed.items() if plans[cluster]["commands"]}
    begun = frozenset(cluster for cluster, row in acting.items() if _has(known, row, "planned"))
    sent, awaiting = _act(spark, lake, handover, commands, acting, begun, sending)
    closing = {cluster: row for cluster, row in acting.items() if cluster not in awaiting.keys() | sent.unfinished}
    if closing and handover.run.mode != DRY_RUN:  # sending takes long enough for a rival to have closed it
        known = _attempts_so_far(spark, lake, handover)
    closed = [_closed(row, sent) for row in closing.values() if not _has(known, row, "closed")]
    append_manifests(spark, lake, closed)
    for cluster, row in sorted(rows.items()):
        why = sent.why.get(cluster) or (" waits for approval" if cluster in awaiting else "")
        log.info("%s at %s: %s%s %s", cluster, row["cycle_at"].isoformat(), row["status"], _why(row), why)
    if sent.error is not None:
        raise sent.error
    waiting = {
        cycle.cluster: {
            "plan_id": awaiting[cycle.cluster],
            "summary": summary(plans[cycle.cluster]),
            "expires_at": (cycle.at + longest_age(cycle)).isoformat(),
        }
        for cycle in handover.open_cycles()
        if cycle.cluster in awaiting
    }
    return replace(handover.with_writes(sent.writes), awaiting=waiting)


def summary(plan: Mapping[str, Any]) -> str:
    """A plan in a sentence, for whoever is to approve it."""
    held = f", {plan['held']} held back" if plan["held"] else ""
    text = f"{plan['commands']} commands ({plan['splits']} splits, {plan['unloads']} unloads decided{held})"
    if plan["moved_traffic_share"]:
        text += f" that move {amount(plan['moved_traffic_share'], 'fraction')} of the cluster's traffic"
    before, after = plan["before_max_over_mean"], plan["after_max_over_mean"]
    if before is not None and after is not None:
        text += f"; the busiest broker goes from {before:.2f} to {after:.2f} times the mean"
    return f"{text}."


def _plan(spark: SparkSession, lake: Lake, handover: Handover) -> tuple[Plans, DataFrame | None, tuple[Write, ...]]:
    """Each open cluster's plan row, the commands of all of them, and where what guards said of them is on record.

    The manifest lists the guards' rows with all other decisions, so they are written before it; and so is harm that
    commands of the past were seen to have done.
    """
    if not handover.open_cycles():
        return {}, None, ()
    guards = plan_round.GUARD_TABLE
    inputs = round_inputs(
        spark, lake, handover, *plan_round.DECIDED_TABLES, "broker_load", "bundle_load", "broker_reports"
    )
    outcomes = plan_round.OUTCOMES
    tables = ("commands", guards, outcomes)
    types = {"plan": plan_round.plan_type(), **{name: TABLES[name].body_type() for name in tables}}
    made = decide_rounds(inputs, plan_round.decide, types)
    plans = {row["cluster"]: row.asDict() for row in made["plan"].collect()}
    objected = any(plan["guard_rows"] for plan in plans.values())
    rows = {guards: made[guards]} if objected else {}
    if any(plan["harm_rows"] for plan in plans.values()) and handover.run.kind != "backfill":
        rows[outcomes] = made[outcomes]
    return plans, made["commands"], lake.append(spark, rows, handover=handover, task="publish")


def _attempts_so_far(spark: SparkSession, lake: Lake, handover: Handover) -> list[Mapping[str, Any]]:
    """Manifest rows of these very cycles, oldest first."""
    chain = spark.read.format("delta").load(lake.path("cycles"))
    chain = chain.where(is_one_of((cycle.cluster, cycle.cycle_at) for cycle in handover.cycles))
    columns = ("cluster", "sequence", "attempt_id", "row_kind", "kind", "status", "reason", "mode", "plan_id")
    rows = [row.asDict(recursive=True) for row in chain.select(*columns, "writes", "files").collect()]
    return sorted(rows, key=lambda row: (row["cluster"], row["sequence"]))


def _as_recorded(row: dict[str, Any], known: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row under the attempt that came to the same before, if one did; else as a further attempt."""
    before = [one for one in known if one["cluster"] == row["cluster"] and one["row_kind"] == "planned"]
    same = [one for one in before if _outcome(one) == _outcome(row)]
    if same:
        log.info("%s: the same plan is on record already; no further attempt", row["cluster"])
        listed = {"attempt_id": same[-1]["attempt_id"], "kind": same[-1]["kind"]}
        writes = writes_of(row["cluster"], same[-1]["writes"], same[-1]["files"] or ())
        return {**row, **listed, "writes": write_rows(writes), "files": file_rows(writes)}
    if row["kind"] == "live" and any(one["kind"] != "backfill" for one in before):
        return {**row, "kind": "rerun", "attempt_id": attempt_id({**row, "kind": "rerun"})}
    return row


def _outcome(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What an attempt came to; the same plan to be carried out in another mode is another attempt."""
    return (row["plan_id"], row["mode"]) if row["plan_id"] else (row["status"], row["reason"])


def _has(known: Sequence[Mapping[str, Any]], row: Mapping[str, Any], row_kind: str) -> bool:
    return any(one["attempt_id"] == row["attempt_id"] and one["row_kind"] == row_kind for one in known)


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
    withheld: dict[str, str] = {}
    awaiting: dict[str, str] = {}
    if handover.run.mode != DRY_RUN:
        plans = {cluster: str(row["plan_id"]) for cluster, row in acting.items()}
        for cluster, facts in gate_facts(spark, lake, handover, plans, sending, _now()).items():
            reason = why_withheld(facts)
            if reason is not None:
                withheld[cluster] = reason
            elif not is_approved(facts):
                awaiting[cluster] = facts.plan_id
    going = sorted(acting.keys() - awaiting.keys())
    if not going:
        return SendingResult(), awaiting

    def gate(clusters: Sequence[str]) -> dict[str, str]:
        plans = {cluster: str(acting[cluster]["plan_id"]) for cluster in clusters}
        facts = gate_facts(spark, lake, handover, plans, sending, _now())
        return {cluster: reason for cluster, one in facts.items() if (reason := why_withheld(one)) is not None}

    return put_out(spark, lake, handover, commands, going, begun, withheld, sending, gate), awaiting


def _closed(row: Mapping[str, Any], sent: SendingResult) -> dict[str, Any]:
    """The closing row; a plan of which nothing was sent for a reason is `withheld`."""
    cluster = str(row["cluster"])
    own = own_writes(sent.writes, cluster)
    listed = {"writes": [*row["writes"], *write_rows(own)], "files": file_rows(own, row["files"])}
    said = {"status": "withheld" if cluster in sent.withheld else "closed", "reason": sent.why.get(cluster)}
    return {**row, **said, **listed, "row_kind": "closed", "recorded_at": _now()}


def _why(row: Mapping[str, Any]) -> str:
    if row["plan_id"]:
        counts = f"{row['splits']} splits, {row['unloads']} unloads, {row['refusals']} refused, {row['held']} held back"
        return f", plan {row['plan_id'][:12]}: {counts}"
    return f": {row['reason']}"


def _now() -> datetime:
    """The publisher's clock: the only one in a cycle, and no decision rests on it."""
    return datetime.now(UTC)


# The content of a manifest: all that has to be known of an attempt to read, question and recompute it.

# Of the cycle before, a cycle reads the averages, whose splits end some of them, and the strategies' state.
STATE_TABLES = ("bundle_load", "split_decisions", "strategy_state")
_FIGURES = ("shedder", "placement", "splits", "unloads", "placements", "refusals", "held")
# Of a command that was counted on: the command itself stands in `commands`.
_ACT = ("command_id", "outcome", "seen_at")
_RATIOS = ("before_max_over_mean", "after_max_over_mean", "moved_traffic_share")


def manifest_row(handover: Handover, cycle: ClusterCycle, plan: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The `planned` row of `cycles` for one cluster, as a new attempt; `plan` is empty where nothing was decided."""
    writes = handover.writes_for(cycle)
    before = cycle.predecessor
    row: dict[str, Any] = {
        "cluster": cycle.cluster,
        "cycle_at": cycle.at,
        "row_kind": "planned",
        "kind": handover.run.kind,
        "status": "planned" if cycle.status == OPEN else cycle.status,
        "reason": cycle.reason,
        "mode": handover.run.mode,
        "plan_id": plan.get("plan_id"),
        "settings_digest": cycle.settings_digest,
        "manager": cycle.manager,
        **{name: plan.get(name) for name in (*_FIGURES, *_RATIOS)},
        "rejected_records": sum(write.rows for write in writes if write.table == "rejected"),
        "predecessor_cycle_at": _moment(before.cycle_at),
        "predecessor_attempt_id": before.attempt_id,
        "predecessor_expected_at": _moment(before.expected_at),
        "predecessor_status": before.status,
        "source": cycle.source,
        "snapshot": cycle.snapshot.path or None,
        "snapshot_at": _moment(cycle.snapshot.cycle_at),
        "wishes": [wish["wish_id"] for wish in cycle.wishes] if cycle.status == OPEN else [],
        "acts": [{name: act[name] for name in _ACT} for act in cycle.acts],
        "pauses": [dict(pause) for pause in cycle.pauses],
        "writes": write_rows(writes),
        "files": file_rows(writes),
        "reads": write_rows([write for write in before.writes if write.table in read_before(cycle)]),
        "dag_id": handover.run.dag_id,
        "run_id": handover.run.run_id,
        "code_version": code_version(),
        "code_digest": code_digest(),
        "schema_version": SCHEMA_VERSION,
        "recorded_at": now,
    }
    return {**row, "attempt_id": attempt_id(row)}


def read_before(cycle: ClusterCycle) -> tuple[str, ...]:
    """The tables of which the cycle reads what its predecessor wrote; topics' figures only for a split's children."""
    return (*STATE_TABLES, "topic_stats") if children_of_splits(cycle) else STATE_TABLES


def attempt_id(row: Mapping[str, Any]) -> str:
    """Digest that names an attempt: the cycle, what came of it, by which run, in which writes."""
    parts = [row["cluster"], row["cycle_at"].isoformat(), row["kind"], row["plan_id"], row["status"], row["reason"]]
    parts += [row["run_id"], [write["write_id"] for write in row["writes"]]]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


def own_writes(writes: Sequence[Write], cluster: str) -> list[Write]:
    """The writes that hold rows of the cluster."""
    return [write for write in writes if write.cluster == cluster]


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
