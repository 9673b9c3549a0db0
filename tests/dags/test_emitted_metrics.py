"""Under a real Airflow with OpenTelemetry on, a run's publish gives Airflow's metrics the figures of its clusters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import DAG_ID, airflow_for
from evenkeel.status import read_status
from evenkeel.times import moment_given
from tests.dags.waiting import ended
from tests.otel_collector import collector, gauges

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

CHECKOUT = Path(__file__).resolve().parents[2]


def test_a_run_gives_airflows_metrics_the_figures_of_its_clusters(
    engine: Engine, clusters: Path, empty_lake: Callable[[Path], Path], tmp_path: Path
) -> None:
    lake, bodies = empty_lake(tmp_path / "lake"), list[bytes]()
    with collector(bodies) as port:
        otel = {"OTEL_ON": "True", "OTEL_HOST": "127.0.0.1", "OTEL_PORT": str(port)}
        variables = {f"AIRFLOW__METRICS__{name}": value for name, value in otel.items()}
        wiring = Wiring(CHECKOUT, engine.airflow_connection(), str(lake), clusters, variables=variables)
        with airflow_for(tmp_path / "airflow", wiring) as airflow:
            run = ended(airflow, airflow.rest.trigger(DAG_ID, logical_date=None, conf={}))
            assert run["state"] == "success"
    found = gauges(bodies)
    for line in read_status(lake, moment_given("2026-11-21T09:00:00Z", "now")).clusters:
        tags = (("cluster", line.cluster),)
        assert found.get(("airflow.evenkeel_balance_ratio", tags)) == line.balance
        assert found["airflow.evenkeel_cycle_unloads", tags] == line.unloads
    assert found["airflow.evenkeel_quarantined_rules", (("cluster", "holed"),)] >= 1
    assert found["airflow.evenkeel_quarantined_rules", (("cluster", "good"),)] == 0
