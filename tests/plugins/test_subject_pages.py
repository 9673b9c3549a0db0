"""The pages of bundles and brokers, in process: what stands on them is what the tables' rows say, and every unhappy
path ends in words that help. How they look is under test in `test_subject_browser`."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from evenkeel.explain import Moment, Times, explain
from evenkeel.lake.record import Attempt, Record
from evenkeel.model.bundles import BundleRange
from evenkeel.report import build_report
from evenkeel.times import time_given
from tests.lakes.plausible import HOT as LAB_HOT
from tests.lakes.plausible import LONG, ODD, A, C, fill_odd
from tests.lakes.small_lake import SmallLake, moment
from tests.lakes.urgent_lake import HOT as HOT_IN_URGENT
from tests.lakes.urgent_lake import XSS, urgent_lake
from tests.plugins.here_reader import desk_client
from tests.plugins.warm_lake import BEGIN, BROKERS, CLUSTER, HOT, HOT_RANGE, MIDDLE

if TYPE_CHECKING:
    from fastapi.testclient import TestClient
    from httpx import Response

pytestmark = pytest.mark.airflow

BUNDLE = f"{HOT}/{BundleRange(*HOT_RANGE)}"
CHILDREN = tuple(f"{HOT}/{BundleRange(*span)}" for span in ((HOT_RANGE[0], MIDDLE), (MIDDLE, HOT_RANGE[1])))
NOON = "2026-11-20T12:00"


@pytest.fixture
def page(warm: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    return desk_client(warm, monkeypatch)


def bundle(page: TestClient, name: str = BUNDLE, **words: str) -> Response:
    return page.get("/bundle", params={"cluster": CLUSTER, "name": name, **words})


def broker(page: TestClient, name: str = BROKERS[1], **words: str) -> Response:
    return page.get("/broker", params={"cluster": CLUSTER, "name": name, **words})


def words_of(text: str) -> str:
    without = re.sub(r"<svg.*?</svg>", " ", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", without)))


def cells(text: str, label: str) -> list[list[str]]:
    """The rows of the table of this name."""
    table = re.search(rf'aria-label="{label}"><table.*?</table>', re.sub(r">\s+<", "><", text), re.DOTALL)
    assert table, label
    rows = re.findall(r"<tr.*?</tr>", table[0].replace("\n", ""))[1:]
    return [[words_of(cell).strip() for cell in re.findall(r"<td.*?</td>", row)] for row in rows]


def links(text: str, kind: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(rf'href="({kind}\?[^"]+)"', text)]


def cycle_at(lake: Path, at: datetime, cluster: str = CLUSTER) -> Attempt:
    found = Record(lake).in_force(cluster, at)
    assert found is not None
    return found


def row_of(lake: Path, attempt: Attempt, name: str) -> Mapping[str, Any]:
    (row,) = [one for one in Record(lake).rows([attempt], "bundle_load")[attempt.attempt_id] if one["bundle"] == name]
    return row


def both(row: Mapping[str, Any], figure: str) -> float:
    return float(row[f"{figure}_in"] + row[f"{figure}_out"])


def size(value: float) -> str:
    """Byte/s in the unit that suits it."""
    for unit, name in ((1 << 20, "MiB/s"), (1 << 10, "KiB/s")):
        if value >= unit:
            return f"{value / unit:,.2f} {name}"
    return f"{value:,.0f} byte/s"


# A bundle.


def test_a_bundle_has_the_figures_of_its_row_at_the_moment(page: TestClient, warm: Path) -> None:
    answer = bundle(page, at=NOON)
    said = words_of(answer.text)
    row = row_of(warm, cycle_at(warm, BEGIN + timedelta(hours=12)), BUNDLE)
    assert answer.status_code == 200
    assert f"Owner {row['owner']} Messages {both(row, 'used_msg_rate'):,.2f} msg/s" in said
    assert f"Bytes {size(both(row, 'used_msg_throughput'))} Topics {row['topics']}" in said
    assert f"Sessions {row['producers'] + row['consumers']} " in said


def test_the_course_in_numbers_is_that_of_the_rows(page: TestClient, warm: Path) -> None:
    record = Record(warm)
    expected = []
    for attempt in record.cycles(CLUSTER, BEGIN, BEGIN + timedelta(days=1)):
        for row in record.rows([attempt], "bundle_load")[attempt.attempt_id]:
            if row["bundle"] == BUNDLE:
                rate, flow = both(row, "used_msg_rate"), both(row, "used_msg_throughput")
                sessions = str(row["producers"] + row["consumers"])
                at = attempt.cycle_at.strftime("%Y-%m-%d %H:%M:%S UTC")
                expected.append([at, row["owner"], f"{rate:,.2f} msg/s", size(flow), str(row["topics"]), sessions])
    answer = bundle(page, last="24h")
    assert [row[:6] for row in cells(answer.text, "The course in numbers")] == expected[::-1]
    assert len(expected) == 82
    assert "142 cycles. In 60 of them it is not on record." in words_of(answer.text)


def test_what_happened_to_it_is_marked_and_leads_to_its_moment(page: TestClient) -> None:
    answer = bundle(page, at=NOON)
    rows = cells(answer.text, "What happened")
    assert [(row[0][11:16], row[1]) for row in rows] == [
        ("13:30", "split"), ("13:10", "bounce"), ("13:10", "owner"), ("13:10", "held"), ("13:00", "held"),
        ("13:00", "move"), ("12:40", "owner"), ("12:30", "move"), ("12:10", "owner"), ("12:00", "move"),
    ]  # fmt: skip
    assert rows[1][2] == f"{BROKERS[2]} → {BROKERS[1]}, which it left 30 min before"
    assert rows[3][2].endswith("held by enough_between_moves")
    assert rows[9][2].endswith(f"→ {BROKERS[1]}, done")
    wide = re.search(r'<div class="wide">(.*?)</div>', answer.text, re.DOTALL)
    assert wide
    marks = re.findall(r'class="mark m-(\w+)"', wide[1])
    assert {kind: marks.count(kind) for kind in marks} == {"move": 3, "owner": 3, "bounce": 1, "split": 1, "held": 2}
    assert wide[1].count('class="moment"') == 1
    first = next(link for link in links(answer.text, "bundle") if "T13%3A00%3A20Z" in link)
    assert "2026-11-20 13:00:20 UTC" in words_of(page.get(f"/{first}").text)


def test_why_is_what_explain_says(page: TestClient, warm: Path) -> None:
    said = words_of(bundle(page, at=NOON).text)
    found = explain(warm, BUNDLE, cluster=CLUSTER, when=Times(time_given(NOON, "at")))
    assert isinstance(found, Moment)
    assert len(found.reasons) == 2
    for reason in found.reasons:
        assert re.sub(r"\s*([:;,])", r"\1", reason.sentence) in re.sub(r"\s*([:;,])", r"\1", said)
    assert "done: the owner is another broker" in said


def test_what_the_decision_rests_on_is_what_the_manifest_lists(page: TestClient, warm: Path) -> None:
    text = bundle(page, at=NOON).text
    attempt = cycle_at(warm, BEGIN + timedelta(hours=12))
    rows = cells(text, "Written in this cycle")
    assert {(row[0], row[3], row[4], row[5]) for row in rows} == {
        (write["table"], str(write["version"]), write["write_id"], write["commit"])
        for write in attempt.planned["writes"]
    }
    assert attempt.attempt_id in text
    assert str(attempt.planned["snapshot"]) in text
    assert str(attempt.planned["code_digest"]) in text


def test_cycles_before_and_after_are_a_link_away(page: TestClient) -> None:
    text = bundle(page, at=NOON, last="6h").text
    before, after = re.findall(r'class="near" href="([^"]+)"', text)
    assert "2026-11-20 11:50:20 UTC" in words_of(page.get(f"/{html.unescape(before)}").text)
    later = page.get(f"/{html.unescape(after)}")
    assert "2026-11-20 12:10:20 UTC" in words_of(later.text)
    assert '<option value="6h" selected>' in later.text
    (heat,) = set(links(text, "heat")) - {"heat"}
    assert page.get(f"/{heat}").status_code == 200
    assert all(page.get(f"/{link}").status_code == 200 for link in links(text, "cycle")[:3])


def test_a_moment_long_ago_stands_in_the_middle_of_its_range(page: TestClient) -> None:
    text = bundle(page, at="2026-11-20T05:00", last="1h").text
    assert "2026-11-20 04:30:00 UTC to 2026-11-20 05:29:59 UTC: 6 cycles." in words_of(text)
    earlier, later = links(text.split('class="steps"')[1].split("</span>")[0], "bundle")
    assert "from=2026-11-20T04%3A00%3A00Z&to=2026-11-20T05%3A00%3A00Z" in earlier
    assert "from=2026-11-20T05%3A00%3A00Z&to=2026-11-20T06%3A00%3A00Z" in later
    assert "2026-11-20 04:50:20 UTC" in words_of(page.get(f"/{earlier}").text)


# One that is not there.


def test_of_a_bundle_that_was_split_its_children_are_named_and_when_it_was_last_there(page: TestClient) -> None:
    answer = bundle(page)
    said = words_of(answer.text)
    assert answer.status_code == 200
    assert "It was split, as asked in the cycle of 2026-11-20 13:30:20 UTC" in said
    assert "it was last on record in the cycle of 2026-11-20 13:30:20 UTC" in said
    for child in CHILDREN:
        (link,) = {one for one in links(answer.text, "bundle") if child.replace("/", "%2F") in one}
        assert f"<h1>{child}</h1>" in page.get(f"/{link}").text


def test_before_its_split_a_child_leads_to_its_parent(page: TestClient) -> None:
    answer = bundle(page, CHILDREN[0], at=NOON)
    said = words_of(answer.text)
    assert f"Its range lies in: {BUNDLE}" in said
    assert "it was first on record in the cycle of 2026-11-20 13:40:20 UTC" in said
    assert any(BUNDLE.replace("/", "%2F") in link for link in links(answer.text, "bundle"))


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        (f"{HOT}/0x30000000_0x31000000", 404, "It is a part of"),
        ("nobody/nothing/0x00000000_0xffffffff", 404, "namespace nobody/nothing is not on record"),
        (HOT, 400, "is a namespace, and each of its bundles"),
        (f"{HOT}/0x50000000_0x20000000", 400, "is not a bundle"),
        ("x", 400, "is nothing that can be explained"),
        ("ffffffffff", 400, "o command 'ffffffffff' is on record"),
        ("persistent://nobody/nothing/orders", 400, "namespace nobody/nothing is not on record"),
    ],
)
def test_a_name_that_never_was_is_a_page_that_says_what_is_there(
    page: TestClient, name: str, status: int, words: str
) -> None:
    answer = bundle(page, name)
    assert (answer.status_code, words in words_of(answer.text).replace(" :", ":")) == (status, True)


def test_a_topic_has_the_page_of_the_bundle_that_it_lay_in(page: TestClient, warm: Path) -> None:
    name = f"persistent://{HOT}/orders"
    found = explain(warm, name, cluster=CLUSTER, when=Times(time_given(NOON, "at")))
    assert isinstance(found, Moment)
    text = bundle(page, name, at=NOON).text
    assert f"<h1>{found.bundle}</h1>" in text
    assert f"Topic {name} lay in this bundle." in words_of(text)


def test_names_of_other_kinds_lead_to_their_pages(page: TestClient) -> None:
    for answer, where in (
        (bundle(page, BROKERS[1], at=NOON, last="6h"), "broker?cluster=eu-1&name=broker-2.eu.example%3A8080&at="),
        (bundle(page, "0000c0de"), "bundle?cluster=eu-1&name=shop%2Fcheckout%2F0x30000000_0x40000000&at=2026-11-20"),
        (broker(page, BUNDLE), "bundle?cluster=eu-1&name=shop%2Fcheckout%2F"),
    ):
        assert answer.history[0].status_code == 303
        assert answer.history[0].headers["location"].startswith(where)
        assert answer.status_code == 200


# A broker.


def test_a_broker_has_its_bundles_the_busiest_first(page: TestClient, warm: Path) -> None:
    answer = broker(page, at="2026-11-20T12:30")
    record, attempt = Record(warm), cycle_at(warm, BEGIN + timedelta(hours=12, minutes=30))
    own = [row for row in record.rows([attempt], "bundle_load")[attempt.attempt_id] if row["owner"] == BROKERS[1]]
    own.sort(key=lambda row: -both(row, "used_msg_rate"))
    assert f"{len(own)} bundles, here the 20 busiest." in words_of(answer.text) or len(own) <= 20
    rows = cells(answer.text, "Owned bundles")
    assert [row[:2] for row in rows] == [
        [row["bundle"], f"{both(row, 'used_msg_rate'):,.2f} msg/s"] for row in own[:20]
    ]
    assert rows[0][0] == BUNDLE
    sessions = sum(row["producers"] + row["consumers"] for row in own)
    assert f"Sessions {sessions:,}" in words_of(answer.text)


def test_what_came_to_a_broker_and_left_it_is_told(page: TestClient, warm: Path) -> None:
    answer = broker(page, last="24h")
    events = cells(answer.text, "What happened")
    assert [(row[0][11:16], row[1], row[2]) for row in events] == [
        ("13:30", "split", BUNDLE), ("13:10", "held", BUNDLE), ("13:00", "bounce", BUNDLE), ("13:00", "came", BUNDLE),
        ("12:30", "left", BUNDLE), ("12:00", "came", BUNDLE),
    ]  # fmt: skip
    record = Record(warm)
    names = []
    for hours in (0, 23.9):
        attempt = cycle_at(warm, BEGIN + timedelta(hours=hours))
        rows = record.rows([attempt], "bundle_load")[attempt.attempt_id]
        names.append({row["bundle"] for row in rows if row["owner"] == BROKERS[1]})
    said = words_of(answer.text)
    assert f"Came ({len(names[1] - names[0])})" in said
    assert f"Left ({len(names[0] - names[1])})" in said
    assert all(name in said for name in (names[1] - names[0]))


def test_a_broker_s_usage_stands_beside_the_limit_that_it_was_compared_with(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = desk_client(lake, monkeypatch)
    answer = page.get("/broker", params={"cluster": "lab", "name": A, "at": "2026-11-21T08:30:30"})
    record = Record(lake)
    expected = []
    for attempt in record.cycles("lab", moment("2026-11-21T08:00:00"), moment("2026-11-21T09:00:00")):
        decided = record.rows([attempt], "unload_decisions")[attempt.attempt_id]
        loads = record.rows([attempt], "broker_load")[attempt.attempt_id]
        if attempt.decided:
            (limit,) = [row for row in decided if row["subject"] == A]
            (load,) = [row for row in loads if row["broker"] == A]
            figures = (load["weighted_usage"], limit["measured"], limit["threshold"])
            expected.append([f"{value * 100:.2f} %" for value in figures])
        else:
            expected.append(["skipped: acme/ns1 has a hole from 0x40000000 to 0x60000000"])
    shown = [row[1:4] if len(row) > 4 else row[1:2] for row in cells(answer.text, "The course in numbers")]
    assert shown == expected[::-1]
    assert 'class="line limit thin"' in answer.text


def test_what_rests_on_a_broker_s_report_is_told(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = desk_client(lake, monkeypatch)
    said = words_of(page.get("/broker", params={"cluster": "lab", "name": A, "at": "2026-11-21T08:30:30"}).text)
    assert "4 decisions of this cycle rest on it directly." in said
    assert f"unload {LAB_HOT} from {A} to {C} names it" in said
    assert "No later cycle took over state that rests on it." in said
    silent = page.get("/broker", params={"cluster": "spread", "name": C})
    assert "State no answer" in words_of(silent.text)
    assert "0 decisions of this cycle rest on it directly." in words_of(silent.text)


def test_a_broker_that_never_was_is_a_page_that_names_those_on_record(page: TestClient) -> None:
    answer = broker(page, "broker-9.eu.example:8080")
    assert answer.status_code == 404
    assert "Did you mean" in answer.text
    assert "Nothing is on record of it in this range." in words_of(answer.text)


# Ranges and moments.


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"from": "1026-01-01", "to": "2026-12-01"}, "The range is longer than 31 days"),
        ({"from": "2026-11-21", "to": "2026-11-20"}, "which is not after its start"),
        ({"last": "2h"}, "allowed is 1h, 6h, 24h, 3d, 7d, 30d"),
        ({"last": "1y"}, "allowed is 1h, 6h, 24h, 3d, 7d, 30d"),
        ({"from": "<b>then</b>"}, "is not a time"),
    ],
)
def test_a_range_that_cannot_be_drawn_leaves_the_rest_of_the_page(
    page: TestClient, given: dict[str, str], words: str
) -> None:
    answer = page.get("/bundle", params={"cluster": CLUSTER, "name": CHILDREN[0], **given})
    assert answer.status_code == 400
    assert f"That cannot be shown. {words}" in words_of(answer.text) or words in words_of(answer.text)
    assert 'name="from"' in answer.text
    assert "<b>then" not in answer.text


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"at": "9999-12-31"}, 200, "is 2,"),
        ({"to": "9999-12-31"}, 200, "9999-12-30 00:00:00 UTC to"),
        ({"at": "0001-01-01"}, 404, "the first is that of 2026-11-20 00:00:20 UTC"),
        ({"at": "then"}, 400, "is not a time"),
        ({"at": "2026-11-20T15:15"}, 200, "The cycle in force at 2026-11-20T15:15 is 25 min older"),
    ],
)
def test_moments_of_any_kind_are_answered(page: TestClient, given: dict[str, str], status: int, words: str) -> None:
    name = CHILDREN[0]
    answer = page.get("/bundle", params={"cluster": CLUSTER, "name": name, **given})
    assert answer.status_code == status
    if words != "is 2,":
        assert words in words_of(answer.text)


def test_a_long_range_is_thinned_and_says_so(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenkeel_page import subject_course

    before = bundle(page, at=NOON)
    monkeypatch.setattr(subject_course, "MOST_POINTS", 24)
    answer = bundle(page, at=NOON)
    assert "142 cycles, of which 24 are drawn, evenly spread" in words_of(answer.text)
    whole = [row for row in cells(before.text, "What happened") if row[1] == "bounce"]
    kept = [row for row in cells(answer.text, "What happened") if row[1] == "bounce"]
    assert [row[0] for row in kept] == [row[0] for row in whole] != []
    assert {row[1] for row in cells(answer.text, "What happened")} == {"move", "owner", "held", "split", "bounce"}
    monkeypatch.setattr(subject_course, "MOST_ROWS_READ", 1_000)
    assert "of which 24 are drawn" in words_of(broker(page).text)


def test_of_many_moments_the_newest_of_each_slot_is_taken() -> None:
    import pyarrow as pa
    from evenkeel_page.subject_course import thinned

    moments = [BEGIN + timedelta(minutes=n) for n in range(1_000)]
    chosen = thinned(pa.array(moments, pa.timestamp("us", "UTC")), 10)
    assert chosen == moments[99::100]
    assert thinned(pa.array(moments[:9], pa.timestamp("us", "UTC")), 10) == moments[:9]
    assert thinned(pa.array([], pa.timestamp("us", "UTC")), 10) == []


def test_a_cycle_that_decided_nothing_says_why_and_where_decisions_are(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = desk_client(lake, monkeypatch)
    asked = {"cluster": "lab", "name": LAB_HOT, "at": "2026-11-21T08:27:30"}
    answer = page.get("/bundle", params=asked)
    assert answer.status_code == 200
    said = words_of(answer.text)
    assert "acme/ns1 has a hole from 0x40000000 to 0x60000000. Nothing was decided in it." in said
    assert "2026-11-21 08:26:23 UTC before and 2026-11-21 08:28:23 UTC after" in said


def test_rows_past_their_retention_are_said_to_be_gone(
    warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Path(shutil.copytree(warm, tmp_path / "lake"))
    DeltaTable(str(lake / "bundle_load")).delete("cycle_at < '2026-11-20T13:05:00Z'")
    page = desk_client(lake, monkeypatch)
    answer = bundle(page, at=NOON)
    said = words_of(answer.text)
    assert answer.status_code == 200
    assert "carries the most on" in said
    assert "move" in {row[1] for row in cells(answer.text, "What happened")}
    quiet = bundle(page, at="2026-11-20T11:30")
    assert quiet.status_code == 200
    assert "rows of bundle_load of eu-1 at 2026-11-20T11:30:20+00:00 are past their retention" in words_of(quiet.text)


def test_half_a_cycle_is_said_to_be_under_way(warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.lakes.plausible import policies

    lake = Path(shutil.copytree(warm, tmp_path / "lake"))
    at = BEGIN + timedelta(hours=24)
    stamp = {"cluster": CLUSTER, "cycle_at": at, "cycle_date": at.date(), "write_id": "f" * 32}
    SmallLake(lake).append("cluster_policies", [policies([*BROKERS], at) | stamp])
    said = words_of(bundle(desk_client(lake, monkeypatch), CHILDREN[0]).text)
    assert "A later cycle, of 2026-11-21 00:00:20 UTC, has rows and no manifest" in said


def test_rows_that_no_manifest_lists_do_not_count(warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Path(shutil.copytree(warm, tmp_path / "lake"))
    record, attempt = Record(lake), cycle_at(lake, BEGIN + timedelta(hours=13, minutes=10))
    (row,) = record.rows([attempt], "guard_decisions")[attempt.attempt_id]
    (load,) = [one for one in record.rows([attempt], "bundle_load")[attempt.attempt_id] if one["bundle"] == BUNDLE]
    SmallLake(lake).append("guard_decisions", [row | {"write_id": "e" * 32, "rule": "of_a_killed_try"}])
    SmallLake(lake).append("bundle_load", [load | {"write_id": "e" * 32, "owner": "a-killed-try:8080"}])
    text = bundle(desk_client(lake, monkeypatch), at="2026-11-20T13:10").text
    assert "of_a_killed_try" not in text
    assert "a-killed-try" not in text
    assert text.count("held by enough_between_moves") == 2 * 2 + 2


# Names of any kind, and lakes of any kind.


@pytest.mark.parametrize(
    "name",  # markup that breaks out of an attribute; the others in `make test-all`
    [pytest.param(name, marks=() if name == XSS[1] else pytest.mark.exhaustive) for name in XSS],
)
def test_names_in_an_address_are_shown_as_text(page: TestClient, name: str) -> None:
    for answer in (bundle(page, name), broker(page, name), bundle(page, f"{name}/a/0x00000000_0xffffffff")):
        assert answer.status_code in (400, 404)
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text
        assert "\u202e" not in re.sub(r'(?:value|href)="[^"]*"', "", answer.text)
        assert "49" not in re.findall(r"<h1>(.*?)</h1>", answer.text)[0]


def test_names_on_record_are_shown_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_odd(SmallLake(tmp_path))
    page = desk_client(tmp_path, monkeypatch)
    for path, name in (
        ("/broker", f"{ODD}:8080"), ("/broker", f"{LONG}:8080"), ("/bundle", f"acme/{LONG}/0x00000000_0xffffffff"),
        ("/bundle", f"{ODD}/0x00000000_0xffffffff"),
    ):  # fmt: skip
        answer = page.get(path, params={"cluster": ODD, "name": name})
        assert answer.status_code == 200, path
        assert "<script>alert" not in answer.text
        assert "\u202e" not in re.sub(r'(?:value|href)="[^"]*"', "", answer.text)
        assert re.search(r"<style|<script(?! src)|\sstyle=|\son\w+=", answer.text) is None
        for kind in ("bundle", "broker"):
            for link in links(answer.text, kind):
                assert page.get(f"/{link}").status_code in (200, 404), link


def test_lakes_that_cannot_be_read_are_pages_too(warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = desk_client(tmp_path / "none", monkeypatch)
    assert "EVENKEEL_LAKE" in bundle(none).text
    SmallLake(tmp_path / "empty").append("cycles", [])
    assert "Trigger the DAG" in bundle(desk_client(tmp_path / "empty", monkeypatch)).text
    lake = Path(shutil.copytree(warm, tmp_path / "lake"))
    page = desk_client(lake, monkeypatch)
    unknown = page.get("/bundle", params={"cluster": "eu-2", "name": BUNDLE})
    assert (unknown.status_code, "Did you mean" in unknown.text) == (404, True)
    shutil.rmtree(lake / "commands")
    shutil.rmtree(lake / "guard_decisions")
    assert bundle(page, at="2026-11-20T11:00").status_code == 200
    for file in (lake / "bundle_load").rglob("*.parquet"):
        file.write_bytes(b"not parquet")
    broken = bundle(page)
    assert (broken.status_code, "bundle_load" in broken.text, "Traceback" in broken.text) == (500, True, False)
    assert page.get("/bundle", params={"cluster": CLUSTER}).status_code == 400


# From other pages.


def test_the_heat_map_s_why_leads_to_the_bundle_and_its_owner(page: TestClient) -> None:
    at = int(BEGIN.timestamp()) // 60 * 60 + 12 * 3_600
    asked = {"namespace": HOT, "lower": HOT_RANGE[0], "upper": HOT_RANGE[1], "from": at, "to": at + 600}
    text = page.get("/heat/why", params={"cluster": CLUSTER, **asked}).text
    for path in ("bundle", "broker"):
        (link,) = (html.unescape(one) for one in re.findall(rf'href="\.\./({path}\?[^"]+)"', text))
        assert "2026-11-20 12:00:20 UTC" in words_of(page.get(f"/{link}").text)


def test_names_in_a_cycle_s_report_are_links_on_the_desk_and_none_in_a_file(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = desk_client(lake, monkeypatch)
    text = page.get("/cycle", params={"cluster": "lab", "at": "2026-11-21T08:30:23"}).text
    assert any(LAB_HOT.replace("/", "%2F") in link for link in links(text, "bundle"))
    assert any(A.replace(":", "%3A") in link for link in links(text, "broker"))
    for link in {*links(text, "bundle")[:4], *links(text, "broker")[:4]}:
        assert page.get(f"/{link}").status_code in (200, 404)
    report = build_report(lake, cluster="lab", cycle="2026-11-21T08:30:23", out=tmp_path / "report.html")
    written = report.read_text(encoding="utf-8")
    assert LAB_HOT in written
    assert not links(written, "bundle")
    assert not links(written, "broker")


def test_a_need_that_names_a_bundle_leads_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = desk_client(urgent_lake(tmp_path / "lake", datetime.now(UTC)), monkeypatch)
    found = links(page.get("/").text, "bundle")
    assert any("cluster=harm" in link and "acme%2Fpayments%2F0x40000000_0x50000000" in link for link in found)


def test_a_bundle_of_which_commands_alone_are_on_record_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = desk_client(urgent_lake(tmp_path / "lake", datetime.now(UTC)), monkeypatch)
    shown = page.get("/bundle", params={"cluster": "bounces", "name": HOT_IN_URGENT})
    assert shown.status_code == 200
    picture = re.findall(r"<svg.*?</svg>", shown.text, re.DOTALL)[0]
    assert picture.count('class="mark m-move"') == 2
    assert ">owner</text>" in picture, "changes of owner keep their row"
    assert 'class="axis-title"' not in picture, "no axis without a figure, and no strip of owners"
    assert 'class="mark m-owner' not in picture
