"""A backfill of `rebalance_history` under a real Airflow: a run decides the snapshots of its interval as a window."""

from pathlib import Path
from typing import Any

import pytest

from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import Airflow
from evenkeel.airflow.dag_names import HISTORY_DAG
from evenkeel.lake.record import read_attempts
from tests.dags.conftest import HISTORY_SCHEDULE
from tests.dags.waiting import backfilled

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def unpaused(airflow: Airflow) -> Any:
    """The DAG, which is paused when it is created, and is again after the test: its schedule goes on every minute."""
    path = f"/api/v2/dags/{HISTORY_DAG}"
    assert airflow.rest.get(path)["is_paused"] is True
    airflow.rest.patch(path, {"is_paused": False})
    yield
    airflow.rest.patch(path, {"is_paused": True})


def test_a_backfill_of_two_intervals_decides_their_snapshots_in_order(
    airflow: Airflow, engine: Any, lake: Path, clusters: Path, unpaused: None
) -> None:
    wiring = Wiring(
        CHECKOUT,
        engine.airflow_connection(),
        str(lake),
        clusters,
        variables={"EVENKEEL_HISTORY_SCHEDULE": HISTORY_SCHEDULE},
    )
    dates = "2026-11-21T08:24:00+00:00", "2026-11-21T08:26:00+00:00"
    backfilled(airflow, wiring, HISTORY_DAG, dates, {"clusters": ["good"]}, runs=2)
    own = [one for one in read_attempts(lake, cluster="good") if one.planned["dag_id"] == HISTORY_DAG]
    assert {one.kind for one in own} == {"backfill"}
    assert {one.mode for one in own} == {"dry_run"}
    assert {one.cycle_at.strftime("%H:%M:%S") for one in own} <= {"08:25:57", "08:26:13", "08:27:23"}
    runs = airflow.rest.get(f"/api/v2/dags/{HISTORY_DAG}/dagRuns", run_type="backfill")["dag_runs"]
    first, second = sorted(runs, key=lambda run: str(run["logical_date"]))
    assert first["end_date"] <= second["end_date"]
    decided = {one.cycle_at.strftime("%H:%M:%S") for one in read_attempts(lake, cluster="good") if one.decided}
    assert {"08:25:57", "08:26:13", "08:27:23"} <= decided
