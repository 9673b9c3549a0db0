"""The wheel: it holds what Airflow reads from folders, and a cycle runs from it outside any checkout."""

import email
import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from devtools.local_airflow.home import AirflowHome, Wiring
from devtools.local_airflow.service import DAG_ID
from evenkeel import __version__
from evenkeel.lake.record import read_attempts
from evenkeel.spark.code import code_digest, folder_beside, suites_folder
from tests.dags.conftest import RECORDED_AT
from tests.wheels import CHECKOUT, FOLDERS, copy_of_checkout, environment_with, of_wheel, wheel_of, without_checkout

NAME = f"evenkeel-{__version__}"
RECORDING = CHECKOUT / "demo" / "recordings" / "own-threshold"


def test_every_file_that_airflow_reads_is_in_the_wheel_at_its_place() -> None:
    declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    tracked = subprocess.run(["git", "ls-files", *FOLDERS], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    left_out = []
    for name in tracked.stdout.split():
        folder, _, file = name.rpartition("/")
        patterns = declared.get(f"share/evenkeel/{folder}", ())
        if not any(fnmatch(file, pattern.removeprefix(f"{folder}/")) for pattern in patterns):
            left_out.append(name)
    assert len(tracked.stdout.split()) > 60
    assert left_out == []


def test_every_file_of_the_package_that_is_no_module_is_in_the_wheel() -> None:
    declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    tracked = subprocess.run(["git", "ls-files", "spark"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    files = [name for name in tracked.stdout.split() if not name.endswith(".py")]
    assert any(name.endswith(".java") for name in files)
    assert [name for name in files if not any(fnmatch(name, pattern) for pattern in declared["*"])] == []


@pytest.mark.slow
def test_wheel_and_source_archive_hold_the_package_its_folders_and_its_licence_only(tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    source = copy_of_checkout(tmp_path / "source")
    subprocess.run([uv, "build", "-q", "--out-dir", tmp_path, source], check=True, timeout=300)
    (wheel,), (archive,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        metadata = email.message_from_bytes(packed.read(f"{NAME}.dist-info/METADATA"))
    folders = {f"{NAME}.data/data/share/evenkeel/{folder}" for folder in FOLDERS}
    assert {name for name in names if not name.startswith(("evenkeel/", f"{NAME}.dist-info/", *folders))} == set()
    assert {f"{NAME}.dist-info/licenses/{name}" for name in ("LICENSE", "NOTICE")} <= set(names)
    assert (metadata["License-Expression"], metadata["Author"]) == ("Apache-2.0", "The Evenkeel authors")
    assert metadata["Requires-Python"] == "<3.14,>=3.11"
    assert [need for need in metadata.get_all("Requires-Dist") if "==" in need.partition(";")[0]] == []
    with tarfile.open(archive) as packed:
        tops = {name.split("/")[1] for name in packed.getnames() if "/" in name}
    assert tops == {
        *("LICENSE", "NOTICE", "README.md", "MANIFEST.in", "PKG-INFO", "pyproject.toml", "setup.cfg"),
        *("spark", *FOLDERS),
    }


def test_a_checkout_has_its_own_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENKEEL_EXPECTATIONS", raising=False)
    assert suites_folder() == folder_beside("expectations")
    assert list(folder_beside("expectations").glob("*.json"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own with the wheel, and this one's packages behind it."""
    folder = tmp_path_factory.mktemp("installed")
    return environment_with(wheel_of(folder), folder / "venv")


@pytest.mark.exhaustive
@pytest.mark.slow
def test_it_says_where_it_has_put_them_and_decides_by_the_same_code(installed: Path, tmp_path: Path) -> None:
    def out(*command: str) -> str:
        done = subprocess.run(
            [str(installed / "bin" / command[0]), *command[1:]],
            env=without_checkout(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    found = json.loads(out("evenkeel", "paths", "--json"))
    share = installed / "share" / "evenkeel"
    assert {name: found[name] for name in FOLDERS} == {name: str(share / name) for name in FOLDERS}
    digest = "from evenkeel.spark.code import code_digest; print(code_digest())"
    assert out("python", "-c", digest).strip() == code_digest()


@pytest.mark.exhaustive
@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.slow
def test_airflow_runs_a_cycle_from_it(installed: Path, tmp_path: Path) -> None:
    """DAGs as a bundle, the plugin's folder, and a Spark server of the wheel's own."""
    configuration = tmp_path / "evenkeel.toml"
    configuration.write_text(f'[clusters.alone]\nrecording = "{RECORDING}"\n')
    lake = tmp_path / "lake"
    alone = without_checkout(tmp_path / "home")

    def run(*command: str, environment: dict[str, str] = alone) -> str:
        python = str(installed / "bin" / "python")
        words = [python, "-m", *command]
        done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        return done.stdout

    connection = run("evenkeel.cli", "engine", "connection").strip()
    try:
        home = AirflowHome.of(tmp_path / "airflow")
        wiring = Wiring(installed / "share" / "evenkeel", connection, str(lake), configuration)
        of_airflow = {k: v for k, v in home.environment(wiring, 1).items() if k != "PYTHONPATH"}
        environment = {**of_airflow, **of_wheel(installed), "EVENKEEL_HOME": alone["EVENKEEL_HOME"]}
        run("airflow", "db", "migrate", environment=environment)
        assert "evenkeel" in run("airflow", "plugins", environment=environment)
        conf = json.dumps({"clusters": ["alone"], "at": RECORDED_AT})
        run("airflow", "dags", "test", DAG_ID, "--conf", conf, environment=environment)
    finally:
        run("evenkeel.cli", "engine", "stop")
    (attempt,) = read_attempts(lake, cluster="alone")
    assert attempt.status == "closed"
    assert attempt.planned["code_digest"] == code_digest()
