"""The rows of `cycles`: all data needed to read, check and recompute an attempt.

An attempt with the same result as a recorded attempt of its cycle is that attempt, and not a further one, unless a
table lost rows of it. In a window a cycle also hands its state to the next. So there the recorded attempt must also
have the same inputs and code, which leave the same state, and must be one that later cycles of this kind of run may
take over from. Else the window's own is a further attempt, and the next cycle continues from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from evenkeel.cycle.frames import children_of_splits, linked
from evenkeel.handover import OPEN, ClusterCycle, CycleKey, Handover, Run, Write
from evenkeel.lake.manifest import file_rows, write_rows, writes_of
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.spark.code import code_digest, code_version

Row = Mapping[str, Any]
Plans = Mapping[CycleKey, Row]
"""The plan's own row of every cycle that has one."""

# Of the cycle before, a cycle reads the averages, whose splits end some of them, and the strategies' state.
STATE_TABLES = ("bundle_load", "split_decisions", "strategy_state")
# Inputs beside the rows of the snapshot: equal inputs leave equal state, bit for bit.
INPUTS = ("snapshot", "settings_digest", "predecessor_attempt_id", "wishes", "acts", "code_digest")
_FIGURES = ("shedder", "placement", "splits", "unloads", "placements", "refusals", "held")
# For a command that was counted on: the command itself is in `commands`.
_ACT = ("command_id", "outcome", "seen_at")
_RATIOS = ("before_max_over_mean", "after_max_over_mean", "moved_traffic_share")


class AttemptsSoFar:
    """The recorded attempts at a run's cycles; `is_there` says of a write that its table still has its commit."""

    def __init__(self, rows: Sequence[Row], is_there: Callable[[Row], bool] = lambda write: True) -> None:
        self._is_there = is_there
        self._kinds = {(row["attempt_id"], row["row_kind"]) for row in rows}
        self._planned: dict[tuple[str, datetime], list[Row]] = {}
        for row in rows:
            if row["row_kind"] == "planned":
                self._planned.setdefault((row["cluster"], row["cycle_at"]), []).append(row)

    def has(self, row: Row, row_kind: str) -> bool:
        """Return True if the attempt of this row has such a recorded row."""
        return (row["attempt_id"], row_kind) in self._kinds

    def is_lost(self, row: Row) -> bool:
        """Return True if a table has lost a commit of this attempt."""
        return not all(map(self._is_there, row["writes"] or ()))

    def attempts_at(self, row: Row) -> Sequence[Row]:
        """The `planned` rows of the same cycle, oldest first."""
        return self._planned.get((row["cluster"], row["cycle_at"]), ())


def manifest_rows(
    handover: Handover, plans: Plans, known: AttemptsSoFar, now: datetime
) -> dict[CycleKey, dict[str, Any]]:
    """Return the `planned` row of every cycle of the run, earlier ones first, each under the attempt that it is."""
    within = handover.within()
    handed_on = frozenset(within.values())
    writes = handover.writes_by_cycle()
    rows: dict[CycleKey, dict[str, Any]] = {}
    for cycle in sorted(linked(handover).cycles, key=lambda linked_cycle: linked_cycle.cycle_at):
        row = manifest_row(handover.run, cycle, writes[cycle.key], plans.get(cycle.key, {}), now)
        if cycle.key in within:
            before = rows[within[cycle.key]]
            row["predecessor_attempt_id"] = before["attempt_id"]
            cluster_writes = writes_of(cycle.cluster, before["writes"], before["files"])
            read = [write for write in cluster_writes if write.table in read_before(cycle)]
            row |= {"reads": write_rows(read), "files": file_rows([*writes[cycle.key], *read])}
        rows[cycle.key] = as_recorded(row, known, is_handed_on=cycle.key in handed_on)
    return rows


def as_recorded(row: dict[str, Any], known: AttemptsSoFar, *, is_handed_on: bool = False) -> dict[str, Any]:
    """Return the row under the recorded attempt with the same result, if any; else as a further attempt.

    `is_handed_on`: a later cycle of the same run takes over from this one.
    """
    before = known.attempts_at(row)
    same = [
        earlier
        for earlier in before
        if _outcome(earlier) == _outcome(row)
        and (not is_handed_on or _serves(earlier, row))
        and not known.is_lost(earlier)
    ]
    if same:
        listed = {"attempt_id": same[-1]["attempt_id"], "kind": same[-1]["kind"]}
        writes = writes_of(row["cluster"], same[-1]["writes"], same[-1]["files"])
        listed |= {"writes": write_rows(writes), "files": [dict(file) for file in same[-1]["files"]]}
        return {**row, **listed}
    if row["kind"] == "live" and any(earlier["kind"] != "backfill" for earlier in before):
        return {**row, "kind": "rerun", "attempt_id": attempt_id({**row, "kind": "rerun"})}
    return row


def _outcome(row: Row) -> tuple[Any, ...]:
    """Return the result of an attempt.

    The same plan in another mode is another attempt. So is one whose planner in shadow mode has other results.
    """
    if not row["plan_id"]:
        return row["status"], row["reason"]
    looks_on = any(write["table"] in PLANNER_TABLES for write in row["writes"])
    return row["plan_id"], row["mode"], _inputs(row) if looks_on else None


def _serves(recorded: Row, row: Row) -> bool:
    """Return True if the recorded attempt can replace the current one."""
    may_be_taken = row["kind"] == "backfill" or recorded["kind"] != "backfill"
    return may_be_taken and _inputs(recorded) == _inputs(row)


def _inputs(row: Row) -> tuple[Any, ...]:
    acts = tuple((act["command_id"], act["outcome"], act["seen_at"]) for act in row["acts"] or ())
    return *(row[name] for name in INPUTS if name not in ("wishes", "acts")), tuple(row["wishes"] or ()), acts


def manifest_row(run: Run, cycle: ClusterCycle, writes: Sequence[Write], plan: Row, now: datetime) -> dict[str, Any]:
    """Return the `planned` row of one cycle, as a new attempt; `plan` is empty if nothing was decided."""
    before = cycle.predecessor
    read = [write for write in before.writes if write.table in read_before(cycle)]
    row: dict[str, Any] = {
        "cluster": cycle.cluster,
        "cycle_at": cycle.at,
        "row_kind": "planned",
        "kind": run.kind,
        "status": "planned" if cycle.status == OPEN else cycle.status,
        "reason": cycle.reason,
        "mode": run.mode,
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
        "files": file_rows([*writes, *read]),
        "reads": write_rows(read),
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "code_version": code_version(),
        "code_digest": code_digest(),
        "schema_version": SCHEMA_VERSION,
        "recorded_at": now,
    }
    return {**row, "attempt_id": attempt_id(row)}


def closed_row(
    row: Row, writes: Sequence[Write], now: datetime, *, status: str = "closed", reason: str | None = None
) -> dict[str, Any]:
    """The closing row of a `planned` one; `writes` are those of the outbox that hold rows of the cycle."""
    listed = {"writes": [*row["writes"], *write_rows(writes)], "files": file_rows(writes, row["files"])}
    return {**row, "status": status, "reason": reason, **listed, "row_kind": "closed", "recorded_at": now}


def read_before(cycle: ClusterCycle) -> tuple[str, ...]:
    """Return the tables of the predecessor that the cycle reads; topics' figures only for a split's children."""
    return (*STATE_TABLES, "topic_stats") if children_of_splits(cycle) else STATE_TABLES


def attempt_id(row: Row) -> str:
    """Return the digest that names an attempt: the cycle, its result, its run, its writes."""
    parts = [row["cluster"], row["cycle_at"].isoformat(), row["kind"], row["plan_id"], row["status"], row["reason"]]
    parts += [row["run_id"], [write["write_id"] for write in row["writes"]]]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
