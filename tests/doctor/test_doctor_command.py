"""`evenkeel doctor` as a whole: lines and JSON, exit codes, and no token anywhere."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.doctor.catalogue import CHECKS, site_of
from tests.json_schemas import check
from tests.kept_lakes.unpacking import kept_lake
from tests.pulsar.admin.books import replayed, requests_in
from tests.pulsar.admin.simulated import SimulatedCluster

DOCS = Path(__file__).resolve().parents[2] / "docs"
FIRST = Path(__file__).resolve().parents[2] / "demo" / "recordings" / "own-threshold" / "0000.json.gz"
TOKEN = "sesame-open-the-cluster"
HEAVY = [word for name in ("airflow", "dags", "connections", "spark", "spark_workers") for word in ("--skip", name)]


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A configuration with a lake, a cluster that answers and one that does not."""
    for name in [name for name in os.environ if name.startswith("EVENKEEL_") and name != "EVENKEEL_TESTS_RUN"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EVENKEEL_HOME", str(tmp_path))
    monkeypatch.setenv("EVENKEEL_TOKEN_PULSAR_EAST", TOKEN)
    kept_lake(tmp_path)
    with SimulatedCluster(replayed(requests_in(FIRST)), brokers=3, token=TOKEN) as cluster:
        file = tmp_path / "evenkeel.toml"
        file.write_text(
            f'lake = "lake"\n[clusters.east]\nadmin = "{cluster.url}"\nconnection = "pulsar_east"\n'
            '[clusters.dead]\nadmin = "http://127.0.0.1:9"\n',
            encoding="utf-8",
        )
        yield file


def test_each_check_is_a_line_in_its_order_and_the_code_says_what_is_to_be_done(
    configuration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--config", str(configuration), *HEAVY]) == 1
    said = capsys.readouterr()
    lines = said.out.splitlines()
    names = [line.split()[1] for line in lines[:-1]]
    order = [one.name for one in CHECKS]
    assert names == sorted(names, key=order.index)
    assert f"ok      configuration    {configuration} is sound, with 2 clusters" in lines
    assert any(line.startswith("fail    admin            dead: 127.0.0.1:9") for line in lines)
    assert "ok      admin            east: 3 brokers, asked with the rights of a super user" in lines
    assert "fail    clocks           dead: the brokers cannot be reached -> see the check `admin`" in lines
    assert lines[-1].endswith(" skipped")
    assert TOKEN not in said.out + said.err
    assert not (configuration.parent / ".evenkeel").exists(), "looking makes nothing"


def test_as_json_it_says_the_same(configuration: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--config", str(configuration), "--probe", "--json"]
    assert main(["doctor", *words, *HEAVY, "--only", "lake_rights", "--only", "admin"]) == 1
    said = capsys.readouterr()
    (told,) = check("doctor", said.out)
    assert [(one["check"], one["cluster"], one["outcome"]) for one in told["checks"]] == [
        ("lake_rights", None, "ok"),
        ("admin", "dead", "fail"),
        ("admin", "east", "ok"),
    ]
    assert told["code"] == 1
    assert [Path(name).parent.name for name in told["wrote"]] == ["lake"]
    assert not list((configuration.parent / "lake").glob("_doctor*"))
    assert TOKEN not in said.out
    assert main(["doctor", *words, "--only", "lake", "--only", "lake_writer"]) == 0


def test_a_configuration_with_faults_is_one_line_and_its_clusters_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text("lake = 5\n[clusters.east]\nadmn = 1\n", encoding="utf-8")
    assert main(["doctor", "--config", str(file), "--only", "configuration", "--only", "admin"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        f"fail    configuration    {file}:1: lake: Input should be a valid string (2 faults in all) -> "
    )
    assert lines[1] == "skipped admin            the configuration cannot be used: see the check `configuration`"


def test_the_list_names_every_check_and_so_does_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [one.name for one in CHECKS]
    page = (DOCS / "how-to" / "doctor.md").read_text("utf-8")
    for one in CHECKS:
        assert f"| `{one.name}` |" in page


def test_the_lake_is_that_of_the_option_then_of_the_variable_then_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text('lake = "/of/the/file"\n[clusters.lab]\nrecording = "x"\n', encoding="utf-8")

    def lake(option: str | None, **environment: str) -> str | None:
        return site_of(str(file), option, tmp_path, probe=False, environment=environment).lake

    assert lake(None) == "/of/the/file"
    assert lake(None, EVENKEEL_LAKE="/of/the/variable") == "/of/the/variable"
    assert lake("/of/the/option", EVENKEEL_LAKE="/of/the/variable") == "/of/the/option"


def test_a_check_that_hangs_keeps_the_process_no_longer_than_its_time(tmp_path: Path) -> None:
    """A java that never ends is given up, and the command ends with 2."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexec sleep 300\n", encoding="utf-8")
    java.chmod(0o755)
    program = (
        "import sys; from evenkeel.doctor import catalogue, checks; import dataclasses\n"
        "catalogue.CHECKS = tuple(dataclasses.replace(one, seconds=1.0) for one in catalogue.CHECKS)\n"
        "from evenkeel.cli.__main__ import run\n"
        "sys.argv = ['evenkeel', 'doctor', '--only', 'java']\n"
        "run()"
    )
    environment = {**os.environ, "EVENKEEL_JAVA": str(java), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "could not look: no end after 1 s" in done.stdout
