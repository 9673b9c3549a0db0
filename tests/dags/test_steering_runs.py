"""A run that a person has to approve, on brokers that ask for a token; the task that carries it out is killed."""

from __future__ import annotations

import base64
import gzip
import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import psutil
import pyarrow.parquet as pq
import pytest

from devtools.local_airflow.home import USER
from devtools.local_airflow.rest import RequestRefused
from devtools.local_airflow.service import DAG_ID, Airflow
from evenkeel.airflow.dag_names import approval_run_id
from evenkeel.lake.record import Attempt, read_attempts, read_table
from evenkeel.report import build_report
from tests.browsing import expect_words, past_busy
from tests.dags.waiting import APPROVAL_DAG_ID, PATIENCE_SECONDS, at_approval, awaited, ended, question_put, tries
from tests.publish.acting import LivingPulsar
from tests.steering.simulated import Fault

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

TOKEN = "eyJhbGciOiJIUzI1NiJ9.s3cret-of-the-test.c2lnbmF0dXJl"
CONNECTION = "pulsar_steered"
ADMIN = USER


@pytest.fixture
def pulsar(airflow: Airflow, clusters: Path) -> Iterator[LivingPulsar]:
    """A cluster `steered` in the configuration, whose token stands in a connection of Airflow's."""
    living = LivingPulsar()
    living.token = TOKEN
    with suppress(RequestRefused):  # a test before has made it
        airflow.rest.post("/api/v2/connections", {"connection_id": CONNECTION, "conn_type": "http", "password": TOKEN})
    before = clusters.read_text()
    # With guards nothing more would move so soon after the moves of a test before.
    steered = living.described("steered", connection=CONNECTION)
    clusters.write_text(f"{before}{steered}evenkeelGuardsEnabled = false\n")
    yield living
    clusters.write_text(before)
    living.close()


class KillOnce:
    """Kills the process of the task `send` when its first command has been carried out and not been answered yet."""

    def __init__(self, airflow: Airflow, run_id: str) -> None:
        self._airflow, self._run_id = airflow, run_id
        self._lock = threading.Lock()
        self.pid = 0

    def __call__(self, broker: str, method: str, path: str) -> Fault | None:
        if method != "PUT":
            # Whatever a broker echoes must not get any further.
            echoes = path.endswith("/metrics") and not broker.startswith("127.0.0.1:")
            return Fault(status=500, body=f'{{"reason": "Bearer {TOKEN}"}}', works=False) if echoes else None
        with self._lock:
            if self.pid:
                return None
            tasks = self._airflow.rest.tasks(APPROVAL_DAG_ID, self._run_id)
            (task,) = [one for one in tasks if one["task_id"] == "send"]
            self.pid = int(task["pid"])
        threading.Timer(0.3, lambda: psutil.Process(self.pid).send_signal(signal.SIGKILL)).start()
        return Fault(wait_s=1.0, status=0)


@pytest.mark.exhaustive
def test_an_approved_plan_is_carried_out_once_though_its_task_is_killed_and_no_token_is_seen(
    airflow: Airflow, lake: Path, clusters: Path, pulsar: LivingPulsar, tmp_path: Path
) -> None:
    conf = {"clusters": ["steered"], "mode": "approve"}
    run_id = airflow.rest.trigger(DAG_ID, logical_date=None, conf=conf)
    assert ended(airflow, run_id)["state"] == "success", "no later cycle waits for the answer"
    (waiting,) = of(lake, run_id)
    assert (waiting.status, waiting.reason) == ("planned", None)
    asking = approval_run_id(run_id, str(waiting.plan_id))
    path = f"/api/v2/dags/{APPROVAL_DAG_ID}/dagRuns/{quote(asking)}/taskInstances/approve/-1/hitlDetails"
    question_put(airflow, asking)
    asked = awaited("the question's text", lambda: airflow.rest.get(path))
    assert str(waiting.plan_id) in asked["body"]
    assert f"triggered by {ADMIN}" in asked["body"]
    assert pulsar.effects == []
    forged = {"run_id": run_id, "cluster": "steered", "plan_id": "0" * 64}
    other = airflow.rest.trigger(APPROVAL_DAG_ID, logical_date=None, conf=forged)

    pulsar.faults = killer = KillOnce(airflow, asking)
    approved = approving(airflow, path)
    awaited("the answer", lambda: approved() and at_approval(airflow, asking).get("approve") == "success")
    assert ended(airflow, asking, APPROVAL_DAG_ID)["state"] == "success"
    assert killer.pid
    assert tries(airflow, asking, APPROVAL_DAG_ID)["send"] == 2
    assert ended(airflow, other, APPROVAL_DAG_ID)["state"] == "failed", "another plan is not asked about"
    assert at_approval(airflow, other)["send"] == "upstream_failed"
    (attempt,) = of(lake, run_id)
    assert (attempt.status, attempt.reason) == ("closed", None)
    commands = [row for row in read_table(lake, "commands") if row["plan_id"] == attempt.plan_id]
    last = {
        row["command_id"]: row["outcome"] for row in sorted(read_table(lake, "outcomes"), key=lambda r: r["seen_at"])
    }
    assert {last[row["command_id"]] for row in commands} == {"done"}
    assert Counter(one[1] for one in pulsar.effects) == Counter(row["bundle"] for row in commands)

    events = airflow.rest.get("/api/v2/assets/events", source_run_id=asking, limit=100)["asset_events"]
    told = {write["write_id"] for event in events for write in event["extra"].get("writes", ())}
    assert told, "send's assets name what it wrote"
    assert told.isdisjoint(write.write_id for write in waiting.writes), "and nothing that tasks before it wrote"

    report = tmp_path / "report.html"
    build_report(lake, cluster="steered", out=report)
    assert "What came of it" in report.read_text()
    assert pulsar.tokens == {f"Bearer {TOKEN}"}
    places = [airflow.home.folder, lake, clusters.parent, tmp_path]
    assert [str(file) for place in places for file in holding(place)] == []
    assert [(row["answer"], row["by"]) for row in answers_to(lake, waiting)] == [("approved", ADMIN)]

    effects = [*pulsar.effects]
    edited = {
        "plan_id": waiting.plan_id,
        "chosen_options": ["Approve"],
        "responded_by_user": {"id": "jo", "name": "jo"},
    }
    entry = f"{path.rpartition('/-1/')[0]}/xcomEntries/return_value"
    airflow.rest.patch(entry, {"value": json.dumps(edited)})
    clear = {"dag_run_id": asking, "task_ids": ["send"], "dry_run": False, "only_failed": False}
    airflow.rest.post(f"/api/v2/dags/{APPROVAL_DAG_ID}/clearTaskInstances", clear)
    assert ended(airflow, asking, APPROVAL_DAG_ID)["state"] == "failed", "an answer that was edited in XCom is none"
    reason = airflow.rest.xcom(APPROVAL_DAG_ID, asking, "send", "reason")
    assert f"what the task approve of the run {asking} of {APPROVAL_DAG_ID} left in XCom has no seal" in reason
    assert pulsar.effects == effects
    assert len(answers_to(lake, waiting)) == 1


@pytest.mark.exhaustive
def test_a_plan_that_a_newer_cycle_supersedes_is_not_sent_whoever_approves_it(
    airflow: Airflow, lake: Path, pulsar: LivingPulsar
) -> None:
    run_id = airflow.rest.trigger(DAG_ID, logical_date=None, conf={"clusters": ["steered"], "mode": "approve"})
    assert ended(airflow, run_id)["state"] == "success"
    (waiting,) = of(lake, run_id)
    asking = approval_run_id(run_id, str(waiting.plan_id))
    path = f"/api/v2/dags/{APPROVAL_DAG_ID}/dagRuns/{quote(asking)}/taskInstances/approve/-1/hitlDetails"
    question_put(airflow, asking)
    newer = airflow.rest.trigger(DAG_ID, logical_date=None, conf={"clusters": ["steered"]})
    assert ended(airflow, newer)["state"] == "success"
    approved = approving(airflow, path)
    awaited("the answer", lambda: approved() and at_approval(airflow, asking).get("approve") == "success")
    assert ended(airflow, asking, APPROVAL_DAG_ID)["state"] == "success"
    (attempt,) = of(lake, run_id)
    assert attempt.status == "withheld"
    assert "a newer cycle is on record" in str(attempt.reason)
    (answer,) = answers_to(lake, waiting)
    assert (answer["answer"], answer["by"]) == ("rejected", "nobody")
    assert answer["note"].startswith("superseded: the cycle of ")
    assert answer["note"].endswith(f"{ADMIN} answered Approve")
    assert pulsar.effects == []


@pytest.mark.exhaustive
@pytest.mark.browser
def test_a_plan_is_rejected_on_the_desk_with_a_reason_and_a_second_answer_is_told_of_the_first(
    browser: Browser, airflow: Airflow, lake: Path, pulsar: LivingPulsar
) -> None:
    conf = {"clusters": ["steered"], "mode": "approve"}
    run_id = airflow.rest.trigger(DAG_ID, logical_date=None, conf=conf)
    assert ended(airflow, run_id)["state"] == "success"
    (waiting,) = of(lake, run_id)
    asking = approval_run_id(run_id, str(waiting.plan_id))
    question_put(airflow, asking)
    page = f"{airflow.url}/evenkeel/cycle?{urlencode({'cluster': 'steered', 'at': waiting.cycle_at.isoformat()})}"
    token = {"name": "_token", "value": airflow.rest.token(), "url": airflow.url}
    first, second = (browser.new_context() for _ in range(2))
    pages = []
    for context in (first, second):
        context.add_cookies([token])  # type: ignore[list-item]
        pages.append(context.new_page())
        pages[-1].goto(page)
        past_busy(pages[-1])
        expect_words(pages[-1], "main", "The question is open.")
    told = pages[0].locator("#approval").inner_text()
    assert "unload" in told
    assert "connect again" in told
    pages[0].get_by_label("Reason").fill("after the <b>release</b>")
    pages[0].get_by_role("button", name="Reject").click()
    assert "open" in pages[0].locator("#approval-state").inner_text(), "one click answers nothing"
    pages[0].get_by_role("button", name="Really reject it?").click()
    expect_words(pages[0], "#approval-state", "Answered: Reject, by")
    pages[1].get_by_role("button", name="Approve").click()
    pages[1].get_by_role("button", name="Really carry it out?").click()
    expect_words(pages[1], "#approval-state", "It was answered elsewhere before you.")
    assert "after the <b>release</b>" in pages[1].locator("#approval-state").inner_text()
    for context in (first, second):
        context.close()
    assert ended(airflow, asking, APPROVAL_DAG_ID)["state"] == "success"
    assert pulsar.effects == []
    assert [(row["answer"], row["by"], row["note"]) for row in answers_to(lake, waiting)] == [
        ("rejected", ADMIN, "after the <b>release</b>")
    ]


@pytest.mark.exhaustive
@pytest.mark.browser
def test_a_plan_is_approved_without_its_splits_on_the_desk_and_its_outcomes_arrive_on_the_open_page(
    browser: Browser, airflow: Airflow, lake: Path, pulsar: LivingPulsar
) -> None:
    bundle = min(pulsar.owner)
    other = next(name for name in sorted(pulsar.owner) if name != bundle)
    wishes = [
        {"kind": kind, "namespace": name.rpartition("/")[0], "bundle": name.rpartition("/")[2]}
        for kind, name in (("split", bundle), ("unload", other))
    ]
    conf = {"clusters": ["steered"], "mode": "approve", "wishes": wishes}
    run_id = airflow.rest.trigger(DAG_ID, logical_date=None, conf=conf)
    assert ended(airflow, run_id)["state"] == "success"
    (waiting,) = of(lake, run_id)
    asking = approval_run_id(run_id, str(waiting.plan_id))
    question_put(airflow, asking)
    link = f"{airflow.url}/evenkeel/run?{urlencode({'dag_id': DAG_ID, 'run_id': run_id})}"
    token = {"name": "_token", "value": airflow.rest.token(), "url": airflow.url}
    context = browser.new_context()
    context.add_cookies([token])  # type: ignore[list-item]
    page = context.new_page()
    page.goto(link)
    past_busy(page)
    address = page.url
    assert f"at={quote(waiting.cycle_at.isoformat(), safe='')}" in address, "the link on tasks leads to the very cycle"
    page.evaluate("window.stayed = true")
    page.locator("#tasks-said", has_text="ended in").wait_for(timeout=60_000)
    page.locator("#tasks > summary").click()
    logs = {
        name: page.get_by_role("link", name=f"Log of {name}", exact=True).get_attribute("href")
        for name in ("ingest", "publish", "ask [0]")
    }
    page.get_by_role("button", name="Approve without splits").click()
    page.get_by_role("button", name="Really without its splits?").click()
    expect_words(page, "#approval-state", "Answered: Approve without splits, by")
    page.locator("#progress-said", has_text="Approved without splits by").wait_for(timeout=PATIENCE_SECONDS * 1_000)
    page.get_by_text("Nothing more is to come.").wait_for(timeout=PATIENCE_SECONDS * 1_000)
    assert page.locator("#outcomes-0 tr", has_text="split ").locator(".pill").inner_text() == "withheld"
    assert "done" in page.locator("#outcomes-0").inner_text()
    assert (page.url, page.evaluate("window.stayed")) == (address, True), "it was never loaded anew"
    for name, href in logs.items():
        page.goto(f"{airflow.url}/evenkeel/{href}")
        page.get_by_text(name.partition(" ")[0]).first.wait_for(timeout=60_000)
        assert "not found" not in page.locator("body").inner_text().lower()
    context.close()
    assert ended(airflow, asking, APPROVAL_DAG_ID)["state"] == "success"
    (attempt,) = of(lake, run_id)
    asked = {row["bundle"]: row for row in read_table(lake, "commands") if row["plan_id"] == attempt.plan_id}
    last = {row["command_id"]: row for row in sorted(read_table(lake, "outcomes"), key=lambda row: row["seen_at"])}
    assert asked[bundle]["kind"] == "split"
    left_out = last[asked[bundle]["command_id"]]
    assert left_out["outcome"] == "withheld"
    assert f"{ADMIN} approved the plan without its splits" in left_out["detail"]
    assert {one[1] for one in pulsar.effects} == asked.keys() - {bundle}
    assert [(row["answer"], row["by"]) for row in answers_to(lake, attempt)] == [("approved_without_splits", ADMIN)]


def approving(airflow: Airflow, path: str) -> Callable[[], bool]:
    """Answers whenever the question is open: a try of the task that died with the answer in hand puts it again."""

    def answered() -> bool:
        if not airflow.rest.get(path)["response_received"]:
            airflow.rest.patch(path, {"chosen_options": ["Approve"], "params_input": {}})
        return True

    return answered


def of(lake: Path, run_id: str) -> list[Attempt]:
    return [one for one in read_attempts(lake, cluster="steered") if one.planned["run_id"] == run_id]


def answers_to(lake: Path, attempt: Attempt) -> list[dict[str, Any]]:
    """The answers on record to the plan of this attempt; tests before have answered to others."""
    return [row for row in read_table(lake, "approvals") if row["plan_id"] == attempt.plan_id]


def holding(folder: Path) -> Iterator[Path]:
    """The files in which the token stands, packed or not."""
    forms = [TOKEN.encode(), base64.b64encode(TOKEN.encode())[:-4], quote(TOKEN, safe="").encode()]
    for file in folder.rglob("*"):
        if file.is_file() and any(form in content(file) for form in forms):
            yield file


def content(file: Path) -> bytes:
    body = file.read_bytes()
    if file.suffix == ".gz":
        return gzip.decompress(body)
    if file.suffix == ".parquet" and body[:4] == b"PAR1":
        return str(pq.ParquetFile(file).read().to_pylist()).encode() + body
    return body
