"""What tests of pages in a browser share: the browser, axe, and what axe does not see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import left_out

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = Path("/usr/bin/chromium")
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


def axe_script() -> str:
    """axe-core's own script, as a test dependency carries it."""
    package = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed (extra dev)")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def started_browser() -> Iterator[Browser]:
    """A browser, ended afterwards; the test is skipped where there is none."""
    if not CHROMIUM.exists():
        pytest.skip(left_out.lacking(left_out.CHROMIUM))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM))
        yield started
        started.close()
