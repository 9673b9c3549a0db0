"""An open cycle's page in a browser: outcomes arrive without a reload, tasks come from Airflow's API, and a plan with
splits can be approved without them.

Airflow's own answers are put in by the test here; `tests/dags/test_steering_runs.py` asks a real Airflow.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browsing import expect_fit, in_sizes, watched_page
from tests.lakes.open_cycle import CLUSTER, MOVED, OpenCycle
from tests.plugins.desk_server import desk_served
from tests.plugins.here_reader import HereReader

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.airflow, pytest.mark.browser, pytest.mark.slow]

HOSTILE = "<img src=x onerror=alert(1)>"
TASKS = [
    ("ingest", -1, "success", "2026-11-27T08:00:01Z", "2026-11-27T08:00:04.500000Z", 3.5, 1),
    ("publish", -1, "success", "2026-11-27T08:00:05Z", "2026-11-27T08:02:05Z", 120.0, 2),
    ("ask", 0, "upstream_failed", None, None, None, 0),
    (HOSTILE, -1, "running", "2026-11-27T08:00:06Z", None, None, 1),
]
OPTIONS = ["Approve", "Approve without splits", "Reject"]


@pytest.fixture
def cycle(tmp_path: Path) -> OpenCycle:
    return OpenCycle(tmp_path / "lake", datetime.now(UTC) - timedelta(minutes=3))


class Api:
    """Answers in the place of Airflow's API."""

    def __init__(self, *, status: int = 200, options: list[str] | None = None) -> None:
        self.status, self.options = status, options or OPTIONS
        self.patched: list[dict[str, Any]] = []

    def __call__(self, route: Route) -> None:
        if self.status != 200:
            route.fulfill(status=self.status, json={"detail": "no"})
        elif "hitlDetails" in route.request.url:
            at, jo = "2026-11-27T08:01:00Z", {"id": "jo", "name": "jo"}
            if route.request.method == "PATCH":
                given = json.loads(route.request.post_data or "")
                self.patched.append(given)
                route.fulfill(json={**given, "responded_by": jo, "responded_at": at})
                return
            said = self.patched[-1]["chosen_options"] if self.patched else None
            route.fulfill(json={
                "response_received": bool(said), "chosen_options": said, "options": self.options,
                "responded_by_user": jo, "responded_at": at,
                "params_input": {},
            })  # fmt: skip
        elif "rebalance_approval" in route.request.url:
            route.fulfill(status=404, json={"detail": "no such run"})
        else:
            names = ("task_id", "map_index", "state", "start_date", "end_date", "duration", "try_number")
            route.fulfill(json={"task_instances": [dict(zip(names, task, strict=True)) for task in TASKS]})


@contextmanager
def shown(browser: Browser, cycle: OpenCycle, api: Api, **more: Any) -> Iterator[Page]:
    """The cycle's page, its clock in the test's hand; nothing may be complained of but what Airflow refuses."""
    with desk_served(cycle.root, HereReader()) as address:
        host = address.split("/evenkeel/")[0]
        with watched_page(browser, host, but="Failed to load resource", **more) as page:
            page.route("**/api/v2/**", api)
            page.clock.install()
            page.goto(f"{address}cycle?cluster={CLUSTER}&at=latest")
            yield page


def asked(page: Page) -> list[str]:
    """Addresses of the page of commands, as they are asked for from now on."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url) if "/cycle-commands" in request.url else None)
    return found


def test_outcomes_arrive_on_the_open_page_and_it_stops_asking_once_all_is_over(
    browser: Browser, cycle: OpenCycle
) -> None:
    with shown(browser, cycle, Api()) as page:
        requests = asked(page)
        page.evaluate("window.stayed = true")
        cycle.answer("approved_without_splits", note="not tonight")
        cycle.put_out()
        cycle.see(1, "withheld", "not sent: jo approved the plan without its splits")
        page.clock.run_for(8_000)
        told = page.locator("#progress-said")
        told.get_by_text("1 of 3 commands has an outcome: 1 withheld.").wait_for(timeout=30_000)
        assert "Approved without splits by jo" in told.inner_text()
        assert page.locator("#outcomes-0 tbody tr").count() == 3
        for step in (2, 3):
            cycle.see(step, "done", "its owner is another one")
        cycle.close("jo approved the plan without its splits")
        page.clock.run_for(8_000)
        page.get_by_text("Nothing more is to come.").wait_for(timeout=30_000)
        assert [one.inner_text() for one in page.locator("#outcomes-0 .pill").all()] == ["withheld", "done", "done"]
        assert page.get_by_role("link", name="Load this page again").get_attribute("href") == page.url
        number = len(requests)
        page.clock.run_for(120_000)
        assert len(requests) == number, "nothing is asked any more"
        assert page.evaluate("window.stayed"), "it was never loaded anew"


def test_it_asks_less_often_of_a_busy_desk_and_not_at_all_while_nobody_sees_it(
    browser: Browser, cycle: OpenCycle
) -> None:
    with shown(browser, cycle, Api()) as page:
        page.clock.pause_at(page.evaluate("Date.now() / 1000 + 3"))  # later than now when it arrives
        requests: list[str] = []

        def busy(route: Route) -> None:
            requests.append(route.request.url)
            route.fulfill(status=503, headers={"Retry-After": "20"}, body="busy")

        def run(seconds: int) -> int:
            before = len(requests)
            for _ in range(seconds):
                sent = len(requests)
                page.clock.run_for(1_000)
                if len(requests) > sent:
                    page.wait_for_timeout(300)  # the answer is taken in, while the page's own clock stands still
            return len(requests) - before

        page.route("**/cycle-commands**", busy)
        assert run(8) == 1
        assert run(12) == 0, "Retry-After holds"
        assert run(12) == 1
        assert run(25) == 0, "and each refusal makes it wait longer"
        page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
        assert run(90) == 0
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for_timeout(300)
        assert len(requests) == 3


def test_tasks_stand_with_their_times_and_lead_to_airflows_logs(browser: Browser, cycle: OpenCycle) -> None:
    with shown(browser, cycle, Api()) as page:
        page.locator("#tasks-said", has_text="3 of 4 ended, 1 failed").wait_for(timeout=10_000)
        page.locator("#tasks > summary").click()
        rows = page.locator("#tasks tbody tr").all()
        assert [row.locator("td").nth(0).inner_text() for row in rows] == ["ingest", "publish", HOSTILE, "ask [0]"]
        assert rows[0].inner_text().split("\t")[1:] == ["success", "2026-11-27 08:00:01 UTC", "3.5 s", "1"]
        assert rows[1].inner_text().split("\t")[3:] == ["2 min 0 s", "2"]
        links = [row.locator("a").get_attribute("href") or "" for row in rows]
        begin = links[0].split("/tasks/")[0]
        assert begin.startswith("../dags/rebalance/runs/manual__")
        assert [link.removeprefix(f"{begin}/tasks/") for link in links] == [
            "ingest?try_number=1", "publish?try_number=2",
            "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E?try_number=1", "ask/mapped/0?try_number=1",
        ]  # fmt: skip
        assert "Airflow has no such run (yet, or any more)." in page.locator("#tasks").inner_text()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (403, "You may see this cycle, and not Airflow's tasks"),
        pytest.param(401, "Your session has ended", marks=pytest.mark.exhaustive),
        pytest.param(500, "answered 500", marks=pytest.mark.exhaustive),
    ],
)
def test_where_airflow_shows_no_tasks_the_page_says_so(
    browser: Browser, cycle: OpenCycle, status: int, words: str
) -> None:
    with shown(browser, cycle, Api(status=status)) as page:
        page.locator("#tasks > summary").click()
        page.locator("#tasks .run-said", has_text=words).first.wait_for(timeout=10_000)
        assert page.locator("#tasks a").first.is_visible(), "the way to the run stays"


def test_a_plan_with_splits_can_be_approved_without_them_and_asks_once_more(browser: Browser, cycle: OpenCycle) -> None:
    api = Api()
    with shown(browser, cycle, api) as page:
        page.get_by_role("button", name="Approve without splits").click()
        assert api.patched == [], "one click answers nothing"
        page.get_by_role("button", name="Really without its splits?").click()
        page.get_by_text("Answered: Approve without splits, by jo").wait_for(timeout=10_000)
        assert api.patched == [{"chosen_options": ["Approve without splits"], "params_input": {}}]


@pytest.mark.parametrize(
    ("status", "detail", "said"),
    [
        (500, "database is locked", "(500): database is locked"),
        (
            422,
            [{"loc": ["body", "chosen_options"], "msg": "Field required"}, {"msg": "extra"}],
            "(422): Field required; extra",
        ),
        (400, {"reason": "unknown", "message": "no such option"}, "(400): no such option"),
    ],
    ids=["a sentence", "a list", "a reason"],
)
def test_an_answer_that_airflow_fails_to_take_can_be_given_again(
    browser: Browser, cycle: OpenCycle, status: int, detail: object, said: str
) -> None:
    def failing(route: Route) -> None:
        if route.request.method == "PATCH":
            route.fulfill(status=status, json={"detail": detail})
        else:
            route.fallback()

    api = Api()
    with shown(browser, cycle, api) as page:
        page.route("**/hitlDetails", failing)
        page.get_by_role("button", name="Approve", exact=True).click()
        page.get_by_role("button", name="Really carry it out?").click()
        page.locator("#approval-state", has_text=f"was not taken {said}").wait_for(timeout=10_000)
        page.unroute("**/hitlDetails")
        page.get_by_role("button", name="Approve", exact=True).click()
        page.get_by_role("button", name="Really carry it out?").click()
        page.get_by_text("Answered: Approve, by jo").wait_for(timeout=10_000)
        assert [one["chosen_options"] for one in api.patched] == [["Approve"]]


def test_an_answer_that_airflow_loses_can_be_given_again_and_one_that_it_keeps_is_not_looked_at_for_ever(
    browser: Browser, cycle: OpenCycle
) -> None:
    """Airflow takes an answer within seconds of the question for a task that somebody changed, and puts it again."""
    api = Api()
    with shown(browser, cycle, api) as page:
        looks: list[str] = []
        page.on("request", lambda request: looks.append(request.url) if "hitlDetails" in request.url else None)
        for _ in range(2):
            page.get_by_role("button", name="Approve", exact=True).click()
            page.get_by_role("button", name="Really carry it out?").click()
            page.get_by_text("Answered: Approve, by jo").wait_for(timeout=10_000)
            kept = [*api.patched]
            api.patched.clear()
            page.clock.run_for(11_000)
            page.locator("#approval-state", has_text="Airflow lost the answer, and asks again").wait_for(timeout=10_000)
        api.patched += kept
        for _ in range(8):
            page.clock.run_for(11_000)
            page.get_by_text("Answered: Approve, by jo").wait_for(timeout=10_000)
        number = len(looks)
        page.clock.run_for(60_000)
        assert len(looks) == number


def test_where_the_question_does_not_offer_it_the_third_button_is_not_there(browser: Browser, cycle: OpenCycle) -> None:
    with shown(browser, cycle, Api(options=["Approve", "Reject"])) as page:
        page.get_by_role("button", name="Reject").wait_for(timeout=10_000)
        assert [one.inner_text() for one in page.locator("#approval button:visible").all()] == ["Approve", "Reject"]


def test_a_plan_that_is_superseded_while_the_page_is_open_takes_no_answer(browser: Browser, cycle: OpenCycle) -> None:
    api = Api()
    with shown(browser, cycle, api) as page:
        page.get_by_role("button", name="Approve", exact=True).wait_for(timeout=10_000)
        cycle.lake.add(CLUSTER, cycle.at + timedelta(minutes=2), {}, plan_id="1" * 64)
        page.clock.run_for(8_000)
        page.locator("#approval", has_text="This plan is superseded: the cycle of").wait_for(timeout=30_000)
        assert (page.locator("#approval button").count(), api.patched) == (0, [])


def test_a_question_for_others_offers_no_button(browser: Browser, cycle: OpenCycle) -> None:
    def named(route: Route) -> None:
        kim = [{"id": "kim", "name": "Kim"}]
        route.fulfill(json={"response_received": False, "options": OPTIONS, "assigned_users": kim, "params_input": {}})

    with shown(browser, cycle, Api()) as page:
        page.route("**/hitlDetails", named)
        page.reload()
        page.get_by_text("It is for Kim to answer.").wait_for(timeout=10_000)
        assert page.locator("#approval button:visible").count() == 0


@pytest.mark.parametrize(("width", "scheme", "state"), in_sizes(("waiting", "under way"), fullest="under way"))
def test_the_page_is_accessible_and_fits(
    browser: Browser, axe: str, cycle: OpenCycle, width: int, scheme: str, state: str
) -> None:
    if state == "under way":
        cycle.answer("approved_without_splits", note="not tonight")
        cycle.put_out()
        cycle.see(1, "withheld", "not sent: jo approved the plan without its splits at 2026-11-27: not tonight")
        cycle.see(2, "done", f"{MOVED[0]} is at its new broker")
    with shown(browser, cycle, Api(), width=width, scheme=scheme, scripts=True) as page:
        page.locator("#tasks-said", has_text="ended").wait_for(timeout=10_000)
        page.get_by_role("button", name="Approve without splits").wait_for(timeout=10_000)
        page.locator("#tasks > summary").click()
        if folder := os.environ.get("EVENKEEL_SHOTS"):
            page.screenshot(path=f"{folder}/open-{state.replace(' ', '-')}-{width}-{scheme}.png", full_page=True)
        expect_fit(page, axe)


def test_the_commands_alone_are_a_page_too_and_without_scripts_all_is_there(browser: Browser, cycle: OpenCycle) -> None:
    cycle.put_out()
    with desk_served(cycle.root, HereReader()) as address:
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(f"{address}cycle-commands?cluster={CLUSTER}&at=latest")
        assert page.locator("h1").inner_text().startswith(f"Commands of {CLUSTER}")
        assert page.locator("#outcomes-0 tbody tr").count() == 3
        page.get_by_role("navigation", name="Breadcrumb").get_by_role("link").last.click()
        assert page.locator("#approval").count() == 1
        page.locator("#tasks > summary").click()
        assert "stand on the run's page in Airflow" in page.locator("#tasks").inner_text()
        context.close()
