"""Pages as a browser shows them: wide and on a phone, light and dark, and offline.

Not looked at here: whether a picture is a good one; that needs eyes. axe does not judge text in SVG, so its contrast is
worked out from the computed colours.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.lake.record import read_cycles
from evenkeel.report import build_report
from evenkeel.report.page import render_listing
from tests.browsing import CLIPPED, LOW_CONTRAST, OPEN_ALL, Watched, violations
from tests.lakes.plausible import SKIPPED

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = ("lab", "both", "skipped", "odd", "list")
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def pages(lake: Path, odd_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    build_report(lake, cluster="lab", out=folder / "lab.html")
    build_report(lake, out=folder / "both.html")
    build_report(lake, cluster="lab", cycle=f"2026-11-21T08:{24 + SKIPPED}:23", out=folder / "skipped.html")
    build_report(odd_lake, out=folder / "odd.html")
    cycles = [*read_cycles(lake), *read_cycles(odd_lake)]
    (folder / "list.html").write_text(render_listing(cycles, lake=str(lake)), encoding="utf-8")
    return folder


class Shown:
    """A page in one width and scheme, with what the browser complained of and asked the network for."""

    def __init__(self, browser: Browser, file: Path, width: int, scheme: Any, *, scripts: bool) -> None:
        # Scripts of our own check the page; the page's policy would stop them, so they get past it where they run.
        size = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=scripts)  # type: ignore[arg-type]
        self.page: Page = self.context.new_page()
        self.watched = Watched(self.page)
        self.page.goto(file.as_uri())

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


# `both` holds the whole of `lab` and is seen where least fits and least is read; the smaller pages share its style.
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("both", 390, "dark"),
        *(
            pytest.param("both", width, *seen, marks=pytest.mark.exhaustive)
            for width, *seen in ((1280, "light"), (1280, "dark"), (390, "light"))
        ),
        *(
            pytest.param(name, *size, marks=pytest.mark.exhaustive)
            for name in ("skipped", "odd", "list")
            for size in ((390, "dark"), (1280, "light"))
        ),
    ],
)
def test_a_page_is_accessible_readable_and_fits(
    browser: Browser, axe: str, pages: Path, name: str, width: int, scheme: str
) -> None:
    with Shown(browser, pages / f"{name}.html", width, scheme, scripts=True) as shown:
        shown.page.evaluate(OPEN_ALL)
        assert shown.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert shown.page.evaluate(LOW_CONTRAST) == []
        assert shown.page.evaluate(CLIPPED) == []
        shown.page.evaluate(axe)
        assert violations(shown.page) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_works_under_its_own_policy_and_asks_the_network_for_nothing(
    browser: Browser, pages: Path, name: str
) -> None:
    with Shown(browser, pages / f"{name}.html", 1280, "light", scripts=False) as shown:
        assert shown.watched.complaints == []
        assert [url for url in shown.watched.asked if not url.startswith("data:")] == [
            (pages / f"{name}.html").as_uri()
        ]
        # The style was taken: the policy names the digest of its text.
        assert shown.page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") == "1080px"


@pytest.mark.parametrize(("width", "drawn"), [(1280, "wide"), (390, "narrow")])
def test_one_variant_of_each_chart_is_shown(browser: Browser, pages: Path, width: int, drawn: str) -> None:
    with Shown(browser, pages / "lab.html", width, "light", scripts=True) as shown:
        visible = "[...document.querySelectorAll('svg')].filter(s => s.getClientRects().length)"
        assert shown.page.evaluate(f"{visible}.map(s => s.parentNode.className)") == [drawn] * 3


def test_light_and_dark_differ_in_paper_ink_and_series(browser: Browser, pages: Path) -> None:
    colours = []
    for scheme in SCHEMES:
        with Shown(browser, pages / "lab.html", 1280, scheme, scripts=True) as shown:
            colours.append(
                shown.page.evaluate(
                    "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,"
                    " getComputedStyle(document.querySelector(\"svg [stroke='var(--series-1)']\")).stroke]"
                )
            )
    assert all(light != dark for light, dark in zip(*colours, strict=True))


def test_the_full_text_of_a_long_name_opens_without_a_script(browser: Browser, pages: Path) -> None:
    with Shown(browser, pages / "odd.html", 390, "light", scripts=False) as shown:
        folded = shown.page.locator("details.long").first
        assert folded.locator("> bdi").is_visible() is False
        folded.locator("summary").click()
        assert folded.locator("> bdi").is_visible() is True
        assert shown.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_printed_page_has_content_on_every_sheet(browser: Browser, pages: Path, tmp_path: Path) -> None:
    with Shown(browser, pages / "lab.html", 1280, "dark", scripts=True) as shown:
        shown.page.emulate_media(media="print")
        assert shown.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        pdf = shown.page.pdf(format="A4")
        assert pdf.startswith(b"%PDF")
        assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 8
