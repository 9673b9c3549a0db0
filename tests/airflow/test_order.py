"""A backfill's cycles are decided one after the other, however Airflow starts their runs."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel.airflow import order
from evenkeel.airflow.order import OutOfOrder, await_turn, must_wait

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)


@dataclass
class DagRun:
    """What is used of Airflow's run."""

    run_type: str = "backfill"
    state: str = "running"
    run_id: str = "backfill__1"
    start_date: datetime | None = None
    logical_date: datetime = NOW


@dataclass
class Answers:
    """A task instance that is told one state of the run before after the other."""

    runs: list[DagRun | None]
    asked: int = field(default=0)

    def get_previous_dagrun(self, state: str | None = None) -> Any:
        self.asked += 1
        return self.runs[min(self.asked, len(self.runs)) - 1]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_LOOK_EVERY_S", 0.0)


def test_a_live_run_asks_nobody() -> None:
    ti = Answers([DagRun(state="running")])
    assert await_turn(DagRun(run_type="scheduled"), ti) is None
    assert ti.asked == 0


def test_a_cycle_begins_when_the_one_before_is_over_and_knows_its_moment() -> None:
    ti = Answers([DagRun(state="queued"), DagRun(state="running"), DagRun(state="running"), DagRun(state="success")])
    assert await_turn(DagRun(start_date=datetime.now(UTC)), ti) == NOW
    assert ti.asked == 4


@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_run_that_is_over_is_not_waited_for_however_it_ended(state: str) -> None:
    assert not must_wait(DagRun(state=state), NOW, NOW)


def test_neither_the_first_run_nor_one_after_a_live_run_waits() -> None:
    assert not must_wait(None, NOW, NOW)
    assert not must_wait(DagRun(run_type="scheduled", state="running"), NOW, NOW)


@pytest.mark.parametrize(
    ("own", "before"), [("backfill", "scheduled"), ("scheduled", "backfill"), ("manual", "scheduled")]
)
def test_of_windows_each_run_waits_for_one_of_any_kind_that_is_going_on_and_for_none_to_begin(
    own: str, before: str
) -> None:
    states = [DagRun(run_type=before, state=state) for state in ("running", "running", "success")]
    ti = Answers(list(states))
    assert await_turn(DagRun(run_type=own, start_date=NOW), ti, windows=True) == NOW
    assert ti.asked == 3
    long_queued = Answers([DagRun(run_type=before, state="queued")])
    assert await_turn(DagRun(run_type=own, start_date=NOW), long_queued, windows=True) == NOW
    assert await_turn(DagRun(run_type=own, start_date=NOW), Answers([None]), windows=True) is None


def test_a_run_before_that_does_not_begin_is_named() -> None:
    before = DagRun(state="queued", run_id="backfill__08:25")
    assert must_wait(before, NOW - timedelta(minutes=1), NOW)
    with pytest.raises(OutOfOrder, match=r"backfill__08:25.*--run-backwards"):
        must_wait(before, NOW - timedelta(minutes=3), NOW)
    assert must_wait(DagRun(state="running"), NOW - timedelta(minutes=30), NOW)


def test_a_long_wait_gives_the_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowRescheduleException

    monkeypatch.setattr(order, "_LOOK_FOR_S", -1.0)
    with pytest.raises(AirflowRescheduleException):
        await_turn(DagRun(start_date=datetime.now(UTC)), Answers([DagRun(state="running")]))
