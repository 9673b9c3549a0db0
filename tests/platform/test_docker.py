from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
DOCKERFILE = CHECKOUT / "docker" / "Dockerfile"
COMPOSE = CHECKOUT / "docker" / "compose.yaml"
IN_S3 = CHECKOUT / "docker" / "compose.s3.yaml"
SCRIPTS = Path(sys.executable).parent


def instructions() -> list[list[str]]:
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [[line.split()[0], line.partition(" ")[2]] for line in lines]


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize(
    "command",
    [
        [SCRIPTS / "hadolint", "--failure-threshold", "info", DOCKERFILE],
        [SCRIPTS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE],
        [SCRIPTS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", IN_S3],
    ],
    ids=["Dockerfile", "compose.yaml", "compose.s3.yaml"],
)
def test_the_linters_have_nothing_to_say(command: list[Path | str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_that_is_copied_exists_and_is_not_ignored() -> None:
    ignored = (CHECKOUT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = [line[1:] for line in ignored if line.startswith("!")]
    copied = [word for name, rest in instructions() if name == "COPY" for word in shlex.split(rest)[1:-1]]
    assert copied
    assert [path for path in copied if not (CHECKOUT / path).exists()] == []
    assert [path for path in copied if not any(path == kept or path.startswith(f"{kept}/") for kept in allowed)] == []


def test_the_image_does_not_run_as_root() -> None:
    users = [rest for name, rest in instructions() if name == "USER"]
    assert users == ["10001"]


def test_services_name_only_services_and_volumes_that_there_are() -> None:
    file = compose()
    for name, service in file["services"].items():
        assert set(service.get("depends_on", {})) <= set(file["services"]), name
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(file["volumes"]), name
    host = re.fullmatch(
        r"spark-connect://:\$\{EVENKEEL_SPARK_TOKEN:\?\}@localhost:(\d+)",
        file["services"]["airflow"]["environment"]["AIRFLOW_CONN_EVENKEEL_SPARK"],
    )
    assert host is not None
    command = next(json.loads(rest) for name, rest in instructions() if name == "CMD")
    assert command[command.index("--port") + 1] == host[1]


def test_the_connect_server_listens_on_the_loopback_that_airflow_shares_and_airflow_is_published_here_only() -> None:
    services = compose()["services"]
    command = next(json.loads(rest) for name, rest in instructions() if name == "CMD")
    assert "--address" not in command
    assert services["airflow"]["network_mode"] == "service:spark"
    assert services["spark"]["ports"] == ["127.0.0.1:8080:8080"]
    assert "ports" not in services["airflow"]


def test_neither_service_starts_without_a_token() -> None:
    services = compose()["services"]
    assert services["spark"]["environment"]["EVENKEEL_SPARK_TOKEN"].startswith("${EVENKEEL_SPARK_TOKEN:?")


def test_both_services_see_the_tables_under_one_path() -> None:
    mounts = [
        volume for service in compose()["services"].values() for volume in service["volumes"] if "tables" in volume
    ]
    assert len(mounts) == 2
    assert len(set(mounts)) == 1


def test_tables_in_a_bucket_are_an_addition_for_both_services_that_names_no_key() -> None:
    more = yaml.safe_load(IN_S3.read_text(encoding="utf-8"))["services"]
    assert set(more) == set(compose()["services"])
    for service in more.values():
        given = {name: value for name, value in service["environment"].items() if value is not None}
        assert list(given) == ["EVENKEEL_LAKE"]
        assert given["EVENKEEL_LAKE"].startswith("${EVENKEEL_LAKE:?")
