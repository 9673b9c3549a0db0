"""The desk over several lakes: clusters of all, an address that finds its lake, and a lake that is gone."""

import re
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient

from tests.lakes.several_lakes import MOVED, Installation, lakes_in_force
from tests.plugins.here_reader import HereReader

pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    return lakes_in_force(tmp_path, monkeypatch)


@pytest.fixture
def desk(made: Installation, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    from evenkeel_page import airflow_side
    from evenkeel_page.app import make_app

    monkeypatch.setattr(airflow_side, "cycles_of_run", lambda dag_id, run_id: frozenset())
    monkeypatch.setattr(airflow_side, "replays_under_way", list)
    return TestClient(make_app(guarded=False, reader=HereReader()), raise_server_exceptions=False)


def lakes_of(page: str) -> list[tuple[str, bool]]:
    """The lakes that a page offers, and which of them it is over."""
    found = re.search(r'<nav class="crumbs lakes".*?</nav>', page, re.S)
    links = re.findall(r'<a href="[^"]*"( aria-current="true")?>(.*?)</a>', found[0]) if found else []
    return [(name, bool(current)) for current, name in links]


def test_clusters_of_all_lakes_stand_on_the_first_page_with_their_lakes(desk: TestClient) -> None:
    page = desk.get("/").text
    names = re.findall(r'<th role="rowheader".*?<bdi class="n">(.*?)</bdi>.*?lake (\w+), ', page, re.S)
    assert names == [("eu-1", "north"), ("eu-2", "north"), (MOVED, "south"), ("us-1", "south")]
    assert "1 cluster of 4 needs attention" in page
    assert "Read from 3 lakes at" in page
    assert f'href="cycles?cluster={MOVED}&amp;lake=old"' in page
    assert lakes_of(page) == []


def test_a_lake_that_is_gone_is_one_line_and_harms_nothing_else(made: Installation, desk: TestClient) -> None:
    made.lose("north")
    page = desk.get("/")
    assert page.status_code == 200
    assert page.text.count("there is no lake at") == 1
    assert re.findall(r'rowheader".*?<bdi class="n">(.*?)</bdi>', page.text, re.S) == [MOVED, "us-1"]
    assert desk.get("/cycles?cluster=us-1").status_code == 200
    assert lakes_of(desk.get("/cycles").text) == [("north", False), ("south", True), ("old", False)]


def test_what_to_do_about_a_lake_without_cycles_or_heat_names_its_own_entry_and_dags(
    made: Installation, desk: TestClient
) -> None:
    made.lose("south")
    gone, cold = (re.sub(r"<[^>]+>", "", desk.get(path).text) for path in ("/cycles?lake=south", "/heat?lake=north"))
    assert "See that path under [lakes.south] in the configuration" in gone
    assert "Trigger the DAG rebalance.south" in gone
    assert "Unpause the DAG heat.north" in cold


def test_a_damaged_lake_says_so_on_its_own_pages_which_lead_to_the_others(made: Installation, desk: TestClient) -> None:
    for file in Path(made.path("north"), "cycles", "_delta_log").glob("*.json"):
        file.write_text("{")
    page = desk.get("/cycles")
    assert page.status_code == 500
    assert lakes_of(page.text) == [("north", True), ("south", False), ("old", False)]
    assert desk.get("/cycles?lake=south").status_code == 200
    assert "us-1" in desk.get("/").text


@pytest.mark.parametrize("path", ["cycles", "heat", "settings", "bundle", "broker", "cycle", "cycle-commands"])
def test_an_address_with_a_cluster_finds_its_lake(desk: TestClient, path: str) -> None:
    more = {"broker": {"name": "pulsar-1.prod:8080"}, "bundle": {"name": "acme/payments/0x40000000_0x50000000"}}
    more |= {"cycle": {"at": "latest"}, "cycle-commands": {"at": "latest"}}
    page = desk.get(f"/{path}?{urlencode({'cluster': 'us-1', **more.get(path, {})})}")
    assert "eu-1" not in page.text
    assert page.status_code in (200, 400, 404)
    if path in ("bundle", "broker"):
        assert "us-1" in page.text
    elif page.status_code == 200:
        assert ("south", True) in lakes_of(page.text)


@pytest.mark.parametrize("path", ["cycles", "settings", "proof", "what-if", "heat"])
def test_a_page_without_a_cluster_is_over_the_lake_that_is_chosen(desk: TestClient, path: str) -> None:
    assert lakes_of(desk.get(f"/{path}?lake=south").text) == [("north", False), ("south", True), ("old", False)]


def test_the_choice_of_a_lake_keeps_the_cluster_where_it_is_known_to_be(desk: TestClient) -> None:
    def choices(path: str) -> list[str]:
        (nav,) = re.findall(r'<nav class="crumbs lakes".*?</nav>', desk.get(path).text, re.S)
        return [link.replace("&amp;", "&") for link in re.findall(r'href="([^"]*)"', nav)]

    assert choices("/cycles?cluster=eu-1") == ["cycles?cluster=eu-1", "cycles?lake=south", "cycles?lake=old"]
    before = f"cycles?cluster={MOVED}&lake=old"
    assert choices(f"/{before}") == ["cycles?lake=north", f"cycles?cluster={MOVED}", before]
    assert choices("/cycles?cluster=nobody&lake=north") == [f"cycles?lake={lake}" for lake in ("north", "south", "old")]


def test_older_cycles_of_a_chosen_lake_stay_there(desk: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenkeel_page.pages.MOST_LISTED", 3)
    page = desk.get("/cycles?lake=south").text
    (older,) = re.findall(r'href="(cycles\?[^"]*before=[^"]*)"', page)
    assert "lake=south" in older
    assert lakes_of(desk.get("/" + older.replace("&amp;", "&")).text)[1] == ("south", True)


def test_an_unknown_lake_is_told_with_the_nearest(desk: TestClient) -> None:
    page = desk.get("/cycles?lake=nort")
    assert page.status_code == 400
    assert "Did you mean north?" in page.text


def test_the_earlier_cycles_of_a_moved_cluster_are_found_where_they_were(made: Installation, desk: TestClient) -> None:
    at = (made.now - timedelta(days=3)).isoformat()
    page = desk.get(f"/cycle?{urlencode({'cluster': MOVED, 'at': at})}")
    assert page.status_code == 200
    assert ("old", True) in lakes_of(page.text)
    older = desk.get(f"/cycles?cluster={MOVED}&lake=old")
    assert older.status_code == 200
    assert ("old", True) in lakes_of(older.text)


def test_a_run_is_looked_for_in_the_lake_of_its_dag(desk: TestClient) -> None:
    page = desk.get("/run?dag_id=rebalance.south&run_id=none")
    assert page.status_code == 404
    assert "has put no cycle on record yet" in page.text
    assert desk.get("/run?dag_id=rebalance.gone&run_id=none").status_code == 400


def test_the_link_of_a_task_leads_to_the_run_of_its_lake(desk: TestClient) -> None:
    from types import SimpleNamespace
    from typing import Any

    from evenkeel_page.link import CycleReportLink

    def link(dag_id: str, run_id: str) -> str:
        key: Any = SimpleNamespace(dag_id=dag_id, run_id=run_id)
        return CycleReportLink().get_link(None, ti_key=key)

    assert link("rebalance.south", "r").endswith("/evenkeel/run?dag_id=rebalance.south&run_id=r")
    assert link("rebalance_approval.south", "r--plan-abc").endswith("/evenkeel/run?dag_id=rebalance.south&run_id=r")
    assert link("upkeep.south", "r") == ""


def test_one_lake_alone_shows_no_choice(made: Installation, desk: TestClient) -> None:
    made.file.write_text('lake = "north"\n[clusters.eu-1]\nrecording = "r"\n')
    for path in ("/", "/cycles", "/settings", "/proof"):
        page = desk.get(path).text
        assert "lakes.css" not in page
        assert "lake=" not in page
        assert lakes_of(page) == []
