"""The script that HEALTHCHECK and probes run, against what it asks about."""

import importlib.util
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from evenkeel.steering.agent.ledger import Ledger
from tests.docker.container_files import HEALTH
from tests.serving import answering


@pytest.fixture
def health() -> ModuleType:
    spec = importlib.util.spec_from_file_location("health_of_a_container", HEALTH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_port_is_well_while_something_listens(health: ModuleType) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        assert health.port(port) is None
    assert health.port(port).startswith(f"port {port}: ")


@pytest.fixture
def airflow(health: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, dict[str, str | None]]]:
    """The states that an API server tells of Airflow's parts."""
    states: dict[str, dict[str, str | None]] = {}

    with answering(lambda *_: (200, json.dumps(states).encode())) as port:
        monkeypatch.setattr(health, "AIRFLOW_HEALTH", f"http://127.0.0.1:{port}/")
        yield states


def test_a_part_of_airflow_is_well_when_the_api_server_says_so(
    health: ModuleType, airflow: dict[str, dict[str, str | None]]
) -> None:
    airflow |= {
        "metadatabase": {"status": "healthy"},
        "scheduler": {"status": "unhealthy"},
        "triggerer": {"status": None},
    }
    assert health.airflow("metadatabase") is None
    assert health.airflow("metadatabase", "scheduler") == "not healthy: scheduler"
    assert health.airflow("triggerer", "dag_processor") == "not healthy: triggerer, dag_processor"


def test_airflow_without_an_api_server_is_not_well(health: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    monkeypatch.setattr(health, "AIRFLOW_HEALTH", f"http://127.0.0.1:{port}/")
    assert str(port) in health.airflow("metadatabase")


def test_an_agent_is_well_while_it_holds_its_ledger(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_HOME", str(tmp_path))
    assert "no ledger in" in health.agent()
    ledger = Ledger(tmp_path / ".evenkeel" / "agent" / "east.db", "east", "here")
    assert health.agent() is None
    ledger.close()
    assert "no ledger in" in health.agent()
