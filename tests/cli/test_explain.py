"""`evenkeel explain` and `evenkeel trace`, as an operator calls them."""

import json
from pathlib import Path

import pytest

from evenkeel.cli import main
from tests.lakes.plausible import HOT, plausible_lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plausible_lake(tmp_path_factory.mktemp("lake"))


def test_why_was_this_bundle_unloaded_is_one_command(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", HOT, "--lake", str(lake), "--at", "2026-11-21T08:30"]) == 0
    told = capsys.readouterr().out
    assert "at 39.5 % is 12.0 points over the cluster's average" in told
    assert "What would have changed the answer is not known: its settings" in told


def test_the_lake_may_stand_in_the_environment(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("EVENKEEL_LAKE", raising=False)
    assert main(["explain", HOT]) == 2
    assert "no lake is named" in capsys.readouterr().err
    monkeypatch.setenv("EVENKEEL_LAKE", str(lake))
    assert main(["explain", HOT, "--json", "--from", "2026-11-21T08:30"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["type"], body["cycles"]) == ("course", 2)


def test_trouble_is_one_message(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", HOT, "--lake", str(lake), "--at", "2026-10-25T02:30", "--tz", "Europe/Berlin"]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("evenkeel: --at 2026-10-25 02:30:00 comes twice in Europe/Berlin")
    assert said.out == ""


def test_what_rests_on_a_brokers_reports_is_one_command(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["--broker", "127.0.0.2:19080", "--from", "2026-11-21T08:24", "--to", "2026-11-21T08:40"]
    assert main(["trace", *question, "--lake", str(lake), "--cluster", "lab"]) == 0
    assert "These 4 decisions rest on it directly, in 7 cycles that read it:" in capsys.readouterr().out
    assert main(["trace", *question, "--lake", str(lake), "--cluster", "lab", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["direct_decisions"] == 4


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([HOT, "--from", "2026-11-21"], "--from and --to go with --broker"),
        (["--write", "0000000001", "--to", "2026-11-21"], "--from and --to go with --broker"),
        (["--broker", "b:1", "--at", "2026-11-21"], "--at goes with a subject"),
    ],
)
def test_times_go_with_what_has_them(
    lake: Path, options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "--lake", str(lake), *options]) == 2
    assert why in capsys.readouterr().err
