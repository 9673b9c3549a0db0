"""An AIRFLOW_HOME of its own: nothing of the user's Airflow, nothing that others may read."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from devtools.local_airflow.home import AirflowHome, Wiring

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


def test_the_preload_names_third_parties_only(tmp_path: Path) -> None:
    AirflowHome.of(tmp_path)
    source = (tmp_path / "config" / "airflow_local_settings.py").read_text()
    names: dict[str, object] = {}
    exec(compile(source, "airflow_local_settings.py", "exec"), names)
    modules = names["MODULES"]
    assert isinstance(modules, tuple)
    assert "great_expectations" in modules
    assert [name for name in modules if name.startswith("evenkeel")] == []


def test_upkeep_runs_by_hand_only_unless_a_schedule_is_given(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("EVENKEEL_UPKEEP_SCHEDULE", "* * * * *")
    home = AirflowHome.of(tmp_path)
    assert home.environment(WIRING, 1)["EVENKEEL_UPKEEP_SCHEDULE"] == "none"
    daily = Wiring(Path("/checkout"), "c", "/lake", upkeep="17 3 * * *")
    assert home.environment(daily, 1)["EVENKEEL_UPKEEP_SCHEDULE"] == "17 3 * * *"
