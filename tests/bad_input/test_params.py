"""Params of a run and variables of the environment that are wrong are refused before anything is opened."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evenkeel.airflow.dag_files import allowed_modes
from evenkeel.airflow.steps import request_from
from evenkeel.errors import EvenkeelError, SettingsError
from evenkeel.handover import ClusterCycle, Run, Snapshot
from evenkeel.ingest.open_run import check
from evenkeel.ingest.wish_intake import wishes_of_run
from evenkeel.pulsar.admin.connection import from_environment
from evenkeel.sources.configuration import read_configuration
from evenkeel.steering.queue.signing import keys_from_environment
from tests.bad_input.params import params, variables
from tests.bad_input.values import by_place
from tests.pulsar.small_cluster import SmallCluster

PARAMS = dict(params())
VARIABLES = {name: (variable, text) for name, variable, text in variables()}


@dataclass
class DagRun:
    """What is used of Airflow's run."""

    logical_date: datetime | None = datetime(2026, 11, 21, 8, tzinfo=UTC)
    run_after: datetime = datetime(2026, 11, 21, 9, tzinfo=UTC)
    run_type: str = "manual"
    dag_id: str = "rebalance"
    run_id: str = "manual__1"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    SmallCluster().land(tmp_path / "lab")
    (tmp_path / "evenkeel.toml").write_text('[clusters.lab]\nrecording = "lab"\n')
    for name in [name for name in os.environ if name.startswith("EVENKEEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EVENKEEL_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("EVENKEEL_CONFIG", str(tmp_path / "evenkeel.toml"))


def begin(given: dict[str, Any]) -> None:
    """As far as a run goes before it needs Spark."""
    request = request_from(given, DagRun())
    check(request)
    at = "2026-11-21T08:00:00+00:00"
    cycle = ClusterCycle("lab", at, Snapshot("x", at), {})
    wishes_of_run([cycle], Run("rebalance", "r", "live"), request.wishes)


def read(variable: str, text: str) -> None:
    if variable.startswith("EVENKEEL_MODE"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(variable, text)
            allowed_modes()
    elif variable == "EVENKEEL_CONFIG":
        read_configuration(text)
    elif "KEYS" in variable:
        keys_from_environment("queue_lab", {variable: text})
    else:
        from_environment("lab", {variable: text})


@pytest.mark.parametrize("names", by_place(PARAMS))
def test_params_that_are_wrong_are_refused(names: list[str], subtests: pytest.Subtests) -> None:
    for name in names:
        with subtests.test(name):
            with pytest.raises(EvenkeelError) as error:
                begin(PARAMS[name])
            assert str(error.value)


@pytest.mark.parametrize("names", by_place(VARIABLES))
def test_variables_that_are_wrong_are_refused(names: list[str], subtests: pytest.Subtests) -> None:
    for name in names:
        with subtests.test(name):
            with pytest.raises(SettingsError) as error:
                read(*VARIABLES[name])
            assert str(error.value)
