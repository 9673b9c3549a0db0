"""What tasks leave in XCom is taken from the very task and run that left it, unchanged, or not at all."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from evenkeel.airflow.seal import KEY_VARIABLE, NotSealed, Origin, opened, sealed, without_seal
from evenkeel.errors import EngineError, SettingsError

RUN = Origin("rebalance", "manual__1", "place")
TEXTS = ["", "{}", 'é "quoted"\nsealed ' + "0" * 64 + " twice", "half \ud800", "é" * 48_000]
LONG = f"sealed {'0' * 64} {'x' * 64_001}"
"""Longer than what a task seals: it is not even looked at."""


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_comes_back_as_it_was_left(text: str) -> None:
    assert opened(sealed(text, RUN), RUN) == text
    assert without_seal(sealed(text, RUN)) == text
    assert without_seal(text) == text


@pytest.mark.parametrize(
    "other",
    [
        replace(RUN, dag_id="rebalance_approval"),
        replace(RUN, run_id="manual__2"),
        replace(RUN, task_id="publish"),
        Origin("rebalance", "manual__1p", "lace"),
    ],
    ids=["another DAG", "another run", "another task", "the same signs"],
)
def test_what_another_task_or_run_left_is_not_taken(other: Origin) -> None:
    with pytest.raises(NotSealed, match=r"place of the run manual__1 of rebalance left .* does not have its seal"):
        opened(sealed("{}", other), RUN)


def test_what_was_changed_is_not_taken_and_the_line_says_what_to_do() -> None:
    text = sealed('{"mode": "dry_run"}', RUN)
    for forged in (text.replace("dry_run", "auto"), text[:-1], text + " ", text.replace("sealed ", "sealed 0", 1)[:-1]):
        with pytest.raises(NotSealed, match=r"nothing was sent: trigger a new run of rebalance, or clear all tasks"):
            opened(forged, RUN)


@pytest.mark.parametrize(
    "found", [None, "", '{"lake": "/"}', {"chosen_options": ["Approve"]}, [], 7, "sealed x {}", LONG]
)
def test_what_bears_no_seal_is_not_taken(found: object) -> None:
    with pytest.raises(
        NotSealed, match="has no seal: an earlier version of Evenkeel left it, or another user or program wrote"
    ):
        opened(found, RUN)


def test_a_key_is_changed_by_two_that_open_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = "o" * 32, "n" * 32
    monkeypatch.setenv(KEY_VARIABLE, old)
    before = sealed("{}", RUN)
    monkeypatch.setenv(KEY_VARIABLE, f"{new},{old}")
    assert opened(before, RUN) == "{}"
    after = sealed("{}", RUN)
    monkeypatch.setenv(KEY_VARIABLE, new)
    assert opened(after, RUN) == "{}"
    with pytest.raises(NotSealed, match="EVENKEEL_HANDOVER_KEY has to be the same on all machines"):
        opened(before, RUN)


def test_without_a_key_one_is_made_once_for_the_user_of_the_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.delenv("EVENKEEL_HOME", raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    assert opened(sealed("{}", RUN), RUN) == "{}"
    kept = tmp_path / "airflow" / ".evenkeel" / "handover_key"
    key = kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    sealed("{}", RUN)
    assert kept.read_text() == key
    monkeypatch.setenv("EVENKEEL_HOME", str(tmp_path / "own"))
    with pytest.raises(NotSealed):
        opened(sealed("{}", RUN).replace("{}", "[]"), RUN)
    assert (tmp_path / "own" / ".evenkeel" / "handover_key").read_text() != key


def test_the_key_may_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    before = sealed("{}", RUN)
    (tmp_path / "key").write_text("k" * 64 + "\n")
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.setenv(f"{KEY_VARIABLE}_FILE", str(tmp_path / "key"))
    assert sealed("{}", RUN) == before
    assert not (tmp_path / "airflow").exists()


def test_a_key_that_is_too_short_or_has_no_place_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "short")
    with pytest.raises(SettingsError, match=r"EVENKEEL_HANDOVER_KEY: key 1 has 5 characters.*openssl rand -hex 32"):
        sealed("{}", RUN)
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.delenv("EVENKEEL_HOME", raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "file"))
    with pytest.raises((SettingsError, EngineError), match=r"cannot be kept in .*Set EVENKEEL_HANDOVER_KEY"):
        sealed("{}", RUN)
