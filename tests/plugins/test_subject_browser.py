"""The pages of a bundle and a broker as a browser shows them: wide and on a phone, light and dark, by keyboard,
on paper and without scripts, and on the way from the heat map.

Not looked at here: whether they are good pictures; that needs eyes. `EVENKEEL_SHOTS=FOLDER` keeps what was seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from evenkeel.model.bundles import BundleRange
from tests.browsing import expect_fit, in_sizes, watched_page
from tests.plugins.desk_server import desk_served
from tests.plugins.here_reader import HereReader
from tests.plugins.warm_lake import BROKERS, CLUSTER, HOT, HOT_RANGE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.airflow, pytest.mark.browser, pytest.mark.slow]

BUNDLE = f"{HOT}/{BundleRange(*HOT_RANGE)}"
PAGES = {
    "bundle": ("bundle", {"name": BUNDLE, "at": "2026-11-20T13:10"}),
    "split-bundle": ("bundle", {"name": BUNDLE}),
    "broker": ("broker", {"name": BROKERS[1], "at": "2026-11-20T12:30"}),
    "unknown": ("bundle", {"name": "nobody/nothing/0x00000000_0xffffffff"}),
}


@pytest.fixture(scope="module")
def desk(warm: Path) -> Iterator[str]:
    with desk_served(warm, HereReader()) as address:
        yield address


def address_of(desk: str, name: str) -> str:
    path, words = PAGES[name]
    return f"{desk}{path}?{urlencode({'cluster': CLUSTER, **words})}"


@contextmanager
def seen(
    browser: Browser, address: str, width: int = 1440, scheme: Any = "light", *, scripts: bool = False, name: str = "",
    **more: Any,
) -> Iterator[Page]:  # fmt: skip
    """The page; nothing may have come from elsewhere, and the browser complains of nothing but a 404."""
    host = address.split("/evenkeel/")[0]
    with watched_page(browser, host, width, scheme, scripts=scripts, but="404", **more) as page:
        page.goto(address)
        if (folder := os.environ.get("EVENKEEL_SHOTS")) and name:
            page.screenshot(path=f"{folder}/subject-{name}-{width}-{scheme}.png", full_page=True)
        yield page


@pytest.mark.parametrize(("width", "scheme", "name"), in_sizes(PAGES, fullest="bundle"))
def test_a_page_is_accessible_and_fits(
    browser: Browser, axe: str, desk: str, name: str, width: int, scheme: str
) -> None:
    with seen(browser, address_of(desk, name), width, scheme, scripts=True, name=name) as page:
        expect_fit(page, axe)


def test_from_the_heat_map_s_why_to_the_bundle_its_owner_and_back(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat", java_script_enabled=False) as page:
        page.locator("#top tbody a").first.click()
        page.get_by_role("link", name="This bundle").click()
        assert page.locator("h1").inner_text() == BUNDLE
        assert page.locator("svg.course:visible").count() == 1
        page.locator(".exact a").first.click()
        assert page.locator("h1").inner_text().startswith("broker-")
        page.get_by_role("region", name="Owned bundles").get_by_role("link").first.click()
        assert page.locator("h1").inner_text() == BUNDLE
        page.locator(".ways").get_by_role("link", name="Heat map").click()
        assert page.locator("h1").inner_text() == "Heat map"


@pytest.mark.exhaustive
def test_a_bounce_leads_to_its_moment_and_to_the_cycle_before_by_keyboard(browser: Browser, desk: str) -> None:
    with seen(browser, address_of(desk, "split-bundle")) as page:
        bounce = page.get_by_role("region", name="What happened").locator("tr", has_text="bounce").get_by_role("link")
        bounce.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(".subject-head .when:has-text('13:10:20')")
        assert "enough_between_moves" in page.locator("#why-head ~ .reason").first.inner_text()
        page.get_by_role("link", name="cycle before").click()
        assert "goes to broker-2.eu.example:8080" in page.locator(".section.why").inner_text()
        page.get_by_label("Moment (UTC)").fill("2026-11-20T12:00")
        page.get_by_role("combobox", name="Range").select_option("1h")
        page.get_by_role("button", name="Show").click()
        assert "12:00:20" in page.locator(".subject-head .when").inner_text()
        page.get_by_text("What the decision rests on").click()
        assert page.get_by_role("region", name="Written in this cycle").is_visible()


def test_on_paper_the_course_is_light_and_the_form_is_gone(browser: Browser, desk: str) -> None:
    with seen(browser, address_of(desk, "broker"), scheme="dark", scripts=True) as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.locator("form.ask").is_hidden()
        assert page.locator("svg.course:visible").count() == 1
        assert page.pdf(format="A4").startswith(b"%PDF")
