import base64
import hashlib
import re
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from evenkeel.errors import NoLake
from evenkeel.lake.record import newest_cycles, read_cycles
from evenkeel.report import build_model, build_report, gather, render
from evenkeel.report.charts import labels
from evenkeel.report.page import LISTED, name_html, prose_html, render_listing, render_template
from tests.lakes.plausible import (
    ACTING,
    HOT,
    LAB_FIRST,
    LONG,
    MIB,
    ODD,
    A,
    broker_load,
    bundle_load,
    candidate,
    decision,
    placement,
)
from tests.lakes.small_lake import SmallLake, moment
from tests.report.page_reader import Reader
from tests.vega_lite import checked_charts

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(lake: Path) -> str:
    return render(build_model(lake, gather(lake)))


@pytest.fixture(scope="module")
def odd_page(odd_lake: Path) -> str:
    return render(build_model(odd_lake, gather(odd_lake)))


def test_the_page_is_one_file_without_script_style_attributes_or_anything_loaded(page: str) -> None:
    reader = Reader(page)

    assert {tag for tag, _ in reader.tags} & {"script", "iframe", "img", "object", "embed", "form"} == set()
    assert [attrs for _, attrs in reader.tags if "style" in attrs or any(name.startswith("on") for name in attrs)] == []
    addresses = [attrs.get(name) for _, attrs in reader.tags for name in ("href", "src", "xlink:href") if name in attrs]
    assert all(address.startswith("#") or address == "data:," for address in addresses)
    assert "@import" not in page
    assert re.findall(r"url\((?!#)[^)]*\)", page) == []


def test_the_content_policy_allows_the_pages_own_style_and_nothing_else(page: str) -> None:
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = next(a["content"] for tag, a in Reader(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")


def test_ids_are_unique_and_every_reference_leads_somewhere(page: str) -> None:
    ids = [attrs["id"] for _, attrs in Reader(page).tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for target in re.findall(r"url\(#([^)]+)\)", page) + re.findall(r'href="#([^"]+)"', page):
        assert target in ids


def test_the_page_says_what_would_be_done_and_shows_the_charts_in_two_widths(page: str) -> None:
    reader = Reader(page)
    pictures = [attrs for tag, attrs in reader.tags if tag == "svg"]

    assert f"Evenkeel would unload 2 bundles from {A} and split 1 bundle." in reader.text
    assert "Dry run: nothing was sent" in reader.text
    assert len(pictures) == 2 * 2 * 3
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in pictures)


def test_charts_are_vega_lite(lake: Path) -> None:
    with checked_charts():
        render(build_model(lake, gather(lake)))


def test_every_colour_in_a_chart_is_one_of_the_pages_own(page: str) -> None:
    drawn = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"', drawn))
    assert colours - {"none", "transparent"} == {colour for colour in colours if colour.startswith("var(--")}


def test_markup_in_names_stays_text(odd_page: str) -> None:
    reader = Reader(odd_page)

    assert "script" not in {tag for tag, _ in reader.tags}
    assert '<script>alert("x")</script>\'"&amp; 雪 \\u202eabc' in reader.text
    assert "\u202e" not in odd_page


def test_a_name_of_2000_characters_is_shortened_and_still_there_in_full(odd_page: str) -> None:
    assert f"acme/{LONG}/0x00000000_0xffffffff" in Reader(odd_page).text
    outside = re.sub(r"<details class=\"long\">.*?</details>", "", odd_page, flags=re.DOTALL)
    assert max(len(word) for word in re.findall("n+", outside)) <= 300


def test_a_clusters_own_text_cannot_become_an_address_or_an_attribute(odd_page: str) -> None:
    for tag, attrs in Reader(odd_page).tags:
        for name, value in attrs.items():
            assert name in KNOWN_ATTRIBUTES or tag in SVG_TAGS, (tag, name, value)


SVG_TAGS = {"svg", "g", "path", "line", "text", "rect", "defs", "clippath", "lineargradient", "stop", "tspan"}
KNOWN_ATTRIBUTES = {
    "aria-label", "aria-labelledby", "charset", "class", "colspan", "content", "href", "http-equiv", "id", "lang",
    "name", "rel", "role", "tabindex",
}  # fmt: skip


def test_a_name_with_quotes_is_escaped_where_it_stands() -> None:
    assert str(name_html("a\"b'<i>")) == '<bdi class="n">a&#34;b&#39;&lt;i&gt;</bdi>'
    assert str(prose_html(f"`<b>` of {HOT}.")) == (f'<bdi class="n">&lt;b&gt;</bdi> of <bdi class="n">{HOT}</bdi>.')


def test_different_long_names_have_different_labels() -> None:
    names = [f"{'x' * 40}{n}{'y' * 40}" for n in range(5)]
    found = labels(names)
    assert len(set(found.values())) == 5
    assert max(map(len, found.values())) <= 24


def test_a_skipped_cycle_gives_a_page_with_its_reason(lake: Path, tmp_path: Path) -> None:
    path = build_report(lake, cluster="lab", cycle="2026-11-21T08:27:23", out=tmp_path / "new" / "report.html")
    text = Reader(path.read_text(encoding="utf-8")).text

    assert "This cycle was skipped: nothing was decided." in text
    assert "What to do" in text
    assert "pulsar-admin namespaces bundles acme/ns1" in text


def test_no_lake_leaves_no_file_behind(tmp_path: Path) -> None:
    with pytest.raises(NoLake):
        build_report(tmp_path / "nowhere", out=tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_the_same_lake_gives_the_same_page(lake: Path, page: str) -> None:
    assert render(build_model(lake, gather(lake))) == page


def test_the_list_names_every_cycle_newest_first_with_a_link_to_its_report(lake: Path) -> None:
    reader = Reader(render_listing(read_cycles(lake), lake=str(lake)))
    links = [str(attrs["href"]) for tag, attrs in reader.tags if tag == "a"]

    assert len(links) == 11
    assert links[0] == "cycle?cluster=spread&at=2026-11-21T09%3A10%3A41.120000%2B00%3A00"
    assert links.index(f"cycle?cluster=lab&at=2026-11-21T08%3A{24 + ACTING}%3A23.371000%2B00%3A00") == 4
    assert LAB_FIRST.minute == 24
    assert "acme/ns1 has a hole from 0x40000000 to 0x60000000" in reader.text


def test_a_list_of_the_newest_links_to_older_ones_and_back(lake: Path) -> None:
    found = newest_cycles(lake, 5, columns=LISTED)
    reader = Reader(render_listing(found.cycles, lake=str(lake), has_older=found.has_older))
    (older,) = [str(attrs["href"]) for tag, attrs in reader.tags if tag == "a" and "before" in str(attrs["href"])]
    (before,) = parse_qs(urlsplit(older).query)["before"]
    assert "5 cycles of 2 clusters, newest first. There are older ones." in " ".join(reader.text.split())
    rest = newest_cycles(lake, 100, before=datetime.fromisoformat(before), columns=LISTED)
    last = Reader(render_listing(rest.cycles, lake=str(lake), has_older=rest.has_older, continued=True))
    said = "6 cycles of 1 cluster, newest first. These are the oldest on record. Back to the newest."
    assert said in " ".join(last.text.split())
    whole = {(one.cluster, one.cycle_at): one for one in read_cycles(lake)}
    assert {(one.cluster, one.cycle_at) for one in [*found.cycles, *rest.cycles]} == {*whole}
    for one in rest.cycles:
        same = whole[one.cluster, one.cycle_at]
        assert (one.status, one.reason, one.plan_id) == (same.status, same.reason, same.plan_id)
    assert newest_cycles(lake, 5, before=LAB_FIRST, columns=LISTED).cycles == []
    for most in range(1, 13):  # whole moments, and enough of them
        some = newest_cycles(lake, most, columns=LISTED)
        moments = sorted((at for _, at in whole), reverse=True)
        kept = {key for key in whole if key[1] >= moments[min(most, len(moments)) - 1]}
        assert {(one.cluster, one.cycle_at) for one in some.cycles} == kept
        assert some.has_older == (len(kept) < len(whole))


def test_an_odd_cluster_name_survives_its_link(odd_lake: Path) -> None:
    reader = Reader(render_listing(read_cycles(odd_lake), lake="lake"))
    (link,) = [str(attrs["href"]) for tag, attrs in reader.tags if tag == "a"]
    assert parse_qs(urlsplit(link).query)["cluster"] == [ODD]


def test_a_notice_says_why_and_what_to_do() -> None:
    words = {"title": "No cycles yet", "text": "Nothing is <b>there</b>.", "advice": ("Run `make demo`.",)}
    text = Reader(render_template("notice.html.j2", **words)).text
    assert "Nothing is <b>there</b>." in text
    assert "Run make demo." in text


def test_a_large_cluster_shows_what_changes_and_folds_the_rest(tmp_path: Path) -> None:
    brokers = [f"broker-{n:02d}:8080" for n in range(40)]
    bundle = "acme/ns/0x00000000_0xffffffff"
    tables = {
        "broker_load": [broker_load(broker, 0.2 + n / 100) for n, broker in enumerate(brokers)],
        "bundle_load": [bundle_load(bundle, brokers[3], MIB)],
        "unload_decisions": [decision(bundle, "bundle", "unload", "heaviest_first", "It leaves.", broker=brokers[3])],
        "placement_decisions": [
            placement(bundle, brokers[5], "shed", "To 5.", [candidate(b, 1.0) for b in brokers], broker=brokers[3])
        ],
    }
    SmallLake(tmp_path).add("lab", moment("2026-11-21T08:00:00"), tables, unloads=1)
    page = render(build_model(tmp_path, gather(tmp_path)))
    table = page[page.index('aria-label="Load per broker, cluster 1"') :]

    order = re.findall(r"broker-\d\d:8080", table[: table.index("16 more brokers")])
    assert order[:3] == [brokers[5], brokers[3], brokers[39]]
    assert len(order) == 24
    assert "and 28 more." in page


def test_each_decision_that_acts_unfolds_why(lake: Path) -> None:
    page = render(build_model(lake, gather(lake, cluster="lab", cycle="2026-11-21T08:30")))
    assert page.count("<summary>Why this broker gives</summary>") == 1
    assert page.count("<summary>Why it goes there</summary>") == 2
    assert page.count("<summary>Why it leaves</summary>") == 2
    assert page.count("<summary>Why it is split</summary>") == 1
