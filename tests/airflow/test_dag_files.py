"""What an asset's event says of the writes behind it, and how far a run may go."""

import re
from collections.abc import Callable
from dataclasses import fields

import pytest

from evenkeel.airflow.dag_files import (
    allowed_modes,
    by_table,
    check_ceiling,
    check_shortening,
    emit_asset_events,
    intervals_in,
    rebalance_params,
    schedule_in,
)
from evenkeel.errors import SettingsError
from evenkeel.handover import Write
from evenkeel.settings.keys.own import DECIDING_KEYS, OwnKeys


def write(table: str, write_id: str, cluster: str, rows: int) -> Write:
    return Write(table, write_id, 7, rows, "digest", cluster)


def test_a_write_for_several_clusters_is_told_once_with_all_its_rows() -> None:
    given = [write("bundle_load", "b", "west", 3), write("bundle_load", "a", "east", 1)]
    given += [write("bundle_load", "b", "east", 4), write("rejected", "c", "east", 0)]
    told = by_table("/lake", given)
    assert told["bundle_load"] == {
        "lake": "/lake",
        "writes": [
            {"write_id": "a", "version": 7, "clusters": ["east"], "rows": 1},
            {"write_id": "b", "version": 7, "clusters": ["east", "west"], "rows": 7},
        ],
    }
    assert set(told) == {"bundle_load", "rejected"}


def test_the_writes_of_a_window_are_told_as_one_per_append() -> None:
    ids = [f"{'a' * 19}{n:013x}" for n in range(3)]
    given = [write("shed", id_, "east", 2) for id_ in ids] + [write("shed", "b" * 32, "west", 5)]
    assert by_table("/lake", given)["shed"]["writes"] == [
        {"write_id": "a" * 19, "version": 7, "clusters": ["east"], "rows": 6, "cycles": 3},
        {"write_id": "b" * 32, "version": 7, "clusters": ["west"], "rows": 5},
    ]


def test_without_airflow_nobody_is_told() -> None:
    emit_asset_events(None, "/lake", [write("bundle_load", "b", "west", 3)])


@pytest.mark.parametrize(
    ("environment", "allowed"),
    [
        ({}, ["dry_run"]),
        ({"EVENKEEL_MODE": "approve"}, ["dry_run", "approve"]),
        ({"EVENKEEL_MODE_LIMIT": "auto"}, ["dry_run", "approve", "auto"]),
        ({"EVENKEEL_MODE": "approve", "EVENKEEL_MODE_LIMIT": "auto"}, ["dry_run", "approve", "auto"]),
    ],
)
def test_a_run_may_ask_for_no_more_than_the_environment_allows(
    environment: dict[str, str], allowed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EVENKEEL_MODE", "EVENKEEL_MODE_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert allowed_modes() == allowed == rebalance_params()["mode"].schema["enum"]
    for mode in ("dry_run", "approve", "auto"):
        if mode in allowed:
            check_ceiling({"mode": mode})
        else:
            with pytest.raises(SettingsError, match=f"the param `mode` is {mode}, and runs of this Airflow may have"):
                check_ceiling({"mode": mode})


def test_a_mode_above_its_own_limit_or_of_no_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENKEEL_MODE", "auto")
    monkeypatch.setenv("EVENKEEL_MODE_LIMIT", "approve")
    with pytest.raises(SettingsError, match="EVENKEEL_MODE is auto, and EVENKEEL_MODE_LIMIT allows approve at most"):
        allowed_modes()
    monkeypatch.setenv("EVENKEEL_MODE_LIMIT", "all")
    with pytest.raises(SettingsError, match="EVENKEEL_MODE_LIMIT is not one of dry_run, approve, auto"):
        allowed_modes()


def test_a_trigger_changes_no_guard_where_commands_may_go_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENKEEL_MODE", "approve")
    off = {"evenkeelGuardsEnabled": False, "loadBalancerBrokerThresholdShedderPercentage": 5}
    with pytest.raises(SettingsError, match="changes evenkeelGuardsEnabled: where commands may go out, guards are as"):
        check_ceiling({"settings": off})
    check_ceiling({"mode": "dry_run", "settings": off})
    for key in ("evenkeelMaxReportAgeSeconds", "evenkeelFutureToleranceSeconds", "evenkeelCommandsPerSecond"):
        with pytest.raises(SettingsError, match=f"changes {key}: where commands may go out"):
            check_ceiling({"mode": "approve", "settings": {key: 0}})
    check_ceiling({"mode": "approve", "settings": {"evenkeelSplitEnabled": False}})
    check_ceiling({"mode": "approve", "settings": {"loadBalancerBrokerThresholdShedderPercentage": 5}})


def test_a_trigger_breaks_no_promise_unless_the_environment_lets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENKEEL_UPKEEP_SHORTEN", raising=False)
    check_shortening({"audit_days": 500, "shorten": False})
    for text in ("", "false"):
        monkeypatch.setenv("EVENKEEL_UPKEEP_SHORTEN", text)
        with pytest.raises(SettingsError, match="sets EVENKEEL_UPKEEP_SHORTEN=true, or runs `evenkeel upkeep"):
            check_shortening({"audit_days": 40, "shorten": True})
    monkeypatch.setenv("EVENKEEL_UPKEEP_SHORTEN", "true")
    check_shortening({"audit_days": 40, "shorten": True})
    monkeypatch.setenv("EVENKEEL_UPKEEP_SHORTEN", "perhaps")
    with pytest.raises(SettingsError, match="EVENKEEL_UPKEEP_SHORTEN is neither true nor false"):
        check_shortening({"shorten": True})


def test_what_a_trigger_may_change_are_keys() -> None:
    assert {field.name for field in fields(OwnKeys)} >= DECIDING_KEYS


@pytest.mark.parametrize("read", [schedule_in, intervals_in])
@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, "0 0 * * *"), ("", "0 0 * * *"), ("0 */6 * * *", "0 */6 * * *"), ("@hourly", "@hourly")],
    ids=["none-given", "empty", "cron", "preset"],
)
def test_a_schedule_is_the_environments_cron_expression_or_the_default(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str, str], str | None], given: str | None, expected: str
) -> None:
    monkeypatch.delenv("EVENKEEL_X", raising=False)
    if given is not None:
        monkeypatch.setenv("EVENKEEL_X", given)
    assert read("EVENKEEL_X", "0 0 * * *") == expected


@pytest.mark.parametrize("read", [schedule_in, intervals_in])
@pytest.mark.parametrize("given", ["daily", "1 day", "61 * * * *", "* * *", "@once", "None"])
def test_a_schedule_that_is_no_cron_expression_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str, str], str | None], given: str
) -> None:
    monkeypatch.setenv("EVENKEEL_X", given)
    words = "EVENKEEL_X is not a cron expression in UTC, as in '0 0 * * *'"
    with pytest.raises(SettingsError, match=re.escape(words)):
        read("EVENKEEL_X", "0 0 * * *")


@pytest.mark.parametrize("read", [schedule_in, intervals_in])
@pytest.mark.parametrize("given", ["0 0 31 2 *", "30 4 31 4,6,9,11 *"])
def test_a_schedule_that_never_comes_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str, str], str | None], given: str
) -> None:
    monkeypatch.setenv("EVENKEEL_X", given)
    with pytest.raises(SettingsError, match="EVENKEEL_X names a moment that never comes"):
        read("EVENKEEL_X", "0 0 * * *")
    monkeypatch.setenv("EVENKEEL_X", "0 0 29 2 *")
    assert read("EVENKEEL_X", "0 0 * * *") == "0 0 29 2 *"


def test_without_a_schedule_a_dag_is_run_by_hand_and_one_of_intervals_says_why_it_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EVENKEEL_X", "none")
    assert schedule_in("EVENKEEL_X", "0 0 * * *") is None
    with pytest.raises(
        SettingsError, match=r"EVENKEEL_X is none, .*each run of a backfill decides one.*paused by default"
    ):
        intervals_in("EVENKEEL_X", "0 0 * * *")
