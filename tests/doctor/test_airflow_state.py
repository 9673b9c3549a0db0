"""What is said of Airflow: none here, its DAG files, and the connections that are wanted."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evenkeel.doctor import airflow_state
from evenkeel.doctor.checks import CheckOutcome, Site
from evenkeel.sources.configuration import ClusterSource, LiveSource, QueueSource, ZoneSource

DAGS = Path(__file__).resolve().parents[2] / "dags"
SOURCES = (
    ClusterSource("east", Path("x"), live=LiveSource(("http://b",), "pulsar_east")),
    ClusterSource("far", Path("y"), zone=ZoneSource("s3://b/x", "aws_far"), queues=QueueSource("c", "r", "queue_far")),
)


def test_where_no_airflow_runs_nothing_is_asked(tmp_path: Path) -> None:
    here = Site(environment={"AIRFLOW_HOME": str(tmp_path / "absent")})
    for check in (airflow_state.check_airflow, airflow_state.check_dags, airflow_state.check_connections):
        assert check(here, "").outcome == CheckOutcome.SKIPPED


def test_connections_are_wanted_that_no_variable_stands_in_for() -> None:
    bare = Site(sources=SOURCES, environment={"EVENKEEL_LAKE_CONNECTION": "aws_lake"})
    assert set(airflow_state.connections_of(bare)) == {
        "evenkeel_spark",
        "aws_lake",
        "pulsar_east",
        "aws_far",
        "queue_far",
    }
    given = {"EVENKEEL_TOKEN_PULSAR_EAST": "sesame-x", "EVENKEEL_KEYS_QUEUE_FAR": "k" * 64}
    assert set(airflow_state.connections_of(Site(sources=SOURCES, environment=given))) == {"evenkeel_spark", "aws_far"}


def test_a_token_of_the_environment_needs_no_airflow(tmp_path: Path) -> None:
    environment = {"EVENKEEL_TOKEN_PULSAR_EAST": "sesame-x", "AIRFLOW_HOME": str(tmp_path / "absent")}
    tokens = airflow_state.AirflowTokens(Site(sources=SOURCES, environment=environment))
    found = tokens("pulsar_east")
    assert found is not None
    assert found.authentication.authorization(0) is not None
    assert tokens("pulsar_west") is None


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Site]:
    """Gives a site with an Airflow of its own, whose DAGs lie in a folder."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    home = tmp_path / "airflow"
    home.mkdir()

    def make(dags: Path) -> Site:
        monkeypatch.setenv("AIRFLOW_HOME", str(home))
        monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
        monkeypatch.setenv("AIRFLOW_CONN_EVENKEEL_SPARK", "spark-connect://:a-token-of-it@localhost:1")
        monkeypatch.setenv("AIRFLOW_CONN_PULSAR_EAST", "http://:sesame-of-east@broker:8080")
        return Site(sources=SOURCES[:1], environment=dict(os.environ))

    return make


@pytest.mark.airflow
def test_our_dags_can_be_imported_and_one_that_cannot_is_named(airflow: Callable[[Path], Site], tmp_path: Path) -> None:
    found = airflow_state.check_dags(airflow(DAGS), "")
    assert (found.outcome, "6 DAGs" in found.words) == (CheckOutcome.OK, True), found
    broken = tmp_path / "dags"
    broken.mkdir()
    (broken / "rebalance.py").write_text("import evenkeel\nfrom airflow.sdk import dag\nevenkeel.gone()\n", "utf-8")
    found = airflow_state.check_dags(airflow(broken), "")
    assert found.outcome == CheckOutcome.FAIL
    assert "rebalance.py cannot be imported: AttributeError" in found.words
    (broken / "rebalance.py").unlink()
    found = airflow_state.check_dags(airflow(broken), "")
    assert (found.outcome, "rebalance, rebalance_approval" in found.words) == (CheckOutcome.WARN, True)


@pytest.mark.airflow
def test_dags_go_by_the_configuration_file_and_name_what_is_wrong_in_it(
    airflow: Callable[[Path], Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text("[airflow]\nmode = 'atuo'\n[clusters.lab]\nrecording = 'x'\n", encoding="utf-8")
    monkeypatch.setenv("EVENKEEL_CONFIG", str(file))
    for name in ("EVENKEEL_MODE", "EVENKEEL_MODE_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    found = airflow_state.check_dags(airflow(DAGS), "")
    assert found.outcome == CheckOutcome.FAIL
    assert "airflow.mode: Input should be one of dry_run, approve, auto; did you mean auto?" in found.words


@pytest.mark.exhaustive
@pytest.mark.airflow
def test_a_connection_that_is_missing_is_named_and_a_token_comes_from_one(airflow: Callable[[Path], Site]) -> None:
    here = airflow(DAGS)
    assert airflow_state.check_connections(here, "").words == "Airflow knows evenkeel_spark, pulsar_east"
    found = airflow_state.AirflowTokens(here)("pulsar_east")
    assert found is not None
    authorization = found.authentication.authorization(0)
    assert authorization is not None
    assert authorization.header() == "Bearer sesame-of-east"
    assert found.urls == ("http://broker:8080",)
    wanting = Site(sources=SOURCES, environment=here.environment)
    told = airflow_state.check_connections(wanting, "")
    assert told.outcome == CheckOutcome.FAIL
    assert "aws_far (the landing zone of far); queue_far (the keys of the queues of far)" in told.words
    assert "sesame" not in told.words
