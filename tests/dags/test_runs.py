"""Runs of the DAG under a real Airflow: scheduler, API server, task processes, Spark over Connect, Delta tables."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import DAG_ID, Airflow
from evenkeel.heat import picture
from evenkeel.lake.record import Attempt, read_attempts, read_rows, read_table
from tests.dags.conftest import RECORDED_AT
from tests.dags.waiting import LOOK_SECONDS, PATIENCE_SECONDS, awaited, backfilled, ended, states, tries
from tests.left_out import FULL_JDK, lacking

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

CHECKOUT = Path(__file__).resolve().parents[2]
STEPS = ["ingest", "validate", "aggregate", "plan_splits", "shed", "place", "publish"]
ON_APPROVAL = ["waiting", "ask"]


def run(airflow: Airflow, **conf: Any) -> dict[str, Any]:
    """Triggers a run and waits for its end."""
    return ended(airflow, airflow.rest.trigger(DAG_ID, logical_date=None, conf=conf))


def attempts(lake: Path, cluster: str, cycle: str) -> list[Attempt]:
    return [a for a in read_attempts(lake, cluster=cluster) if a.cycle_at.isoformat(timespec="microseconds") == cycle]


@pytest.fixture(scope="module")
def both(airflow: Airflow) -> dict[str, Any]:
    """The run over the good and the holed cluster that the schedule makes for its newest date once the DAG is there."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        found = airflow.rest.get(f"/api/v2/dags/{DAG_ID}/dagRuns", run_type="scheduled")["dag_runs"]
        if found:
            return ended(airflow, found[0]["dag_run_id"])
        time.sleep(LOOK_SECONDS)
    raise AssertionError("no scheduled run")


def test_a_cycle_runs_from_snapshot_to_manifest_in_seven_tasks(
    airflow: Airflow, lake: Path, both: dict[str, Any]
) -> None:
    assert both["state"] == "success"
    expected = dict.fromkeys(STEPS, "success") | dict.fromkeys(ON_APPROVAL, "skipped")
    assert states(airflow, both["dag_run_id"]) == expected
    (attempt,) = attempts(lake, "good", RECORDED_AT)
    assert (attempt.status, attempt.kind, attempt.mode) == ("closed", "live", "dry_run")
    assert attempt.plan_id
    assert attempt.planned["run_id"] == both["dag_run_id"]
    assert len(read_rows(lake, attempt, "topic_stats")) > 300
    assert len(read_rows(lake, attempt, "broker_load")) == 3


def test_a_scheduled_run_is_live_and_decides_the_newest_snapshot_before_its_date(
    lake: Path, both: dict[str, Any]
) -> None:
    assert both["state"] == "success"
    assert both["logical_date"].endswith("-11-21T08:29:00Z")
    (attempt,) = [a for a in read_attempts(lake, cluster="good") if a.planned["run_id"] == both["dag_run_id"]]
    assert attempt.cycle_at.isoformat(timespec="microseconds") == RECORDED_AT
    assert (attempt.kind, attempt.status) == ("live", "closed")


def test_the_events_of_a_runs_assets_name_the_versions_and_writes_that_it_made(
    airflow: Airflow, lake: Path, both: dict[str, Any]
) -> None:
    (attempt,) = attempts(lake, "good", RECORDED_AT)
    events = airflow.rest.get("/api/v2/assets/events", source_run_id=both["dag_run_id"], limit=100)["asset_events"]
    made = {
        (event["uri"].rpartition("/")[2], write["write_id"], write["version"])
        for event in events  # several tasks write strategy_state
        for write in event["extra"].get("writes", ())
        if "good" in write["clusters"]
    }
    # Commands and outcomes too, which a plan's row lists once it is closed.
    assert {(write.table, write.write_id, write.version) for write in attempt.writes} <= made


def test_a_cluster_that_cannot_be_trusted_is_left_out_and_the_run_stays_green(lake: Path, both: dict[str, Any]) -> None:
    assert both["state"] == "success"
    (attempt,) = attempts(lake, "holed", RECORDED_AT)
    assert attempt.status == "skipped"
    assert attempt.plan_id is None
    assert "acme/ns0" in str(attempt.reason)
    assert read_rows(lake, attempt, "unload_decisions") == []


def _running(airflow: Airflow, run_id: str, task: str) -> dict[str, Any]:
    """The task instance, as soon as it runs."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        found = next((one for one in airflow.rest.tasks(DAG_ID, run_id) if one["task_id"] == task), None)
        if found is not None and found["state"] == "running" and found["pid"]:
            return found
        airflow.check()
        time.sleep(0.05)
    raise AssertionError(f"{task} never came so far: {states(airflow, run_id)}")


@contextmanager
def _held(pid: int) -> Iterator[None]:
    """Keeps a task from going on for a `with` block: on a slow machine it is done before Airflow has taken an order.
    It may have ended, or may be ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).suspend()
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).resume()


@pytest.mark.parametrize(
    ("task", "before"),
    [
        pytest.param("aggregate", ["validate"], id="running"),
        pytest.param("shed", ["aggregate", "plan_splits"], id="ahead", marks=pytest.mark.exhaustive),
    ],
)
def test_a_task_that_failed_puts_the_cycle_on_record_as_failed_and_the_run_is_red(
    airflow: Airflow, lake: Path, clusters: Path, both: dict[str, Any], task: str, before: list[str]
) -> None:
    """Also one that is marked as failed before its turn: those before it end first."""
    cluster, run_id = _marked_as_failed(airflow, clusters, f"given-up-at-{task}", task)
    assert ended(airflow, run_id)["state"] == "failed"
    found = states(airflow, run_id)
    assert {found[one] for one in before} == {"success"}
    assert (found[task], found["publish"]) == ("failed", "failed")
    (attempt,) = attempts(lake, cluster, RECORDED_AT)
    assert attempt.status == "failed"
    assert str(attempt.reason).startswith(f"{task} failed: it was ended from outside")


def _marked_as_failed(airflow: Airflow, clusters: Path, name: str, task: str) -> tuple[str, str]:
    """The cluster and the run of a cycle in which a task was marked as failed while *aggregate* ran."""
    for cluster in (name, f"{name}-again", f"{name}-at-last"):
        conf = {"source": f"recording:{clusters.parent / 'good'}", "clusters": [cluster], "at": RECORDED_AT}
        run_id = airflow.rest.trigger(DAG_ID, logical_date=None, conf=conf)
        with _held(_running(airflow, run_id, "aggregate")["pid"]):
            if states(airflow, run_id)["aggregate"] == "running":
                path = f"/api/v2/dags/{DAG_ID}/dagRuns/{quote(run_id)}/taskInstances/{task}"
                airflow.rest.patch(path, {"new_state": "failed"})
                if task != "aggregate":
                    _demand_that_publish_waits(airflow, run_id)
                return cluster, run_id
    raise AssertionError("aggregate was over each time before it could be held")


def _demand_that_publish_waits(airflow: Airflow, run_id: str) -> None:
    awaited("what follows", lambda: states(airflow, run_id)["place"] == "upstream_failed")
    time.sleep(2.0)  # the scheduler starts a task in less where nothing is left to wait for
    assert states(airflow, run_id)["publish"] is None, "aggregate still runs"


@pytest.mark.exhaustive
def test_an_unknown_setting_ends_the_run_at_once_with_the_nearest_known_key(airflow: Airflow) -> None:
    over = run(airflow, clusters=["good"], settings={"loadBalancerSheddingIntervalMinuts": 5})
    assert over["state"] == "failed"
    run_id = over["dag_run_id"]
    assert tries(airflow, run_id)["ingest"] == 1, "trying again changes nothing about a typing error"
    reason = airflow.rest.xcom(DAG_ID, run_id, "ingest", "reason")
    assert "loadBalancerSheddingIntervalMinuts" in reason
    assert "loadBalancerSheddingIntervalMinutes" in reason
    assert reason in airflow.rest.log(DAG_ID, run_id, "ingest", 1)


@pytest.mark.exhaustive
def test_a_backfill_decides_past_cycles_in_order_and_says_that_it_is_one(
    airflow: Airflow, engine: Any, lake: Path, clusters: Path
) -> None:
    """Its runs begin in the same second, and the second still goes on from the first."""
    dates = "2026-11-21T08:26:00+00:00", "2026-11-21T08:27:00+00:00"
    wiring = Wiring(CHECKOUT, engine.airflow_connection(), str(lake), clusters)
    conf = {"source": f"recording:{clusters.parent / 'good'}", "clusters": ["past"]}
    backfilled(airflow, wiring, DAG_ID, dates, conf, runs=2)
    cycles = {a.cycle_at.strftime("%H:%M:%S"): a for a in read_attempts(lake, cluster="past")}
    assert {one.kind for one in cycles.values()} == {"backfill"}
    assert sorted(cycles) == ["08:25:57", "08:26:13"]
    assert cycles["08:26:13"].planned["predecessor_attempt_id"] == cycles["08:25:57"].attempt_id


def test_the_navigation_has_an_entry_and_every_task_a_link_to_its_cycles_report(
    airflow: Airflow, both: dict[str, Any]
) -> None:
    plugins = airflow.rest.get("/api/v2/plugins")["plugins"]
    views = [view for plugin in plugins for view in plugin["external_views"]]
    assert [(view["name"], view["destination"]) for view in views] == [("Evenkeel", "nav")]
    assert airflow.rest.get("/api/v2/plugins/importErrors")["import_errors"] == []
    for step in STEPS:
        path = f"/api/v2/dags/{DAG_ID}/dagRuns/{both['dag_run_id']}/taskInstances/{step}/links"
        links = airflow.rest.get(path)["extra_links"]
        assert any("/evenkeel/" in str(link) for link in links.values()), step


@pytest.mark.exhaustive
def test_a_classic_master_comes_to_the_same_plan_as_connect(
    airflow: Airflow, lake: Path, clusters: Path, tmp_path: Path
) -> None:
    from devtools.local_airflow.home import AirflowHome
    from evenkeel.airflow.credentials import classic_connection
    from evenkeel.errors import EngineError
    from evenkeel.spark.jars import classic_java

    try:
        java = classic_java()
    except EngineError as error:
        pytest.skip(f"{lacking(FULL_JDK)}: {error}")
    conf = {"source": f"recording:{clusters.parent / 'good'}", "clusters": ["alone"], "at": RECORDED_AT}
    assert run(airflow, **conf)["state"] == "success"

    home = AirflowHome.of(tmp_path / "airflow")
    wiring = Wiring(CHECKOUT, classic_connection("local[2]"), str(tmp_path / "lake"), clusters)
    environment = {**home.environment(wiring, 1), "JAVA_HOME": str(java.parent.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    home.migrate(environment)
    test = [sys.executable, "-m", "airflow", "dags", "test", DAG_ID, "--conf", json.dumps(conf)]
    done = subprocess.run(test, env=environment, cwd=tmp_path, timeout=PATIENCE_SECONDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]

    (connect,) = attempts(lake, "alone", RECORDED_AT)
    (classic,) = attempts(tmp_path / "lake", "alone", RECORDED_AT)
    assert classic.plan_id == connect.plan_id
    assert classic.planned["settings_digest"] == connect.planned["settings_digest"]


def test_heat_is_built_of_what_cycles_left_without_spark(airflow: Airflow, lake: Path, both: dict[str, Any]) -> None:
    run_id = airflow.rest.trigger("heat", logical_date=None, conf={"cluster": "good"})
    assert ended(airflow, run_id, "heat")["state"] == "success"
    (told,) = json.loads(airflow.rest.xcom("heat", run_id, "heat", "return_value"))
    assert (told["cluster"], told["columns"] > 0) == ("good", True)
    (attempt,) = attempts(lake, "good", RECORDED_AT)
    shown = picture(lake, "good", attempt.cycle_at, attempt.cycle_at + timedelta(minutes=1), "message_rate")
    assert int(shown.rows.bundles.sum()) == len(read_rows(lake, attempt, "bundle_load"))


@pytest.mark.exhaustive
def test_upkeep_keeps_the_lake_that_cycles_are_written_to(airflow: Airflow, lake: Path, both: dict[str, Any]) -> None:
    (before,) = attempts(lake, "good", RECORDED_AT)
    loads = read_rows(lake, before, "bundle_load")
    refused = airflow.rest.trigger("upkeep", logical_date=None, conf={"audit_days": 40})
    bold = airflow.rest.trigger("upkeep", logical_date=None, conf={"audit_days": 40, "shorten": True})
    kept = airflow.rest.trigger("upkeep", logical_date=None, conf={"audit_days": 500})
    assert ended(airflow, refused, "upkeep")["state"] == "failed"
    assert ended(airflow, bold, "upkeep")["state"] == "failed"
    assert "audit_days from 400 to 40" in airflow.rest.xcom("upkeep", refused, "upkeep", "reason")
    assert "EVENKEEL_UPKEEP_SHORTEN=true" in airflow.rest.xcom("upkeep", bold, "upkeep", "reason")
    assert ended(airflow, kept, "upkeep")["state"] == "success"
    upkeeps = {row["state"]: row for row in read_table(lake, "upkeeps")}
    assert (upkeeps["done"]["by"], upkeeps["done"]["periods"]["audit_days"]) == (kept, 500)
    said = {one["table"]: one for one in json.loads(airflow.rest.xcom("upkeep", kept, "upkeep", "return_value"))}
    assert said["bundle_load"]["files_after"] < said["bundle_load"]["files_before"]
    (after,) = attempts(lake, "good", RECORDED_AT)
    assert (after.attempt_id, read_rows(lake, after, "bundle_load")) == (before.attempt_id, loads)
