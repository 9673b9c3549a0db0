from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docker.container_files import (
    COMPOSE,
    DOCKER,
    HEALTH_IN_IMAGE,
    IN_S3,
    SPARK_PORT,
    in_yaml,
    stages,
)

PARTS = {
    "scheduler": "scheduler",
    "api-server": "metadatabase",
    "dag-processor": "dag_processor",
    "triggerer": "triggerer",
}
"""Airflow's parts as services, and what of its health each one answers for."""


def services() -> dict[str, Any]:
    found: dict[str, Any] = in_yaml(COMPOSE)["services"]
    return found


def ours() -> dict[str, Any]:
    return {name: service for name, service in services().items() if "build" in service}


@pytest.mark.parametrize("path", [COMPOSE, IN_S3], ids=lambda path: path.name)
def test_the_schema_has_nothing_to_say(path: Path) -> None:
    schema = ["--builtin-schema", "vendor.compose-spec"]
    command = [Path(sys.executable).parent / "check-jsonschema", *schema, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_services_name_only_services_and_volumes_that_there_are() -> None:
    volumes = in_yaml(COMPOSE)["volumes"]
    for name, service in services().items():
        assert set(service.get("depends_on", {})) <= set(services()), name
        for source in (volume.partition(":")[0] for volume in service["volumes"]):
            assert (DOCKER / source).resolve().is_dir() if source.startswith(".") else source in volumes, name
    used = {volume.partition(":")[0] for service in services().values() for volume in service["volumes"]}
    assert set(volumes) <= used


def test_each_service_of_ours_is_a_target_of_the_dockerfile() -> None:
    for name, service in ours().items():
        assert service["build"]["target"] in stages(), name
        assert service["image"] == f"evenkeel-{service['build']['target']}"
        assert (COMPOSE.parent / service["build"]["context"] / service["build"]["dockerfile"]).exists()


def test_airflow_runs_in_its_four_parts_with_postgresql_after_one_migration() -> None:
    found = services()
    assert set(found) == {"spark", "postgres", "migrations", *PARTS}
    for name, part in PARTS.items():
        service = found[name]
        assert service["command"] == ["airflow", name]
        assert service["healthcheck"]["test"] == ["CMD", "python", HEALTH_IN_IMAGE, "airflow", part]
        assert service["depends_on"]["migrations"]["condition"] == "service_completed_successfully"
        environment = service["environment"]
        assert environment["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
        database = environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
        assert database.startswith("postgresql+psycopg2://airflow:${POSTGRES_PASSWORD:?}@postgres:5432/")
        assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://localhost:8080/execution/"
    assert found["migrations"]["command"] == ["airflow", "db", "migrate"]
    assert found["migrations"]["restart"] == "no"
    assert set(found["migrations"]["depends_on"]) == {"spark", "postgres"}


def test_the_connect_server_listens_on_the_loopback_that_airflow_shares_and_airflow_is_published_here_only() -> None:
    found = services()
    assert "--address" not in stages()["spark"].words("CMD")
    for name in ("migrations", *PARTS):
        assert found[name]["network_mode"] == "service:spark"
        assert "ports" not in found[name]
        connection = found[name]["environment"]["AIRFLOW_CONN_EVENKEEL_SPARK"]
        assert connection == f"spark-connect://:${{EVENKEEL_SPARK_TOKEN:?}}@localhost:{SPARK_PORT}"
    assert found["spark"]["ports"] == ["127.0.0.1:8080:8080"]
    assert "ports" not in found["postgres"]


@pytest.mark.parametrize(("service", "secret"), [("spark", "EVENKEEL_SPARK_TOKEN"), ("postgres", "POSTGRES_PASSWORD")])
def test_nothing_starts_without_its_secret(service: str, secret: str) -> None:
    assert services()[service]["environment"][secret].startswith(f"${{{secret}:?")


def test_all_services_see_the_tables_under_one_path_that_the_image_has_for_its_user() -> None:
    mounts = {volume for service in services().values() for volume in service["volumes"] if "tables" in volume}
    assert len(mounts) == 1
    made = " ".join(stages()["image"].all_of("RUN"))
    for volume in {
        volume for service in ours().values() for volume in service["volumes"] if not volume.startswith(".")
    }:
        assert f"{volume.split(':')[1]} " in f"{made} "


def test_what_is_ours_may_write_to_its_volumes_and_tmp_alone() -> None:
    assert len(ours()) == 6
    for name, service in ours().items():
        assert service["read_only"] is True, name
        assert service["tmpfs"] == ["/tmp"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_tables_in_a_bucket_are_an_addition_for_all_that_read_or_write_them_and_names_no_key() -> None:
    more = in_yaml(IN_S3)["services"]
    assert set(more) == {"spark", *PARTS}
    for service in more.values():
        given = {name: value for name, value in service["environment"].items() if value is not None}
        assert list(given) == ["EVENKEEL_LAKE"]
        assert given["EVENKEEL_LAKE"].startswith("${EVENKEEL_LAKE:?")


def test_the_way_to_start_it_names_every_secret_that_it_demands() -> None:
    demanded = set(re.findall(r"\$\{(\w+):\?", yaml.dump(services())))
    for path in (COMPOSE, DOCKER / "README.md"):
        told = path.read_text(encoding="utf-8").partition("name: evenkeel")[0]
        assert all(f"{name}=$(openssl rand -hex 32)" in told for name in demanded), path
