"""The desk as a browser shows it: wide and on a phone, light and dark, by keyboard, on paper, and under its own policy.

Not looked at here: whether it is a good picture; that needs eyes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browsing import LOW_CONTRAST, OPEN_ALL, in_sizes, violations, watched_page
from tests.lakes.urgent_lake import urgent_lake
from tests.plugins.desk_server import desk_served
from tests.plugins.here_reader import HereReader

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.airflow, pytest.mark.browser, pytest.mark.slow]

PAGES = {"clusters": "", "cycles": "cycles", "cluster": "cycles?cluster=harm", "cycle": "cycle?cluster=harm&at=latest",
         "settings": "settings?show=all", "proof": "proof", "unknown": "cycle?cluster=nobody&at=latest"}  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the desk over a lake in which every kind of need stands."""
    lake = urgent_lake(tmp_path_factory.mktemp("lakes") / "urgent", datetime.now(UTC))
    with desk_served(lake, HereReader(), below="/airflow") as address:
        yield address


@contextmanager
def shown(browser: Browser, address: str, width: int, scheme: Any, *, scripts: bool = False) -> Iterator[Page]:
    """A page; nothing may have come from elsewhere, and the browser may complain of no more than a 404."""
    with watched_page(browser, address.split("/airflow/")[0], width, scheme, scripts=scripts, but="404") as page:
        page.goto(address, wait_until="networkidle")
        yield page


@pytest.mark.parametrize(("width", "scheme", "name"), in_sizes(PAGES, fullest="cycle"))
def test_a_page_is_accessible_and_fits(
    browser: Browser, axe: str, desk: str, name: str, width: int, scheme: str
) -> None:
    with shown(browser, desk + PAGES[name], width, scheme, scripts=True) as page:
        page.evaluate(OPEN_ALL)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert page.evaluate(LOW_CONTRAST) == []
        page.evaluate(axe)
        assert violations(page) == []
        if folder := os.environ.get("EVENKEEL_SHOTS"):
            page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True)


@pytest.mark.parametrize(
    "name",  # the first page, and the one with most on it; the others in `make test-all`
    [pytest.param(name, marks=() if name in ("clusters", "cycle") else pytest.mark.exhaustive) for name in PAGES],
)
def test_a_page_works_under_its_own_policy(browser: Browser, desk: str, name: str) -> None:
    with shown(browser, desk + PAGES[name], 1440, "light") as page:
        assert page.evaluate("getComputedStyle(document.querySelector('.bar')).borderBottomStyle") == "solid"
        assert page.locator("h1").count() == 1
        assert page.locator("main").count() == 1


def test_the_most_urgent_cluster_stands_first_and_leads_to_its_report(browser: Browser, desk: str) -> None:
    with shown(browser, desk, 1440, "light") as page:
        first = page.locator(".clusters tbody tr").first
        assert first.locator("th a").first.inner_text() == "harm"
        first.get_by_role("link", name=re.compile("ago")).click()
        assert page.locator(".crumbs").inner_text().split()[:3] == [
            "Clusters",
            "harm",
            page.locator(".crumbs [aria-current]").inner_text().split()[0],
        ]
        page.get_by_role("navigation", name="Breadcrumb").get_by_role("link", name="Clusters").click()
        assert page.locator("h1").inner_text() == "Clusters"


def test_by_keyboard_the_content_is_a_key_away_and_a_slash_narrows_the_list(browser: Browser, desk: str) -> None:
    with shown(browser, desk, 1440, "light") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        page.keyboard.press("/")
        page.keyboard.type("quarantined")
        assert page.locator(".clusters tbody tr:visible").count() == 1
        assert page.locator("#filtered").inner_text() == "1 of 23"


def test_a_page_renews_itself_and_keeps_what_was_narrowed(browser: Browser, tmp_path: Path) -> None:
    from tests.lakes.urgent_lake import UrgentLake

    now = datetime.now(UTC)
    with desk_served(urgent_lake(tmp_path / "lake", now), HereReader(), below="/airflow") as address:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.clock.install()
        page.goto(address)
        assert page.locator("tr", has_text="calm-a").locator("td").nth(3).inner_text().startswith("Last cycle") is False
        lake = UrgentLake(tmp_path / "lake", now)
        lake.course("newcomer")
        lake.lake.write()
        page.clock.run_for(31_000)
        page.get_by_role("link", name="newcomer").wait_for(timeout=10_000)
        context.close()


def test_a_printed_page_has_no_navigation(browser: Browser, desk: str) -> None:
    with shown(browser, desk, 1440, "dark", scripts=True) as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.locator(".bar nav").is_visible() is False
        assert page.pdf(format="A4").startswith(b"%PDF")
