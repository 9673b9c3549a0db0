"""Figures of a lake: those of the status, and beside them commits, the log, witnesses and the last verify."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from evenkeel.errors import NoLake
from evenkeel.handover import PULSAR_ADMIN
from evenkeel.lake.record import Attempt, read_attempts
from evenkeel.metrics import figures as readers
from evenkeel.metrics.declarations import NEEDS, OUTCOMES
from evenkeel.metrics.figures import CommitTimes, LakeFigures, LakeReader
from evenkeel.status import LakeStatus, read_status
from evenkeel.transparency.lake_log import begin, storage_of
from evenkeel.transparency.overview import read_overview
from evenkeel.transparency.witnesses import STATES
from evenkeel.verify.runs import VerifyRun, leave
from tests.kept_lakes.unpacking import kept_lake
from tests.lakes.small_lake import moment
from tests.lakes.urgent_lake import EVERY, UrgentLake, urgent_lake
from tests.transparency.lakes import grow, publish_more, small_lake
from tests.transparency.logs import LOG_KEY

NOW = moment("2026-11-21T12:00:00")
LATER = NOW + timedelta(seconds=50)


@pytest.fixture(scope="module")
def urgent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return urgent_lake(tmp_path_factory.mktemp("lakes") / "urgent", NOW)


@pytest.fixture(scope="module")
def figures(urgent: Path) -> LakeFigures:
    return LakeReader(str(urgent)).read(LATER)


@pytest.fixture(scope="module")
def status(urgent: Path) -> LakeStatus:
    return read_status(urgent, LATER)


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: need.need)
def test_a_need_counts_what_the_status_counts_and_is_0_without_it(need, figures, status) -> None:
    expected = {
        (line.cluster,): next((one.count for one in line.needs if one.kind == need.need), 0) for line in status.clusters
    }
    assert figures.values[need.metric.name] == expected
    assert need.need == "newer_version" or any(expected.values())


def test_balance_brokers_and_moments_are_those_of_the_status(figures: LakeFigures, status: LakeStatus) -> None:
    for line in status.clusters:
        own = (line.cluster,)
        assert figures.values["evenkeel_balance_ratio"].get(own) == line.balance
        assert figures.values["evenkeel_brokers"][own] == line.brokers
        assert figures.values["evenkeel_cycle_timestamp_seconds"][own] == line.cycle_at.timestamp()
        assert figures.values["evenkeel_cycle_unloads"][own] == line.unloads
        assert figures.values["evenkeel_cycle_interval_seconds"][own] == EVERY.total_seconds()


def test_commands_of_the_day_are_counted_by_what_is_known_of_them(tmp_path: Path) -> None:
    lake = UrgentLake(tmp_path, NOW)
    seen = ["done", "done", "lost", "timed_out", "harmed", None]
    lake.course("eu-1", acts=[{"command_id": str(n), "outcome": word, "seen_at": None} for n, word in enumerate(seen)])
    lake.lake.write()
    found = LakeReader(str(tmp_path)).read(LATER).values["evenkeel_commands"]
    assert set(found) == {("eu-1", outcome) for outcome in OUTCOMES}
    some = {name: number for (_, name), number in found.items() if number}
    assert some == {"done": 2, "lost": 1, "timed_out": 1, "harmed": 1, "open": 1}


def test_broken_rules_are_counted_by_severity(figures: LakeFigures) -> None:
    found = figures.values["evenkeel_validation_failures"]
    assert found["quarantined", "quarantine"] == 1
    assert found["quarantined", "warn"] == 0
    assert ("calm-a", "warn") not in found, "no rule was looked at there, as far as is on record"


def test_of_a_newer_version_nothing_else_is_said(tmp_path: Path) -> None:
    lake = UrgentLake(tmp_path, NOW)
    lake.course("newer", schema_version=99, unloads=7)
    lake.lake.write()
    values = LakeReader(str(tmp_path)).read(LATER).values
    named = {name for name, found in values.items() if found}
    assert values["evenkeel_newer_version"] == {("newer",): 1}
    assert named == {"evenkeel_newer_version", "evenkeel_cycle_timestamp_seconds"}


def test_what_cannot_be_read_is_missing_and_not_0(urgent: Path, tmp_path: Path) -> None:
    lake = shutil.copytree(urgent, tmp_path / "lake")
    for file in (lake / "guard_decisions").rglob("*.parquet"):
        file.write_bytes(b"nothing")
    found = LakeReader(str(lake)).read(LATER)
    assert "guard_decisions" in found.unread
    assert ("calm-a",) not in found.values["evenkeel_hot_bundles"]
    assert ("calm-a",) not in found.values["evenkeel_held_commands"]
    assert found.values["evenkeel_idle_brokers"]["calm-a",] == 0


def test_one_cluster_alone_and_no_lake(urgent: Path, tmp_path: Path) -> None:
    found = LakeReader(str(urgent)).read(LATER, "held").values
    assert {labels[0] for values in found.values() for labels in values} == {"held"}
    with pytest.raises(NoLake):
        LakeReader(str(tmp_path / "none")).read(LATER)


# How long tasks took


def attempt_of(lake: Path, **more: object) -> Attempt:
    (newest,) = read_attempts(lake, cluster="lab")[-1:]
    return Attempt({**newest.planned, **more}, newest.closed)


def test_tasks_take_the_time_between_their_last_commits(tmp_path: Path) -> None:
    lake = kept_lake(tmp_path)
    attempt = attempt_of(lake)
    ends: dict[str, float] = {}
    for write in attempt.writes:
        commit = (lake / write.table / "_delta_log" / f"{write.version:020d}.json").read_text().splitlines()
        info = next(json.loads(line)["commitInfo"] for line in commit if "commitInfo" in line)
        task = json.loads(info["userMetadata"])["task_id"]
        ends[task] = max(ends.get(task, 0.0), info["timestamp"] / 1000)
    found = CommitTimes(str(lake)).seconds_of(attempt)
    assert set(found) == {"validate", "aggregate", "plan_splits", "shed", "place", "publish"}
    assert found["aggregate"] == pytest.approx(ends["aggregate"] - ends["validate"], abs=1e-3)
    assert found["publish"] == pytest.approx(attempt.planned["recorded_at"].timestamp() - ends["place"], abs=1e-3)


def test_ingest_counts_from_a_snapshot_that_was_taken_by_the_cycle_itself(tmp_path: Path) -> None:
    lake = kept_lake(tmp_path)
    recorded = attempt_of(lake).planned["recorded_at"]
    taken = recorded - timedelta(seconds=60)
    assert (
        0 < CommitTimes(str(lake)).seconds_of(attempt_of(lake, source=PULSAR_ADMIN, snapshot_at=taken))["ingest"] < 60
    )
    days_ago = attempt_of(lake, source=PULSAR_ADMIN, snapshot_at=recorded - timedelta(days=3))
    assert "ingest" not in CommitTimes(str(lake)).seconds_of(days_ago)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nothing",
        b'{"commitInfo":{}}',
        b'{"commitInfo":{"timestamp":1,"userMetadata":"{"}}',
        b'{"commitInfo":[1]}',
    ],
)
def test_a_commit_that_says_nothing_of_its_task_has_no_time(tmp_path: Path, line: bytes) -> None:
    lake = kept_lake(tmp_path)
    for commit in lake.glob("*/_delta_log/*.json"):
        commit.write_bytes(line)
    attempt = Attempt({**attempt_of_rows(lake)}, None)
    assert CommitTimes(str(lake)).seconds_of(attempt) == {}


def attempt_of_rows(lake: Path) -> dict[str, object]:
    write = {"table": "broker_load", "write_id": "w", "version": 3, "rows": 1, "commit": "d"}
    return {"cluster": "lab", "writes": [write], "kind": "live", "recorded_at": NOW, "files": []}


# The transparency log, witnesses, and the last verify


def test_a_log_its_witnesses_and_the_last_verify(tmp_path: Path) -> None:
    lake = small_lake(tmp_path)
    assert not any(
        name.startswith(("evenkeel_log", "evenkeel_witness")) for name in LakeReader(str(lake)).read(LATER).values
    )
    begun = begin(str(lake), [LOG_KEY])
    states = {
        "near": {"name": "near", "size": begun.checkpoint.checkpoint.size, "at": 1_700_000_000},
        "far": {"name": "far", "size": 3, "at": 1_600_000_000, "since": 1_700_000_000, "fault": "no route"},
        "split": {"name": "split", "size": 1, "at": 5, "fault": "another tree", "is_inconsistent": True},
    }
    storage_of(str(lake)).put(STATES, json.dumps(states).encode())
    run = VerifyRun(NOW, "ada", "0.1", "rows", "", "", "", 14, 4, 4, 2, 14, 1)
    assert leave(str(lake), run) is None
    values = LakeReader(str(lake)).read(LATER).values
    size = begun.checkpoint.checkpoint.size
    assert values["evenkeel_log_leaves"] == {(): size}
    assert values["evenkeel_checkpoint_timestamp_seconds"][()] == (lake / "_log" / "checkpoint").stat().st_mtime
    assert values["evenkeel_unlogged_commits"] == values["evenkeel_lost_commits"] == {(): 0}
    assert values["evenkeel_witness_behind_leaves"] == {("near",): 0, ("far",): size - 3, ("split",): size - 1}
    assert values["evenkeel_witness_failing"] == {("near",): 0, ("far",): 1, ("split",): 1}
    assert values["evenkeel_witness_inconsistent"] == {("near",): 0, ("far",): 0, ("split",): 1}
    assert values["evenkeel_witness_timestamp_seconds"]["far",] == 1_600_000_000
    assert values["evenkeel_verify_timestamp_seconds"] == {(): NOW.timestamp()}
    assert values["evenkeel_verify_faults"] == {(): 2}


def test_a_log_is_read_again_once_it_has_changed_and_not_too_often(tmp_path: Path, monkeypatch) -> None:
    lake = small_lake(tmp_path)
    begin(str(lake), [LOG_KEY])
    reader, readings = LakeReader(str(lake)), []
    monkeypatch.setattr(readers, "read_overview", lambda path: readings.append(path) or read_overview(path))
    monkeypatch.setattr(readers, "REST", 0)
    first = reader.read(LATER).values["evenkeel_log_leaves"]
    assert (reader.read(LATER).values["evenkeel_log_leaves"], len(readings)) == (first, 1)
    commits = publish_more(lake, "lab")
    assert reader.read(LATER).values["evenkeel_unlogged_commits"] == {(): 2}
    monkeypatch.setattr(readers, "REST", 1e6)
    grow(lake, commits)
    assert reader.read(LATER).values["evenkeel_log_leaves"] == {(): first[()] + 2}
    publish_more(lake, "lab")
    assert reader.read(LATER).values["evenkeel_unlogged_commits"] == {(): 0}, "it is too early to look again"
    assert len(readings) == 3


def test_a_damaged_log_is_told_of_and_clusters_stand(tmp_path: Path) -> None:
    lake = small_lake(tmp_path)
    begin(str(lake), [LOG_KEY])
    (lake / "_log" / "checkpoint").write_bytes(b"nothing\n")
    found = LakeReader(str(lake)).read(LATER)
    assert set(found.unread) == {"log"}
    assert not found.values["evenkeel_log_leaves"]
    assert found.values["evenkeel_cycle_timestamp_seconds"]["lab",] > 1
