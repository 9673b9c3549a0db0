"""A real Airflow over a lake in a store, which its components know by a connection alone: runs, the page, a
token that expires in a run."""

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import DAG_ID, airflow_for
from evenkeel.cli import main
from evenkeel.lake.record import read_cycles
from evenkeel.sources.recordings import Recording
from evenkeel.spark.server import Engine
from tests.dags.waiting import LOOK_SECONDS, PATIENCE_SECONDS, ended, states
from tests.object_store.conftest import Place
from tests.sources.landing_zone.faults import Exchange, refuse
from tests.sources.landing_zone.stand_in import ACCESS_KEY, SECRET_KEY

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

CHECKOUT = Path(__file__).resolve().parents[2]
RECORDING = CHECKOUT / "demo" / "recordings" / "own-threshold"
ANYTHING = ("GET", "HEAD", "PUT", "POST", "DELETE")


def test_scheduled_tasks_and_the_page_work_there_and_an_expired_token_is_one_line_that_the_next_try_repairs(
    engine: Engine,
    place: Callable[[Engine], Place],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = place(engine)
    connection = {
        "conn_type": "aws",
        "login": ACCESS_KEY,
        "password": SECRET_KEY,
        "extra": {"region_name": "us-east-1", "endpoint_url": there.faults.url},
    }
    variables = {
        "EVENKEEL_LAKE_CONNECTION": "lake_store",
        "AIRFLOW_CONN_LAKE_STORE": json.dumps(connection),
        "EVENKEEL_HOME": str(engine.home),
    }
    for name in there.variables:  # Airflow's processes get the connection and nothing else
        monkeypatch.delenv(name)
    configuration = tmp_path / "evenkeel.toml"
    configuration.write_text(f'[clusters.lab]\nrecording = "{RECORDING}"\n')
    wiring = Wiring(CHECKOUT, engine.airflow_connection(), there.lake, configuration, variables=variables)

    def expire(exchange: Exchange) -> None:
        for method in ANYTHING:
            there.faults.on(method, ".", refuse(403, "ExpiredToken"), times=100_000)
        refuse(403, "ExpiredToken")(exchange)

    with airflow_for(tmp_path / "airflow", wiring) as airflow:
        earlier, newest = (snapshot.cycle_at for snapshot in Recording(RECORDING).snapshots[-2:])
        first = airflow.rest.trigger(DAG_ID, logical_date=None, conf={"at": earlier})
        assert ended(airflow, first)["state"] == "success", states(airflow, first)

        page = f"{airflow.url}/evenkeel/run?dag_id={DAG_ID}&run_id={quote(first)}"
        request = urllib.request.Request(page, headers={"Authorization": f"Bearer {airflow.rest.token()}"})
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
            assert "lab" in answer.read().decode()

        there.faults.on("PUT", r"/unload_decisions/_delta_log/0+\d+\.json", expire)
        second = airflow.rest.trigger(DAG_ID, logical_date=None, conf={"at": newest})
        until = time.monotonic() + PATIENCE_SECONDS
        while states(airflow, second).get("shed") != "up_for_retry":
            assert time.monotonic() < until, states(airflow, second)
            time.sleep(LOOK_SECONDS)
        assert "the session token has expired. Log in again" in airflow.rest.xcom(DAG_ID, second, "shed", "reason")
        there.faults.forget()
        assert ended(airflow, second)["state"] == "success", states(airflow, second)

    for name, value in {**there.variables, "AWS_ENDPOINT_URL": there.store.url}.items():
        monkeypatch.setenv(name, value)
    closed = [one.cycle_at.isoformat() for one in read_cycles(there.lake) if one.status == "closed"]
    assert closed == [earlier, newest]
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    capsys.readouterr()
    assert main(["verify", "--lake", there.lake]) == 0, capsys.readouterr().err
    assert "all is as it was written" in capsys.readouterr().out
