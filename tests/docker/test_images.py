import argparse
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from evenkeel.cli import parser
from tests.docker.container_files import (
    CHECKOUT,
    DOCKER,
    DOCKERFILE,
    HEALTH_IN_IMAGE,
    IMAGES,
    SHARE_IN_IMAGE,
    SPARK_PORT,
    USER,
    stages,
)

SCRIPTS = Path(sys.executable).parent


def pinned(path: Path) -> dict[str, str]:
    """Package -> version of a list of packages; "" where it has none."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if re.match(r"\w", line)]
    return {name: version.split(" ")[0] for name, _, version in (line.partition("==") for line in lines)}


def test_the_linter_has_nothing_to_say() -> None:
    command = [SCRIPTS / "hadolint", "--failure-threshold", "info", DOCKERFILE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_that_is_copied_exists_and_is_not_ignored() -> None:
    ignored = (CHECKOUT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = [line[1:] for line in ignored if line.startswith("!")]
    copies = [shlex.split(rest) for stage in stages().values() for rest in stage.all_of("COPY")]
    copied = [path for words in copies if not words[0].startswith("--from=") for path in words[:-1]]
    assert len(copied) > 5
    assert [path for path in copied if not (CHECKOUT / path).exists()] == []
    assert [path for path in copied if not any(path == kept or path.startswith(f"{kept}/") for kept in allowed)] == []
    assert [path for path in allowed if not (CHECKOUT / path).exists()] == []


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_takes_finished_folders_and_runs_nothing_as_it_is_built(name: str) -> None:
    """So neither pip, its cache, a compiler nor a test tool of the stages before gets into it."""
    found = stages()
    stage = found[name]
    assert stage.base == "image"
    assert found["image"].base == found["tools"].base == "${BASE}"
    assert stage.all_of("RUN") == []
    copies = [shlex.split(rest) for rest in stage.all_of("COPY")]
    assert copies
    for origin, source, target in copies:
        assert origin.removeprefix("--from=") in found
        assert source == target
        assert target in ("/opt/evenkeel/venv", "/opt/evenkeel/cache")
    assert "pip" not in " ".join(found["image"].all_of("RUN"))
    assert "--without-pip" in " ".join(found[f"{name}-environment"].all_of("RUN"))


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_says_who_runs_it_where_it_writes_and_what_it_is(name: str) -> None:
    stage, base = stages()[name], stages()["image"]
    assert stage.all_of("USER") == [f"{USER}:{USER}"]
    assert f"--uid {USER}" in " ".join(base.all_of("RUN"))
    assert stage.words("VOLUME") == ["/var/lib/evenkeel", "/tmp"]
    labels = base.settings("LABEL") | stage.settings("LABEL")
    assert labels["org.opencontainers.image.title"] == f"evenkeel-{name}"
    assert {"version", "revision", "description"} <= {label.rpartition(".")[2] for label in labels}
    homes = {key: value for key, value in (base.settings("ENV") | stage.settings("ENV")).items() if "HOME" in key}
    assert homes["HOME"] == "/var/lib/evenkeel"
    # The key that seals what tasks hand on lies where all parts of Airflow find it, and after a restart.
    assert homes["EVENKEEL_HOME"] == homes.get("AIRFLOW_HOME", homes["HOME"])
    assert all(value.startswith("/var/lib/evenkeel") for value in homes.values())


@pytest.mark.parametrize("name", IMAGES)
def test_health_is_asked_of_the_script_that_is_there(name: str) -> None:
    python, script, check, *_ = stages()[name].health_command()
    assert (python, script) == ("python", HEALTH_IN_IMAGE)
    assert check in re.findall(r"^def (\w+)", (DOCKER / "health.py").read_text(), re.MULTILINE)
    assert f"docker/health.py {HEALTH_IN_IMAGE}" in stages()["image"].all_of("COPY")


def test_the_agent_starts_a_command_that_there_is_and_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = stages()["agent"].words("ENTRYPOINT")
    scripts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["scripts"]
    assert program in scripts
    with pytest.raises(SystemExit):
        parser(words).parse_args(words)
    assert "--cluster, --queue, --reports" in capsys.readouterr().err


def test_the_server_starts_by_options_that_there_are_on_the_port_that_its_health_asks() -> None:
    stage = stages()["spark"]
    python, flag, module, *options = stage.words("CMD")
    assert (python, flag) == ("python", "-m")
    told = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True).stdout
    given = argparse.Namespace(**dict(zip(options[::2], options[1::2], strict=True)))
    assert all(f"{option} " in told for option in vars(given))
    assert vars(given)["--port"] == stage.health_command()[-1] == SPARK_PORT
    assert "--address" not in options  # loopback


def test_airflow_finds_dags_and_plugin_where_the_wheel_has_them() -> None:
    stage = stages()["airflow"]
    declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    settings = stage.settings("ENV")
    for name in ("DAGS", "PLUGINS"):
        folder = settings[f"AIRFLOW__CORE__{name}_FOLDER"]
        assert folder.removeprefix("/opt/evenkeel/venv/") in declared
        assert folder.startswith(SHARE_IN_IMAGE)
    assert stage.words("CMD")[0] == "airflow"
    copied = re.search(
        r"cp \S+/site-packages/(\S+) \S+/(\S+)$", " ".join(stages()["airflow-environment"].all_of("RUN"))
    )
    assert copied is not None
    assert (CHECKOUT / "spark" / copied[1]).exists()
    assert copied[2] == "airflow_local_settings.py"


def test_airflow_is_stopped_by_the_signal_that_standalone_hears_as_the_first_process() -> None:
    """It sets no handler: of its own accord the first process of a container ends by SIGINT, which Python handles."""
    stops = {name: stages()[name].all_of("STOPSIGNAL") for name in IMAGES}
    assert stages()["airflow"].words("CMD") == ["airflow", "standalone"]
    assert stops == {"agent": [], "airflow": ["SIGINT"], "spark": []}


def test_packages_have_their_versions_from_the_lock_or_from_what_tests_use() -> None:
    lock = pinned(CHECKOUT / "requirements.txt")
    for image in ("agent", "spark"):
        names = pinned(DOCKER / f"packages-{image}.txt")
        assert set(names) <= set(lock)
        assert set(names.values()) == {""}
    tested = pinned(CHECKOUT / "requirements-dev.txt")
    assert pinned(DOCKER / "packages-airflow.txt").items() <= tested.items()


def test_an_image_has_the_licences_of_its_packages(tmp_path: Path) -> None:
    told = tmp_path / "notices.txt"
    subprocess.run([sys.executable, str(DOCKER / "notices.py"), str(told)], check=True)
    text = told.read_text(encoding="utf-8")
    assert re.search(r"^psutil \S+: BSD-3-Clause$", text, re.MULTILINE)
    assert re.search(r"^=+\npsutil \S+: LICENSE\n=+\n(.*\n)*?.*Redistribution and use", text, re.MULTILINE)
    built = [stage for name, stage in stages().items() if name.endswith("-environment")]
    assert len(built) == len(IMAGES)
    for stage in built:
        assert any("notices.py /opt/evenkeel/venv/THIRD-PARTY-NOTICES.txt" in run for run in stage.all_of("RUN"))


IMPORTER = """
import importlib.metadata, sys
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

allowed, left = set(), {names}
while left:
    name = canonicalize_name(left.pop())
    if name not in allowed:
        allowed.add(name)
        needs = (Requirement(line) for line in importlib.metadata.requires(name) or ())
        left += [need.name for need in needs if need.marker is None or need.marker.evaluate({{"extra": ""}})]
owners = importlib.metadata.packages_distributions()
for module in list(sys.modules):
    if module.partition(".")[0] == "packaging":
        del sys.modules[module]

class NotInTheImage:
    def find_spec(self, name, path=None, target=None):
        found = {{canonicalize_name(owner) for owner in owners.get(name.partition(".")[0], ())}}
        if found and not found & (allowed | {{"evenkeel"}}):
            raise ModuleNotFoundError(f"{{name}} is not in the image", name=name)

sys.meta_path.insert(0, NotInTheImage())
"""


def run_with_packages(image: str, code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs code where only what the image's list brings can be imported."""
    names = list(pinned(DOCKER / f"packages-{image}.txt"))
    source = IMPORTER.format(names=names) + code
    return subprocess.run(
        [sys.executable, "-c", source],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(CHECKOUT / "spark"), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_agent_needs_no_package_beyond_its_list(tmp_path: Path) -> None:
    """It opens its ledger and asks its queue, which is not there."""
    words = ["agent", "--cluster=east", "--admin", "http://127.0.0.1:9", "--once"]
    words += [f"--{name}=http://127.0.0.1:9/0/{name}.fifo" for name in ("queue", "reports")]
    environment = {
        "EVENKEEL_HOME": str(tmp_path),
        "EVENKEEL_KEYS_QUEUE_EAST": "0123456789abcdef" * 4,
        "AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:9",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_MAX_ATTEMPTS": "1",
    }
    code = f"from evenkeel.cli import main\nsys.exit(main({words!r}))"
    done = run_with_packages("agent", code, environment)
    assert done.returncode == 2, done.stderr
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / ".evenkeel" / "agent" / "east.db").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--version"], 0, "evenkeel 1."),
        (["--help"], 0, "carry out"),
        (["status", "--lake", "lake"], 2, "is not installed: run this where all"),
    ],
    ids=["version", "help", "another command"],
)
def test_with_the_packages_of_the_agent_other_commands_say_what_they_miss(
    words: list[str], code: int, said: str, tmp_path: Path
) -> None:
    command = f"from evenkeel.cli import main\nsys.exit(main({words!r}))"
    done = run_with_packages("agent", command, {"EVENKEEL_HOME": str(tmp_path)})
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_the_server_and_its_workers_need_no_package_beyond_their_list(tmp_path: Path) -> None:
    code = """
import importlib
from evenkeel.object_store import is_configured
from evenkeel.spark.code import IN_WORKERS, runtime_of
is_configured()
for module in ("evenkeel.spark.__main__", "evenkeel.spark.daemon", "pyspark.worker", *IN_WORKERS):
    importlib.import_module(module)
runtime_of("evenkeel.spark.worker")
"""
    done = run_with_packages("spark", code, {"HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr


def test_a_package_that_is_not_on_the_list_is_missed() -> None:
    done = run_with_packages("agent", "import deltalake", {})
    assert "deltalake is not in the image" in done.stderr
