"""The heat map's page, picture and why, in process: what they show is what the tables' rows say, and every unhappy path
ends in words that help. How it is drawn is under test in `test_heat_browser`."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from evenkeel.heat.scale import METRICS
from evenkeel.lake.record import Record
from evenkeel.model.bundles import BundleRange
from tests.lakes.plausible import ODD, SPREAD, fill_odd
from tests.lakes.small_lake import SmallLake
from tests.plugins.here_reader import desk_client
from tests.plugins.warm_lake import BEGIN, CLUSTER, HOT, HOT_RANGE, MIDDLE

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

pytestmark = pytest.mark.airflow

HOUR = 3_600
DAY_ONE = int(BEGIN.timestamp())


def forget_pictures() -> None:
    from evenkeel_page import heat_request

    heat_request._made.clear()


@pytest.fixture(autouse=True)
def no_picture_is_kept() -> None:
    forget_pictures()


@pytest.fixture
def page(warm: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    return desk_client(warm, monkeypatch)


def cell(lower: int, upper: int, hour: float, namespace: str = HOT, **more: Any) -> dict[str, Any]:
    at = DAY_ONE - DAY_ONE % 60 + int(hour * HOUR)
    return {
        "cluster": CLUSTER, "namespace": namespace, "lower": lower, "upper": upper, "from": at, "to": at + 600, **more,
    }  # fmt: skip


def words_of(text: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


# The picture.


def test_the_picture_is_what_the_rows_of_each_bundle_say(page: TestClient, warm: Path) -> None:
    answer = page.get("/heat/picture", params={"cluster": CLUSTER, "metric": "byte_rate"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    told = answer.json()
    rows, columns = len(told["row_lower"]), len(told["starts"])
    values = np.frombuffer(zlib.decompress(base64.b64decode(told["values"])), "u1").reshape(rows, columns)
    shared = np.unpackbits(np.frombuffer(zlib.decompress(base64.b64decode(told["shared"])), "u1"))
    shared = shared[: rows * columns].reshape(rows, columns)
    record, looked = Record(warm), 0
    for attempt in record.cycles(CLUSTER, BEGIN + timedelta(hours=11), BEGIN + timedelta(hours=16)):
        column = told["starts"].index(int(attempt.cycle_at.timestamp()) // 60 * 60)
        for row in record.rows([attempt], "bundle_load")[attempt.attempt_id]:
            for place in range(rows):
                name = told["namespaces"][told["row_namespace"][place]]
                if (name, told["row_lower"][place], told["row_upper"][place]) == (
                    row["namespace"], row["lower"], row["upper"],
                ) and not shared[place, column]:  # fmt: skip
                    expected = row["used_msg_throughput_in"] + row["used_msg_throughput_out"]
                    found = METRICS["byte_rate"].values()[values[place, column]]
                    assert found == pytest.approx(expected, rel=0.07) or expected < 1.0
                    looked += 1
    assert looked > 2_000


def test_the_picture_begins_with_what_was_asked_for(page: TestClient) -> None:
    told = page.get("/heat/picture", params={"last": "6h", "within": HOT}).json()
    newest = int((BEGIN + timedelta(hours=23, minutes=50)).timestamp())
    assert told["asked"] == {
        "cluster": CLUSTER, "metric": "message_rate", "last": "6h", "from": newest + 60 - 6 * HOUR, "to": newest + 60,
        "within": HOT, "newest_cycle": newest,
    }  # fmt: skip
    assert told["namespaces"] == [HOT]
    assert told["notes"] == []
    bundle = page.get("/heat/picture", params={"within": f"{HOT}/{BundleRange(0, HOT_RANGE[1])}"}).json()
    assert bundle["row_upper"][-1] == HOT_RANGE[1]


def test_a_picture_that_is_known_is_not_sent_again(page: TestClient) -> None:
    first = page.get("/heat/picture")
    again = page.get("/heat/picture", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert len(first.content) < 2_000_000


def test_the_page_and_its_script_read_the_tables_once(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenkeel_page import heat_request

    calls: list[str] = []
    real = heat_request.picture

    def counted(*asked: Any, **more: Any) -> Any:
        calls.append(asked[4])
        return real(*asked, **more)

    monkeypatch.setattr(heat_request, "picture", counted)
    page.get("/heat")
    page.get("/heat/picture")
    assert calls == ["message_rate"]
    for metric in METRICS:
        page.get("/heat/picture", params={"metric": metric})
    assert calls == [*METRICS]
    assert len(heat_request._made) <= 3
    monkeypatch.setattr(heat_request, "_KEPT_S", -1.0)
    page.get("/heat/picture")
    assert calls == [*METRICS, "message_rate"]


def test_what_cannot_be_read_is_said_as_json(page: TestClient) -> None:
    for params, status, words in (
        ({"cluster": "eu-2"}, 404, "no cycle of cluster 'eu-2' is on record"),
        ({"metric": "heat'; DROP TABLE cycles"}, 400, "unknown metric"),
        ({"last": "2h"}, 400, "allowed is 1h, 6h, 24h"),
        ({"from": "yesterday"}, 400, "is not a time"),
        ({"from": "2026-11-21", "to": "2026-11-20"}, 400, "not after its start"),
        ({"from": "1026-01-01", "to": "2026-01-01"}, 400, "ask for 401 days at most"),
        ({"last": "1y", "to": "0001-01-02"}, 400, "there is no cycle before that"),
        ({"within": "nobody/nothing"}, 400, "has no bundle"),
        ({"within": f"{HOT}/0x50000000_0x20000000"}, 400, ""),
    ):
        answer = page.get("/heat/picture", params=params)
        said = answer.json()
        assert (answer.status_code, words in said["text"].lower()) == (status, True), (params, said)
        assert said["title"]


# The page.


def test_without_a_script_the_page_lists_the_hottest_cells_with_a_link_to_their_why(page: TestClient) -> None:
    answer = page.get("/heat")
    assert answer.status_code == 200
    lines = re.findall(r'<tr role="row"><th role="rowheader".*?</tr>', answer.text)
    assert len(lines) == 15
    hottest = words_of(lines[0])
    assert f"{HOT}/0x30000000_0x38000000" in hottest
    assert "msg/s" in hottest
    link = html.unescape(re.search(r'href="(heat/why\?[^"]+)"', lines[0])[1])  # type: ignore[index]
    assert "The cell's range was part of this bundle then." in words_of(page.get(f"/{link}").text)
    assert re.search(r"<style|<script(?! src)|\sstyle=|\son\w+=", answer.text) is None


def test_earlier_and_later_move_by_half_of_the_range(page: TestClient) -> None:
    text = page.get("/heat", params={"from": "2026-11-20T08:00:00Z", "to": "2026-11-20T12:00:00Z"}).text
    earlier, later = (html.unescape(one) for one in re.findall(r'href="(heat\?[^"]+)" data-way', text))
    assert "from=2026-11-20T06%3A00%3A00Z&to=2026-11-20T10%3A00%3A00Z" in earlier
    assert "from=2026-11-20T10%3A00%3A00Z&to=2026-11-20T14%3A00%3A00Z" in later
    assert page.get(f"/{earlier}").status_code == 200


def test_a_range_that_cannot_be_shown_leaves_the_form_there(page: TestClient) -> None:
    answer = page.get("/heat", params={"from": "1026-01-01", "to": "2026-01-01"})
    assert answer.status_code == 400
    assert "ask for 401 days at most" in answer.text
    assert 'name="cluster"' in answer.text
    empty = page.get("/heat", params={"from": "2026-01-01", "to": "2026-01-02"})
    assert (empty.status_code, "Nothing is known of this range." in empty.text) == (200, True)


def test_an_unknown_cluster_is_a_404_that_names_the_nearest(page: TestClient) -> None:
    answer = page.get("/heat", params={"cluster": "eu-2"})
    assert answer.status_code == 404
    assert "Did you mean" in answer.text


def test_where_no_heat_was_built_the_page_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.lakes.plausible import plausible_lake

    cold = desk_client(plausible_lake(tmp_path / "lake"), monkeypatch)
    answer = cold.get("/heat")
    assert answer.status_code == 200
    said = words_of(answer.text)
    assert "Unpause the DAG heat in Airflow" in said.replace("`", "")
    assert "evenkeel heat --lake" in said
    told = cold.get("/heat/picture")
    assert told.status_code == 404
    assert "DAG `heat`" in told.json()["advice"][0]


def test_where_there_is_no_lake_the_first_steps_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = desk_client(tmp_path / "none", monkeypatch)
    assert "EVENKEEL_LAKE" in none.get("/heat").text
    assert (none.get("/heat/picture").status_code, none.get("/heat/picture").json()["title"]) == (
        404,
        "Nothing on record",
    )
    monkeypatch.delenv("EVENKEEL_LAKE")
    monkeypatch.setattr("evenkeel_page.airflow_side._variable", lambda: None)
    assert "EVENKEEL_LAKE" in " ".join(none.get("/heat/picture").json()["advice"])


def test_a_map_older_than_the_newest_cycle_says_until_when_it_goes(
    warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Path(shutil.copytree(warm, tmp_path / "lake"))
    SmallLake(lake).add(CLUSTER, BEGIN + timedelta(hours=25), {}, status="failed", reason="no broker answered")
    late = desk_client(lake, monkeypatch)
    (note,) = late.get("/heat/picture").json()["notes"]
    assert note.startswith("The map is built up to 2026-11-2")
    assert "the newest cycle is that of 2026-11-21 01:00:20 UTC" in note
    assert html.unescape(late.get("/heat").text).count(note) == 1


def test_a_lake_that_is_gone_in_the_middle_is_said(warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Path(shutil.copytree(warm, tmp_path / "lake"))
    gone = desk_client(lake, monkeypatch)
    assert gone.get("/heat").status_code == 200
    for file in (lake / "heat_blocks").rglob("*.parquet"):
        file.unlink()
    forget_pictures()
    answer = gone.get("/heat/picture")
    assert answer.status_code == 500
    assert "heat_blocks" in answer.json()["text"]
    assert "Traceback" not in answer.text
    shutil.rmtree(lake)
    assert gone.get("/heat/why", params=cell(*HOT_RANGE, 12.0)).status_code == 200


def test_names_of_any_kind_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenkeel.heat import build

    fill_odd(SmallLake(tmp_path))
    build(str(tmp_path))
    odd = desk_client(tmp_path, monkeypatch)
    text = odd.get("/heat", params={"cluster": ODD}).text
    assert "<script>alert" not in text
    assert "\u202e" not in re.sub(r'value="[^"]*"|data-asked="[^"]*"|href="[^"]*"', "", text)
    assert "&lt;script&gt;alert" in text
    told = odd.get("/heat/picture", params={"cluster": ODD}).json()
    assert told["asked"]["cluster"] == ODD
    link = html.unescape(re.search(r'href="(heat/why\?[^"]+)"', text)[1])  # type: ignore[index]
    assert "<script>alert" not in odd.get(f"/{link}").text


# Why.


def test_why_has_the_exact_figures_and_the_reasons_of_the_cycle(page: TestClient, warm: Path) -> None:
    answer = page.get("/heat/why", params=cell(*HOT_RANGE, 12.0))
    said = words_of(answer.text)
    assert answer.status_code == 200
    record = Record(warm)
    (attempt,) = record.cycles(CLUSTER, BEGIN + timedelta(hours=12), BEGIN + timedelta(hours=12, minutes=5))
    rows = record.rows([attempt], "bundle_load")[attempt.attempt_id]
    name = f"{HOT}/{BundleRange(*HOT_RANGE)}"
    (row,) = [one for one in rows if one["bundle"] == name]
    rate = row["used_msg_rate_in"] + row["used_msg_rate_out"]
    own = row["used_msg_throughput_in"] + row["used_msg_throughput_out"]
    whole = sum(
        one["used_msg_throughput_in"] + one["used_msg_throughput_out"] for one in rows if one["owner"] == row["owner"]
    )
    assert f"{rate:,.2f} msg/s" in said
    assert f"{own / whole * 100:.2f} %" in said
    assert "carries the most on" in said
    assert "done: the owner is another broker" in said
    assert f"evenkeel explain {name} --cluster {CLUSTER} --at 2026-11-20T12:00:20Z" in said
    for link in re.findall(r'href="\.\./((?:cycle|cycles)\?[^"]+)"', answer.text):
        assert page.get("/" + html.unescape(link)).status_code == 200
    assert 'src="../static/desk.js' in answer.text


def test_a_guard_that_held_a_command_is_among_the_reasons(page: TestClient) -> None:
    said = words_of(page.get("/heat/why", params=cell(*HOT_RANGE, 13 + 10 / 60)).text)
    assert "guard: held" in said
    assert "was moved 3 times in the hour before" in said


def test_before_a_split_a_child_leads_to_its_parent(page: TestClient) -> None:
    said = words_of(page.get("/heat/why", params=cell(HOT_RANGE[0], MIDDLE, 12.0)).text)
    assert "The cell's range was part of this bundle then." in said
    assert f"{HOT}/{BundleRange(*HOT_RANGE)}" in said
    after = words_of(page.get("/heat/why", params=cell(HOT_RANGE[0], MIDDLE, 20.0)).text)
    assert f"{HOT}/{BundleRange(HOT_RANGE[0], MIDDLE)}" in after
    assert "was part of" not in after


def test_a_range_of_several_bundles_lists_them_the_busiest_first(page: TestClient) -> None:
    answer = page.get("/heat/why", params=cell(0, 0xFFFFFFFF, 20.0))
    assert "17 bundles lie in this range, here the 12 busiest." in words_of(answer.text)
    rates = [float(one.replace(",", "")) for one in re.findall(r'class="num">([\d.,]+) msg/s', answer.text)]
    assert len(rates) == 12
    assert rates == sorted(rates, reverse=True)
    link = html.unescape(re.findall(r'href="\.\./(heat/why\?[^"]+)"', answer.text)[0])
    assert page.get(f"/{link}").status_code == 200
    across = page.get(
        "/heat/why", params=cell(0xF0000000, 0x20000000, 20.0, "iot/devices", last_namespace="shop/baskets")
    )
    assert across.status_code == 400
    across = page.get("/heat/why", params=cell(0, 0x20000000, 20.0, "iot/firmware", last_namespace="shop/baskets"))
    assert "3 bundles lie in this range" in words_of(across.text)


def test_a_column_of_many_cycles_leads_from_one_to_the_next(page: TestClient) -> None:
    wide = {**cell(*HOT_RANGE, 11.0), "to": DAY_ONE + 13 * HOUR}
    answer = page.get("/heat/why", params=wide)
    said = words_of(answer.text)
    assert "one of 12 cycles of this column" in said
    assert "2026-11-20 12:50:20 UTC" in said
    before = html.unescape(re.search(r'href="\.\./(heat/why\?[^"]+)" data-why>cycle before', answer.text)[1])  # type: ignore[index]
    assert "2026-11-20 12:40:20 UTC" in words_of(page.get(f"/{before}").text)
    at = {**wide, "at": DAY_ONE + int(11.5 * HOUR)}
    assert "2026-11-20 11:30:20 UTC" in words_of(page.get("/heat/why", params=at).text)


def test_exact_rows_that_are_no_longer_kept_are_said_to_be(
    warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    lake = Path(shutil.copytree(warm, tmp_path / "lake"))
    DeltaTable(str(lake / "bundle_load")).delete("cycle_date = '2026-11-20'")
    answer = desk_client(lake, monkeypatch).get("/heat/why", params=cell(*HOT_RANGE, 12.0))
    said = words_of(answer.text)
    assert answer.status_code == 200
    assert "The exact rows of this cycle are no longer kept (none are kept)" in said
    assert "carries the most on" in said


def test_a_cell_without_a_cycle_and_one_that_is_none_are_said(page: TestClient) -> None:
    gap = page.get("/heat/why", params=cell(*HOT_RANGE, 15.1))
    assert (gap.status_code, "no cycle of eu-1 is between" in gap.text.lower()) == (400, True)
    assert page.get("/heat/why", params=cell(5, 5, 12.0)).status_code == 400
    assert page.get("/heat/why", params=cell(*HOT_RANGE, 12.0, to=0)).status_code == 400
    assert page.get("/heat/why", params=cell(*HOT_RANGE, 12.0, to=10**18)).status_code == 400
    lacking = page.get("/heat/why", params={"cluster": CLUSTER})
    assert lacking.status_code == 400
    for answer in (gap, lacking):  # their files lie a step above
        assert 'href="../static/desk.css' in answer.text
    unknown = page.get("/heat/why", params={**cell(*HOT_RANGE, 12.0), "cluster": "eu-2"})
    assert unknown.status_code == 404
    none = page.get("/heat/why", params=cell(*HOT_RANGE, 12.0, "shop/gone"))
    assert "No bundle of this range was on record in this cycle." in none.text


def test_a_skipped_cycle_says_that_it_decided_nothing(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = int(datetime(2026, 11, 21, 8, 27, tzinfo=UTC).timestamp())
    asked = {"cluster": "lab", "namespace": "acme/ns1", "lower": 0, "upper": 0x20000000, "from": at, "to": at + 60}
    said = words_of(desk_client(lake, monkeypatch).get("/heat/why", params=asked).text)
    assert "This cycle decided nothing: acme/ns1 has a hole" in said
    first = desk_client(lake, monkeypatch).get("/heat", params={"cluster": SPREAD})
    assert "acme/spread2/0x00000000_0xffffffff" in first.text


# Words.


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0.0, "msg/s", "0 msg/s"), (0.0123, "msg/s", "0.012 msg/s"), (1.04, "msg/s", "1.0 msg/s"),
        (9.96, "msg/s", "10 msg/s"), (1_234.0, "msg/s", "1,200 msg/s"), (96_500_000.0, "msg/s", "97,000,000 msg/s"),
        (3_500_000.0, "byte/s", "3.3 MiB/s"), (12.0, "byte/s", "12 byte/s"), (1023.0, "byte/s", "1,000 byte/s"),
        (0.00521, "fraction", "0.52 %"), (1.0, "fraction", "100 %"), (17.3, "count", "17"),
    ],
)  # fmt: skip
def test_values_have_the_two_digits_that_the_scale_has(value: float, unit: str, words: str) -> None:
    from evenkeel_page.heat_words import about

    assert about(value, unit) == words


def test_every_metric_has_words() -> None:
    from evenkeel_page.heat_words import METRIC_WORDS

    assert set(METRIC_WORDS) == set(METRICS)
    assert json.dumps(METRIC_WORDS)
