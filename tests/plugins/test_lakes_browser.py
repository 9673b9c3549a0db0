"""The desk over several lakes as a browser shows it: the choice of a lake, wide and on a phone, light and dark, by
keyboard, on paper, and under the desk's own policy; a lake that is gone, and one with the longest name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.settings.operation import CONFIGURATION
from tests.browsing import expect_fit, in_sizes, watched_page
from tests.lakes.several_lakes import MOVED, configuration, several_lakes
from tests.lakes.urgent_lake import UrgentLake
from tests.plugins.desk_server import desk_served
from tests.plugins.here_reader import HereReader

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.airflow, pytest.mark.browser, pytest.mark.slow]

LONG = "asia-pacific-south-east-production-and-whatever-else-is-left"
LAKES = ["north", "south", "old", LONG, "gone"]
PAGES = {
    "lakes-clusters": "", "lakes-cycles": "cycles?lake=south", "lakes-long-name": f"cycles?lake={LONG}",
    "lakes-cluster": f"cycles?cluster={MOVED}&lake=old", "lakes-cycle": "cycle?cluster=us-1&at=latest",
    "lakes-settings": "settings?lake=south", "lakes-proof": "proof?lake=north", "lakes-what-if": "what-if?lake=north",
    "lakes-heat": "heat?lake=south", "lakes-gone": "cycles?lake=gone", "lakes-unknown": "cycles?lake=nort",
}  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the desk over four lakes and one that is not there."""
    from evenkeel_page import airflow_side

    folder, now = tmp_path_factory.mktemp("lakes"), datetime.now(UTC)
    assert len(LONG) == 60, "no name of a lake may be longer"
    made = several_lakes(folder, now)
    more = UrgentLake(folder / LONG, now)
    more.course("ap-1", mode="approve", status="withheld", unloads=3, reason="the brokers' own shedding is on")
    more.lake.write()
    owned = {"north": ["eu-*"], "south": ["us-*", MOVED], "old": list[str](), LONG: ["ap-*"], "gone": ["za-*"]}
    made.file.write_text(configuration(owned, ["eu-1", "eu-2", "us-1", MOVED, "ap-1", "za-1"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONFIGURATION, str(made.file))
        patch.setattr(airflow_side, "replays_under_way", list)
        with desk_served("", HereReader()) as address:
            yield address


@contextmanager
def shown(
    browser: Browser, address: str, width: int = 1440, scheme: Any = "light", *, axe: bool = False
) -> Iterator[Page]:
    """A page; nothing may have come from elsewhere, and the browser may complain of no more than an answer's status."""
    host = address.split("/evenkeel/")[0]
    with watched_page(browser, host, width, scheme, scripts=axe, but="Failed to load resource") as page:
        page.goto(address, wait_until="networkidle")
        yield page


def choice(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Lake")


def current(page: Page) -> list[str]:
    return choice(page).locator("[aria-current]").all_inner_texts()


@pytest.mark.parametrize(("width", "scheme", "name"), in_sizes(PAGES, fullest="lakes-cycle"))
def test_a_page_is_accessible_and_fits(
    browser: Browser, axe: str, desk: str, width: int, scheme: str, name: str
) -> None:
    with shown(browser, desk + PAGES[name], width, scheme, axe=True) as page:
        if folder := os.environ.get("EVENKEEL_SHOTS"):
            page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True)
        expect_fit(page, axe)


def test_the_choice_stands_where_a_page_is_of_one_lake_and_says_which(browser: Browser, desk: str) -> None:
    with shown(browser, desk) as page:
        assert choice(page).count() == 0
        page.get_by_role("navigation", name="Desk").get_by_role("link", name="Cycles").click()
        assert choice(page).get_by_role("link").all_inner_texts() == LAKES
        assert current(page) == ["north"]
        choice(page).get_by_role("link", name="south", exact=True).click()
        assert current(page) == ["south"]
        assert page.locator("h1").inner_text() == "Cycles"
        page.get_by_role("navigation", name="Desk").get_by_role("link", name="Settings").click()
        choice(page).get_by_role("link", name="gone", exact=True).click()
        assert current(page) == ["gone"]
        assert page.locator("h1").inner_text() == "No cycles yet"


def test_a_lake_is_chosen_by_keyboard(browser: Browser, desk: str) -> None:
    with shown(browser, desk + "cycles?lake=north") as page:
        choice(page).get_by_role("link", name="north", exact=True).focus()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.innerText") == "south"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        page.wait_for_url("**/cycles?lake=south")
        assert current(page) == ["south"]


def test_which_lake_it_is_can_be_told_without_colour_and_under_the_policy(browser: Browser, desk: str) -> None:
    with shown(browser, desk + "cycles?lake=south") as page:
        weights = choice(page).get_by_role("link").evaluate_all("all => all.map(a => getComputedStyle(a).fontWeight)")
        assert weights == ["400", "600", "400", "400", "400"]


def test_a_printed_page_says_which_lake_it_is_of(browser: Browser, desk: str) -> None:
    with shown(browser, desk + "cycles?lake=south") as page:
        page.emulate_media(media="print")
        seen = [one for one in choice(page).get_by_role("listitem").all() if one.is_visible()]
        assert [one.inner_text() for one in seen] == ["south"]
