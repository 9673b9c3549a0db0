"""A real Prometheus scrapes a real exporter over a real lake: figures arrive, alerts fire, a lake that goes shows."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.lakes.urgent_lake import XSS, urgent_lake
from tests.metrics.exporting import exporter

RULES = Path(__file__).resolve().parents[2] / "docker" / "prometheus" / "evenkeel.rules.yml"
PROGRAM = "prometheus"
TOKEN = "f" * 64

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        shutil.which(PROGRAM) is None,
        reason="prometheus is missing: apt-get install --no-install-recommends prometheus",
    ),
]


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[httpx.Client]:
    """A client of a Prometheus that scrapes `target` each second; ended by its own process id."""
    port, token = free_port(), folder / "token"
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {
                "job_name": "evenkeel",
                "authorization": {"credentials_file": str(token)},
                "static_configs": [{"targets": [target]}],
            }
        ],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    words = [PROGRAM, f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [*words, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
            yield client
    finally:
        process.terminate()
        process.wait(30)


def until(found: Callable[[], Any], seconds: float = 60) -> Any:
    """What comes back once it is true of a Prometheus that may not answer yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if value := found():
                return value
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.2)


def values(client: httpx.Client, query: str) -> dict[str, float]:
    """Cluster, "" without one -> the value of a query now."""
    answer = client.get("/api/v1/query", params={"query": query})
    if answer.status_code != 200:
        return {}
    return {one["metric"].get("cluster", ""): float(one["value"][1]) for one in answer.json()["data"]["result"]}


def firing(client: httpx.Client) -> set[tuple[str, str]]:
    """Name and cluster of the alerts that fire."""
    found = client.get("/api/v1/alerts").json()["data"]["alerts"]
    return {(one["labels"]["alertname"], one["labels"].get("cluster", "")) for one in found if one["state"] == "firing"}


def test_alerts_fire_over_a_lake_that_needs_attention(tmp_path: Path) -> None:
    lake, token = urgent_lake(tmp_path / "lake", datetime.now(UTC)), tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    with (
        exporter(lake, "--every", "1", "--token-file", str(token), log=tmp_path / "log") as (url, _),
        prometheus(tmp_path, httpx.URL(url).netloc.decode()) as client,
    ):
        until(lambda: values(client, "evenkeel_up") == {"": 1.0})
        (target,) = client.get("/api/v1/targets").json()["data"]["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        assert set(XSS) <= set(values(client, "evenkeel_cycle_timestamp_seconds")), "any name is a label"
        until(lambda: ("EvenkeelClientsHarmed", "harm") in firing(client))
        alerts = firing(client)
        assert ("EvenkeelBounce", "bounces") in alerts
        assert not {name for name, cluster in alerts if cluster.startswith("calm")}
        waiting = {one["labels"]["alertname"] for one in client.get("/api/v1/alerts").json()["data"]["alerts"]}
        assert {"EvenkeelCycleLate", "EvenkeelQuarantined", "EvenkeelBrokerIdle", "EvenkeelBundleTooHot"} <= waiting
        shutil.rmtree(lake)
        until(lambda: values(client, "evenkeel_up") == {"": 0.0})
        assert until(lambda: values(client, "evenkeel_reading_age_seconds > 1"))
