"""What is said of Spark: no server, one that nobody answers at, a real one with its token and with a wrong one."""

import json
import os
from pathlib import Path

import pytest

from evenkeel.doctor import spark_endpoint
from evenkeel.doctor.checks import CheckOutcome, Site
from evenkeel.spark.command import without_token
from evenkeel.spark.home import Home
from evenkeel.spark.server import Engine

NO_AIRFLOW = {"AIRFLOW_HOME": "/nowhere"}


def test_without_a_server_nothing_is_started_and_no_folder_made(tmp_path: Path) -> None:
    here = Site(home=tmp_path, environment=NO_AIRFLOW)
    found = spark_endpoint.check_spark(here, "")
    assert (found.outcome, "no server runs on this machine" in found.words) == (CheckOutcome.OK, True)
    assert spark_endpoint.check_workers(here, "").outcome == CheckOutcome.SKIPPED
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_has_gone_is_stopped(tmp_path: Path) -> None:
    Home.of(tmp_path)
    (tmp_path / ".evenkeel" / "engine.json").write_text(json.dumps({"supervisor": "1"}), encoding="utf-8")
    found = spark_endpoint.check_spark(Site(home=tmp_path, environment=NO_AIRFLOW), "")
    assert (found.outcome, "the local server is stopped" in found.words) == (CheckOutcome.OK, True)


@pytest.mark.spark
def test_a_server_that_runs_answers_with_its_version_and_its_workers_code(engine: Engine) -> None:
    here = Site(home=engine.home, environment=NO_AIRFLOW)
    found = spark_endpoint.check_spark(here, "")
    assert (found.outcome, "answers, Spark 4." in found.words) == (CheckOutcome.OK, True), found
    found = spark_endpoint.check_workers(here, "")
    assert found.words == "the workers have this client's code"
    assert engine.url.partition("token=")[2] not in found.words


@pytest.mark.spark
@pytest.mark.airflow
def test_the_server_of_airflows_connection_is_the_one_that_is_asked(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    here = Site(home=tmp_path / "other", environment={"AIRFLOW_HOME": str(tmp_path)})
    monkeypatch.setenv("AIRFLOW_CONN_EVENKEEL_SPARK", engine.airflow_connection())
    found = spark_endpoint.check_spark(here, "")
    assert "Airflow's connection evenkeel_spark answers, Spark 4." in found.words
    monkeypatch.setenv("AIRFLOW_CONN_EVENKEEL_SPARK", "spark://host:7077")
    assert "is a classic master" in spark_endpoint.check_spark(here, "").words


@pytest.mark.spark
def test_a_wrong_token_is_one_line_that_does_not_show_it(engine: Engine) -> None:
    wrong = f"{without_token(engine.url)}/;token=another-token-of-some-length"
    found = spark_endpoint.check_spark(Site(environment={"EVENKEEL_SPARK": wrong}), "")
    assert found.outcome == CheckOutcome.FAIL
    assert "does not accept this token" in found.words
    assert "another-token" not in found.words + found.advice


@pytest.mark.spark
def test_workers_of_other_code_are_told(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The client is a copy of the package in which one file of the workers differs."""
    import shutil

    from evenkeel.doctor import checks as aside
    from evenkeel.spark.code import source_root

    shutil.copytree(source_root() / "evenkeel", tmp_path / "evenkeel", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "evenkeel" / "spark" / "worker.py").open("a", encoding="utf-8") as file:
        file.write("# other code\n")
    monkeypatch.setattr(aside, "source_root", lambda: tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    found = spark_endpoint.check_workers(Site(home=engine.home, environment=NO_AIRFLOW), "")
    assert found.outcome == CheckOutcome.FAIL
    assert "run other code than this client" in found.words
