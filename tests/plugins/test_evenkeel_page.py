"""The desk's pages, in process; the reader as a process, and rights, are under test beside it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from evenkeel.airflow.dag_names import approval_run_id
from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot
from evenkeel.lake.handover_files import FOLDER, handed_on
from evenkeel.lake.record import Record, find_cycles
from evenkeel.verify.runs import VerifyRun, leave
from tests.lakes.open_cycle import CLUSTER as OPEN
from tests.lakes.open_cycle import MOVED, OpenCycle
from tests.lakes.plausible import ACTING, LAB, LAB_FIRST, SPREAD, fill_odd
from tests.lakes.small_lake import SmallLake, moment
from tests.lakes.urgent_lake import XSS, urgent_lake
from tests.plugins.conftest import PLUGINS
from tests.plugins.here_reader import desk_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastapi.testclient import TestClient

pytestmark = pytest.mark.airflow
CHECKOUT = PLUGINS.parent


@pytest.fixture
def page(lake: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    return desk_client(lake, monkeypatch)


def handing_on(monkeypatch: pytest.MonkeyPatch, *cycles: tuple[str, Any]) -> None:
    """Stands in for the XCom table of an Airflow database, which only an API server has."""
    from evenkeel_page import airflow_side

    monkeypatch.setattr(airflow_side, "cycles_of_run", lambda dag_id, run_id: frozenset(cycles))


def test_the_list_shows_every_cycle_with_its_state(page: TestClient) -> None:
    answer = page.get("/cycles")

    assert answer.status_code == 200
    assert answer.text.count('href="cycle?') == 11
    assert "skipped" in answer.text
    assert "acme/ns1 has a hole from 0x40000000 to 0x60000000" in answer.text


def test_the_list_of_one_cluster_shows_its_cycles_alone(page: TestClient) -> None:
    answer = page.get("/cycles", params={"cluster": SPREAD})
    assert answer.text.count('href="cycle?') == 3
    assert "Cycles of spread" in answer.text
    assert page.get("/cycles", params={"cluster": "spreed"}).status_code == 404


def test_older_cycles_are_a_link_away(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenkeel_page import pages

    monkeypatch.setattr(pages, "MOST_LISTED", 4)
    seen, path = 0, "cycles"
    for _ in range(3):
        text = page.get(f"/{path}").text
        seen += text.count('href="cycle?')
        older = re.search(r'href="(cycles\?before=[^"]+)"', text)
        path = html.unescape(older[1]) if older else ""
    assert (seen, path) == (11, "")
    assert page.get("/cycles?before=then").status_code == 400
    assert page.get("/cycles?before=2020-01-01").text.count('href="cycle?') == 0


def test_each_link_of_the_list_leads_to_a_report_below_its_cluster(page: TestClient) -> None:
    links = re.findall(r'href="(cycle\?[^"]+)"', page.get("/cycles").text)
    answer = page.get("/" + html.unescape(links[4]))
    assert answer.status_code == 200
    assert "Evenkeel would unload 2 bundles from 127.0.0.1:19080 and split 1 bundle." in answer.text
    assert '<a href="cycles?cluster=lab"><bdi>lab</bdi></a>' in answer.text


def test_every_page_carries_a_policy_without_anything_inline_and_nobody_may_frame_it(page: TestClient) -> None:
    for path in ("/", "/cycles", "/cycle?cluster=nobody&at=latest", "/cycle", "/nowhere"):
        policy = page.get(path).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert policy.endswith("frame-ancestors 'none'")
        assert "unsafe" not in policy
    assert re.search(r"<style|<script(?! src)|\sstyle=|\son\w+=", page.get("/").text) is None


def test_a_page_that_is_known_already_is_not_sent_again(page: TestClient) -> None:
    first = page.get("/cycles")
    again = page.get("/cycles", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["cache-control"] == "no-store"


def test_files_of_the_look_are_kept_by_their_digest(page: TestClient) -> None:
    text = page.get("/").text
    addresses = re.findall(r'(?:href|src)="(static/[^"]+)"', text)
    assert len(addresses) == 3
    for address in addresses:
        answer = page.get(f"/{address}")
        assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
        assert page.get(f"/{address}", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
        assert page.get(f"/{address.split('=')[0]}=old").headers["cache-control"] == "private, no-cache"
    for name in ("gone.css", "..%2fapp.py", "%2e%2e/app.py"):
        assert page.get(f"/static/{name}").status_code == 404


def test_settings_in_force_are_shown_once_each_with_the_clusters_that_have_them(page: TestClient) -> None:
    differing = page.get("/settings", params={"show": "differing"}).text
    assert "failureDomainsEnabled" in differing
    assert "loadBalancerLoadSheddingStrategy" not in differing
    assert "loadBalancerLoadSheddingStrategy" in page.get("/settings", params={"show": "all"}).text
    own = page.get("/settings", params={"cluster": SPREAD})
    assert "What <bdi>spread</bdi> was last decided with" in re.sub(r"<bdi[^>]*>", "<bdi>", own.text).replace("\n", "")
    assert "override" in own.text
    assert page.get("/settings", params={"cluster": "spreed"}).status_code == 404
    assert page.get("/settings", params={"show": "' OR 1=1 --"}).status_code == 400


def shown(text: str) -> str:
    """The page's text without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", text))


def test_a_plan_that_waits_says_what_it_costs_and_where_airflow_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = urgent_lake(tmp_path / "lake", moment("2026-11-21T08:30:00"))
    page = desk_client(lake, monkeypatch)
    text = page.get("/cycle", params={"cluster": "approval", "at": "latest"}).text
    asked = re.search(r'data-question="([^"]+)"', text)
    assert asked
    (attempt,) = find_cycles(lake, cluster="approval")
    run = quote(approval_run_id(str(attempt.planned["run_id"]), "approval-plan"), safe="")
    assert html.unescape(asked[1]) == (
        f"../api/v2/dags/rebalance_approval/dagRuns/{run}/taskInstances/approve/-1/hitlDetails"
    )
    assert "data-question" not in page.get("/cycle", params={"cluster": "calm-a", "at": "latest"}).text
    assert "This plan waits for an answer" in text

    answered = {"plan_id": "approval-plan", "answer": "approved_without_splits", "by": "jo", "note": "<b>night</b>"}
    SmallLake(lake).append("approvals", [{"cluster": "approval", "at": moment("2026-11-21T08:31:00"), **answered}])
    text = page.get("/cycle", params={"cluster": "approval", "at": "latest"}).text
    assert "Approved without splits by jo at 2026-11-21 08:31:00 UTC: &lt;b&gt;night&lt;/b&gt;" in text
    assert "This plan has an answer; a later one holds instead" in text


def test_a_plan_that_a_newer_cycle_supersedes_takes_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = OpenCycle(tmp_path / "lake", moment("2026-11-21T08:30:00"))
    page, asked = desk_client(made.root, monkeypatch), {"cluster": OPEN, "at": made.at.isoformat()}
    text = page.get("/cycle", params=asked).text
    assert 'id="approval"' in text
    benefit = (
        "It is to bring the busiest broker from 1.58 to 1.12 times the mean, and moves 66.7 % of the cluster's traffic."
    )
    assert benefit in shown(text)
    for bundle in MOVED:
        assert f"{bundle}: pulsar-1.prod:8080 → pulsar-3.prod:8080" in shown(text)
    made.lake.add(OPEN, made.at + timedelta(minutes=5), {}, plan_id="0" * 64, kind="backfill")
    assert 'id="approval"' in page.get("/cycle", params=asked).text, "a backfill supersedes nothing"
    made.lake.add(OPEN, made.at + timedelta(minutes=10), {}, plan_id="1" * 64)
    text = page.get("/cycle", params=asked).text
    assert 'id="approval"' not in text
    assert "This plan is superseded. The cycle of 2026-11-21 08:40:00 UTC is on record" in shown(text)
    assert 'data-superseded="2026-11-21 08:40:00 UTC"' in page.get("/cycle-commands", params=asked).text


def test_who_may_not_answer_is_offered_no_answer(tmp_path: Path) -> None:
    from evenkeel_page.pages import answer
    from evenkeel_page.reader import Job

    made = OpenCycle(tmp_path / "lake", moment("2026-11-21T08:30:00"))
    words = {"cluster": OPEN, "at": "latest"}
    viewer, operator = (
        answer(Job("cycle", str(made.root), words | {"answers_as": user})).body for user in ("", "olga")
    )
    assert ('data-user=""' in viewer, 'data-user="olga"' in operator) == (True, True)
    assert ("whether you may answer" in viewer, "whether you may answer" in operator) == (False, True)


def test_a_lake_that_is_gone_is_not_one_that_is_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenkeel_page import airflow_side

    page = desk_client(tmp_path / "gone", monkeypatch)
    paths = ("/", "/cycles", "/heat", "/heat/picture")
    monkeypatch.setattr(airflow_side, "has_decided", lambda: False)
    assert [page.get(path).status_code for path in paths] == [200, 200, 200, 404]
    assert "No cycles yet" in page.get("/").text
    monkeypatch.setattr(airflow_side, "has_decided", lambda: True)
    assert [page.get(path).status_code for path in paths] == [503] * 4
    for path in paths:
        assert "The lake is gone" in page.get(path).text
        assert "No cycles yet" not in page.get(path).text


def test_without_a_log_the_page_of_proofs_says_how_to_begin_one(page: TestClient) -> None:
    text = page.get("/proof").text
    assert "Nothing outside of the lake vouches for the record yet." in text
    assert "evenkeel log begin" in text
    answer = page.get("/proof-file", params={"cluster": LAB, "at": "latest"})
    assert answer.status_code == 404
    assert "No proof" in answer.text


def test_the_page_of_proofs_tells_of_the_last_verify_as_of_a_line_that_nobody_signed(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(lake, tmp_path / "lake")
    page = desk_client(copy, monkeypatch)
    without = page.get("/proof").text
    assert "has left word in this lake" in without
    assert "Heads of the chains" in without
    assert str(Record(str(copy)).links(LAB).column("manifest_digest")[-1]) in without
    at = datetime.now(UTC) - timedelta(hours=3)
    run = VerifyRun(at, f"{XSS[0]}@host", "v1", "topics", XSS[0], "2026-11-01", "", 12_345, 10, 9, 1, 16, 0)
    assert leave(str(copy), run) is None
    text = page.get("/proof").text
    assert XSS[0] not in text
    said = html.unescape(re.sub(r"<[^>]+>", "", text))
    told = ("The last verify found 1 place not as it should be", "9 of 10 cycles reproduced", "12,345 manifests")
    for words in (*told, "of 16 leaves", "3 h", "nothing from elsewhere", "Nobody signs this", XSS[0]):
        assert words in said, words


def test_a_proof_is_downloaded_as_a_file_that_the_verifier_takes(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from evenkeel.cli import main

    logged, key = tmp_path / "lake", tmp_path / "log.key"
    shutil.copytree(lake, logged)
    assert main(["log", "make-key", "example.com/desk", "--out", str(key)]) == 0
    verifier = capsys.readouterr().out.strip()
    monkeypatch.setenv("EVENKEEL_LOG_KEY", f"file:{key}")
    assert main(["log", "begin", "--lake", str(logged)]) == 0
    page = desk_client(logged, monkeypatch)
    assert verifier in html.unescape(page.get("/proof").text)
    answer = page.get("/proof-file", params={"cluster": LAB, "at": "latest"})
    assert re.fullmatch(
        r'attachment; filename="lab-2026-11-21T[0-9-]+\.tlog-proof"', answer.headers["content-disposition"]
    )
    assert answer.headers["content-type"].startswith("text/plain")
    (tmp_path / "proof").write_bytes(answer.content)
    command = [sys.executable, str(CHECKOUT / "tools" / "check_proof.py"), str(tmp_path / "proof")]
    done = subprocess.run([*command, "--log-key", verifier], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert page.get("/proof-file", params={"cluster": LAB, "at": "2020-01-01"}).status_code == 404


def test_an_address_that_lacks_something_gives_a_page_that_names_it(page: TestClient) -> None:
    answer = page.get("/cycle")
    assert answer.status_code == 400
    assert "at, cluster" in answer.text


def test_an_unknown_cluster_or_time_is_a_404_that_names_the_nearest(page: TestClient) -> None:
    cluster = page.get("/cycle", params={"cluster": "spreed", "at": "latest"})
    time = page.get("/cycle", params={"cluster": LAB, "at": "2026-11-21T08:40:00"})

    assert (cluster.status_code, time.status_code) == (404, 404)
    assert "Did you mean" in cluster.text
    assert "2026-11-21T08:31:23.371000+00:00" in time.text


def test_text_that_is_no_time_is_answered_with_an_example(page: TestClient) -> None:
    answer = page.get("/cycle", params={"cluster": LAB, "at": "<b>yesterday</b>"})
    assert "is not a time: write" in answer.text
    assert "<b>yesterday" not in answer.text


def test_a_cluster_with_an_odd_name_has_a_report_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a/b?c=d&e #ü<i>"
    fill_odd(SmallLake(tmp_path), name)
    answer = desk_client(tmp_path, monkeypatch).get("/cycle", params={"cluster": name, "at": "2026-11-21T10:00:00"})
    assert answer.status_code == 200
    assert "a/b?c=d&amp;e #ü&lt;i&gt;" in answer.text


def test_a_lake_that_is_not_there_yet_gives_a_page_with_the_first_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = desk_client(tmp_path / "none", monkeypatch).get("/")
    assert answer.status_code == 200
    assert "There is no lake at" in answer.text
    assert "EVENKEEL_LAKE" in answer.text


def test_a_lake_without_a_cycle_gives_the_first_steps_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SmallLake(tmp_path).append("cycles", [])
    answer = desk_client(tmp_path, monkeypatch).get("/")
    assert (answer.status_code, "Trigger the DAG" in answer.text) == (200, True)


def test_a_damaged_lake_says_which_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SmallLake(tmp_path).add(LAB, moment("2026-11-21T08:00:00"), {})
    for file in (tmp_path / "cycles").rglob("*.parquet"):
        file.write_bytes(b"not parquet")
    answer = desk_client(tmp_path, monkeypatch).get("/")
    assert answer.status_code == 500
    assert "Table cycles of the lake" in html.unescape(answer.text)
    assert "Traceback" not in answer.text


def test_a_run_with_one_cycle_leads_straight_to_its_report(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    at = moment((LAB_FIRST.replace(minute=24 + ACTING, tzinfo=None)).isoformat())
    handing_on(monkeypatch, (LAB, at))
    answer = page.get("/run", params={"dag_id": "rebalance", "run_id": "again"}, follow_redirects=False)

    assert answer.status_code == 303
    assert answer.headers["location"] == "cycle?cluster=lab&at=2026-11-21T08%3A30%3A23.371000%2B00%3A00"
    assert page.get(f"/{answer.headers['location']}").status_code == 200


def test_a_run_with_several_clusters_lists_its_cycles(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    handing_on(monkeypatch, (LAB, LAB_FIRST), (SPREAD, moment("2026-11-21T09:10:05.120")))
    answer = page.get("/run", params={"dag_id": "rebalance", "run_id": "<both>"})
    assert answer.text.count('href="cycle?') == 2
    assert "Cycles of run &lt;both&gt;" in answer.text


def test_a_run_that_left_no_hand_over_is_found_by_the_manifests(
    page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    handing_on(monkeypatch)
    run_id = f"manual__{LAB_FIRST.isoformat()}"
    answer = page.get("/run", params={"dag_id": "rebalance", "run_id": run_id}, follow_redirects=False)
    assert answer.headers["location"].startswith("cycle?cluster=lab&at=2026-11-21T08%3A24%3A23")


def test_a_run_without_a_cycle_says_when_there_will_be_one(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    handing_on(monkeypatch)
    answer = page.get("/run", params={"dag_id": "rebalance", "run_id": "new"})
    assert answer.status_code == 404
    assert "has put no cycle on record yet" in answer.text


Cycles = list[tuple[str, datetime]]


@pytest.fixture
def cycles_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[Any], Cycles]]:
    """The cycles of a run that has one XCom in its database: a value as Airflow writes it, or the column's own text."""
    from airflow.models import import_all_models
    from airflow.models.xcom import XComModel
    from evenkeel_page.airflow_side import cycles_of_run
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    import_all_models()
    engine = create_engine("sqlite://")
    XComModel.__table__.create(engine)
    monkeypatch.setattr("airflow.utils.session.create_session", lambda: Session(engine))
    monkeypatch.setenv("EVENKEEL_LAKE", str(tmp_path / "lake"))
    names = 'dag_id, run_id, task_id, "key", dag_run_id, map_index, timestamp, value'

    def found(value: Any) -> Cycles:
        text = value.decode() if isinstance(value, bytes) else json.dumps(value)
        row = ("rebalance", "r", "place", "return_value", 1, -1, "2026-11-21", text)
        with engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM xcom")
            connection.exec_driver_sql(f"INSERT INTO xcom ({names}) VALUES ({', '.join('?' * len(row))})", row)
        return sorted(cycles_of_run("rebalance", "r"))

    yield found
    engine.dispose()


CYCLE = ClusterCycle(LAB, "2026-11-21T08:24:23.371000+00:00", Snapshot("s", "t"), {})
MANY = tuple(replace(CYCLE, cluster=f"c{number:02}", overrides={"long": "x" * 1_000}) for number in range(100))


def test_hand_overs_are_read_from_xcom_however_they_are_wrapped(
    tmp_path: Path, cycles_in: Callable[[Any], Cycles]
) -> None:
    text = Handover("lake", Run("rebalance", "r"), (CYCLE, replace(CYCLE, cluster="ü"))).to_json()
    expected = [(LAB, LAB_FIRST), ("ü", LAB_FIRST)]
    for wrapped in (text, json.dumps(text), json.loads(text), f"sealed {'0' * 64} {text}"):
        assert cycles_in(wrapped) == expected
    reference = handed_on(Handover(str(tmp_path / "lake"), Run("rebalance", "r"), MANY))
    assert cycles_in(json.dumps(reference)) == [(one.cluster, LAB_FIRST) for one in MANY]
    shutil.rmtree(tmp_path / "lake" / FOLDER)
    assert cycles_in(json.dumps(reference)) == []
    for other in ("no json", json.dumps({"lake": 1}), json.dumps([1]), None, 7):
        assert cycles_in(other) == []


def test_an_xcom_that_somebody_wrote_reads_no_other_place_and_ends_nothing(
    tmp_path: Path, cycles_in: Callable[[Any], Cycles], monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_page import airflow_side

    elsewhere = handed_on(Handover(str(tmp_path / "elsewhere"), Run("rebalance", "r"), MANY))
    assert cycles_in(elsewhere) == [], "a folder that is no lake of this installation"
    text = json.loads(Handover("lake", Run("rebalance", "r"), (CYCLE,)).to_json())
    assert cycles_in({**text, "padding": "x" * airflow_side.MOST_SIGNS}) == []
    for column in (b"[" * 50_000 + b"]" * 50_000, b"[" * 50_000, b'"' + b"[" * 50_000 + b'"', b'{"lake": ' * 9_000):
        assert cycles_in(column) == []
    for member in ({"cycles": [{}]}, {"cycles": "ab"}, {"files": [7]}, {"writes": [7]}, {"commits": [{"files": [3]}]}):
        assert cycles_in({**text, **member}) == []
    for cycle in ({"cycle_at": 7}, {"cycle_at": "0001-01-01T00:00:00+23:59"}, {"predecessor": 7}):
        assert cycles_in({**text, "cycles": [{**text["cycles"][0], **cycle}]}) == []
    assert cycles_in({**text, "cycles": [{**text["cycles"][0], "cluster": ["a"]}]}) == [("['a']", LAB_FIRST)]
    large = handed_on(Handover(str(tmp_path / "lake"), Run("rebalance", "r"), MANY))
    assert len(cycles_in(large)) == len(MANY)
    monkeypatch.setattr(airflow_side, "MOST_FILE_BYTES", 50_000)
    assert cycles_in(large) == [], "a file that is too large for a page"


def test_the_link_leads_from_a_task_of_the_pipeline_to_its_runs_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from evenkeel_page.link import CycleReportLink

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://ops.example/airflow/")
    link = CycleReportLink()
    key = SimpleNamespace(dag_id="rebalance", run_id="manual__2026-11-21T08:24:23+00:00&x")
    assert link.get_link(None, ti_key=key) == (
        "/airflow/evenkeel/run?dag_id=rebalance&run_id=manual__2026-11-21T08%3A24%3A23%2B00%3A00%26x"
    )
    asking = SimpleNamespace(dag_id="rebalance_approval", run_id=approval_run_id(key.run_id, "a" * 64))
    assert link.get_link(None, ti_key=asking) == link.get_link(None, ti_key=key), "the cycle that the plan is of"
    replay = SimpleNamespace(dag_id="replay", run_id="what-if__1")
    assert link.get_link(None, ti_key=replay).endswith("/evenkeel/what-if/started?run_id=what-if__1")
    assert link.get_link(None, ti_key=SimpleNamespace(dag_id="someone_elses", run_id="1")) == ""


def test_the_link_is_offered_on_tasks_of_the_pyspark_decorator() -> None:
    from airflow.sdk import task
    from evenkeel_page.link import CycleReportLink

    (operator,) = CycleReportLink.operators
    assert issubclass(operator, task.pyspark(lambda: None).operator_class)  # type: ignore[attr-defined]


def test_the_plugin_offers_the_desk_a_plain_link_to_it_and_the_link_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    from evenkeel_plugin import EvenkeelPlugin

    plugin = EvenkeelPlugin()
    assert [(app["name"], app["url_prefix"]) for app in plugin.fastapi_apps] == [("Evenkeel", "/evenkeel")]
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://ops.example/airflow/")
    (view,) = plugin.external_views
    assert (view["name"], view["href"]) == ("Evenkeel", "/airflow/evenkeel/")
    assert "url_route" not in view, "with one, Airflow shows the page in a frame"
    assert view["category"] == "browse", "at the top level Airflow 3.3.2 makes a button of it that leads nowhere"
    assert [link.name for link in plugin.operator_extra_links] == ["Evenkeel report"]


def test_a_page_that_cannot_be_loaded_leaves_airflow_without_it_and_one_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from evenkeel_plugin import EvenkeelPlugin

    for module in ("evenkeel_page.app", "evenkeel_page.link"):
        monkeypatch.setitem(sys.modules, module, None)
    plugin = EvenkeelPlugin()

    assert (plugin.fastapi_apps, plugin.external_views, plugin.operator_extra_links) == ([], [], [])
    ours = [record.getMessage() for record in caplog.records if record.name == "evenkeel_plugin"]
    assert len(ours) == 2
    assert all("Evenkeel's page is left out" in line and "\n" not in line for line in ours)


def test_loading_the_plugin_loads_neither_the_page_nor_anything_of_the_lake() -> None:
    code = (
        "import sys; import airflow.plugins_manager; before = set(sys.modules); import evenkeel_plugin;"
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PLUGINS, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['evenkeel_plugin']"


def test_the_api_server_loads_nothing_that_reads_tables_or_draws() -> None:
    heavy = ("pyspark", "pandas", "deltalake", "pyarrow", "altair", "evenkeel.report", "evenkeel_page.pages")
    code = f"import sys; import evenkeel_page.app; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=PLUGINS, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
