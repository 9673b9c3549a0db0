"""*What if*: the list, replays side by side, settings to copy, and the form, in process."""

from __future__ import annotations

import html
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.lake.record import read_table
from evenkeel.replay.history import CLOSED_LOOP
from evenkeel.replay.results import MOST_POINTS, find_replays, read_courses
from evenkeel.replay.run_params import check_params
from evenkeel.settings import resolve
from tests.lakes.urgent_lake import XSS
from tests.plugins.here_reader import HereReader
from tests.plugins.replayed_lake import BEGIN, EU, IN_FORCE, OFF, UNIFORM, US, ReplayedLake, replayed_lake

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

pytestmark = pytest.mark.airflow

Client = Callable[[Path], "TestClient"]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replayed_lake(tmp_path_factory.mktemp("lakes") / "replayed", XSS[:2])


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    from evenkeel_page.app import make_app
    from fastapi.testclient import TestClient

    def of(lake: Path) -> TestClient:
        monkeypatch.setenv("EVENKEEL_LAKE", str(lake))
        return TestClient(make_app(guarded=False, reader=HereReader()), raise_server_exceptions=False)

    return of


@pytest.fixture
def page(client: Client, replayed: Path) -> TestClient:
    return client(replayed)


def standing(monkeypatch: pytest.MonkeyPatch, **run: Any) -> None:
    """Stands in for the runs in an Airflow database, which only an API server has."""
    from evenkeel_page import airflow_side
    from evenkeel_page.airflow_side import ReplayRun

    found = ReplayRun(**{"run_id": "r1", "state": "queued", "is_paused": False, **run}) if run else None
    monkeypatch.setattr(airflow_side, "replay_run", lambda run_id: found)
    monkeypatch.setattr(airflow_side, "replays_under_way", lambda: [found] if found else [])


def shown(text: str) -> str:
    """The page's text without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", text))


def test_the_list_has_what_is_on_record_the_newest_first_and_what_is_under_way(
    page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing(monkeypatch, run_id="manual & odd", state="running")
    answer = page.get("/what-if")
    assert answer.status_code == 200
    assert re.findall(r'name="id" value="(\w+)"', answer.text) == ["model", "elsewhere", "second", "first"]
    assert "simulation, zipf (seed 7)" in shown(answer.text)
    assert 'href="what-if/started?run_id=manual+%26+odd"' in answer.text
    own = page.get("/what-if", params={"cluster": US}).text
    assert re.findall(r'name="id" value="(\w+)"', own) == ["elsewhere"]
    assert page.get("/what-if", params={"cluster": "nobody"}).status_code == 404


def test_where_nothing_was_replayed_the_page_says_how_to_start(client: Client, lake: Path) -> None:
    answer = client(lake).get("/what-if")
    assert answer.status_code == 200
    assert "No replay is on record yet." in answer.text
    assert 'href="what-if/new"' in answer.text


def test_the_figures_are_those_that_the_replay_put_on_record(page: TestClient, replayed: Path) -> None:
    answer = page.get("/what-if/run?id=first")
    (run,) = find_replays(replayed, ["first"])
    (stored,) = (row for row in read_table(replayed, "replay_runs") if row["replay_id"] == "first")
    assert [*run.summary] == json.loads(stored["summary"])
    table = re.findall(r'<table class="variants">(.*?)</table>', answer.text, re.DOTALL)[0]
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", table, re.DOTALL)
    cells = [[html.unescape(cell) for cell in re.findall(r'<td class="num">(.*?)</td>', row)] for row in rows]
    assert cells == [line[1:] for line in run.cells()]
    summary = {row["variant"]: row for row in run.summary}
    assert summary["UniformLoadShedder"]["moves"] > 0
    assert cells[1][0] == str(summary["UniformLoadShedder"]["moves"])


def test_a_simulation_of_recorded_traffic_shows_how_far_its_model_is_off(client: Client, tmp_path: Path) -> None:
    lake = ReplayedLake(tmp_path / "lake")
    lake.cluster(EU)
    error = {"points": 12, "usage": 0.031, "guess": 0.2, "max_over_mean": 0.05, "moves": 8}
    shift = {"moments": 2, "off": 0.043, "unmoved": 0.2}
    lake.replay("still", EU, {"untouched": OFF}, kind=CLOSED_LOOP, error={**error, "shift": None})
    lake.replay("moved", EU, {"untouched": OFF}, kind=CLOSED_LOOP, error={**error, "shift": shift})
    pages = {name: shown(client(lake.root).get(f"/what-if/run?id={name}").text) for name in ("still", "moved")}
    for text in pages.values():
        assert "The model misses the recorded usage of a broker by 3.10 points on average" in text
    assert ["share of the traffic by 4.3 points" in text for text in pages.values()] == [False, True]


def test_the_course_is_that_of_the_rows(page: TestClient, replayed: Path) -> None:
    found = read_courses(replayed, find_replays(replayed, ["first", "second"]))
    rows = [row for row in read_table(replayed, "replay_cycles") if row["replay_id"] in ("first", "second")]
    assert found.missing == ""
    assert list(found.moments) == sorted({row["cycle_at"] for row in rows})
    for course in found.courses:
        own = sorted(
            (r for r in rows if (r["replay_id"], r["variant"]) == (course.replay_id, course.variant)),
            key=lambda row: row["cycle_at"],
        )
        assert list(course.over_mean) == [row["after_max_over_mean"] for row in own]
        assert course.moves[-1] == sum(row["moves"] for row in own)
    text = html.unescape(page.get("/what-if/run?id=first&id=second").text)
    uniform = found.of("second", "UniformLoadShedder")
    assert uniform is not None
    assert f"6 B UniformLoadShedder: {uniform.over_mean[-1]:.2f}" in text, (
        "the picture says so to whoever does not see it"
    )
    assert f">{uniform.over_mean[0]:.2f}<" in text, "and the table of the course"


def test_a_long_course_has_some_hundreds_of_points_and_keeps_its_worst(tmp_path: Path) -> None:
    lake = ReplayedLake(tmp_path / "lake")
    lake.cluster(EU)
    comparison = lake.replay("long", EU, {"eager": UNIFORM}, cycles=500)
    found = read_courses(lake.root, find_replays(lake.root, ["long"]))
    (course,) = found.courses
    assert 100 < len(found.moments) <= MOST_POINTS
    figures = comparison.tallies["eager"].figures()
    assert max(value for value in course.over_mean if value is not None) == figures["worst_max_over_mean"]
    assert course.moves[-1] == figures["moves"]


def test_the_lines_to_copy_are_the_keys_that_differ_from_what_is_in_force(page: TestClient) -> None:
    text = page.get("/what-if/run?id=first").text
    sheets = [tomllib.loads(html.unescape(one)) for one in re.findall(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)]
    uniform, avg = (sheet["clusters"][EU]["settings"] for sheet in sheets[:2])
    before = resolve(observed=None, overrides=IN_FORCE).settings.values()
    assert all(before[key] != value for one in (uniform, avg) for key, value in one.items())
    assert uniform == {key: value for key, value in UNIFORM.items() if before[key] != value}
    assert avg == {
        "loadBalancerLoadPlacementStrategy": "AvgShedder", "loadBalancerLoadSheddingStrategy": "AvgShedder",
    }, "AvgShedder places as well"  # fmt: skip
    assert resolve(observed=None, overrides={**IN_FORCE, **avg})
    again = page.get("/what-if/run?id=elsewhere").text
    assert "there is nothing to copy" in again
    assert "Compared with Pulsar&#39;s defaults" in page.get("/what-if/run?id=model").text


def test_hostile_names_are_text(page: TestClient) -> None:
    answer = page.get("/what-if/run?id=first")
    assert answer.status_code == 200
    for name in XSS[:2]:
        assert name not in answer.text
        assert name in shown(answer.text)


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "no replay is named"),
        ("?id=never", 404, "no replay 'never' is on record"),
        ("?id=first&id=never", 404, "no replay 'never' is on record"),
        ("?id=first&id=elsewhere", 400, f"of 2 clusters ({EU}, {US}): compare those of one"),
        ("?" + "&".join(f"id=x{n}" for n in range(7)), 400, "7 replays are too many"),
        ("?id=%00%F0%9F%98%80", 404, "is on record"),
    ],
)
def test_what_cannot_be_compared_is_said(page: TestClient, query: str, status: int, words: str) -> None:
    answer = page.get(f"/what-if/run{query}")
    assert answer.status_code == status
    assert words.lower() in shown(answer.text).lower()


def test_rows_that_are_gone_leave_the_figures_and_are_told(client: Client, tmp_path: Path) -> None:
    lake = ReplayedLake(tmp_path / "lake")
    lake.cluster(EU)
    lake.replay("torn", EU, {"eager": UNIFORM}, cycles=30, kept=12)
    answer = client(lake.root).get("/what-if/run?id=torn")
    assert answer.status_code == 200
    assert "12 of 30 rows are there" in shown(answer.text)
    assert 'class="variants"' in answer.text


# The form.


def conf_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(html.unescape(re.findall(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)[0]))
    return found


def test_a_right_form_becomes_the_configuration_of_a_run(page: TestClient, replayed: Path) -> None:
    words = {
        "kind": "replay", "cluster": EU, "since": "2026-11-21", "until": "2026-11-21", "check": "yes", "limit": "80",
        "strategy": ["AvgShedder", "OverloadShedder"], "settings": "# ours\nmaxUnloadPercentage = 0.4\n",
        "variants": 'tight: loadBalancerBrokerThresholdShedderPercentage=12, maxUnloadPercentage = "0.3"',
    }  # fmt: skip
    answer = page.get("/what-if/new", params=words)
    assert answer.status_code == 200
    conf = conf_of(answer.text)
    assert conf == {
        "cluster": EU, "since": "2026-11-21", "until": "2026-11-21", "strategies": ["AvgShedder", "OverloadShedder"],
        "settings": {"maxUnloadPercentage": "0.4"}, "limit": 80,
        "variants": {"tight": {"loadBalancerBrokerThresholdShedderPercentage": "12", "maxUnloadPercentage": "0.3"}},
    }  # fmt: skip
    checked = check_params(str(replayed), conf)
    assert (checked.cluster, checked.cycles, checked.first) == (EU, 3, BEGIN)
    assert [one.name for one in checked.variants] == ["AvgShedder", "OverloadShedder", "tight"]
    posted = json.loads(html.unescape(re.findall(r'data-body="([^"]*)"', answer.text)[0]))
    assert (posted["conf"], posted["logical_date"]) == (conf, None)
    assert re.fullmatch(r"[A-Za-z0-9_.~:+-]+", posted["dag_run_id"]), "Airflow takes no other run ids"
    assert "3 cycles" in shown(answer.text)


def test_a_simulation_of_generated_traffic_needs_no_cluster(page: TestClient) -> None:
    words = {"kind": "simulate", "cluster": EU, "scenario": "growth", "seed": "9", "cycles": "240", "check": "yes"}
    answer = page.get("/what-if/new", params=words)
    assert conf_of(answer.text) == {"kind": "simulate", "scenario": "growth", "seed": 9}
    assert "Generated traffic" in shown(answer.text)


def test_a_cluster_without_a_decided_cycle_stands_in_the_way_of_nothing_but_its_own_replay(
    client: Client, tmp_path: Path
) -> None:
    lake = ReplayedLake(tmp_path / "lake")
    lake.add("aa", BEGIN, {}, status="skipped", reason="its brokers do not answer", plan_id=None)
    lake.cluster(EU)
    page = client(tmp_path / "lake")
    form = page.get("/what-if/new")
    assert f'value="{EU}" selected' in form.text
    assert 'id="problem"' not in form.text
    generated = page.get("/what-if/new", params={"kind": "simulate", "cluster": "aa", "scenario": "zipf", "check": "y"})
    assert conf_of(generated.text) == {"kind": "simulate", "scenario": "zipf"}
    own = page.get("/what-if/new", params={"cluster": "aa", "check": "yes"})
    assert own.status_code == 400
    assert "was decided: its brokers do not answer" in shown(own.text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"settings": "loadBalancerBrokerTresholdShedderPercentage=5"},
         "the nearest known key is 'loadBalancerBrokerThresholdShedderPercentage'"),
        ({"settings": "nonsense"}, "Settings, line 1 is not KEY = VALUE"),
        ({"settings": "maxUnloadPercentage = 7"}, "out of range"),
        ({"strategy": "AvgSheder"}, "did you mean AvgShedder?"),
        ({"strategy": "TransferShedder"}, "evenkeelManager=extensible"),
        ({"variants": "no colon"}, "Variants, line 1"),
        ({"variants": "a: maxUnloadPercentage=0.1\na: maxUnloadPercentage=0.2"}, "two variants are called 'a'"),
        ({"since": "yesterday"}, "The param `since` 'yesterday' is not a time"),
        ({"since": "2027-01-01"}, f"no cycle of {EU} is on record"),
        ({"limit": "much"}, "Limit: 'much' is not a number"),
        ({"limit": "-1"}, "is not a usage in percent"),
        ({"kind": "simulate", "scenario": "grow"}, "did you mean growth?"),
        ({"kind": "simulate", "scenario": "zipf", "brokers": "1"}, "two brokers or more"),
        ({"kind": "dance"}, "it is replay or simulate"),
        ({"cluster": "eu-2"}, "No cycle of cluster 'eu-2' is on record"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_runs(page: TestClient, words: dict[str, str], said: str) -> None:
    answer = page.get("/what-if/new", params={"cluster": EU, "check": "yes", **words})
    assert answer.status_code == 400
    assert said.replace("`", "").lower() in shown(answer.text).lower()
    assert 'id="ready"' not in answer.text


def test_the_form_keeps_what_was_typed(page: TestClient) -> None:
    text = page.get("/what-if/new", params={"cluster": US, "settings": "<b>x", "strategy": "AvgShedder"}).text
    assert "&lt;b&gt;x</textarea>" in text
    assert 'value="AvgShedder" checked' in text
    assert f'value="{US}" selected' in text


# A run.


def test_a_run_is_shown_as_it_stands_and_leads_to_what_it_came_to(
    page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing(monkeypatch, state="queued", is_paused=True)
    answer = page.get("/what-if/started?run_id=r1")
    assert answer.status_code == 200
    assert "is paused in Airflow" in shown(answer.text)
    assert "../../dags/replay/runs/r1/tasks/replay" in answer.text
    standing(monkeypatch, state="failed", reason="unknown strategy '<i>'")
    failed = page.get("/what-if/started?run_id=r1").text
    assert "unknown strategy &#39;&lt;i&gt;&#39;" in failed
    assert "what_if.js" not in failed, "there is nothing to wait for"
    standing(monkeypatch, state="success", replay_id="first")
    done = page.get("/what-if/started?run_id=r1", follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, "run?id=first")
    standing(monkeypatch, state="success")
    assert "ended without a result" in shown(page.get("/what-if/started?run_id=r1").text)
    standing(monkeypatch)
    assert page.get("/what-if/started?run_id=r2").status_code == 404
