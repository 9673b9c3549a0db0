"""The heat map in a browser: how long the page, its picture and its drawing take, and how many bytes go over the wire.

`python -m benchmarks heat_page [--heat DIR]`. Without a folder the picture is made of numbers: 1,536 rows and columns,
2,000 marks. With one, its tables `heat_blocks` and `heat_marks` are read, as `python -m benchmarks heat --lake DIR`
leaves them: the ranges of a year are then asked for one after the other, through the reader as Airflow starts it.
Goals: cells drawn in at most 200 ms, answers of at most 2 MB; with a folder each within 1 s.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.machine import description
from tests.browsing import CHROMIUM
from tests.lakes.small_lake import SmallLake

if TYPE_CHECKING:
    from playwright.sync_api import Page

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"
CLUSTER = "eu-1"
NEWEST = datetime(2026, 11, 25, 11, 55, tzinfo=UTC)
MOST_MS, MOST_BYTES, MOST_SECONDS = 200.0, 2_000_000, 1.0
DRAWS = 15
# Each turn of the brightness draws all cells anew: milliseconds of the cells, of all that a move draws, and until the
# browser had shown it.
TURNS = """async (turns) => {
  const [heat, bright] = ['heat', 'bright'].map((id) => document.getElementById(id));
  const found = [];
  for (let n = 0; n < turns; n += 1) {
    bright.value = String(1 + (n % 9));
    const began = performance.now();
    bright.dispatchEvent(new Event('input'));
    const drawn = performance.now() - began;
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    found.push([Number(heat.dataset.drawn), drawn, performance.now() - began]);
  }
  return found;
}"""
ASKED = """() => performance.getEntriesByType('resource').filter((one) => one.name.includes('heat/picture'))
  .map((one) => [one.duration, one.transferSize, one.decodedBodySize])"""


def main(arguments: Sequence[str] = ()) -> int:
    """Prints a line per range; 0 if the goals were met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks heat_page")
    parser.add_argument("--heat", metavar="DIR", help="a folder with heat_blocks and heat_marks of a year")
    given = parser.parse_args(arguments)
    if not CHROMIUM.exists():
        print(f"  there is no {CHROMIUM}: nothing is measured")
        return 0
    sys.path.insert(0, str(PLUGINS))
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("AIRFLOW_HOME", f"{folder}/airflow")
        lake = Path(folder) / "lake"
        SmallLake(lake).add(CLUSTER, NEWEST, {})
        if given.heat:
            for name in ("heat_blocks", "heat_marks"):
                (lake / name).symlink_to(Path(given.heat).resolve() / name)
        print(f"  {description()}")
        return _measured(lake, synthetic=not given.heat)


def _measured(lake: Path, *, synthetic: bool) -> int:
    from evenkeel_page.reader import Reader

    from tests.plugins.desk_server import desk_served
    from tests.plugins.here_reader import HereReader

    reader: Any = HereReader() if synthetic else Reader()
    ranges = ("1y",) if synthetic else ("1h", "24h", "7d", "30d", "100d", "1y")
    missed = 0
    with _picture_of_numbers(synthetic), desk_served(lake, reader) as address, _browser() as page:
        if not synthetic:
            reader.start()
            page.goto(f"{address}heat?last=1h")  # the reader has imported what it needs
        for word in ranges:
            missed += _one(page, f"{address}heat?last={word}", word, is_timed=not synthetic)
    reader.close()
    return int(missed > 0)


def _one(page: Page, address: str, word: str, *, is_timed: bool) -> int:
    began = time.monotonic()
    answer = page.goto(address)
    assert answer is not None
    seconds = time.monotonic() - began
    page.wait_for_selector("#heat[data-drawn]", state="attached")
    whole = time.monotonic() - began
    (duration, wire, size), *_ = page.evaluate(ASKED)
    turns = page.evaluate(TURNS, DRAWS)
    cells, drawn, shown = (median(column) for column in zip(*turns, strict=True))
    print(
        f"  {word}: page {seconds:.2f} s, picture {duration / 1000:.2f} s, {size / 1e6:.2f} MB ({wire / 1e6:.2f} on "
        f"the wire), map after {whole:.2f} s; cells {cells:.0f} ms (at most {max(one[0] for one in turns):.0f}), with "
        f"all around them {drawn:.0f} ms, on the screen after {shown:.0f} ms; {page.locator('#caption').inner_text()}"
    )
    is_late = is_timed and (seconds > MOST_SECONDS or duration > MOST_SECONDS * 1000)
    return int(cells > MOST_MS or wire > MOST_BYTES or is_late)


@contextmanager
def _picture_of_numbers(synthetic: bool) -> Iterator[None]:
    from evenkeel_page import heat_request

    from tests.plugins.synthetic_picture import synthetic_picture

    before = heat_request.picture
    if synthetic:
        heat_request.picture = synthetic_picture  # type: ignore[assignment]
    try:
        yield
    finally:
        heat_request.picture = before


@contextmanager
def _browser() -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM))
        context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="dark")
        yield context.new_page()
        browser.close()
