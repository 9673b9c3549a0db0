"""The heat map as a browser shows it: what is drawn against the picture, by pointer, finger and keyboard, its address,
and what it does where the desk cannot answer.

How long it takes to draw is not asserted: `python -m benchmarks heat_page` measures it. Not looked at here: whether it
is a good picture; that needs eyes. `EVENKEEL_SHOTS=FOLDER` keeps what was seen.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from evenkeel.heat import build, picture
from evenkeel.lake.record import Record
from tests.browsing import OPEN_ALL, SIZES, violations, watched_page
from tests.lakes.plausible import ODD, fill_odd
from tests.lakes.small_lake import SmallLake
from tests.lakes.thrashed_lake import thrashed_lake
from tests.plugins.desk_server import desk_served
from tests.plugins.here_reader import HereReader
from tests.plugins.warm_lake import BEGIN, CLUSTER, HOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.airflow, pytest.mark.browser, pytest.mark.slow]

DRAWN = "#heat[data-drawn]"
# Of a cell: the colour of the canvas in its middle, the one of the scale for its code, code, and words of the tip.
CELL = """async ([row, column]) => {
  const { heatColours, asText } = await import(document.querySelector('script[type=module]').src
    .replace(/heat\\.js.*/, 'heat_colours.js'));
  const { Picture } = await import(document.querySelector('script[type=module]').src
    .replace(/heat\\.js.*/, 'heat_picture.js'));
  const { spanOf } = await import(document.querySelector('script[type=module]').src
    .replace(/heat\\.js.*/, 'heat_table.js'));
  const answer = await fetch('heat/picture' + location.search);
  const picture = window.told ??= await Picture.of(await answer.json());
  const canvas = document.getElementById('cells');
  const [long, tall] = [picture.last - picture.first, picture.rows];
  const at = (picture.starts[column] + picture.ends[column]) / 2;
  const part = [(at - picture.first) / long, (row + 0.4) / tall];
  const [x, y] = [Math.floor(part[0] * canvas.width), Math.floor(part[1] * canvas.height)];
  const [r, g, b, a] = canvas.getContext('2d').getImageData(x, y, 1, 1).data;
  const code = picture.code(row, column);
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const own = heatColours({ ...spanOf(picture), bright: 5, dark })[code];
  return { drawn: a ? `rgb(${r} ${g} ${b})` : 'none', own: code ? asText(own) : 'none', part,
           rows: picture.rows, columns: picture.columns, code, value: picture.amounts[code],
           start: picture.starts[column], shared: picture.isShared(row, column),
           name: picture.rowWords(row), words: picture.valueWords(code), owner: picture.ownerWords(row, column) };
}"""
# Steps of the scale as lightness (CIE L*) and as distances in CIELAB, as seen with each kind of colour sight.
SCALE = """async (dark) => {
  const { scaleColour } = await import(document.querySelector('script[type=module]').src
    .replace(/heat\\.js.*/, 'heat_colours.js'));
  const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const sights = { all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]] };
  const lab = ([r, g, b]) => {
    const f = (t) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
    const [x, y, z] = [(0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505, 0.2126 * r + 0.7152 * g + 0.0722 * b,
      (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089].map(f);
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
  };
  return Object.fromEntries(Object.entries(sights).map(([name, matrix]) => {
    const seen = Array.from({ length: 33 }, (_, n) => scaleColour(n / 32, dark).map(linear))
      .map((rgb) => lab(matrix.map((row) => row.reduce((sum, value, place) => sum + value * rgb[place], 0))));
    return [name, { lightness: seen.map(([l]) => l),
      steps: seen.slice(1).map((one, n) => Math.hypot(...one.map((value, place) => value - seen[n][place]))) }];
  }));
}"""


@pytest.fixture(scope="module")
def desk(warm: Path) -> Iterator[str]:
    with desk_served(warm, HereReader()) as address:
        yield address


@contextmanager
def seen(
    browser: Browser, address: str, width: int = 1440, scheme: Any = "light", *, scripts: bool = False,
    expects: str = "", before: Callable[[Page], None] | None = None, **more: Any,
) -> Iterator[Page]:  # fmt: skip
    """The map, drawn; nothing may have come from elsewhere, and the browser complains of nothing but `expects`."""
    host = address.split("/evenkeel/")[0]
    with watched_page(browser, host, width, scheme, scripts=scripts, but=expects, **more) as page:
        if before is not None:
            before(page)
        page.goto(address)
        if more.get("java_script_enabled", True) and before is None:
            page.wait_for_selector(DRAWN, state="attached")
        yield page
        if folder := os.environ.get("EVENKEEL_SHOTS"):
            name = re.sub(r"\W+", "-", os.environ.get("PYTEST_CURRENT_TEST", "seen").split("::")[-1].split(" ")[0])
            page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def announced(page: Page) -> str:
    return str(page.locator("#said").text_content())


# What is drawn.


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_the_page_is_accessible_and_fits(browser: Browser, axe: str, desk: str, width: int, scheme: str) -> None:
    with seen(browser, f"{desk}heat?colour=owner", width, scheme, scripts=True) as page:
        page.focus("#field")
        page.keyboard.press("n")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why-panel .exact")
        page.evaluate(OPEN_ALL)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.evaluate(axe)
        assert violations(page) == []
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.exhaustive)])
def test_cells_have_the_colour_of_their_value_and_tips_say_what_the_rows_say(
    browser: Browser, desk: str, warm: Path, scheme: str
) -> None:
    record = Record(warm)
    with seen(browser, f"{desk}heat", scheme=scheme, scripts=True, expects="Canvas2D") as page:
        box = page.locator("#field").bounding_box()
        assert box is not None
        shape = page.evaluate(CELL, [0, 0])
        looked = 0
        for row in range(0, shape["rows"], 7):
            for column in range(3, shape["columns"], 29):
                cell = page.evaluate(CELL, [row, column])
                if cell["shared"]:
                    continue
                assert cell["drawn"] == cell["own"], cell
                x, y = cell["part"]
                page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
                tip = page.locator("#tip").inner_text()
                assert all(word in tip for word in (cell["words"], cell["name"], cell["owner"])), (tip, cell)
                at = BEGIN.fromtimestamp(cell["start"], BEGIN.tzinfo)
                (attempt,) = record.cycles(CLUSTER, at, at.replace(second=59))
                (own,) = [
                    one
                    for one in record.rows([attempt], "bundle_load")[attempt.attempt_id]
                    if one["bundle"] == cell["name"]
                ]
                rate = own["used_msg_rate_in"] + own["used_msg_rate_out"]
                assert cell["value"] == pytest.approx(rate, rel=0.05) or rate < 0.01
                assert cell["owner"] == own["owner"]
                looked += 1
        assert looked > 60


@pytest.mark.parametrize("dark", [False, True])
def test_the_scale_has_even_steps_and_is_read_alike_with_any_colour_sight(
    browser: Browser, desk: str, dark: bool
) -> None:
    with seen(browser, f"{desk}heat", scripts=True) as page:
        for name, one in page.evaluate(SCALE, dark).items():
            lightness = one["lightness"] if dark else one["lightness"][::-1]
            assert lightness == sorted(lightness), name
            assert max(lightness) - min(lightness) > 60, name
            steps = [after - before for before, after in pairwise(lightness)]
            assert max(steps) < 2.5 * min(steps) or name != "all", (name, steps)


def test_marks_are_drawn_and_their_switches_take_them_away(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat", expects="Canvas2D") as page:
        counts = {
            kind: page.locator(f"[data-count={kind}]").inner_text() for kind in ("move", "split", "held", "bounce")
        }
        assert counts == {"move": "3", "split": "1", "held": "2", "bounce": "1"}
        ink = """() => { const over = document.getElementById('over');
          return over.getContext('2d').getImageData(0, 0, over.width, over.height).data.filter((v) => v).length; }"""
        before = page.evaluate(ink)
        for kind in counts:
            page.locator(f"[data-mark={kind}]").uncheck()
        assert page.evaluate(ink) < before
        assert parse_qs(urlsplit(page.url).query)["without"] == ["move split held bounce"]
        page.reload()
        page.wait_for_selector(DRAWN, state="attached")
        assert page.locator("[data-mark=move]").is_checked() is False


@pytest.mark.exhaustive
def test_owners_have_colours_and_one_can_be_highlighted(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat") as page:
        page.click("[data-colour=owner]")
        assert page.locator("#brokers button").count() == 6
        page.locator("#brokers button").nth(2).click()
        chosen = page.locator("#brokers button[aria-pressed=true]").inner_text().strip()
        query = parse_qs(urlsplit(page.url).query)
        assert (query["colour"], query["broker"]) == (["owner"], [chosen])
        assert page.locator("#broker option:checked").inner_text() == chosen


# Pointer, fingers, keys.


def test_a_box_zooms_in_and_the_address_holds_what_is_seen(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat") as page:
        drag(page, (0.4, 0.6), (0.7, 0.9))
        page.wait_for_url("**view=**")
        view = parse_qs(urlsplit(page.url).query)["view"][0].split("~")
        assert int(view[1]) - int(view[0]) == pytest.approx(0.3 * 86_400, rel=0.03)
        times = page.locator("#times").inner_text()
        page.reload()
        page.wait_for_selector(DRAWN, state="attached")
        assert parse_qs(urlsplit(page.url).query)["view"][0].split("~")[:2] == view[:2]
        assert page.locator("#times").inner_text() == times
        drag(page, (0.5, 0.5), (0.3, 0.5))
        page.wait_for_timeout(500)
        moved = parse_qs(urlsplit(page.url).query)["view"][0].split("~")
        assert int(moved[0]) > int(view[0])
        page.click("[data-zoom=whole]")
        page.wait_for_url(lambda url: "view=" not in url)


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    box = page.locator("#field").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + start[0] * box["width"], box["y"] + start[1] * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + end[0] * box["width"], box["y"] + end[1] * box["height"], steps=5)
    page.mouse.up()


@pytest.mark.exhaustive
def test_the_wheel_scrolls_the_page_until_the_map_has_the_focus(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat") as page:
        box = page.locator("#field").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 300, box["y"] + 200)
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(500)
        assert "view=" not in page.url
        page.focus("#field")
        page.mouse.wheel(0, -300)
        page.wait_for_url("**view=**")


def test_by_keyboard_cells_are_announced_why_is_a_key_away_and_escape_leads_back(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat") as page:
        page.focus("#field")
        page.keyboard.press("h")
        assert re.match(rf"11,000 msg/s.*{HOT}/0x30000000_0x38000000, 2026-11-20 12:.* on broker-", announced(page))
        page.keyboard.press("ArrowDown")
        assert "0x38000000_0x40000000" in announced(page)
        page.keyboard.press("PageDown")
        assert "shop/search/0x00000000" in announced(page)
        page.keyboard.press("n")
        assert announced(page).endswith(", move, held")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why .exact")
        assert page.evaluate("document.activeElement.id") == "why-head"
        assert "carries the most on" in page.locator("#why").inner_text()
        cell = parse_qs(urlsplit(page.url).query)["cell"]
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "field"
        assert page.locator("#why-panel").is_hidden()
        page.keyboard.press("+")
        page.wait_for_url("**view=**")
        page.keyboard.press("Escape")
        page.wait_for_url(lambda url: "view=" not in url)
        page.goto(f"{desk}heat?cell={cell[0]}")
        page.wait_for_selector("#why .exact")
        assert "carries the most on" in page.locator("#why").inner_text()


def test_a_bounce_is_found_and_its_reason(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat") as page:
        page.focus("#field")
        for _ in range(8):
            page.keyboard.press("n")
            if "bounce" in announced(page):
                break
        page.keyboard.press("Enter")
        page.wait_for_selector("#why .exact")
        here = page.locator("#why .here").inner_text()
        assert "bounce: broker-3.eu.example:8080 → broker-2.eu.example:8080, which it left 30 min before" in here
        assert page.locator("#why .when").inner_text().startswith("2026-11-20 13:10:20 UTC")
        page.get_by_role("link", name="cycle before").click()
        page.wait_for_selector("#why .when:has-text('13:00:20')")
        said = page.locator("#why").inner_text()
        assert f"{HOT}/0x30000000_0x40000000 carries the most on broker-3.eu.example:8080" in said
        assert "goes to broker-2.eu.example:8080" in said


def test_a_bounce_in_one_column_with_the_move_that_it_undoes_is_what_is_asked_for(
    browser: Browser, warm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_page import heat_request

    def coarse(*asked: Any, within: Any = None) -> Any:
        return picture(*asked, within=within, most_columns=4)

    monkeypatch.setattr(heat_request, "picture", coarse)
    monkeypatch.setattr(heat_request, "_made", {})
    with desk_served(warm, HereReader()) as desk, seen(browser, f"{desk}heat") as page:
        page.focus("#field")
        for _ in range(8):
            page.keyboard.press("n")
            if {"move", "bounce"} <= set(announced(page).split(", ")):
                break
        else:
            raise AssertionError(announced(page))
        page.keyboard.press("Enter")
        page.wait_for_selector("#why .exact")
        assert page.locator("#why .when").inner_text().startswith("2026-11-20 13:10:20 UTC")
        page.reload()
        page.wait_for_selector("#why .exact")
        assert page.locator("#why .when").inner_text().startswith("2026-11-20 13:10:20 UTC")


def test_a_click_on_a_mark_asks_about_its_moment(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat", scripts=True, expects="404") as page:  # no Airflow to ask for tasks
        box = page.locator("#field").bounding_box()
        assert box is not None
        place = """() => { const told = window.told; const [at, , row] = told.marks.find(([, kind]) => kind === 'held');
          return [(at - told.first) / (told.last - told.first), (row + 0.5) / told.rows]; }"""
        page.evaluate(CELL, [0, 0])
        x, y = page.evaluate(place)
        page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
        page.wait_for_selector("#why .exact")
        assert "2026-11-20 13:0" in page.locator("#why .when").inner_text()
        link = page.locator("#why").get_by_role("link", name="Report of this cycle")
        assert "/evenkeel/cycle?" in str(link.get_attribute("href"))
        link.click()
        assert f"cluster {CLUSTER}" in page.locator("main").inner_text().lower() or CLUSTER in page.title()


@pytest.mark.exhaustive
def test_two_fingers_zoom_and_a_tap_asks_why(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat", 390, "dark", has_touch=True, is_mobile=True) as page:
        page.locator("#field").scroll_into_view_if_needed()
        box = page.locator("#field").bounding_box()
        assert box is not None
        client = page.context.new_cdp_session(page)
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

        def touch(kind: str, apart: float) -> None:
            points = [] if kind == "touchEnd" else [
                {"x": middle[0] - apart, "y": middle[1], "id": 0}, {"x": middle[0] + apart, "y": middle[1], "id": 1}
            ]  # fmt: skip
            client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", 20)
        for apart in (30, 45, 60, 80):
            touch("touchMove", apart)
        touch("touchEnd", 0)
        page.wait_for_url("**view=**")
        page.touchscreen.tap(*middle)
        page.wait_for_selector("#why-panel .why")


def test_a_tap_that_shakes_shows_why_on_a_phone(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat", 390, "light", has_touch=True, is_mobile=True) as page:
        page.locator("#field").scroll_into_view_if_needed()
        box = page.locator("#field").bounding_box()
        assert box is not None
        client = page.context.new_cdp_session(page)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for kind, points in (
            ("touchStart", [{"x": x, "y": y}]), ("touchMove", [{"x": x + 8, "y": y}]), ("touchEnd", []),
        ):  # fmt: skip
            client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.wait_for_selector("#why-panel .why")
        page.wait_for_function("document.getElementById('why-panel').getBoundingClientRect().top < innerHeight - 60")
        assert page.locator("#tip").is_hidden()


def _scrolled_to_the_top(page: Page) -> None:
    """Scroll up, and wait until the page rests: a scroll that is still under way would close the next tip."""
    page.evaluate(
        """() => new Promise((rests) => {
            let frames = 0;
            const look = () => {
                frames = scrollY === 0 ? frames + 1 : 0;
                if (scrollY) scrollTo(0, 0);
                if (frames > 10) rests(); else requestAnimationFrame(look);
            };
            look();
        })"""
    )


def test_a_tip_closes_by_escape_and_when_the_page_moves(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat") as page:
        box = page.locator("#field").bounding_box()
        assert box is not None
        for step, close in enumerate((
            lambda: page.keyboard.press("Escape"), lambda: page.mouse.wheel(0, 200),
            lambda: page.locator("[data-zoom=in]").focus() or page.keyboard.press("Enter"),
        )):  # fmt: skip
            _scrolled_to_the_top(page)
            page.mouse.move(box["x"] + box["width"] / 2 + 3 * step, box["y"] + 120)
            page.wait_for_selector("#tip:visible")
            close()
            page.wait_for_selector("#tip", state="hidden")


def test_a_shared_address_keeps_its_range(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat?last=6h") as page:
        page.get_by_role("button", name="Share").click()
        page.wait_for_url("**from=**")
        words = {name: value for name, (value,) in parse_qs(urlsplit(page.url).query).items()}
        assert "last" not in words
        newest = Record(os.environ["EVENKEEL_LAKE"]).newest_row_at("cycles", CLUSTER)
        assert newest is not None
        to = newest + timedelta(minutes=1)
        assert [words["from"], words["to"]] == [f"{at:%Y-%m-%dT%H:%M:%S}" for at in (to - timedelta(hours=6), to)]
        assert "this range, also later" in page.locator("#state").inner_text()
        caption = page.locator("#caption").inner_text()
        page.goto(page.url)
        page.wait_for_selector(DRAWN, state="attached")
        assert page.locator("#caption").inner_text() == caption


def test_changes_of_settings_are_marked_on_the_time_axis(browser: Browser, tmp_path: Path) -> None:
    lake = thrashed_lake(tmp_path / "lake")
    build(str(lake))
    with desk_served(lake, HereReader()) as address, seen(browser, f"{address}heat?cluster=shop") as page:
        mark = page.locator("#times .change")
        assert mark.count() == 1
        assert str(mark.get_attribute("title")).startswith("2026-11-17 13:40 UTC, settings: evenkeelGuardsEnabled")
        assert "Settings changed at 2026-11-17 13:40:00 UTC" in page.locator("#notes").inner_text()


# What the desk cannot answer.


def test_without_scripts_the_table_and_its_links_work(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat", java_script_enabled=False) as page:
        assert page.locator("#heat").is_hidden()
        assert page.locator("#top tbody tr").count() == 15
        page.locator("#top tbody a").first.click()
        assert page.locator("h1").inner_text() == "Why"
        assert page.locator(".exact").is_visible()
        assert page.evaluate("getComputedStyle(document.querySelector('.bar')).borderBottomStyle") == "solid"
        page.get_by_role("link", name="Heat map").first.click()
        page.get_by_label("Colour by").select_option("byte_rate")
        page.get_by_role("button", name="Show").click()
        assert "iB/s" in page.locator("#top tbody").inner_text()


def test_a_busy_desk_is_asked_again_and_the_page_says_so(browser: Browser, desk: str) -> None:
    calls: list[int] = []

    def busy(route: Route) -> None:
        calls.append(1)
        if len(calls) < 3:
            route.fulfill(status=503, headers={"Retry-After": "1"}, body="busy")
        else:
            route.continue_()

    with seen(browser, f"{desk}heat", expects="503", before=lambda page: page.route("**/heat/picture?*", busy)) as page:
        page.wait_for_selector("#state:has-text('The desk is busy')", state="attached")
        page.wait_for_selector(DRAWN, state="attached")
        assert len(calls) == 3
        assert page.locator("#state").inner_text() == ""


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, "", "Your session at Airflow has ended"),
        (403, "", "the right to read the DAG rebalance"),
        (504, "", "That took too long"),
        (500, "<b>broken</b>", "The desk answered with 500"),
    ],
)
def test_an_answer_that_is_none_leaves_words_and_a_button(
    browser: Browser, desk: str, status: int, body: str, words: str
) -> None:
    def answer(route: Route) -> None:
        route.fulfill(status=status, body=body)

    def begin(page: Page) -> None:
        page.route("**/heat/picture?*", answer)

    with seen(browser, f"{desk}heat", expects=str(status), before=begin) as page:
        page.wait_for_selector("#notes .callout")
        assert words in page.locator("#notes").inner_text()
        page.unroute("**/heat/picture?*")
        page.get_by_role("button", name="Try again").click()
        page.wait_for_selector(DRAWN, state="attached")
        assert page.locator("#notes .callout").count() == 0


@pytest.mark.exhaustive
def test_a_lake_that_is_gone_in_the_middle_leaves_the_map_and_says_so(
    browser: Browser, warm: Path, tmp_path: Path
) -> None:
    lake = Path(shutil.copytree(warm, tmp_path / "lake"))
    with desk_served(lake, HereReader()) as desk, seen(browser, f"{desk}heat", expects="Failed to load") as page:
        shutil.rmtree(lake)
        page.focus("#field")
        page.keyboard.press("h")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why-panel .chapter")
        assert "There is no lake at" in page.locator("#why-panel").inner_text()
        page.get_by_label("Colour by").select_option("byte_rate")
        page.wait_for_selector("#notes .callout")
        assert "There is no lake at" in page.locator("#notes").inner_text()
        assert page.locator("#field").is_visible()


def test_an_empty_range_and_one_that_cannot_be_shown_are_words(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat?from=2026-01-01&to=2026-01-02") as page:
        assert "Nothing is on record of this range of time." in page.locator("#empty").inner_text()
        page.focus("#field")
        for key in ("h", "n", "Enter", "+", "ArrowLeft", "Escape", "0"):
            page.keyboard.press(key)
    with seen(browser, f"{desk}heat?from=1026-01-01&to=2026-01-01", expects="400", before=lambda page: None) as page:
        assert page.locator("#heat").is_hidden()
        page.locator("select[name=last]").select_option("24h")
        page.wait_for_selector(DRAWN, state="attached")
        assert page.locator("#notes .callout").count() == 0


def test_names_of_any_kind_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    fill_odd(SmallLake(tmp_path))
    build(str(tmp_path))
    with desk_served(tmp_path, HereReader()) as desk, seen(browser, f"{desk}heat", 1024) as page:
        assert page.locator("main script, main img").count() == 0
        assert ODD.split("\u202e")[0] in page.locator("#caption").inner_text()
        assert "\\u202e" in page.locator("#caption").inner_text()
        page.focus("#field")
        page.keyboard.press("h")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why .exact")
        page.click("[data-colour=owner]")
        assert page.locator("main script, main img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_on_paper_the_map_is_light_and_its_tools_are_gone(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat", scheme="dark", scripts=True) as page:
        page.emulate_media(media="print")
        page.wait_for_timeout(200)
        assert page.locator(".tools").is_hidden()
        cell = page.evaluate("[...document.getElementById('cells').getContext('2d').getImageData(2, 2, 1, 1).data]")
        assert sum(cell[:3]) > 600
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_the_same_words_for_the_same_cells_with_and_without_a_script(browser: Browser, desk: str) -> None:
    texts = []
    for has_script in (True, False):
        with seen(browser, f"{desk}heat?metric=byte_rate", java_script_enabled=has_script) as page:
            if has_script:
                page.evaluate("new Promise((done) => setTimeout(done, 600))")
            rows = page.locator("#top tbody tr")
            texts.append([re.sub(r"\s", "", rows.nth(n).inner_text()) for n in range(rows.count())])
    assert texts[0] == texts[1]


@pytest.mark.exhaustive
def test_zoomed_in_a_coarse_map_is_made_sharper_and_whole_again(
    browser: Browser, warm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_page import heat_request

    def coarse(*asked: Any, within: Any = None) -> Any:
        return picture(*asked, within=within, most_rows=40, most_columns=40)

    monkeypatch.setattr(heat_request, "picture", coarse)
    monkeypatch.setattr(heat_request, "_made", {})
    with desk_served(warm, HereReader()) as desk, seen(browser, f"{desk}heat") as page:
        assert re.match(r"Messages of (39|40) ranges in eu-1", page.locator("#caption").inner_text())
        page.focus("#field")
        page.keyboard.press("h")
        whole = announced(page)
        assert "bundles)" in whole
        with page.expect_response(lambda answer: "within=" in answer.url):
            for _ in range(4):
                page.keyboard.press("+")
        page.wait_for_timeout(500)
        page.keyboard.press("h")
        sharp = announced(page)
        page.wait_for_selector("#top tbody th:not(:has-text('bundles)'))")
        page.keyboard.press("-")
        page.wait_for_timeout(1000)
        page.keyboard.press("+")
        page.wait_for_timeout(1000)
        drag(page, (0.5, 0.5), (0.45, 0.4))
        page.wait_for_timeout(1000)
        page.keyboard.press("h")
        assert announced(page).replace(" (2 bundles)", "") == sharp
        page.keyboard.press("Enter")
        page.wait_for_selector("#why .exact")
        why, address = page.locator("#why-head").inner_text(), page.url
        page.goto(address)  # the cell stays the same bundle, whatever the whole map can show
        page.wait_for_selector("#why .exact")
        assert page.locator("#why-head").inner_text() == why
        page.focus("#field")
        page.keyboard.press("Escape")
        for _ in range(60):  # beyond the sharper picture the whole one is taken again
            page.keyboard.press("ArrowUp")
        assert "analytics/clicks/0x00000000" in announced(page)
        assert f"{HOT}/0x3" in sharp
        assert "bundles)" not in sharp
        page.keyboard.press("0")
        page.keyboard.press("h")
        assert announced(page) == whole


def test_another_metric_changes_the_map_the_table_and_the_address(browser: Browser, desk: str) -> None:
    with seen(browser, f"{desk}heat") as page:
        page.get_by_label("Colour by").select_option("topics")
        page.wait_for_selector("#caption:has-text('Topics of 119 bundles')")
        page.wait_for_selector("#top td.num:text-is('9.0')")
        assert page.locator("#top-metric").inner_text() == "Topics"
        assert "metric=topics" in page.url
        page.go_back()
        page.wait_for_selector("#caption:has-text('Messages of 119 bundles')")
