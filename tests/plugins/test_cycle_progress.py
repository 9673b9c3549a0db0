"""The page of a cycle that is not over: what it says of answers and outcomes, and when nothing more is to come."""

import html
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from evenkeel.airflow.dag_names import approval_run_id
from tests.lakes.open_cycle import CLUSTER, MOVED, PLAN, SPLIT, OpenCycle
from tests.plugins.here_reader import HereReader

pytestmark = pytest.mark.airflow

HOSTILE = "manual__<img src=x onerror=alert(1)>/../#?"
WHY = "jo approved the plan without its splits at 2026-11-21T08:01:00+00:00"


@pytest.fixture
def cycle(tmp_path: Path) -> OpenCycle:
    return OpenCycle(tmp_path / "lake", datetime.now(UTC) - timedelta(minutes=3))


@pytest.fixture
def page(cycle: OpenCycle, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    from evenkeel_page.app import make_app

    monkeypatch.setenv("EVENKEEL_LAKE", str(cycle.root))
    return TestClient(make_app(guarded=False, reader=HereReader()))  # type: ignore[arg-type]


def progress(page: TestClient) -> tuple[list[str], list[tuple[str, str]], bool]:
    """What the page of commands says, each command with its outcome, and whether all is over."""
    answer = page.get("/cycle-commands", params={"cluster": CLUSTER, "at": "latest"})
    assert answer.status_code == 200
    return parts(answer.text)


def parts(text: str) -> tuple[list[str], list[tuple[str, str]], bool]:
    said = re.search(r'<div id="progress-said" role="status">(.*?)</div>', text, re.DOTALL)
    assert said
    lines = [html.unescape(re.sub("<[^>]+>", "", line)) for line in re.findall(r"<p>(.*?)</p>", said[1], re.DOTALL)]
    rows = re.findall(
        r'<tr><td>(\w+) <a href="bundle[^>]*><bdi class="n">([^<]+)<.*?<span class="pill \w*">([^<]+)<', text
    )
    return lines, [(f"{kind} {bundle}", outcome) for kind, bundle, outcome in rows], 'data-over="yes"' in text


def test_a_plan_that_waits_is_not_over_and_its_answer_is_told(cycle: OpenCycle, page: TestClient) -> None:
    assert progress(page) == ([], [], False)
    cycle.answer("approved_without_splits", note="not <b>tonight</b>")
    (told,), commands, is_over = progress(page)
    assert told.startswith("Approved without splits by jo at ")
    assert told.endswith(": not <b>tonight</b>.")
    assert (commands, is_over) == ([], False)


def test_outcomes_come_in_until_the_cycle_is_closed_and_each_has_one(cycle: OpenCycle, page: TestClient) -> None:
    split, (first, second) = f"split {SPLIT}", [f"unload {bundle}" for bundle in MOVED]
    cycle.answer("approved")
    cycle.put_out()
    told, commands, is_over = progress(page)
    assert told[1:] == ["No outcome is on record yet of 3 commands."]
    assert ({*commands}, is_over) == ({(split, "open"), (first, "open"), (second, "open")}, False)
    cycle.see(1, "withheld", f"not sent: {WHY}")
    cycle.see(2, "done", "its owner is another one")
    told, commands, is_over = progress(page)
    assert told[1:] == ["2 of 3 commands have an outcome: 1 done and 1 withheld."]
    assert ({*commands}, is_over) == ({(split, "withheld"), (first, "done"), (second, "open")}, False)
    cycle.close(WHY)
    told, _, is_over = progress(page)
    assert told[2:] == ["The next cycle looks what became of the rest.", f"{WHY[0].upper()}{WHY[1:]}."]
    assert not is_over
    cycle.see(3, "done", "its owner is another one")
    told, _, is_over = progress(page)
    assert told[1] == "All 3 commands have an outcome: 2 done and 1 withheld."
    assert is_over


def test_the_page_of_the_cycle_shows_the_same_and_asks_on_only_while_something_is_to_come(
    cycle: OpenCycle, page: TestClient
) -> None:
    cycle.put_out()
    cycle.see(2, "done", "its owner is another one")
    whole = page.get("/cycle", params={"cluster": CLUSTER, "at": "latest"}).text
    assert parts(whole) == progress(page)
    assert "cycle_progress.js" in whole
    address = re.search(r'data-address="([^"]+)"', whole)
    assert address
    first = page.get(f"/{html.unescape(address[1])}")
    assert first.status_code == 200
    again = page.get(f"/{html.unescape(address[1])}", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304, "nothing that changes by itself stands on it"
    cycle.see(1, "done", "cut")
    cycle.see(3, "done", "its owner is another one")
    assert (
        page.get(f"/{html.unescape(address[1])}", headers={"If-None-Match": first.headers["etag"]}).status_code == 200
    )
    cycle.close()
    assert "cycle_progress.js" not in page.get("/cycle", params={"cluster": CLUSTER, "at": "latest"}).text


def test_nobody_waits_for_outcomes_of_a_cycle_of_the_day_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: TestClient
) -> None:
    old = OpenCycle(tmp_path / "old", datetime.now(UTC) - timedelta(days=1, minutes=1))
    old.put_out()
    monkeypatch.setenv("EVENKEEL_LAKE", str(old.root))
    assert progress(page)[2]


def test_the_runs_lead_to_airflow_and_a_hostile_name_stays_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: TestClient
) -> None:
    odd = OpenCycle(tmp_path / "odd", datetime.now(UTC), run_id=HOSTILE)
    monkeypatch.setenv("EVENKEEL_LAKE", str(odd.root))
    text = page.get("/cycle", params={"cluster": CLUSTER, "at": "latest"}).text
    assert "<img" not in text
    quoted = "manual__%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%2F..%2F%23%3F"
    asking = f"{quoted}--plan-{PLAN[:16]}"
    assert approval_run_id("x", PLAN) == f"x--plan-{PLAN[:16]}"
    assert re.findall(r'data-tasks="([^"]+)" data-page="([^"]+)"', text) == [
        (f"../api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=100", f"../dags/{dag}/runs/{run}")
        for dag, run in (("rebalance", quoted), ("rebalance_approval", asking))
    ]


def test_a_cycle_that_was_made_in_a_shell_says_that_it_has_no_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: TestClient
) -> None:
    shell = OpenCycle(tmp_path / "shell", datetime.now(UTC), dag_id="cli")
    monkeypatch.setenv("EVENKEEL_LAKE", str(shell.root))
    text = page.get("/cycle", params={"cluster": CLUSTER, "at": "latest"}).text
    assert "This cycle was made in a shell" in text
    assert "data-tasks" not in text
    assert "cycle_tasks.js" not in text


def test_the_limit_is_drawn_in_and_named(page: TestClient) -> None:
    text = page.get("/cycle", params={"cluster": CLUSTER, "at": "latest"}).text
    assert "ThresholdShedder sheds from a broker whose usage reaches 66.0 %" in re.sub(r"\s+", " ", text)
    assert "before and after the plan, with the limit of 66.0 %" in text
    assert 'class="limit"' in text
