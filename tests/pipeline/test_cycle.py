"""Whole cycles through the real tasks: run again, killed half-way, left out, in any order."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from evenkeel.errors import BadInput, SettingsError
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake import manifest
from evenkeel.pipeline import run_cycle
from evenkeel.publish import task as publish
from evenkeel.record.read import read_attempts, read_rows
from evenkeel.sources.recordings import Recording

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDING = Path(__file__).resolve().parent.parent / "recordings" / "lost-modular"
SNAPSHOTS = Recording(RECORDING).snapshots
FITTED = {"loadBalancerNamespaceBundleMaxTopics": 8, "loadBalancerLoadSheddingStrategy": "OverloadShedder",
          "loadBalancerBrokerOverloadedThresholdPercentage": 1}  # fmt: skip


def request(lake: Path, snapshot: int, **more) -> CycleRequest:
    known = {"overrides": FITTED, "run_id": "test", "at": SNAPSHOTS[snapshot].cycle_at} | more
    return CycleRequest(lake=str(lake), source=f"recording:{RECORDING}", **known)


def quiet(task: str, seconds: float) -> None:
    """Progress nobody looks at."""


@pytest.fixture(scope="module")
def lake(spark, empty_lake, tmp_path_factory) -> Path:
    """A lake with one decided cycle."""
    folder = empty_lake(tmp_path_factory.mktemp("cycle"))
    run_cycle(spark, request(folder, 0), quiet)
    return folder


def test_a_cycle_run_again_comes_to_the_same_plan_and_adds_no_attempt(spark, lake) -> None:
    (before,) = read_attempts(lake)
    assert before.plan_id is not None
    run_cycle(spark, request(lake, 0), quiet)
    (after,) = read_attempts(lake)
    assert (after.plan_id, after.attempt_id) == (before.plan_id, before.attempt_id)
    commands = [row for row in read_rows(lake, after, "split_decisions") if row["outcome"] == "split"]
    assert len(commands) == after.planned["splits"] > 0


def test_the_manifest_lists_the_files_of_every_write_with_rows(spark, lake) -> None:
    (attempt, *_) = read_attempts(lake)
    assert {write.write_id for write in attempt.writes if write.files} == {
        write.write_id for write in attempt.writes if write.rows
    }
    closed = attempt.closed
    files = closed["files"]
    assert [file for file in files if file["table"] not in ("commands", "outcomes")] == attempt.planned["files"]
    assert {file["write_id"] for file in files} == {write["write_id"] for write in closed["writes"] if write["rows"]}
    for file in files:
        held = (lake / file["table"] / file["path"]).read_bytes()
        assert (file["size"], file["digest"]) == (len(held), hashlib.sha256(held).hexdigest())


def test_another_lake_and_another_run_give_the_same_plan(spark, lake, new_lake) -> None:
    run_cycle(spark, request(new_lake, 0, run_id="other"), quiet)
    assert [a.plan_id for a in read_attempts(new_lake)] == [a.plan_id for a in read_attempts(lake) if a.number == 1]


def test_every_command_is_on_record_once_with_what_became_of_it(spark, lake) -> None:
    commands = spark.read.format("delta").load(f"{lake}/commands").collect()
    outcomes = spark.read.format("delta").load(f"{lake}/outcomes").collect()
    ids = [row["command_id"] for row in commands]
    assert len(ids) == len(set(ids)) > 0
    assert {(row["command_id"], row["outcome"]) for row in outcomes} == {(id_, "dry_run") for id_ in ids}
    assert len(outcomes) == len(ids)


@pytest.mark.parametrize("killed_at", ["the commands", "the closing row"])
def test_publish_killed_half_way_is_completed_by_the_next_try(spark, new_lake, monkeypatch, killed_at) -> None:
    class Killed(BaseException):
        """Nothing in the code under test may catch this."""

    appended = []
    real = manifest.append_manifests

    def once(spark_, lake_, rows) -> None:
        if appended and killed_at == "the closing row":
            raise Killed
        appended.append(rows)
        real(spark_, lake_, rows)

    def never(*_args, **_kw):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(publish, "append_manifests", once)
        if killed_at == "the commands":
            patched.setattr(publish, "_act", never)
        with pytest.raises(Killed):
            run_cycle(spark, request(new_lake, 0), quiet)
    (half,) = read_attempts(new_lake)
    assert half.closed is None
    run_cycle(spark, request(new_lake, 0), quiet)
    (whole,) = read_attempts(new_lake)
    assert (whole.attempt_id, whole.status) == (half.attempt_id, "closed")
    assert {write.write_id for write in half.writes if write.files} <= {f["write_id"] for f in whole.closed["files"]}
    ids = [row["command_id"] for row in spark.read.format("delta").load(f"{new_lake}/commands").collect()]
    decided = whole.planned["splits"] + whole.planned["unloads"]
    assert len(ids) == len(set(ids)) == decided - whole.planned["held"] > 0


def test_other_settings_make_a_further_attempt_and_the_first_stays_readable(spark, new_lake) -> None:
    run_cycle(spark, request(new_lake, 0), quiet)
    run_cycle(spark, request(new_lake, 0, overrides={"evenkeelSplitEnabled": False}), quiet)
    first, second = read_attempts(new_lake)
    assert (first.number, second.number, second.kind) == (1, 2, "rerun")
    assert first.plan_id != second.plan_id
    assert read_rows(new_lake, first, "split_decisions")
    assert {row["settings_digest"] for row in read_rows(new_lake, first, "settings")} == {
        first.planned["settings_digest"]
    }


def test_a_cycle_whose_predecessor_is_not_on_record_says_so_and_a_later_one_takes_its_state(spark, new_lake) -> None:
    run_cycle(spark, request(new_lake, 1), quiet)
    run_cycle(spark, request(new_lake, 2), quiet)
    first, second = read_attempts(new_lake)
    assert first.planned["predecessor_status"] == "missing"
    assert second.planned["predecessor_status"] == "used"
    assert second.planned["predecessor_attempt_id"] == first.attempt_id
    reads = {(read["table"], read["write_id"]) for read in second.planned["reads"]}
    assert reads <= {(write["table"], write["write_id"]) for write in first.planned["writes"]}
    assert {table for table, _ in reads} == {"bundle_load", "split_decisions", "strategy_state"}


def test_a_task_that_fails_leaves_a_failed_cycle_with_its_reason(spark, new_lake, monkeypatch) -> None:
    from evenkeel.shed import task as shed

    def broken(*_args) -> None:
        raise RuntimeError("the disk is full\nsecond line")

    with monkeypatch.context() as patched:
        patched.setattr(shed, "run", broken)
        with pytest.raises(RuntimeError):
            run_cycle(spark, request(new_lake, 0), quiet)
    (attempt,) = read_attempts(new_lake)
    assert (attempt.status, attempt.plan_id) == ("failed", None)
    assert attempt.reason == "shed failed: RuntimeError: the disk is full"


def test_a_strategy_of_the_other_manager_keeps_the_cluster_out_and_says_what_to_set(spark, new_lake) -> None:
    run_cycle(spark, request(new_lake, 0, overrides={"loadBalancerLoadSheddingStrategy": "TransferShedder"}), quiet)
    (attempt,) = read_attempts(new_lake)
    assert attempt.status == "failed"
    assert "TransferShedder is the extensible load manager's" in attempt.reason
    assert "ThresholdShedder" in attempt.reason


def test_bad_requests_are_refused_before_anything_is_written(spark, tmp_path) -> None:
    with pytest.raises(SettingsError, match="loadBalancerLoadSheddingStrategy"):
        run_cycle(spark, request(tmp_path, 0, overrides={"loadBalancerLoadShedingStrategy": "x"}), quiet)
    with pytest.raises(BadInput, match="nearest"):
        run_cycle(spark, request(tmp_path, 0, at="2020-01-01T00:00:00+00:00"), quiet)
    with pytest.raises(BadInput, match="no such folder"):
        run_cycle(spark, CycleRequest(lake=str(tmp_path), source="recording:/nowhere"), quiet)
    assert not (tmp_path / "cycles").exists() or read_attempts(tmp_path) == []


def test_the_command_line_prints_one_json_object_per_cycle(engine, tmp_path, capsys, monkeypatch) -> None:
    from evenkeel.cli import main

    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    code = main(["rebalance", "--recording", str(RECORDING), "--lake", str(tmp_path / "lake"), "--json",
                 "--at", SNAPSHOTS[0].cycle_at, "--set", "loadBalancerNamespaceBundleMaxTopics=8"])  # fmt: skip
    (line,) = capsys.readouterr().out.splitlines()
    summary = json.loads(line)
    assert (code, summary["status"], summary["cluster"]) == (0, "closed", "lab")
    assert summary["splits"] > 0
    assert main(["rebalance", "--recording", str(RECORDING), "--lake", str(tmp_path), "--at", "yesterday"]) == 2
    assert "is no time" in capsys.readouterr().err
