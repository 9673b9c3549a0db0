"""The demo's DAG under a real Airflow on the cluster: the same plan, and both workers do their share."""

from pathlib import Path

import pytest

from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import DAG_ID, airflow_for
from evenkeel.lake.record import read_attempts
from evenkeel.spark.command import CLIENT_HOST
from tests.dags.waiting import ended
from tests.pipeline.window_cases import content
from tests.spark_cluster.conftest import CHECKOUT, LEAST_SHARE, Undisturbed
from tests.spark_cluster.standalone import TOKEN, WORKERS, StandaloneCluster

pytestmark = [
    pytest.mark.exhaustive, pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600),
]  # fmt: skip


def test_the_demos_dag_comes_to_the_same_plan_and_digests_and_both_workers_do_their_share(
    cluster: StandaloneCluster, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    asked = undisturbed.demo
    wiring = Wiring(CHECKOUT, f"spark-connect://:{TOKEN}@{CLIENT_HOST}:{cluster.port}", str(tmp_path / "lake"))
    conf = {"source": asked.source, "clusters": list(asked.clusters), "at": asked.at}
    before, sessions = cluster.tasks(), cluster.open_sessions()
    with airflow_for(tmp_path / "airflow", wiring) as airflow:
        run = ended(airflow, airflow.rest.trigger(DAG_ID, logical_date=None, conf=conf))
        assert run["state"] == "success"
    (alone,), (own,) = read_attempts(asked.lake), read_attempts(tmp_path / "lake")
    assert own.plan_id == alone.plan_id is not None
    assert content(tmp_path / "lake", own) == content(asked.lake, alone)
    assert cluster.open_sessions() == sessions
    tasks = cluster.tasks() - before
    assert len(tasks) == WORKERS
    assert min(tasks.values()) >= LEAST_SHARE * tasks.total(), tasks
