"""Ids of our DAGs, of tasks on a plan's way to its approval, and of the runs that ask. Needs no Airflow.

Each lake of an installation has its own DAGs. The lake `main` has the plain ids (`rebalance`), any other one has its
name after them (`rebalance.north`). Lakes are written in parallel, and one that fails or is slow delays no other. DAG
files are read often, so this module imports nothing heavy.
"""

from __future__ import annotations

from evenkeel.errors import EvenkeelError
from evenkeel.settings.lakes import configured_lakes
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


def deciding_lakes() -> tuple[str, ...]:
    """Return the lakes that cycles are written to: those with a configured cluster, or `main` alone."""
    lakes = configured_lakes()
    if not lakes.is_several and all(lake.name == MAIN for lake in lakes.lakes):
        return (MAIN,)
    return tuple(lake.name for lake in lakes.lakes if lakes.clusters_of(lake))


def every_lake() -> tuple[str, ...]:
    """All lakes, also those to which no cycle is written any more."""
    return tuple(lake.name for lake in configured_lakes().lakes) or (MAIN,)


def lake_tags(lake: str) -> list[str]:
    """The tags of a lake's DAGs beside those of all."""
    return [] if lake == MAIN else [f"lake:{lake}"]


def expected_dags() -> frozenset[str]:
    """The ids of all DAGs."""
    deciding = {dag_id_of(dag, lake) for dag in (DECIDING_DAG, APPROVAL_DAG, HISTORY_DAG) for lake in deciding_lakes()}
    return frozenset(
        {REPLAY_DAG, *deciding, *(dag_id_of(dag, one) for dag in (HEAT_DAG, UPKEEP_DAG) for one in every_lake())}
    )


def dag_of_rights(dag_id: str) -> str:
    """Return the DAG for which a right is checked: that of `main`, or of the first lake if `main` has no cluster."""
    try:
        lakes = deciding_lakes()
    except EvenkeelError:  # faults of the configuration are reported by the tasks that use it
        return dag_id
    return dag_id if not lakes or MAIN in lakes else dag_id_of(dag_id, lakes[0])
