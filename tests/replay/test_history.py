"""Which cycles a range holds, and what is said where it holds none; and the commands' own words."""

import json
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.errors import BadInput, LakeError, NoSuchCycle
from evenkeel.replay.history import read_history
from evenkeel.settings import resolve
from tests.lakes.small_lake import SmallLake, moment

SETTINGS = resolve(observed=None, overrides={})


def settings_rows(**more: str) -> list[dict]:
    rows = [{**row, "settings_digest": SETTINGS.digest} for row in SETTINGS.rows()]
    return rows + [
        {"settings_digest": SETTINGS.digest, "key": k, "value": v, "origin": "default"} for k, v in more.items()
    ]


def add(lake: SmallLake, at: str, **more) -> None:
    tables = more.pop("tables", {"settings": settings_rows()})
    known = {"plan_id": "p" * 64, "settings_digest": SETTINGS.digest, "manager": "modular", "wishes": []}
    lake.add("lab", moment(at), tables, **{**known, **more})


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    made = SmallLake(tmp_path / "lake")
    for minute in (0, 1, 2, 4):
        add(made, f"2026-11-21T08:0{minute}:13")
    add(made, "2026-11-21T08:03:13", status="skipped", plan_id=None, reason="no topics came")
    return made


def test_a_range_holds_its_ends_and_leaves_out_what_was_not_decided(lake: SmallLake) -> None:
    found = read_history(str(lake.root), None, "2026-11-21T08:01", "2026-11-21T08:04")
    assert [a.cycle_at.minute for a in found.cycles] == [1, 2, 4]
    assert found.left_out == 1
    assert found.settings == {SETTINGS.digest: found.settings[SETTINGS.digest]}
    assert found.settings[SETTINGS.digest].settings == SETTINGS.settings


def test_a_time_with_a_zone_and_a_date_are_moments_too(lake: SmallLake) -> None:
    assert len(read_history(str(lake.root), "lab", "2026-11-21T09:02:13+01:00", None).cycles) == 2
    assert len(read_history(str(lake.root), "lab", "2026-11-21", "2026-11-21").cycles) == 4


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("lab", "2026-11-21T08:05", None), NoSuchCycle, ["08:04:13", "from 2026-11-21T08:05"]),
        (("lab", "2026-11-21T08:01:20", "2026-11-21T08:01:50"), NoSuchCycle,
         ["before is at 2026-11-21T08:01:13", "after is at 2026-11-21T08:02:13"]),
        (("lab", "2026-11-21T08:03", "2026-11-21T08:03"), NoSuchCycle, ["none of 1 cycle", "no topics came"]),
        (("lap", None, None), NoSuchCycle, ["'lap'", "Did you mean 'lab'"]),
        (("lab", "yesterday", None), BadInput, ["--from 'yesterday'"]),
        (("lab", "2026-11-22", "2026-11-21"), BadInput, ["is after"]),
    ],
)  # fmt: skip
def test_what_a_range_lacks_is_named_with_the_nearest(lake: SmallLake, arguments, error, words) -> None:
    with pytest.raises(error) as refused:
        read_history(str(lake.root), *arguments)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_settings_that_this_version_does_not_know_are_named_with_their_version(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "lake")
    add(lake, "2026-11-21T08:00:13", tables={"settings": settings_rows(evenkeelOfTomorrow="1")}, code_version="9.9.9")
    with pytest.raises(LakeError, match=r"evenkeelOfTomorrow") as refused:
        read_history(str(lake.root), "lab", None, None)
    assert "9.9.9" in str(refused.value)


def test_what_a_cycle_knew_of_commands_and_their_harm_is_known_again(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "lake")
    clients = [{"at": "2026-11-21T07:58:13.000000+00:00", "producers": 8, "consumers": 4, "msg_backlog": None}]
    command = {"command_id": "c1", "kind": "unload", "bundle": "a/b/0x00000000_0x80000000", "mode": "auto"}
    command |= {"expires_at": moment("2026-11-21T08:18:13"), "clients": clients}
    add(lake, "2026-11-21T07:58:13", tables={"settings": settings_rows(), "commands": [command]})
    seen = {"done": "2026-11-21T07:58:33+00:00", "harmed": "2026-11-21T08:01:13+00:00"}
    acts = [{"command_id": "c1", "outcome": outcome, "seen_at": at} for outcome, at in seen.items()]
    add(lake, "2026-11-21T08:02:13", acts=acts)
    history = read_history(str(lake.root), "lab", "2026-11-21T08:02", None)
    known = history.known(history.cycles[0])
    assert known["predecessor"] == ["2026-11-21T08:01:13.000000+00:00", "used"]
    assert [(act["outcome"], act["seen_at"], act["clients"]) for act in known["acts"]] == [
        (outcome, at, clients) for outcome, at in seen.items()
    ]


def test_settings_past_their_retention_are_missed_by_name(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "lake")
    add(lake, "2026-11-21T08:00:13", tables={})
    with pytest.raises(LakeError, match=r"settings of lab at 2026-11-21T08:00:13"):
        read_history(str(lake.root), "lab", None, None)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--strategy", "AvgSheder"], "did you mean AvgShedder"),
        (["--strategy", "TransferShedder"], "--set evenkeelManager=extensible"),
        (["--set", "minUnloadMesage=3"], "minUnloadMessage"),
        (["--limit", "-1"], "usage in percent"),
        (["--from", "2027-01-01"], "on record"),
    ],
)
def test_replay_refuses_before_spark_is_started(
    lake: SmallLake,
    arguments: list[str],
    word: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", "sc://127.0.0.1:1")
    assert main(["replay", "--lake", str(lake.root), *arguments]) == 2
    assert word in capsys.readouterr().err


def test_simulate_prints_a_line_for_each_variant_and_writes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--scenario", "growth", "--cycles", "8", "--bundles", "12", "--strategy", "AvgShedder"]
    assert main(["simulate", *arguments, "--json", "--out", str(tmp_path / "new")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["variant"] for row in found["variants"]] == ["untouched", "AvgShedder"]
    assert {row["cycles"] for row in found["variants"]} == {8}
    page = (tmp_path / "new" / "replay.html").read_text(encoding="utf-8")
    assert "AvgShedder" in page
    assert "<svg" in page
    assert "<script" not in page


@pytest.mark.parametrize("option", ["--from", "--to", "--cluster"])
def test_what_picks_recorded_cycles_does_not_go_with_generated_traffic(
    option: str, lake: SmallLake, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", "--scenario", "zipf", "--lake", str(lake.root), option, "2026-11-21"]
    assert main(words) == 2
    assert "go with recorded traffic" in capsys.readouterr().err
