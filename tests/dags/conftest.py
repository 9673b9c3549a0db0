"""Airflow for tests: parsed DAGs, and one real Airflow for the whole run."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.groups import until_the_group_ends

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from devtools.local_airflow.service import Airflow
    from evenkeel.spark.server import Engine

CHECKOUT = Path(__file__).resolve().parents[2]
DAGS = CHECKOUT / "dags"
RECORDED = CHECKOUT / "demo" / "recordings" / "own-threshold"
RECORDED_AT = "2026-11-21T08:28:23.740000+00:00"
"""The cycle of the recording's newest snapshot."""
SNAPSHOTS = ("0000", "0002", "0009", "0015")
# At these minutes on the day of the recording, so that nothing becomes due while the tests run; the last one lies
# behind the last snapshot.
SCHEDULE = "26,27,29 8 21 11 *"
HISTORY_SCHEDULE = "*/2 * * * *"
"""Intervals of two minutes: the recording has snapshots in three of them."""


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


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration of two clusters: `good`, and `holed`, whose namespace acme/ns0 lacks a bundle in the middle."""
    folder = tmp_path_factory.mktemp("clusters")
    for cluster in ("good", "holed"):
        (folder / cluster).mkdir()
        for name in SNAPSHOTS:
            shutil.copy(RECORDED / f"{name}.json.gz", folder / cluster)
    for file in (folder / "holed").iterdir():
        _drop_boundary(file, "/admin/v2/namespaces/acme/ns0/bundles", "0x40000000")
    configuration = folder / "evenkeel.toml"
    configuration.write_text('[clusters.good]\nrecording = "good"\n[clusters.holed]\nrecording = "holed"\n')
    return configuration


def _drop_boundary(file: Path, path: str, boundary: str) -> None:
    """Takes the beginning of the namespace's ranges away: its first range then starts at `boundary`."""
    snapshot = json.loads(gzip.decompress(file.read_bytes()))
    for request in snapshot["requests"]:
        if request["path"] == path:
            body = json.loads(request["body"])
            kept = [known for known in body["boundaries"] if known >= boundary]
            request["body"] = json.dumps({"boundaries": kept, "numBundles": len(kept) - 1})
    file.write_bytes(gzip.compress(json.dumps(snapshot).encode(), mtime=0))


@pytest.fixture(scope="session")
def lake(empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of the real Airflow."""
    return empty_lake(tmp_path_factory.mktemp("airflow-lake"))


@pytest.fixture(scope="session")
def airflow(engine: Engine, clusters: Path, lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """A scheduler, a DAG processor and an API server over the shared Connect server; started once for all tests."""
    from devtools.local_airflow.home import Wiring
    from devtools.local_airflow.service import airflow_for

    wiring = Wiring(
        CHECKOUT,
        engine.airflow_connection(),
        str(lake),
        clusters,
        SCHEDULE,
        mode_limit="approve",
        variables={"EVENKEEL_HISTORY_SCHEDULE": HISTORY_SCHEDULE},
    )
    return until_the_group_ends().enter_context(airflow_for(tmp_path_factory.mktemp("airflow-home"), wiring))
