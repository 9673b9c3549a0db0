import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel.cli import parser
from evenkeel.secret import private_text
from tests.docker.container_files import (
    CHECKOUT,
    COMPOSE,
    DOCKER,
    HEALTH_IN_IMAGE,
    IN_S3,
    LANDING_IN_IMAGE,
    PAGE,
    SPARK_PORT,
    USER,
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


EXPORTER_PORT = "9464"


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
        assert set(service.get("secrets", ())) <= set(in_yaml(COMPOSE)["secrets"]), name
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
    assert set(found) == {"spark", "postgres", "migrations", "metrics", *PARTS}
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
    mounts = {
        (volume.removesuffix(":ro"), name == "metrics")
        for name, service in services().items()
        for volume in service["volumes"]
        if "tables" in volume and volume.endswith(":ro") == (name == "metrics")
    }
    assert mounts == {("tables:/var/lib/evenkeel/lake", is_exporter) for is_exporter in (True, False)}
    made = " ".join(stages()["image"].all_of("RUN"))
    for volume in {
        volume for service in ours().values() for volume in service["volumes"] if not volume.startswith(".")
    }:
        assert f"{volume.split(':')[1]} " in f"{made} "


def test_spark_sees_the_snapshots_of_the_configuration_where_tasks_see_them() -> None:
    """A task hands Spark the paths of a cycle's snapshots; Spark's workers read the files."""
    found = services()
    mounted = {volume.split(":")[1]: volume.split(":")[0] for volume in found["scheduler"]["volumes"]}
    configuration = Path(found["scheduler"]["environment"]["EVENKEEL_CONFIG"])
    folder = mounted[str(configuration.parent)]
    settings = tomllib.loads((DOCKER / folder / configuration.name).read_text(encoding="utf-8"))
    assert all((DOCKER / folder / cluster["recording"]).is_dir() for cluster in settings["clusters"].values())
    assert f"{folder}:{configuration.parent}:ro" in found["spark"]["volumes"]
    assert f"landing:{LANDING_IN_IMAGE}" in found["scheduler"]["volumes"]
    assert f"landing:{LANDING_IN_IMAGE}:ro" in found["spark"]["volumes"]
    assert all(f'landing = "{LANDING_IN_IMAGE}/' in path.read_text(encoding="utf-8") for path in (COMPOSE, PAGE))


def test_what_is_ours_may_write_to_its_volumes_and_tmp_alone() -> None:
    assert len(ours()) == 7
    for name, service in ours().items():
        assert service["read_only"] is True, name
        assert service["tmpfs"] == ["/tmp"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not {"user", "privileged", "cap_add"} & set(service), "the image says who runs it, and it is not root"


def test_the_key_that_seals_what_tasks_hand_on_lies_on_the_volume_that_airflows_parts_share() -> None:
    home = stages()["airflow"].settings("ENV")["EVENKEEL_HOME"]
    assert all(f"airflow:{home}" in services()[part]["volumes"] for part in PARTS)


def test_the_exporter_is_in_the_network_alone_with_its_token_as_a_file_that_it_takes(tmp_path: Path) -> None:
    found, whole = services()["metrics"], in_yaml(COMPOSE)
    assert not {"ports", "network_mode", "networks"} & set(found)
    assert found["healthcheck"]["test"] == ["CMD", "python", HEALTH_IN_IMAGE, "port", EXPORTER_PORT]
    (secret,) = found["secrets"]
    assert set(whole["secrets"][secret]) == {"file"}, "others cannot be laid into a root that is read-only"
    assert stages()["airflow"].all_of("USER") == [f"{USER}:{USER}"]
    told = f"sudo chown {USER} docker/metrics.token; sudo chmod 400 docker/metrics.token"
    assert all(told in path.read_text(encoding="utf-8") for path in (COMPOSE, IN_S3, DOCKER / "README.md"))
    token = tmp_path / "metrics.token"
    token.write_text("0123456789abcdef" * 4, encoding="utf-8")
    token.chmod(0o400)
    assert private_text(token, "--token-file")
    program, *words = found["command"]
    given = parser(words).parse_args(words)
    assert program in tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert (given.listen, given.token_file) == (f"0.0.0.0:{EXPORTER_PORT}", f"/run/secrets/{secret}")


def test_prometheus_scrapes_the_exporter_by_its_name_in_the_network_with_the_rules_beside_it() -> None:
    folder = DOCKER / "prometheus"
    (job,) = in_yaml(folder / "prometheus.compose.yml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"metrics:{EXPORTER_PORT}"]}]
    assert job["authorization"]["credentials_file"].startswith("/")
    mine, usual = (in_yaml(folder / name) for name in ("prometheus.compose.yml", "prometheus.yml"))
    for part in ("global", "rule_files"):
        assert mine[part] == usual[part]
    assert job["job_name"] == usual["scrape_configs"][0]["job_name"], "alerts and dashboard go by it"


def test_tables_in_a_bucket_are_an_addition_for_all_that_read_or_write_them_and_names_no_key() -> None:
    more = in_yaml(IN_S3)["services"]
    assert set(more) == {"spark", "metrics", *PARTS}
    for service in more.values():
        given = {name: value for name, value in service["environment"].items() if value is not None}
        assert list(given) == ["EVENKEEL_LAKE"]
        assert given["EVENKEEL_LAKE"].startswith("${EVENKEEL_LAKE:?")


def test_the_way_to_start_it_names_every_secret_that_it_demands() -> None:
    demanded = set(re.findall(r"\$\{(\w+):\?", yaml.dump(services())))
    for path in (COMPOSE, DOCKER / "README.md"):
        told = path.read_text(encoding="utf-8").partition("name: evenkeel")[0]
        assert all(f"{name}=$(openssl rand -hex 32)" in told for name in demanded), path
