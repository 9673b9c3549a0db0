"""The private key of the transparency log by a connection of Airflow's: publish signs with it."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from evenkeel.airflow import steps
from evenkeel.transparency import publishing
from evenkeel.transparency.lake_log import begin
from evenkeel.transparency.publishing import log_commits
from tests.transparency.lakes import publish_more, size_of, small_lake
from tests.transparency.logs import LOG_KEY

pytestmark = pytest.mark.airflow


def test_a_task_signs_with_the_connections_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = small_lake(tmp_path)
    begin(str(lake), [LOG_KEY])
    before = size_of(lake)
    connection = {"conn_type": "generic", "password": LOG_KEY.secret().reveal()}
    monkeypatch.setenv("AIRFLOW_CONN_EVENKEEL_LOG", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("EVENKEEL_LAKE", str(lake))
    monkeypatch.setenv("EVENKEEL_LOG_CONNECTION", "evenkeel_log")
    for name in ("EVENKEEL_LOG_KEY", "EVENKEEL_LOG_KEY_FILE", "EVENKEEL_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(publishing, "_resolve", None)
    commits = publish_more(lake, "lab")
    log_commits(str(lake), commits)
    assert "EVENKEEL_LOG_CONNECTION names a connection that is unknown" in caplog.text, "outside of a task"
    with steps._explained_errors(SimpleNamespace(task_id="publish", xcom_push=lambda key, value: None)):
        log_commits(str(lake), commits)
    assert size_of(lake) == before + 2
