"""Figures for Airflow's own metrics: by OpenTelemetry to a collector that listens here, and none where it is off."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.lakes.urgent_lake import XSS, urgent_lake
from tests.otel_collector import collector, gauges

pytestmark = pytest.mark.airflow

# What Airflow's task runner does before a task, and Python after it.
TASK = """
import sys
from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
legacy = conf.getboolean("metrics", "legacy_names_on")
stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=legacy)
from evenkeel.airflow.emitted_figures import emit_figures
print("emitted", emit_figures(sys.argv[1], set(sys.argv[2:])), "deltalake" in sys.modules)
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return urgent_lake(tmp_path_factory.mktemp("lakes") / "urgent", datetime.now(UTC))


def emitted(home: Path, lake: str, *clusters: str, **settings: str) -> list[str]:
    """How many figures a process like that of a task gave, and whether it can read tables; what it logs left out."""
    keys = {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in settings.items()}
    env = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", **keys}
    done = subprocess.run(
        [sys.executable, "-c", TASK, lake, *clusters], capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    (said,) = re.findall(r"^emitted (\d+) (True|False)$", done.stdout, re.M)
    return [*said]


def test_a_collector_gets_the_figures_of_the_runs_clusters(lake: Path, tmp_path: Path) -> None:
    bodies: list[bytes] = []
    with collector(bodies) as port:
        given = {"otel_on": "True", "otel_host": "127.0.0.1", "otel_port": str(port)}
        number, _ = emitted(tmp_path, str(lake), "harm", "held", XSS[0], **given)
    found = gauges(bodies)
    own = {key: value for key, value in found.items() if key[0].startswith("airflow.evenkeel_")}
    assert len(own) == int(number)
    assert own["airflow.evenkeel_harmed_commands", (("cluster", "harm"),)] == 1
    assert own["airflow.evenkeel_held_commands", (("cluster", "held"),)] == 3
    assert own["airflow.evenkeel_plan_withheld", (("cluster", XSS[0]),)] == 1
    assert own["airflow.evenkeel_balance_ratio", (("cluster", "held"),)] == 1.28
    assert own["airflow.evenkeel_commands", (("cluster", "harm"), ("outcome", "harmed"))] == 1
    assert {dict(tags)["cluster"] for _, tags in own} == {"harm", "held", XSS[0]}


def test_where_airflows_metrics_are_off_nothing_is_read(lake: Path, tmp_path: Path) -> None:
    assert emitted(tmp_path, str(lake), "harm") == ["0", "False"]


@pytest.mark.parametrize("lake_name", ["none", pytest.param("s3a://no-bucket/lake", marks=pytest.mark.exhaustive)])
def test_a_lake_that_cannot_be_read_fails_no_task(lake_name: str, tmp_path: Path) -> None:
    with collector([]) as port:
        given = {"otel_on": "True", "otel_host": "127.0.0.1", "otel_port": str(port)}
        assert emitted(tmp_path, lake_name, "harm", **given)[0] == "0"
