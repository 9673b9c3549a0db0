"""Who may use the Spark server: those that show its token. Others get no answer, no token and no secret."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from evenkeel.airflow.credentials import classic_connection
from evenkeel.errors import EngineError, SettingsError
from evenkeel.spark.command import (
    ServerSettings,
    connect_url,
    inherited_environment,
    server_command,
    server_environment,
    token_given,
    without_token,
)
from evenkeel.spark.home import Home
from evenkeel.spark.server import Engine
from evenkeel.spark.session import classic_settings, close, connect, with_token

SECRETS = {"EVENKEEL_TOKEN_EAST": "a-super-users-token", "AWS_SECRET_ACCESS_KEY": "a-key", "AIRFLOW_CONN_X": "p:w@h"}


@pytest.mark.spark
@pytest.mark.parametrize("token", ["", "/;token=", "/;token=another-token-than-its-own"])
def test_who_does_not_show_the_token_is_not_answered(engine: Engine, token: str) -> None:
    with pytest.raises(EngineError, match=rf"at {engine.address} does not accept this token. Set EVENKEEL_SPARK_TOKEN"):
        connect(engine.address + token)


@pytest.mark.spark
def test_the_token_may_come_by_the_environment_and_by_either_name_of_loopback(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = Home.of(engine.home).token()
    monkeypatch.setenv("EVENKEEL_SPARK_TOKEN", token)
    spark = connect(f"sc://127.0.0.1:{engine.port}")
    assert spark.range(2).count() == 2
    close(spark)
    monkeypatch.delenv("EVENKEEL_SPARK_TOKEN")
    (tmp_path / "token").write_text(f"{token}\n")
    monkeypatch.setenv("EVENKEEL_SPARK_TOKEN_FILE", str(tmp_path / "token"))
    spark = connect(engine.address)
    assert spark.range(2).count() == 2
    close(spark)


@pytest.mark.spark
def test_the_token_stands_in_no_command_line_and_in_no_text_that_is_shown(engine: Engine) -> None:
    token = Home.of(engine.home).token()
    assert token in engine.url
    assert token not in repr(engine)
    assert token not in engine.address
    commands = [place.read_bytes().decode(errors="replace") for place in Path("/proc").glob("[0-9]*/cmdline")]
    assert any(f"spark.connect.grpc.binding.port={engine.port}" in command for command in commands)
    assert not any(token in command for command in commands)
    assert token not in Home.of(engine.home).log.read_text(encoding="utf-8")


@pytest.mark.spark
def test_the_server_and_its_workers_have_an_environment_of_what_they_need(engine: Engine) -> None:
    names = {pair.partition("=")[0] for pair in Path(f"/proc/{engine.pid}/environ").read_text().split("\0") if pair}
    made = server_environment(ServerSettings(), "t").keys()
    assert names <= {*made, "_PYSPARK_DRIVER_CONN_INFO_PATH"}


def test_root_uses_no_home_that_another_user_has_laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the folder may have put a known token into it."""
    Home.of(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(EngineError, match=r"belongs to another user .*: set EVENKEEL_HOME to a folder of your own"):
        Home.of(tmp_path)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_classic_master_on_this_machine_is_closed_to_strangers_as_the_server_is(master: str, tmp_path: Path) -> None:
    settings = classic_settings(master)
    server = server_command(15002, tmp_path, ServerSettings())
    for key in ("spark.authenticate", "spark.driver.host", "spark.driver.bindAddress"):
        assert f"-D{key}={settings[key]}" in server
    assert json.loads(classic_connection(master))["extra"].items() >= settings.items()
    assert "spark.authenticate" not in classic_settings("spark://host:7077"), "that is for whoever runs the cluster"


def test_no_secret_of_the_caller_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert SECRETS.keys().isdisjoint(server_environment(ServerSettings(), "t"))
    assert inherited_environment()["LC_ALL"] == "C.UTF-8"


def test_the_token_is_made_once_and_read_by_its_user_only(tmp_path: Path) -> None:
    home = Home.of(tmp_path)
    token = home.token()
    assert Home.of(tmp_path).token() == token
    assert len(token) >= 32
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((home.folder / "token").stat().st_mode) == 0o600
    assert {place.name for place in home.folder.iterdir()} == {"owners", "token"}
    home.folder.chmod(0o755)
    assert stat.S_IMODE(Home.of(tmp_path).folder.stat().st_mode) == 0o700, "one of an earlier version is closed"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_can_read_nothing_of_a_home(tmp_path: Path) -> None:
    home = Home.of(tmp_path)
    home.token()
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    for command in (["ls", str(home.folder)], ["cat", str(home.folder / "token")]):
        asked = subprocess.run(command, user=65534, group=65534, capture_output=True, check=False)
        assert asked.returncode != 0
        assert b"Permission denied" in asked.stderr


@pytest.mark.parametrize("token", ["short", "with a blank in it, and long", "semicolon;use_ssl=true;user_id=x"])
def test_a_token_that_no_url_can_hold_is_refused(token: str) -> None:
    with pytest.raises(EngineError, match="the token in EVENKEEL_SPARK_TOKEN is too short or holds signs"):
        token_given({"EVENKEEL_SPARK_TOKEN": token})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"EVENKEEL_SPARK_TOKEN_FILE names a file that cannot be read: No such"):
        token_given({"EVENKEEL_SPARK_TOKEN_FILE": str(tmp_path / "gone")})
    assert token_given({}) is None


def test_a_connection_is_shown_without_its_token() -> None:
    for shown in (
        connect_url(15002, "hush"),
        "sc://:hush@localhost:15002",
        "sc://me:hu@sh@localhost:15002/;use_ssl=true",
    ):
        assert without_token(shown) == "sc://localhost:15002"
    with pytest.raises(EngineError, match="'mesos://x' is not a Spark connection"):
        connect("mesos://x/;token=hush")


@pytest.mark.parametrize(
    ("url", "made"),
    [
        ("sc://127.0.0.1:5/;token=own", "sc://localhost:5/;token=own"),
        ("sc://:o%2Fwn@127.0.0.1:5", "sc://localhost:5/;token=o/wn"),
        ("sc://me:own@spark.example:5/;use_ssl=true", "sc://spark.example:5/;use_ssl=true;token=own"),
        ("sc://127.0.0.1:5", "sc://localhost:5/;token=a-token-of-the-variable"),
        ("sc://127.0.0.12:5", "sc://127.0.0.12:5/;token=a-token-of-the-variable"),
        ("sc://spark:5/;use_ssl=true", "sc://spark:5/;use_ssl=true;token=a-token-of-the-variable"),
    ],
)
def test_a_url_gets_the_token_of_the_environment_and_the_name_under_which_it_needs_no_tls(
    url: str, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK_TOKEN", "a-token-of-the-variable")
    assert with_token(url) == made
