"""*What if* in a browser: at every size, light and dark, and the start of a run against a stand-in of Airflow's API."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.browsing import expect_fit, in_sizes, watched_page
from tests.lakes.urgent_lake import XSS
from tests.plugins.desk_server import desk_served
from tests.plugins.here_reader import HereReader
from tests.plugins.replayed_lake import EU, replayed_lake

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.airflow, pytest.mark.browser, pytest.mark.slow]

READY = f"what-if/new?cluster={EU}&strategy=AvgShedder&check=yes"
PAGES = {
    "list": "what-if", "one": "what-if/run?id=first", "two": "what-if/run?id=first&id=second",
    "model": "what-if/run?id=model", "new": "what-if/new", "ready": READY,
    "wrong": f"what-if/new?cluster={EU}&strategy=AvgSheder&check=yes", "never": "what-if/run?id=never",
}  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    lake = replayed_lake(tmp_path_factory.mktemp("lakes") / "replayed", XSS[:2])
    with desk_served(lake, HereReader()) as address:
        yield address


@pytest.fixture
def page(browser: Browser, desk: str) -> Iterator[Page]:
    with watched_page(browser, desk.split("/evenkeel/")[0], but="status of 4") as found:
        yield found


@pytest.mark.parametrize(("width", "scheme", "name"), in_sizes(PAGES, fullest="two"))
def test_a_page_is_accessible_and_fits(
    browser: Browser, axe: str, desk: str, name: str, width: int, scheme: Any
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    shown = context.new_page()
    shown.goto(desk + PAGES[name], wait_until="networkidle")
    expect_fit(shown, axe)
    if folder := os.environ.get("EVENKEEL_SHOTS"):
        shown.screenshot(path=f"{folder}/what-if-{name}-{width}-{scheme}.png", full_page=True)
    context.close()


def test_two_replays_are_chosen_from_the_list_by_keyboard_and_told_apart(page: Page, desk: str) -> None:
    page.goto(desk + "what-if")
    for name in ("second", "first"):
        page.locator(f"input[value={name}]").focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Compare those chosen").press("Enter")
    page.wait_for_url("**/what-if/run?id=second&id=first")
    assert page.locator(".variants tbody tr").count() == 6
    dashes = page.evaluate(
        "[...document.querySelectorAll('.legend .line')].map(l => getComputedStyle(l).strokeDasharray)"
    )
    assert len(dashes) == len({*dashes}) == 6, "lines differ not by colour alone"
    assert page.locator(".wide .course .tag").all_text_contents()[:6] == ["1", "2", "3", "4", "5", "6"]
    assert page.locator("main script, main img").count() == 0


@pytest.mark.exhaustive
def test_a_checked_form_is_started_once_and_followed_to_its_comparison(page: Page, desk: str) -> None:
    """Airflow's answers are stand-ins here: a real one is started from this page in `tests/dags`."""
    posted: list[dict[str, Any]] = []
    states = iter(["queued", "queued", "success"])

    def start(route: Any) -> None:
        posted.append(json.loads(route.request.post_data))
        if len(posted) == 1:
            route.fulfill(status=403, json={"detail": "Forbidden"})
        else:
            route.fulfill(status=409, json={"detail": "there is one"})

    seen: list[str] = []

    def run_page(route: Any) -> None:
        seen.append(route.request.url)
        if len(seen) > 1:
            route.fulfill(status=303, headers={"Location": f"{desk}what-if/run?id=first"})
            return
        body = page_of_a_run(route.request.url)
        route.fulfill(status=200, content_type="text/html", body=body)

    def page_of_a_run(url: str) -> str:
        from evenkeel_page.pages import answer
        from evenkeel_page.reader import Job

        run = {"run_id": "r1", "state": "queued", "is_paused": False, "replay_id": "", "reason": ""}
        return str(answer(Job("what_if_started", "", {"run_id": "r1", "run": run})).body)

    page.route("**/api/v2/dags/replay/dagRuns", start)
    page.route("**/api/v2/dags/replay/dagRuns/*", lambda route: route.fulfill(json={"state": next(states)}))
    page.route("**/what-if/started?**", run_page)
    page.clock.install()
    page.goto(desk + READY)
    page.get_by_role("button", name="Start it").click()
    page.get_by_text("You may not trigger the DAG replay").wait_for()
    page.get_by_role("button", name="Start it").click()
    page.get_by_text("It waits").wait_for()
    assert [one["conf"] for one in posted] == [{"cluster": EU, "strategies": ["AvgShedder"]}] * 2
    assert posted[0]["dag_run_id"] == posted[1]["dag_run_id"], "whoever tries again starts no second run"
    page.clock.run_for(60_000)
    page.wait_for_url("**/what-if/run?id=first", timeout=20_000)


def test_without_a_script_the_configuration_is_there_to_paste(browser: Browser, desk: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    shown = context.new_page()
    shown.goto(desk + "what-if/new")
    shown.get_by_label("AvgShedder").first.check()
    shown.get_by_role("button", name="Check it").click()
    assert json.loads(shown.get_by_role("region", name="Configuration of the run").inner_text()) == {
        "cluster": EU, "strategies": ["AvgShedder"],
    }  # fmt: skip
    assert shown.get_by_role("button", name="Start it").is_visible() is False
    context.close()
