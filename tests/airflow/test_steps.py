"""From a run's params and dates to the request that the pipeline starts from."""

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from evenkeel.airflow import steps
from evenkeel.airflow.steps import halted, request_from, sending
from evenkeel.errors import BadInput, SettingsError
from evenkeel.maintenance.expiry import Periods
from evenkeel.maintenance.upkeep import Request, UpkeepResult
from tests.airflow.xcom import XCom

LOGICAL = datetime(2026, 11, 21, 8, 27, 23, 596000, tzinfo=UTC)
AFTER = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


@dataclass
class DagRun:
    """What is used of Airflow's run."""

    logical_date: datetime | None = LOGICAL
    run_after: datetime = AFTER
    run_type: str = "manual"
    dag_id: str = "rebalance"
    run_id: str = "manual__1"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text("[clusters.east]\nrecording = 'east'\n", encoding="utf-8")
    monkeypatch.setenv("EVENKEEL_LAKE", "/lake")
    monkeypatch.setenv("EVENKEEL_CONFIG", str(file))


def test_a_run_without_params_decides_all_clusters_at_its_logical_date(tmp_path: Path) -> None:
    request = request_from({}, DagRun())
    assert request.at == "2026-11-21T08:27:23.596000+00:00"
    assert (request.lake, request.configuration) == ("/lake", str(tmp_path / "evenkeel.toml"))
    assert (request.clusters, request.source, request.overrides, request.mode) == ((), "", {}, "dry_run")
    assert (request.dag_id, request.run_id, request.kind) == ("rebalance", "manual__1", "live")


def test_a_run_without_a_logical_date_decides_at_the_moment_it_was_due() -> None:
    assert request_from({}, DagRun(logical_date=None)).at == AFTER.isoformat()


def test_the_param_at_wins_over_the_runs_dates() -> None:
    assert request_from({"at": "2026-11-21T08:28:00Z"}, DagRun()).at == "2026-11-21T08:28:00+00:00"


def test_a_param_at_without_a_zone_is_utc() -> None:
    assert request_from({"at": "2026-11-21T08:28"}, DagRun()).at == "2026-11-21T08:28:00+00:00"


def test_a_param_at_that_is_no_time_is_refused_in_plain_words() -> None:
    with pytest.raises(BadInput, match="the param `at` '2026-13-21T08:28Z' is not a time"):
        request_from({"at": "2026-13-21T08:28Z"}, DagRun())


def test_params_reach_the_request() -> None:
    params: dict[str, Any] = {
        "clusters": ["east", "west"],
        "source": "recording:/data/monday",
        "settings": {"loadBalancerBrokerThresholdShedderPercentage": 15},
        "mode": "dry_run",
        "at": None,
        "wishes": [{"kind": "split", "namespace": "t/n", "bundle": "LARGEST"}],
    }
    request = request_from(params, DagRun())
    assert request.wishes == ({"kind": "split", "namespace": "t/n", "bundle": "LARGEST"},)
    assert request.clusters == ("east", "west")
    assert request.source == "recording:/data/monday"
    assert request.overrides == {"loadBalancerBrokerThresholdShedderPercentage": 15}


@pytest.mark.parametrize(
    ("run_type", "kind"),
    [("backfill", "backfill"), ("scheduled", "live"), ("manual", "live"), ("asset_triggered", "live")],
)
def test_only_a_backfill_is_one(run_type: str, kind: str) -> None:
    assert request_from({}, DagRun(run_type=run_type)).kind == kind


def test_without_a_place_for_the_tables_the_message_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENKEEL_LAKE")
    with pytest.raises(SettingsError, match=r"EVENKEEL_LAKE is not set.*set it to a folder or an s3a"):
        request_from({}, DagRun())


def test_an_upkeep_that_was_triggered_takes_the_defaults_for_promised_and_shortens_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Request] = []

    def kept(_spark: Any, request: Request, _progress: Any) -> UpkeepResult:
        asked.append(request)
        return UpkeepResult(Periods(), ())

    monkeypatch.setattr("evenkeel.maintenance.upkeep.keep", kept)
    monkeypatch.setattr(steps, "_spark_watched", lambda ti: nullcontext())
    monkeypatch.delenv("EVENKEEL_UPKEEP_SHORTEN", raising=False)
    ti = XCom().of("upkeep", "manual__1", "upkeep")
    steps.keep(None, {"audit_days": 500, "shorten": False}, DagRun(), ti)  # type: ignore[arg-type]
    (request,) = asked
    assert (request.given["audit_days"], request.shorten, request.promised) == (500, False, Periods().as_dict())
    with pytest.raises(AirflowFailException, match="the param `shorten` is set, and no run may keep data"):
        steps.keep(None, {"audit_days": 40, "shorten": True}, DagRun(), ti)  # type: ignore[arg-type]
    assert len(asked) == 1


def test_an_upkeep_is_skipped_as_long_as_no_cycle_has_made_the_lake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EVENKEEL_LAKE", str(tmp_path / "lake"))
    monkeypatch.setattr(steps, "_spark_watched", lambda ti: nullcontext())
    with pytest.raises(AirflowSkipException, match="upkeep has nothing to do: there is no lake at"):
        steps.keep(None, {}, DagRun(), XCom().of("upkeep", "scheduled__1", "upkeep"))  # type: ignore[arg-type]


def test_a_run_whose_mode_is_above_the_limit_sends_nothing_whatever_it_was_handed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow.sdk.Variable.get", lambda name, default: "west")
    monkeypatch.setenv("EVENKEEL_MODE_LIMIT", "approve")
    stop = sending("auto", "/lake").halted("east")
    assert stop == "the run's mode is auto, and EVENKEEL_MODE_LIMIT allows approve at most"
    assert sending("approve", "/lake").halted("east") is None
    assert "west is paused by the Airflow variable evenkeel_pause" in str(halted("approve", "west"))
    monkeypatch.setenv("EVENKEEL_MODE_LIMIT", "auto")
    assert sending("auto", "/lake").halted("east") is None


@pytest.mark.parametrize(
    ("text", "stopped"),
    [
        ("", set()),
        ("east", {"east"}),
        (" east, far west ", {"east", "west", "far west"}),
        ("east\nwest", {"east", "west"}),
        ("far west", {"west", "far west"}),
        ("*", {"east", "west", "far west"}),
    ],
)
def test_the_variable_stops_the_clusters_that_it_names(
    text: str, stopped: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow.sdk.Variable.get", lambda name, default: text)
    assert {name for name in ("east", "west", "far west") if halted("dry_run", name) is not None} == stopped
