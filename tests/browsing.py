"""What tests of pages in a browser share: the fixtures `browser` and `axe`, and what axe does not see."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import left_out

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path(os.environ.get("EVENKEEL_CHROMIUM", "/usr/bin/chromium"))
SIZES = (
    (1440, "light"),
    (390, "dark"),
    *(
        pytest.param(*size, marks=pytest.mark.exhaustive)
        for size in ((1440, "dark"), (1024, "light"), (1024, "dark"), (390, "light"))
    ),
)
"""Width in pixels and colour scheme that a page is looked at in."""
BUSY, BUSY_S = re.compile("The desk is busy|That took too long"), 3.0
OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"
# WCAG's relative luminance, for the colours of text in charts against the page behind them.
LOW_CONTRAST = """() => {
  const luminance = (colour) => {
    const canvas = document.createElement('canvas').getContext('2d');
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = luminance(getComputedStyle(document.body).backgroundColor);
  const ratio = (colour) => {
    const [high, low] = [luminance(colour), paper].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  return [...document.querySelectorAll('svg text')].filter(t => t.textContent && t.getClientRects().length)
    .map(t => [t.textContent, getComputedStyle(t).fill, ratio(getComputedStyle(t).fill)]).filter(t => t[2] < 4.5);
}"""
CLIPPED = """() => [...document.querySelectorAll('svg')].filter(s => s.getClientRects().length).flatMap(s => {
  const frame = s.getBoundingClientRect();
  return [...s.querySelectorAll('text')].filter(t => t.textContent).filter(t => {
    const box = t.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1;
  }).map(t => t.textContent);
})"""


def in_sizes(names: Collection[str], *, fullest: str) -> list[Any]:
    """Width, scheme and name of each page in every size.

    Pages share their style, so `make test` looks at the fullest of them alone, on a phone in the dark, where least fits
    and least is read.
    """
    assert fullest in names
    found: list[Any] = []
    for size in SIZES:
        width, scheme = getattr(size, "values", size)
        for name in names:
            is_quick = size == SIZES[1] and name == fullest
            found.append(pytest.param(width, scheme, name, marks=() if is_quick else pytest.mark.exhaustive))
    return found


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core's own script, as a test dependency carries it."""
    package = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed (extra dev)")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of one module, which are skipped where there is none.

    It does not outlive the module: while it runs, the thread of the tests counts as one with an event loop.
    """
    if not CHROMIUM.exists():
        pytest.skip(left_out.lacking(left_out.CHROMIUM))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM))
        yield started
        started.close()


class Watched:
    """What a page complained of in its console, threw, or asked by a dialog, and which addresses it loaded."""

    def __init__(self, page: Page) -> None:
        self.complaints: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"thrown: {error}"))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.asked.append(request.url))

    def expect_silence(self, host: str, but: str = "") -> None:
        """Fails where something came from elsewhere than `host`, or a complaint has no `but` in it."""
        assert [url for url in self.asked if not url.startswith((host, "data:"))] == []
        assert [one for one in self.complaints if not (but and but in one)] == []


@contextmanager
def watched_page(
    browser: Browser, host: str, width: int = 1440, scheme: Any = "light", *, scripts: bool = False, but: str = "",
    **more: Any,
) -> Iterator[Page]:  # fmt: skip
    """An empty page; `scripts`: a test's own run in it past the policy of what it shows. `host` and `but` are what
    `Watched.expect_silence` is asked at the end."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=scripts, **more
    )
    page = context.new_page()
    watched = Watched(page)
    yield page
    context.close()
    watched.expect_silence(host, but=but)


def expect_words(page: Page, selector: str, words: str, seconds: float = 60) -> None:
    """Waits for the words to stand in the element; where they do not come, the failure says what stood there."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_contain_text(words, timeout=seconds * 1_000)


def past_busy(page: Page, seconds: float = 90) -> None:
    """Loads a page of the desk again as long as it says that it is busy or took too long, as it asks its readers to."""
    for _ in range(round(seconds / BUSY_S)):
        if not page.locator("h1").filter(has_text=BUSY).count():
            return
        page.wait_for_timeout(BUSY_S * 1_000)
        page.reload()


def violations(page: Page) -> list[tuple[str, str]]:
    """Rules of axe that the page breaks, each with the first element that does; axe has been loaded."""
    found = page.evaluate("axe.run()")["violations"]
    return [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found]


def expect_fit(page: Page, axe: str) -> None:
    """Fails where the page, all of it unfolded, is wider than the window, hard to read, cut off, or breaks a rule of
    axe."""
    page.evaluate(OPEN_ALL)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(LOW_CONTRAST) == []
    assert page.evaluate(CLIPPED) == []
    page.evaluate(axe)
    assert violations(page) == []
