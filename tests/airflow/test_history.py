"""The runs of `rebalance_history`: their interval is the window, nothing of it is sent, and what is decided already is
left to backfills."""

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenkeel import pipeline
from evenkeel.airflow import history
from evenkeel.airflow.seal import Origin, sealed
from evenkeel.airflow.steps import handed_over
from evenkeel.errors import BadInput, NothingLanded, SettingsError
from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.handover_files import handed_on

DAY = datetime(2026, 11, 21, tzinfo=UTC)


@dataclass
class DagRun:
    """What is used of Airflow's run."""

    run_type: str = "backfill"
    data_interval_start: datetime | None = DAY
    data_interval_end: datetime | None = DAY + timedelta(days=1)
    dag_id: str = "rebalance_history"
    run_id: str = "backfill__2026-11-21"
    start_date: datetime = field(default_factory=lambda: datetime.now(UTC))
    logical_date: datetime = DAY


@dataclass
class TaskInstance:
    """A task instance whose run is the first one."""

    task_id: str = "ingest"
    dag_id: str = DagRun.dag_id
    run_id: str = DagRun.run_id
    pushed: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def get_previous_dagrun(self, state: str | None = None) -> Any:
        return None

    def get_dr_count(self, dag_id: str, *, states: list[str]) -> int:
        return 29

    def get_task_states(self, dag_id: str, *, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
        return {run_ids[0]: dict.fromkeys(self.texts, "success")}

    def xcom_pull(self, task_ids: str, key: str = "return_value", *, map_indexes: Any = None) -> Any:
        return self.texts.get(task_ids) if key == "return_value" else None

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text("[clusters.east]\nrecording = 'east'\n", encoding="utf-8")
    monkeypatch.setenv("EVENKEEL_LAKE", str(tmp_path))
    monkeypatch.setenv("EVENKEEL_CONFIG", str(file))
    connection = SimpleNamespace(conn_type="spark", host="spark://there", port=7077)
    monkeypatch.setattr("airflow.sdk.BaseHook.get_connection", lambda name: connection)


def opened(lake: Path, *minutes: int) -> Handover:
    """A hand-over of one cluster's cycles at these minutes of the day."""
    moments = [(DAY + timedelta(minutes=minute)).isoformat(timespec="microseconds") for minute in minutes]
    cycles = tuple(ClusterCycle("east", at, Snapshot(f"/gone/{at}", at), {}) for at in moments)
    return Handover(str(lake), Run("rebalance_history", "r", "backfill"), cycles)


def left_by(*tasks: str, handover: Handover) -> dict[str, str]:
    """What tasks of the run that ended well left in XCom."""
    return {name: sealed(handed_on(handover), Origin(DagRun.dag_id, DagRun.run_id, name)) for name in tasks}


def test_the_window_is_the_interval_without_its_end(tmp_path: Path) -> None:
    request = history.window_request(
        {"clusters": ["east"], "settings": {"loadBalancerSheddingIntervalMinutes": 5}}, DagRun()
    )
    assert (request.every, request.at, request.kind, request.mode) == (True, None, "backfill", "dry_run")
    assert request.since == "2026-11-21T00:00:00.000000+00:00"
    assert request.until == "2026-11-21T23:59:59.999999+00:00"
    assert (request.clusters, request.configuration) == (("east",), str(tmp_path / "evenkeel.toml"))
    assert request.overrides == {"loadBalancerSheddingIntervalMinutes": 5}


def test_a_scheduled_run_is_a_backfill_too_and_no_mode_of_the_environment_counts(monkeypatch: Any) -> None:
    monkeypatch.setenv("EVENKEEL_MODE", "auto")
    request = history.window_request({"settings": {"evenkeelMaxMovedTrafficPercent": 50.0}}, DagRun("scheduled"))
    assert (request.kind, request.mode) == ("backfill", "dry_run")


@pytest.mark.parametrize("end", [None, DAY])
def test_a_run_without_an_interval_says_what_to_do(end: datetime | None) -> None:
    run = DagRun("manual", data_interval_start=None if end is None else DAY, data_interval_end=end)
    with pytest.raises(BadInput, match=r"no data interval.*logical date.*backfill create --dag-id rebalance_history"):
        history.window_request({}, run)


def test_params_of_another_shape_are_refused() -> None:
    with pytest.raises(SettingsError, match="the param `clusters` is not a list of names"):
        history.window_request({"clusters": "east"}, DagRun())


@pytest.mark.parametrize(("everything", "minutes"), [(True, [0, 5, 10]), (False, [0, 10])])
def test_a_scheduled_run_takes_what_has_no_decision_and_a_backfill_takes_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, everything: bool, minutes: list[int]
) -> None:
    given = opened(tmp_path, 0, 5, 10)
    monkeypatch.setattr(history, "landed_in", lambda request: list(given.cycles))
    monkeypatch.setattr(history, "decided_at_all", lambda spark, lake, cycles: frozenset([given.cycles[1].key]))
    monkeypatch.setattr(history, "open_listed", lambda spark, request, cycles: given.with_cycles(cycles))
    request = history.window_request({}, DagRun())
    found = history.open_interval(None, request, everything=everything)  # type: ignore[arg-type]
    assert found == opened(tmp_path, *minutes)


def test_an_interval_without_anything_to_decide_skips_the_other_tasks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from airflow.sdk.exceptions import DownstreamTasksSkipped

    def never(*_: Any) -> Any:
        raise AssertionError("nothing is to be ingested")

    def nothing(request: CycleRequest) -> Any:
        raise NothingLanded(f"no snapshot from {request.since}")

    monkeypatch.setattr(history, "landed_in", nothing)
    monkeypatch.setattr(history, "open_listed", lambda spark, request, cycles: opened(tmp_path).with_cycles(cycles))
    monkeypatch.setattr(pipeline, "ingest", never)
    ti = TaskInstance()
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        history.begin(None, {}, DagRun(), ti)  # type: ignore[arg-type]
    assert list(skipped.value.tasks) == ["validate", "aggregate", "plan_splits", "shed", "place", "publish"]
    assert handed_over(ti.pushed["return_value"], ti, "ingest").cycles == ()


def test_an_interval_of_a_landing_zone_of_which_nothing_was_fetched_yet_is_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text('[clusters.far]\ns3 = "s3://bucket/prefix"\n')
    monkeypatch.setenv("EVENKEEL_CONFIG", str(file))
    monkeypatch.setattr(history, "open_listed", lambda spark, request, cycles: opened(tmp_path).with_cycles(cycles))
    with caplog.at_level(logging.INFO):
        found = history.open_interval(None, history.window_request({}, DagRun()), everything=True)  # type: ignore[arg-type]
    assert found.cycles == ()
    assert "landing/far holds no snapshot yet" in caplog.text


def test_publish_sends_nothing_and_says_how_far_the_backfill_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = opened(tmp_path, 0, 5)
    sent: list[Any] = []
    monkeypatch.setattr(pipeline, "publish", lambda spark, handover, steer: (sent.append(steer), handover)[1])
    ti = TaskInstance("publish", texts=left_by(*(task.__name__ for task in pipeline.DECIDING), handover=given))
    run = DagRun(start_date=datetime.now(UTC) - timedelta(seconds=60))
    with caplog.at_level(logging.INFO):
        published = history.close(None, {}, run, ti)  # type: ignore[arg-type]
    assert handed_over(published, ti, "publish") == given
    assert sent == [None]
    assert "2 cycles on record after 60 s (0.0 a second); 29 more runs wait, for about 29 min" in caplog.text


def test_a_failed_task_puts_all_cycles_of_the_interval_on_record_as_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    published: list[Handover] = []
    monkeypatch.setattr(pipeline, "publish", lambda spark, handover, steer: (published.append(handover), handover)[1])
    ti = TaskInstance("publish", texts=left_by("ingest", handover=opened(tmp_path, 0, 5)))
    with pytest.raises(AirflowFailException, match="validate failed"):
        history.close(None, {}, DagRun(), ti)  # type: ignore[arg-type]
    assert [(cycle.status, cycle.reason[:15]) for cycle in published[0].cycles if cycle.reason] == [
        ("failed", "validate failed")
    ] * 2


@pytest.mark.parametrize(
    ("course", "text"),
    [
        ((288, 96.0, 0), "288 cycles on record after 96 s (3.0 a second)"),
        (
            (288, 96.0, 1),
            "288 cycles on record after 96 s (3.0 a second); 1 more run waits, for about 2 min at that pace",
        ),
        ((0, 0.0, 0), "0 cycles on record after 0 s"),
    ],
)
def test_the_course_of_a_backfill(course: tuple[int, float, int], text: str) -> None:
    assert history.course(*course) == text
