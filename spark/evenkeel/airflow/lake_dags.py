"""The DAGs of an installation with one lake or several: each lake has its own DAGs.

The lake `main` has the plain ids (`rebalance`), any other one has its name after them (`rebalance.north`). Lakes are
written in parallel, and one that fails or is slow delays no other. DAG files are read often, so this module imports
nothing heavy.
"""

from __future__ import annotations

from evenkeel.airflow.dag_names import (
    APPROVAL_DAG,
    DECIDING_DAG,
    HEAT_DAG,
    HISTORY_DAG,
    REPLAY_DAG,
    UPKEEP_DAG,
    dag_id_of,
)
from evenkeel.errors import EvenkeelError
from evenkeel.settings.lakes import configured_lakes
from evenkeel.settings.names import MAIN


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
