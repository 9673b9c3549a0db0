"""What the configuration file says of how Evenkeel is run, behind the environment of a process."""

import os
from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.settings.entries import MODES, AirflowEntries, LogEntries, Operation, variables_of
from evenkeel.settings.operation import CONFIGURATION, OperatorEnvironment
from evenkeel.steering.admin_request import ACTING

WHOLE = """
lake = "lake"
[airflow]
schedule = "0 * * * *"
mode = "approve"
approvers = ["alice", "bob"]
four_eyes = true
upkeep_shorten = false
handover_key_file = "keys/handover"
[log]
key_file = "/etc/evenkeel/log.key"
witnesses = ["/mnt/a.jsonl", "/mnt/b.jsonl"]
"""


def environment(folder: Path, text: str, **own: str) -> OperatorEnvironment:
    file = folder / "evenkeel.toml"
    file.write_text(text, encoding="utf-8")
    return OperatorEnvironment({CONFIGURATION: str(file), **own})


def test_each_entry_stands_in_for_its_variable(tmp_path: Path) -> None:
    found = environment(tmp_path, WHOLE)
    assert {name: found[name] for name in found if name != CONFIGURATION} == {
        "EVENKEEL_LAKE": str(tmp_path / "lake"),
        "EVENKEEL_SCHEDULE": "0 * * * *",
        "EVENKEEL_MODE": "approve",
        "EVENKEEL_APPROVERS": "alice,bob",
        "EVENKEEL_FOUR_EYES": "true",
        "EVENKEEL_UPKEEP_SHORTEN": "false",
        "EVENKEEL_HANDOVER_KEY_FILE": str(tmp_path / "keys/handover"),
        "EVENKEEL_LOG_KEY_FILE": "/etc/evenkeel/log.key",
        "EVENKEEL_WITNESSES": "/mnt/a.jsonl\n/mnt/b.jsonl",
    }
    assert len(found) == 10
    assert found.get("EVENKEEL_HEAT_SCHEDULE") is None


def test_a_variable_that_is_set_wins_and_one_set_to_nothing_does_not(tmp_path: Path) -> None:
    found = environment(tmp_path, WHOLE, EVENKEEL_MODE="dry_run", EVENKEEL_APPROVERS="", OTHER="x")
    assert found["EVENKEEL_MODE"] == "dry_run"
    assert found["EVENKEEL_APPROVERS"] == "alice,bob"
    assert found["OTHER"] == "x"


@pytest.mark.parametrize("other", ["EVENKEEL_LOG_KEY", "EVENKEEL_LOG_CONNECTION"])
def test_a_key_that_the_environment_brings_another_way_is_the_one(tmp_path: Path, other: str) -> None:
    found = environment(tmp_path, WHOLE, **{other: "x"}, EVENKEEL_HANDOVER_KEY="y" * 64)
    assert found.get("EVENKEEL_LOG_KEY_FILE") is None
    assert "EVENKEEL_HANDOVER_KEY_FILE" not in list(found)


@pytest.mark.parametrize("lake", ["s3a://bucket/prefix", "s3://bucket/prefix", "/data/lake"])
def test_an_address_of_a_lake_stays_as_it_is(tmp_path: Path, lake: str) -> None:
    assert environment(tmp_path, f'lake = "{lake}"')["EVENKEEL_LAKE"] == lake


def test_a_file_that_changes_is_read_anew(tmp_path: Path) -> None:
    found = environment(tmp_path, 'lake = "/one"')
    assert found["EVENKEEL_LAKE"] == "/one"
    (tmp_path / "evenkeel.toml").write_text('lake = "/another"', encoding="utf-8")
    assert found["EVENKEEL_LAKE"] == "/another"


def test_a_file_that_cannot_be_read_is_told_only_where_it_is_needed(tmp_path: Path) -> None:
    found = OperatorEnvironment({CONFIGURATION: str(tmp_path / "absent.toml"), "EVENKEEL_LAKE": "/lake"})
    assert found["EVENKEEL_LAKE"] == "/lake"
    assert found.get("PATH") is None
    with pytest.raises(SettingsError, match=r"absent\.toml cannot be read"):
        found.get("EVENKEEL_FOUR_EYES")


def test_a_value_that_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="lake: Input should be a valid string"):
        environment(tmp_path, "lake = 5").get("EVENKEEL_LAKE")


def test_a_fault_of_a_cluster_is_none_of_how_evenkeel_is_run(tmp_path: Path) -> None:
    found = environment(tmp_path, "lake = '/lake'\n[clusters.east]\nadmn = 5\n[settings]\nx = 1\n")
    assert found["EVENKEEL_LAKE"] == "/lake"


def test_the_modes_are_those_that_a_publish_knows() -> None:
    assert ("dry_run", *ACTING) == MODES
    variables = [one for table in (Operation, AirflowEntries, LogEntries) for one in variables_of(table).values()]
    assert len({one.name for one in variables}) == len(variables) == 13


def test_dag_files_take_schedule_mode_and_approvers_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel.airflow.approval import approvers, wants_four_eyes
    from evenkeel.airflow.dag_files import allowed_modes, schedule_in
    from evenkeel.airflow.steps import lake_root

    for name in [name for name in os.environ if name.startswith("EVENKEEL_") and name != "EVENKEEL_TESTS_RUN"]:
        monkeypatch.delenv(name)
    file = tmp_path / "evenkeel.toml"
    file.write_text(WHOLE, encoding="utf-8")
    monkeypatch.setenv(CONFIGURATION, str(file))
    assert schedule_in("EVENKEEL_SCHEDULE", "*/5 * * * *") == "0 * * * *"
    assert schedule_in("EVENKEEL_HEAT_SCHEDULE", "*/10 * * * *") == "*/10 * * * *"
    assert allowed_modes() == ["dry_run", "approve"]
    assert [one["id"] for one in approvers()] == ["alice", "bob"]
    assert wants_four_eyes()
    assert lake_root("rebalance") == str(tmp_path / "lake")
