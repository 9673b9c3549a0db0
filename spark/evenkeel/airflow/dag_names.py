"""Ids of our DAGs, of tasks on a plan's way to its approval, and of the runs that ask. Needs no Airflow."""

from __future__ import annotations

DECIDING_DAG, APPROVAL_DAG, HISTORY_DAG = "rebalance", "rebalance_approval", "rebalance_history"
REPLAY_DAG = REPLAYING = "replay"
"""The DAG that replays and simulates, and its one task."""
PUBLISH, WAITING, ASK, APPROVING = "publish", "waiting", "ask", "approve"
"""Ids of tasks: three of `rebalance`, and one of `rebalance_approval`."""
CONNECTION = "evenkeel_spark"
"""The connection that says where Spark is, for the tasks of all DAGs."""
_MARK = "--plan-"


def approval_run_id(run_id: str, plan_id: str) -> str:
    """The id of the run that asks about a plan: one per plan of a run, however often that is asked for."""
    return f"{run_id}{_MARK}{plan_id[:16]}"


def deciding_run_id(approval_run_id: str) -> str:
    """The id of the run that made the plan which a run of `rebalance_approval` asks about."""
    return approval_run_id.rpartition(_MARK)[0] or approval_run_id
