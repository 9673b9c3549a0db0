"""The content of a manifest: all that has to be known of an attempt to read, question and recompute it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from evenkeel.handover import OPEN, ClusterCycle, Handover, Write
from evenkeel.lake.manifest import file_rows, write_rows
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.rounds.frames import children_of_splits
from evenkeel.spark.code import code_digest, code_version

# Of the cycle before, a cycle reads the averages, whose splits end some of them, and the strategies' state.
STATE_TABLES = ("bundle_load", "split_decisions", "strategy_state")
_FIGURES = ("shedder", "placement", "splits", "unloads", "placements", "refusals", "held")
# Of a command that was counted on: the command itself stands in `commands`.
_ACT = ("command_id", "outcome", "seen_at")
_RATIOS = ("before_max_over_mean", "after_max_over_mean", "moved_traffic_share")


def manifest_row(handover: Handover, cycle: ClusterCycle, plan: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The `planned` row of `cycles` for one cluster, as a new attempt; `plan` is empty where nothing was decided."""
    writes = handover.writes_for(cycle.cluster)
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
