"""Ids of our DAGs, of tasks on a plan's way to its approval, and of the runs that ask. Needs no Airflow."""

from __future__ import annotations

from evenkeel.settings.names import MAIN

DECIDING_DAG, APPROVAL_DAG, HISTORY_DAG = "rebalance", "rebalance_approval", "rebalance_history"
REPLAY_DAG = REPLAYING = "replay"
"""The DAG that replays and simulates, and its one task."""
UPKEEP_DAG, HEAT_DAG = "upkeep", "heat"
PUBLISH, WAITING, ASK, APPROVING = "publish", "waiting", "ask", "approve"
"""Ids of tasks: three of `rebalance`, and one of `rebalance_approval`."""
CONNECTION = "evenkeel_spark"
"""The connection with the address of Spark, for the tasks of all DAGs."""
_MARK = "--plan-"
_OF_LAKE = "."


def dag_id_of(dag_id: str, lake: str) -> str:
    """The id of a lake's own DAG: `rebalance` of the lake `main`, `rebalance.north` of the lake `north`."""
    return dag_id if lake == MAIN else f"{dag_id}{_OF_LAKE}{lake}"


def lake_in(dag_id: str) -> str:
    """Return the name of a DAG's lake."""
    return dag_id.partition(_OF_LAKE)[2] or MAIN


def kind_of_dag(dag_id: str) -> str:
    """Return the id that the DAG would have in the lake `main`."""
    return dag_id.partition(_OF_LAKE)[0]


def approval_run_id(run_id: str, plan_id: str) -> str:
    """The id of the run that asks about a plan: one per plan of a run, however often that is asked for."""
    return f"{run_id}{_MARK}{plan_id[:16]}"


def deciding_run_id(approval_run_id: str) -> str:
    """The id of the run that made the plan which a run of `rebalance_approval` asks about."""
    return approval_run_id.rpartition(_MARK)[0] or approval_run_id
