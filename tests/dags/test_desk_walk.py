"""A walk over the desk in a browser, on tables that cycles of a real Airflow and of a shell have written.

A bundle is unloaded, and the brokers bring it back. The bounce is found on the heat map, its reason in the cycle that
had moved it; the plan of the cycle that saw it come back is approved, and its outcome seen to arrive.
`EVENKEEL_SHOTS=FOLDER` keeps what was seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devtools.local_airflow.service import DAG_ID, Airflow
from evenkeel.airflow.dag_names import approval_run_id
from evenkeel.heat import build
from evenkeel.lake.record import Attempt, read_attempts, read_rows, read_table
from evenkeel.spark.server import Engine
from tests.browsing import OPEN_ALL, Watched, expect_words, past_busy, violations
from tests.dags.waiting import APPROVAL_DAG_ID, ended, question_put
from tests.lakes.urgent_lake import XSS
from tests.publish.acting import LivingPulsar

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.browser, pytest.mark.slow, pytest.mark.exhaustive]

CHECKOUT = Path(__file__).resolve().parents[2]
CLUSTER = "walked"
DRAWN = "#heat[data-drawn]"
ARRIVES_S = 120.0


@dataclass(frozen=True)
class Bounced:
    """What the cycles of the walk have left: who moved the bundle and back, and the plan that waits."""

    bundle: str
    home: str
    away: str
    moving: Attempt
    waiting: Attempt
    question: str
    pulsar: LivingPulsar


@pytest.fixture
def bounced(
    browser: Browser, engine: Engine, airflow: Airflow, lake: Path, clusters: Path, tmp_path: Path
) -> Iterator[Bounced]:
    """A cycle that unloads, one that sees it, and, after the brokers have brought a bundle back, one of Airflow's."""
    pulsar = LivingPulsar()
    before = clusters.read_text()
    environment = {**os.environ, "EVENKEEL_SPARK": engine.url, "PYTHONPATH": f"{CHECKOUT}/spark"}
    try:
        alone = tmp_path / "alone.toml"
        alone.write_text(pulsar.described(CLUSTER))
        owners = dict(pulsar.owner)
        shell = [sys.executable, "-m", "evenkeel.cli", "rebalance", "--config", str(alone), "--lake", str(lake)]
        subprocess.run([*shell, "--mode", "auto"], env=environment, check=True)
        bundle = next(name for kind, name, _ in pulsar.effects if kind == "unload")
        home, away = owners[bundle], pulsar.owner[bundle]
        assert home != away
        subprocess.run(shell, env=environment, check=True)
        pulsar.owner[bundle] = home
        # With guards nothing would move yet: figures of brokers count as unsettled so soon after a move.
        clusters.write_text(f"{before}{pulsar.described(CLUSTER)}evenkeelGuardsEnabled = false\n")
        other = next(name for name in sorted(pulsar.owner) if name != bundle)
        wish = {"kind": "unload", "namespace": other.rpartition("/")[0], "bundle": other.rpartition("/")[2]}
        conf = {"clusters": [CLUSTER], "mode": "approve", "wishes": [wish]}
        run_id = airflow.rest.trigger(DAG_ID, logical_date=None, conf=conf)
        assert ended(airflow, run_id)["state"] == "success"
        build(str(lake))
        moving, *_, waiting = sorted(read_attempts(lake, cluster=CLUSTER), key=lambda one: one.cycle_at)
        assert (waiting.status, waiting.reason) == ("planned", None), read_rows(lake, waiting, "guard_decisions")
        question = approval_run_id(run_id, str(waiting.plan_id))
        question_put(airflow, question)
        yield Bounced(bundle, home, away, moving, waiting, question, pulsar)
    finally:
        clusters.write_text(before)
        pulsar.close()


def test_a_bounce_is_found_and_its_reason_a_plan_is_approved_and_its_outcome_arrives(
    browser: Browser, axe: str, airflow: Airflow, lake: Path, bounced: Bounced
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True)
    context.add_cookies([{"name": "_token", "value": airflow.rest.token(), "url": airflow.url}])
    page = context.new_page()
    watched = Watched(page)

    def looked_at(name: str) -> None:
        page.evaluate(axe)
        assert violations(page) == [], name
        assert page.locator("main script, main img").count() == 0
        if folder := os.environ.get("EVENKEEL_SHOTS"):
            page.screenshot(path=f"{folder}/walk-{name}.png", full_page=True)

    page.goto(f"{airflow.url}/evenkeel/")
    page.get_by_role("link", name=CLUSTER, exact=True).first.wait_for(timeout=60_000)
    looked_at("clusters")

    page.goto(f"{airflow.url}/evenkeel/heat?cluster={CLUSTER}&last=1h")
    page.wait_for_selector(DRAWN, state="attached", timeout=60_000)
    find_bounce(page, bounced)
    looked_at("bounce")
    seen_at = page.url
    (reason, *_) = [
        row["sentence"]
        for row in read_rows(lake, bounced.moving, "unload_decisions")
        if row["subject"] == bounced.bundle and row["outcome"] == "unload"
    ]
    for _ in range(3):
        if reason in page.locator("#why").inner_text():
            break
        told = page.locator("#why .when").inner_text()
        page.get_by_role("link", name="cycle before").click()
        page.wait_for_function("told => document.querySelector('#why .when')?.innerText !== told", arg=told)
    assert reason in page.locator("#why").inner_text()
    looked_at("reason")

    page.goto(seen_at)
    page.get_by_role("link", name="Report of this cycle").click(timeout=60_000)
    past_busy(page)
    expect_words(page, "main", "The question is open.")
    looked_at("plan")
    page.get_by_label("Reason").fill(XSS[0])
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_role("button", name="Really carry it out?").click()
    expect_words(page, "#approval-state", "Answered: Approve, by")
    assert XSS[0] in page.locator("#approval-state").inner_text()
    looked_at("approved")
    arrived(page)
    page.evaluate(OPEN_ALL)
    looked_at("outcome")
    context.close()
    watched.expect_silence(airflow.url)

    assert ended(airflow, bounced.question, APPROVAL_DAG_ID)["state"] == "success"
    commands = [row for row in read_table(lake, "commands") if row["plan_id"] == bounced.waiting.plan_id]
    assert commands
    assert {row["bundle"] for row in commands} <= {name for _, name, _ in bounced.pulsar.effects}
    answers = [row for row in read_table(lake, "approvals") if row["plan_id"] == bounced.waiting.plan_id]
    assert [(row["answer"], row["note"]) for row in answers] == [("approved", XSS[0])]


def find_bounce(page: Page, bounced: Bounced) -> None:
    """Goes from mark to mark by key, as somebody without a pointer does, and asks why at the bounce."""
    page.focus("#field")
    for _ in range(60):
        page.keyboard.press("n")
        said = str(page.locator("#said").text_content())
        if "bounce" in said and bounced.bundle in said:
            break
    else:
        raise AssertionError(f"no bounce of {bounced.bundle} was announced")
    page.keyboard.press("Enter")
    page.wait_for_selector("#why .exact", timeout=60_000)
    here = page.locator("#why .here").inner_text()
    assert f"bounce: {bounced.away} → {bounced.home}" in here


def arrived(page: Page) -> None:
    """The outcome stands on the cycle's page, which somebody loads again as long as it does not renew itself."""
    until = time.monotonic() + ARRIVES_S
    while time.monotonic() < until:
        if "What came of it" in page.locator("main").inner_text() and outcome(page):
            return
        page.wait_for_timeout(2_000)
        page.reload()
    raise AssertionError(f"no outcome within {ARRIVES_S:.0f} s")


def outcome(page: Page) -> Any:
    """Whether a command's outcome `done` stands under what came of the plan."""
    return page.evaluate(
        """() => [...document.querySelectorAll('main section, main .section')].some((one) =>
             /What came of it/.test(one.innerText) && /done/.test(one.innerText))"""
    )
