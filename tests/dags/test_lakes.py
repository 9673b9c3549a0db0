"""The DAGs of several lakes: what is declared, and runs of four lakes at once under a real scheduler."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.lake.record import Record
from tests.dags.conftest import CHECKOUT, DAGS, RECORDED, SNAPSHOTS
from tests.dags.waiting import ended
from tests.lakes.several_lakes import configuration, lakes_in_force

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

pytestmark = pytest.mark.airflow

LAKES = ("ams", "fra", "iad", "sjc")


def test_each_lake_has_dags_of_its_own(airflow_library: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.dag_processing.dagbag import DagBag

    lakes_in_force(tmp_path, monkeypatch)
    bag = DagBag(dag_folder=str(DAGS))
    assert not bag.import_errors
    each = ("rebalance", "rebalance_approval", "rebalance_history")
    assert set(bag.dags) == {
        "replay",
        *(f"{dag}.{lake}" for dag in each for lake in ("north", "south")),
        *(f"{dag}.{lake}" for dag in ("upkeep", "heat") for lake in ("north", "south", "old")),
    }
    dag: Any = bag.dags["rebalance.north"]
    assert dag.task_dict["ask"].partial_kwargs["trigger_dag_id"] == "rebalance_approval.north"
    assert "lake:north" in dag.tags
    assert dag.max_active_runs == 1


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.exhaustive
def test_runs_of_four_lakes_write_beside_each_other(engine: Engine, tmp_path: Path) -> None:
    from devtools.local_airflow.home import Wiring
    from devtools.local_airflow.service import airflow_for

    names = [f"{lake}-{number}" for lake in LAKES for number in range(2)]
    file = tmp_path / "evenkeel.toml"
    text = configuration({lake: [f"{lake}-*"] for lake in LAKES}, names)
    for name in names:
        (tmp_path / name).mkdir()
        for one in SNAPSHOTS:
            shutil.copy(RECORDED / f"{one}.json.gz", tmp_path / name)
        text = text.replace(f'[clusters."{name}"]\nrecording = "r"', f'[clusters."{name}"]\nrecording = "{name}"')
    file.write_text(text)
    wiring = Wiring(CHECKOUT, engine.airflow_connection(), "", file, "none")
    with airflow_for(tmp_path / "airflow", wiring) as airflow:
        runs = {lake: airflow.rest.trigger(f"rebalance.{lake}", logical_date=None, conf={}) for lake in LAKES}
        done = {lake: ended(airflow, str(run), f"rebalance.{lake}") for lake, run in runs.items()}
    assert {lake: run["state"] for lake, run in done.items()} == dict.fromkeys(LAKES, "success")
    begun = max(datetime.fromisoformat(run["start_date"]) for run in done.values())
    over = min(datetime.fromisoformat(run["end_date"]) for run in done.values())
    assert begun < over, "all four were under way at once"
    for lake in LAKES:
        assert Record(tmp_path / lake).clusters() == [f"{lake}-0", f"{lake}-1"]
