"""A simulation that is started on the desk's page *What if*, in a real Airflow, and followed to its comparison."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from devtools.local_airflow.service import DAG_ID, Airflow
from evenkeel.airflow.dag_names import REPLAY_DAG
from evenkeel.lake.record import read_attempts, read_table
from tests.browsing import expect_words, past_busy
from tests.dags.waiting import ended

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.browser]

ASKED = {"kind": "simulate", "scenario": "zipf", "cycles": 12, "bundles": 24, "strategy": "AvgShedder", "check": "yes"}


@pytest.fixture
def unpaused(airflow: Airflow) -> Iterator[None]:
    """The DAG as somebody has it who means to use it; paused again after the test if it was."""
    path = f"/api/v2/dags/{REPLAY_DAG}"
    before = airflow.rest.get(path)["is_paused"]
    airflow.rest.patch(path, {"is_paused": False})
    yield
    airflow.rest.patch(path, {"is_paused": before})


@pytest.fixture
def recorded(airflow: Airflow, lake: Path) -> None:
    """A cycle on record, as the form asks for; most often a test before has decided one."""
    if not (lake / "cycles").exists() or not read_attempts(lake, cluster="good"):
        run_id = airflow.rest.trigger(DAG_ID, logical_date=None, conf={"clusters": ["good"]})
        assert ended(airflow, run_id)["state"] == "success"


@pytest.mark.exhaustive
def test_a_simulation_is_started_from_the_page_and_leads_to_its_comparison(
    browser: Browser, airflow: Airflow, lake: Path, unpaused: None, recorded: None
) -> None:
    token = {"name": "_token", "value": airflow.rest.token(), "url": airflow.url}
    context = browser.new_context()
    context.add_cookies([token])  # type: ignore[list-item]
    page = context.new_page()
    page.goto(f"{airflow.url}/evenkeel/what-if/new?{urlencode(ASKED)}")
    past_busy(page)
    expect_words(page, "main", "Ready to run", 1)
    page.get_by_role("button", name="Start it").click()
    page.wait_for_url("**/what-if/started?run_id=*", timeout=30_000)
    run_id = page.locator(".effect").inner_text()
    page.wait_for_url("**/what-if/run?id=*", timeout=300_000)
    assert ended(airflow, run_id, REPLAY_DAG)["state"] == "success"
    replay_id = page.url.rpartition("=")[2]
    figures = page.locator(".variants tbody tr").all_inner_texts()
    page.goto(f"{airflow.url}/evenkeel/what-if")
    assert page.locator(f"input[value='{replay_id}']").count() == 1
    context.close()
    (run,) = (row for row in read_table(lake, "replay_runs") if row["replay_id"] == replay_id)
    assert (run["kind"], run["cluster"], run["cycles"]) == ("closed_loop", "model", 12)
    assert [line.split()[1] for line in figures] == ["untouched", "AvgShedder"]
    events = airflow.rest.get("/api/v2/eventLogs", dag_id=REPLAY_DAG, run_id=run_id)["event_logs"]
    assert "trigger_dag_run" in {one["event"] for one in events}, "Airflow's own audit log has it"
