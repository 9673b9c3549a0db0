"""Whole cycles through the real tasks: run again, killed half-way, left out, in any order."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from evenkeel import pipeline
from evenkeel.errors import BadInput, SettingsError
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake import manifest
from evenkeel.lake.record import read_attempts, read_rows
from evenkeel.pipeline import run_cycle
from evenkeel.publish import task as publish
from tests.planned import FITTED, RECORDING, SNAPSHOTS, request

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def quiet(task: str, seconds: float) -> None:
    """Progress nobody looks at."""


@pytest.fixture(scope="module")
def lake(spark, planned_cycle, tmp_path_factory) -> Path:
    """A lake with one cycle."""
    folder = tmp_path_factory.mktemp("cycle") / "lake"
    pipeline.publish(spark, planned_cycle(folder))
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


def test_every_command_is_on_record_once_with_what_became_of_it(spark, lake) -> None:
    commands = spark.read.format("delta").load(f"{lake}/commands").collect()
    outcomes = spark.read.format("delta").load(f"{lake}/outcomes").collect()
    ids = [row["command_id"] for row in commands]
    assert len(ids) == len(set(ids)) > 0
    assert {(row["command_id"], row["outcome"]) for row in outcomes} == {(id_, "dry_run") for id_ in ids}
    assert len(outcomes) == len(ids)


@pytest.mark.exhaustive
def test_publish_killed_half_way_is_completed_by_the_next_try(spark, planned_cycle, tmp_path, monkeypatch) -> None:
    """Killed before the commands, tried again and killed before the closing row; then the whole cycle is run again."""

    class Killed(BaseException):
        """Nothing in the code under test may catch this."""

    real = manifest.append_manifests

    def no_closing_row(spark_, lake_, rows) -> None:
        if any(row["row_kind"] == "closed" for row in rows):
            raise Killed
        real(spark_, lake_, rows)

    def never(*_args, **_kw):
        raise Killed

    lake = tmp_path / "lake"
    handover = planned_cycle(lake)
    written = {}
    for name, killed in (("_act", never), ("append_manifests", no_closing_row)):
        with monkeypatch.context() as patched:
            patched.setattr(publish, name, killed)
            with pytest.raises(Killed):
                pipeline.publish(spark, handover)
        (half,) = read_attempts(lake)
        assert half.closed is None
        written[name] = spark.read.format("delta").load(f"{lake}/commands").count()
    assert written["_act"] == 0 < written["append_manifests"]
    run_cycle(spark, request(lake, 0), quiet)
    (whole,) = read_attempts(lake)
    assert (whole.attempt_id, whole.status) == (half.attempt_id, "closed")
    assert {write.write_id for write in half.writes if write.files} <= {f["write_id"] for f in whole.closed["files"]}
    ids = [row["command_id"] for row in spark.read.format("delta").load(f"{lake}/commands").collect()]
    decided = whole.planned["splits"] + whole.planned["unloads"]
    assert len(ids) == len(set(ids)) == decided - whole.planned["held"] > 0


def test_other_settings_make_a_further_attempt_and_the_first_stays_readable(spark, lake, tmp_path) -> None:
    own = Path(shutil.copytree(lake, tmp_path / "lake"))
    run_cycle(spark, request(own, 0, overrides={"evenkeelSplitEnabled": False}), quiet)
    first, second = read_attempts(own)
    assert (first.number, second.number, second.kind) == (1, 2, "rerun")
    assert first.plan_id != second.plan_id
    assert read_rows(own, first, "split_decisions")
    assert {row["settings_digest"] for row in read_rows(own, first, "settings")} == {first.planned["settings_digest"]}


@pytest.mark.exhaustive
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


def test_a_strategy_of_the_other_manager_keeps_the_cluster_out_and_says_what_to_set(spark, new_lake) -> None:
    run_cycle(spark, request(new_lake, 0, overrides={"loadBalancerLoadSheddingStrategy": "TransferShedder"}), quiet)
    (attempt,) = read_attempts(new_lake)
    assert attempt.status == "failed"
    assert "TransferShedder is the extensible load manager's" in attempt.reason
    assert "ThresholdShedder" in attempt.reason


def test_bad_requests_are_refused_before_anything_is_written(spark, new_lake) -> None:
    with pytest.raises(SettingsError, match="loadBalancerLoadSheddingStrategy"):
        run_cycle(spark, request(new_lake, 0, overrides={"loadBalancerLoadShedingStrategy": "x"}), quiet)
    with pytest.raises(BadInput, match="nearest"):
        run_cycle(spark, request(new_lake, 0, at="2020-01-01T00:00:00+00:00"), quiet)
    with pytest.raises(BadInput, match="the folder does not exist"):
        run_cycle(spark, CycleRequest(lake=str(new_lake), source="recording:/nowhere"), quiet)
    assert read_attempts(new_lake) == []


def test_the_command_line_prints_one_json_object_per_cycle_and_in_another_lake_comes_to_the_same_plan(
    engine, lake, new_lake, capsys, monkeypatch
) -> None:
    from evenkeel.cli import main

    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    given = ["rebalance", "--recording", str(RECORDING), "--lake", str(new_lake)]
    settings = [word for key, value in FITTED.items() for word in ("--set", f"{key}={value}")]
    code = main([*given, "--json", "--at", SNAPSHOTS[0].cycle_at, *settings])
    (line,) = capsys.readouterr().out.splitlines()
    summary = json.loads(line)
    assert (code, summary["status"], summary["cluster"]) == (0, "closed", "lab")
    assert summary["splits"] > 0
    (before, *_), (other,) = read_attempts(lake), read_attempts(new_lake)
    assert other.plan_id == before.plan_id
    assert other.planned["run_id"] != before.planned["run_id"]
    assert main([*given, "--at", "yesterday"]) == 2
    assert "is not a time" in capsys.readouterr().err
