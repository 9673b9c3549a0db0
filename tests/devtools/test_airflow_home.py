"""An AIRFLOW_HOME of its own: nothing of the user's Airflow, nothing that others may read."""

import json
import os
import runpy
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from devtools.local_airflow.home import AirflowHome, Wiring
from evenkeel.pipeline import TASK_IDS

WIRING = Wiring(Path("/checkout"), "spark-connect://127.0.0.1:1", "/lake")


def test_the_users_own_airflow_is_not_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://company")
    monkeypatch.setenv("AIRFLOW_HOME", "/home/somebody/airflow")
    monkeypatch.setenv("EVENKEEL_CONFIG", "/etc/production.toml")
    monkeypatch.setenv("SPARK_REMOTE", "sc://production")
    environment = AirflowHome.of(tmp_path).environment(WIRING, 8080)
    assert environment["AIRFLOW_HOME"] == str(tmp_path)
    for name in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "EVENKEEL_CONFIG", "SPARK_REMOTE"):
        assert name not in environment


def test_every_address_follows_the_port(tmp_path: Path) -> None:
    environment = AirflowHome.of(tmp_path).environment(WIRING, 4711)
    assert environment["AIRFLOW__API__PORT"] == "4711"
    assert environment["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:4711"
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:4711/execution/"


def test_keys_and_passwords_stay_the_same_and_are_for_the_owner_only(tmp_path: Path) -> None:
    first, again = (AirflowHome.of(tmp_path).environment(WIRING, 1) for _ in range(2))
    assert first == again
    assert (
        first["AIRFLOW__API_AUTH__JWT_SECRET"]
        != AirflowHome.of(tmp_path / "other").environment(WIRING, 1)["AIRFLOW__API_AUTH__JWT_SECRET"]
    )
    for name in ("keys.json", "passwords.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_every_user_gets_a_password(tmp_path: Path) -> None:
    home = AirflowHome.of(tmp_path)
    home.environment(Wiring(Path("/checkout"), "c", "/lake", users=("vic:viewer",)), 1)
    passwords = json.loads((tmp_path / "passwords.json").read_text())
    assert sorted(passwords) == ["admin", "vic"]
    assert passwords["admin"] == home.password()


def test_what_the_preload_names_is_there(tmp_path: Path) -> None:
    names = _preload(tmp_path)
    assert "great_expectations" in names["MODULES"]
    assert [name for name in (*names["MODULES"], *names["OWN"]) if find_spec(name) is None] == []
    assert [name for name in names["OWN"] if name.endswith(".task")] == [f"evenkeel.{id_}.task" for id_ in TASK_IDS]


def test_a_forked_process_imports_the_package_anew_once_a_source_has_changed(tmp_path: Path) -> None:
    package = tmp_path / "source" / "evenkeel"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    part = package / "part.py"
    part.write_text("SAID = 'before'")
    file = AirflowHome.of(tmp_path / "home").folder / "config" / "airflow_local_settings.py"
    told = subprocess.run(
        [sys.executable, "-c", FORKING, str(file), str(part)],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["before", "after", "before"]


FORKING = """
import os, runpy, sys
from pathlib import Path

names = runpy.run_path(sys.argv[1])
names["_load"]((), ("evenkeel.part",))


def forked():
    child = os.fork()
    if not child:
        from evenkeel.part import SAID
        print(SAID, flush=True)
        os._exit(0)
    os.waitpid(child, 0)


forked()
Path(sys.argv[2]).write_text("SAID = 'after, and so longer'.partition(',')[0]")
forked()
from evenkeel.part import SAID
print(SAID)
"""


def _preload(folder: Path) -> dict[str, Any]:
    return runpy.run_path(str(AirflowHome.of(folder).folder / "config" / "airflow_local_settings.py"))


@pytest.mark.parametrize("dag", ["upkeep", "heat"])
def test_upkeep_and_heat_run_by_hand_only_unless_a_schedule_is_given(tmp_path: Path, monkeypatch, dag: str) -> None:
    variable = f"EVENKEEL_{dag.upper()}_SCHEDULE"
    monkeypatch.setenv(variable, "* * * * *")
    home = AirflowHome.of(tmp_path)
    assert home.environment(WIRING, 1)[variable] == "none"
    daily = Wiring(Path("/checkout"), "c", "/lake", **{dag: "17 3 * * *"})
    assert home.environment(daily, 1)[variable] == "17 3 * * *"
