"""Airflow for tests: a parsed DAG, and (see `airflow_session`) one real Airflow for the whole run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow.sdk import DAG

CHECKOUT = Path(__file__).resolve().parents[2]
DAGS = CHECKOUT / "dags"


@pytest.fixture(scope="session")
def airflow_library() -> Iterator[None]:
    """Airflow importable in this process without touching anybody's AIRFLOW_HOME."""
    home = tempfile.mkdtemp(prefix="evenkeel-airflow-library-")
    kept = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW")}
    for name in kept:
        del os.environ[name]
    os.environ.update({"AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"})
    yield
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        del os.environ[name]
    os.environ.update(kept)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def dag_bag(airflow_library: None) -> Any:
    """All DAGs of the folder, as Airflow's own DAG processor reads them."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(DAGS))


@pytest.fixture(scope="session")
def rebalance(dag_bag: Any) -> DAG:
    """The `rebalance` DAG."""
    assert not dag_bag.import_errors
    dag: DAG = dag_bag.dags["rebalance"]
    return dag
