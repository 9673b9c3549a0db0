"""Evenkeel's own planner in whole cycles through the real tasks: off it costs nothing, in shadow it changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel import pipeline
from evenkeel.cycle import frames
from evenkeel.explain import Times, explain
from evenkeel.explain.rendering import as_text as explained
from evenkeel.explain.trace import as_text as traced
from evenkeel.explain.trace import inputs
from evenkeel.handover import Handover
from evenkeel.ingest import chunks
from evenkeel.ingest.open_run import CycleRequest, open_cycles
from evenkeel.lake.record import Attempt, read_attempts, read_rows, read_table
from evenkeel.lake.schemas.decided import PLANNER_TABLES
from evenkeel.replay.comparison import VariantComparison
from evenkeel.replay.open_loop import asked as asked_replay
from evenkeel.replay.open_loop import replay
from evenkeel.report import build_model, gather
from evenkeel.report.page import render
from evenkeel.sources.recordings import Recording
from evenkeel.times import time_given
from evenkeel.verify import verify
from tests.pipeline.killed_task import Point, run_until, run_whole
from tests.pipeline.window_cases import CHECKOUT, content, demand_sound, demand_the_same

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MODULAR = CHECKOUT / "demo" / "recordings" / "own-threshold"
EXTENSIBLE = CHECKOUT / "tests" / "recordings" / "own-transfer"
MOST = {MODULAR: 2, EXTENSIBLE: 3}
"""So many snapshots of each recording are decided with the planner off and in shadow."""
EAGER: dict[str, Any] = {
    "evenkeelPlannerActAbovePercent": 0.0,
    "evenkeelPlannerActAtOnceAbovePercent": 0.0,
    "evenkeelPlannerStopAtPercent": 0.0,
    "evenkeelPlannerLeastGainPoints": 0.0,
    "evenkeelMaxBundleTrafficPercent": 100.0,
}
"""With these the planner has something to do in a small cluster that is quite even."""
NO_SPLITS = {"evenkeelSplitEnabled": False}
"""A bundle that is to be split first would hold up the others."""
AS_DECIDED = ("split_decisions", "unload_decisions", "placement_decisions", "commands", "bundle_load")


@dataclass(frozen=True)
class Beside:
    """The same cycles in two lakes: with the planner off, and in shadow."""

    recording: Path
    off: Path
    shadow: Path

    @property
    def moments(self) -> list[str]:
        """Of the cycles."""
        return [one.cycle_at for one in Recording(self.recording).snapshots[: MOST[self.recording]]]

    def request(self, lake: Path, **more: Any) -> CycleRequest:
        return asked(self.recording, lake, **more)


def asked(
    recording: Path, lake: Path, planner: str = "shadow", overrides: Mapping[str, Any] | None = None, **more: Any
) -> CycleRequest:
    every = {**EAGER, "evenkeelPlanner": planner, **(overrides or {})}
    return CycleRequest(str(lake), f"recording:{recording}", overrides=every, run_id="test", **more)


def run(spark: Any, request: CycleRequest) -> Attempt:
    """The newest attempt after a cycle."""
    pipeline.run_cycle(spark, request, lambda *_: None)
    return read_attempts(request.lake)[-1]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(MODULAR, id="modular", marks=pytest.mark.exhaustive),
        pytest.param(EXTENSIBLE, id="extensible", marks=pytest.mark.exhaustive),
    ],
)
def beside(request: Any, spark: Any, empty_lake: Callable[[Path], Path], tmp_path_factory: Any) -> Beside:
    folder = tmp_path_factory.mktemp("beside")
    lakes = {mode: empty_lake(folder / mode) for mode in ("off", "shadow")}
    for snapshot in Recording(request.param).snapshots[: MOST[request.param]]:
        for mode, lake in lakes.items():
            run(spark, asked(request.param, lake, mode, at=snapshot.cycle_at))
    return Beside(request.param, lakes["off"], lakes["shadow"])


def test_off_nothing_is_written_and_in_shadow_all_else_is_the_same(beside: Beside) -> None:
    off, shadow = read_attempts(beside.off), read_attempts(beside.shadow)
    assert len(off) == len(shadow) == len(beside.moments) > 1
    assert not [table for table in PLANNER_TABLES if (beside.off / table).exists()]
    for without, having in zip(off, shadow, strict=True):
        assert not without.writes_of("planner_targets")
        assert having.plan_id == without.plan_id is not None
        assert having.planned["settings_digest"] != without.planned["settings_digest"]
        here, there = content(beside.shadow, having), content(beside.off, without)
        assert {table: here.get(table) for table in AS_DECIDED} == {table: there.get(table) for table in AS_DECIDED}
        assert here.keys() - there.keys() <= {*PLANNER_TABLES, "strategy_state"}
        targets = read_rows(beside.shadow, having, "planner_targets")
        brokers = {row["broker"] for row in read_rows(beside.shadow, having, "broker_load")}
        assert {row["subject"] for row in targets if row["subject_kind"] == "broker"} == brokers
        assert [row["strategy"] for row in targets if row["subject_kind"] == "cluster"] == ["Planner"]
        for table in PLANNER_TABLES:
            rows = read_rows(beside.shadow, having, table)
            assert all(row["sentence"].endswith(".") for row in rows)
            assert (having.writes_of(table) != ()) == bool(rows), "no empty commit"
    assert any(row["strategy"] == "Planner" for row in read_table(beside.shadow, "strategy_state"))
    assert not any(row["strategy"] == "Planner" for row in read_table(beside.off, "strategy_state"))


def test_the_record_with_a_planner_is_sound_and_decided_again(spark: Any, beside: Beside) -> None:
    report = verify(str(beside.shadow), lambda: nullcontext(spark))
    assert report.is_sound, report.faults


@pytest.mark.exhaustive
def test_windows_come_to_what_cycles_come_to_one_by_one(
    spark: Any, beside: Beside, empty_lake: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = empty_lake(tmp_path / "lake")
    monkeypatch.setattr(chunks, "MOST_CYCLES", 2)
    window = beside.request(lake, every=True, until=beside.moments[-1])
    for _ in pipeline.run_window(spark, window, lambda _: None):
        pass
    attempts = demand_the_same(beside.shadow, lake)
    assert all(attempt.writes_of("planner_targets") for attempt in attempts)
    demand_sound(spark, lake)


def test_what_the_planner_says_is_explained_traced_and_shown(beside: Beside) -> None:
    newest = read_attempts(beside.shadow)[-1]
    targets = read_rows(beside.shadow, newest, "planner_targets")
    bundle = next(row for row in targets if row["subject_kind"] == "bundle")
    found = explain(beside.shadow, bundle["subject"])
    mine = [one for one in found.reasons if one.step == "planner"]
    assert bundle["sentence"] in [one.sentence for one in mine]
    assert not any(one.acts for one in mine)
    assert any("evenkeelPlanner = shadow" in note for note in found.notes)
    assert "What Evenkeel's planner says" in explained(found)
    rests = inputs(beside.shadow, bundle["subject"])
    assert bundle["sentence"] in [one["sentence"] for one in rests.planner]
    assert "Evenkeel's planner" in traced(rests)

    broker = next(row for row in targets if row["subject_kind"] == "broker")
    of_broker = explain(beside.shadow, broker["subject"])
    assert broker["sentence"] in [one.sentence for one in of_broker.reasons if one.step == "planner"]
    model = build_model(beside.shadow, gather(beside.shadow, cycle=newest.cycle_at.isoformat()))
    (chapter,) = model.chapters
    assert chapter.planner is not None
    assert chapter.planner.only_looks_on
    whole = next(row for row in targets if row["subject_kind"] == "cluster")
    assert chapter.planner.target == whole["sentence"]
    assert len(chapter.planner.brokers) == sum(row["subject_kind"] == "broker" for row in targets)
    assert "shadow: nothing of it is asked" in render(model)

    (plain,) = build_model(beside.off, gather(beside.off)).chapters
    assert plain.planner is None
    assert not [one for one in explain(beside.off, bundle["subject"]).reasons if one.step == "planner"]
    assert inputs(beside.off, bundle["subject"]).planner == ()


def test_a_replay_reproduces_plans_beside_a_planner_and_takes_it_as_a_strategy(
    spark: Any, beside: Beside, tmp_path: Path
) -> None:
    lake = str(shutil.copytree(beside.shadow, tmp_path / "lake"))

    def compared(**asked_for: Any) -> VariantComparison:
        return replay(spark, asked_replay(lake, cluster=None, since=None, until=None, **asked_for), lambda *_: None)

    notes = compared().notes()
    cycles = len(beside.moments)
    assert f"again: {cycles} of {cycles} recorded plans reproduced" in notes
    assert "Evenkeel's planner only looks on in: again" in notes
    found = compared(strategies=("Planner",), variants=("without:evenkeelPlanner=off",))
    assert found.notes()[-1] == "Evenkeel's planner decides in: Planner"
    without = next(row for row in found.rows() if row["variant"] == "without")
    assert (without["only_here"], without["only_recorded"]) == (0, 0), "a planner that looks on changes no command"


@pytest.mark.exhaustive
def test_a_cycle_that_is_decided_in_shadow_after_it_was_without_is_a_further_attempt(
    spark: Any, beside: Beside, tmp_path: Path
) -> None:
    lake = Path(shutil.copytree(beside.off, tmp_path / "lake"))
    at = read_attempts(lake)[0].cycle_at.isoformat()
    number = len(read_attempts(lake))
    again = beside.request(lake, at=at)
    pipeline.run_cycle(spark, again, lambda *_: None)
    first, second = [one for one in read_attempts(lake) if one.cycle_at.isoformat() == at]
    assert (second.plan_id, second.kind) == (first.plan_id, "rerun")
    assert second.writes_of("planner_targets")
    assert not first.writes_of("planner_targets")
    pipeline.run_cycle(spark, again, lambda *_: None)
    assert len(read_attempts(lake)) == number + 1, "it is on record"
    demand_sound(spark, lake)


@pytest.mark.exhaustive
def test_a_task_killed_while_it_writes_a_target_leaves_one_set_of_rows(
    spark: Any, engine: Engine, beside: Beside, empty_lake: Callable[[Path], Path], tmp_path: Path
) -> None:
    lake = empty_lake(tmp_path / "lake")
    handover = open_cycles(spark, beside.request(lake, at=beside.moments[0]))
    for task in pipeline.DECIDING[:3]:
        handover = task(spark, handover)
    given = replace(handover, lake=str(shutil.copytree(lake, tmp_path / "killed")))
    run_until(engine.url, "plan_splits", given, Point("planner_targets", 1, "after"), lambda: None)
    again: Handover = run_whole(engine.url, "plan_splits", given)[0]
    for task in (pipeline.shed, pipeline.place, pipeline.publish):
        again = task(spark, again)
    (attempt,) = read_attempts(tmp_path / "killed")
    (write,) = attempt.writes_of("planner_targets")
    rows = read_rows(tmp_path / "killed", attempt, "planner_targets")
    assert len(rows) == write.rows < len(read_table(tmp_path / "killed", "planner_targets"))
    assert content(tmp_path / "killed", attempt) == content(beside.shadow, read_attempts(beside.shadow)[0])


@pytest.fixture(scope="module")
def acting(spark: Any, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two cycles that the planner has decided: a first look, and one that acts."""
    lake = empty_lake(tmp_path_factory.mktemp("acting") / "lake")
    for snapshot in Recording(MODULAR).snapshots[1:3]:  # in the first there is no traffic yet
        run(spark, asked(MODULAR, lake, "on", NO_SPLITS, at=snapshot.cycle_at))
    return lake


@pytest.mark.exhaustive
def test_on_workers_come_to_the_plan_that_this_process_comes_to(
    spark: Any, acting: Path, new_lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they do where a cycle has many rows."""
    monkeypatch.setattr(frames, "MOST_HERE", 0)
    for here in read_attempts(acting):
        there = run(spark, asked(MODULAR, new_lake, "on", NO_SPLITS, at=here.cycle_at.isoformat()))
        assert there.plan_id == here.plan_id is not None
        assert content(new_lake, there) == content(acting, here)
        assert here.writes_of("planner_targets")[0].rows > 0


def test_on_the_planner_unloads_by_its_targets(spark: Any, acting: Path) -> None:
    moved = 0
    for attempt in read_attempts(acting):
        tables = {table: read_rows(acting, attempt, table) for table in ("planner_targets", *AS_DECIDED[1:3])}
        due = {row["subject"]: row for row in tables["planner_targets"] if row["outcome"] == "unload"}
        unloads = {row["subject"]: row for row in tables["unload_decisions"] if row["outcome"] == "unload"}
        assert unloads.keys() == due.keys()
        assert {row["strategy"] for row in tables["unload_decisions"]} == {"Planner"}
        placed = {row["subject"]: row["destination"] for row in tables["placement_decisions"] if row["cause"] == "shed"}
        assert placed == {bundle: row["destination"] for bundle, row in due.items()}
        sent = {row["bundle"]: row["destination"] for row in read_table(acting, "commands")
                if row["plan_id"] == attempt.plan_id and row["kind"] == "unload"}  # fmt: skip
        assert sent == placed, "no guard holds what the planner has fitted into the budgets"
        assert attempt.planned["shedder"] == attempt.planned["placement"] == "Planner"
        moved += len(sent)
        if due:
            shown = explain(acting, min(due), when=Times(time_given(attempt.cycle_at.isoformat(), "at")))
            assert {one.step for one in shown.reasons} >= {"planner", "unload", "placement"}
            assert shown.notes == ()
            assert explained(shown)
    assert len(read_attempts(acting)) == 2
    assert moved > 0
    model = build_model(acting, gather(acting))
    (chapter,) = model.chapters
    assert chapter.planner is not None
    assert not chapter.planner.only_looks_on
    assert "Planner" in {fact.value for fact in chapter.state}
    assert "due now" in render(model)
    demand_sound(spark, acting)


TOO_HEAVY = {"evenkeelMaxBundleTrafficPercent": 3.0}
"""Bundles with more of the traffic than this may not be moved: they have to be split."""


def splitting(recording: Path, lake: Path, **more: Any) -> CycleRequest:
    return asked(recording, lake, "on", TOO_HEAVY, **more)


def demand_splits(spark: Any, recording: Path, new_lake: Path, moments: list[str]) -> None:
    """Cycles of which one splits what the planner wants split; the record says why, and is sound."""
    split: list[Any] = []
    wanted: set[str] = set()
    for moment in moments:
        attempt = run(spark, splitting(recording, new_lake, at=moment))
        targets = read_rows(new_lake, attempt, "planner_targets")
        rows = [row for row in read_rows(new_lake, attempt, "split_decisions") if row["strategy"] == "Planner"]
        assert {row["outcome"] for row in rows} <= {"split", "refused", "skipped"}
        split += [(attempt, row) for row in rows if row["outcome"] == "split"]
        wanted |= {row["subject"] for row in targets if row["needs_split"]}
    assert wanted
    assert split
    attempt, row = split[-1]
    assert row["numbers"]["topics"] > 1
    assert row["numbers"]["heaviest_topic"] < 0.999
    assert row["algorithm"] == "specified_positions_divide"
    assert "it is cut where its parts can be placed" in row["sentence"]
    assert len(row["children"]) == len(row["cuts"]) + 1
    parts = [row["numbers"][f"part_{n}"] for n in range(1, len(row["children"]) + 1)]
    assert sum(parts) == pytest.approx(1.0)
    assert max(parts) == row["numbers"]["heaviest_part"]
    sent = {one["bundle"]: one for one in read_table(new_lake, "commands") if one["plan_id"] == attempt.plan_id}
    assert sent[row["subject"]]["kind"] == "split"
    assert sent[row["subject"]]["cuts"] == row["cuts"]
    found = explain(new_lake, row["subject"], when=Times(time_given(attempt.cycle_at.isoformat(), "at")))
    assert row["sentence"] in [one.sentence for one in found.reasons if one.step == "split"]
    assert "is split into" in explained(found)
    gathered = gather(new_lake, cycle=attempt.cycle_at.isoformat())
    assert "for Evenkeel&#39;s planner" in render(build_model(new_lake, gathered))
    demand_sound(spark, new_lake)


@pytest.mark.exhaustive
def test_splits_that_the_planner_wants_are_decided_by_topics_and_explained(spark: Any, new_lake: Path) -> None:
    demand_splits(spark, MODULAR, new_lake, [one.cycle_at for one in Recording(MODULAR).snapshots[:2]])


@pytest.mark.exhaustive
@pytest.mark.parametrize("recording", [MODULAR, EXTENSIBLE], ids=["modular", "extensible"])
def test_splits_that_the_planner_wants_are_those_of_a_window_and_of_a_replay(
    spark: Any,
    recording: Path,
    new_lake: Path,
    empty_lake: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments = [one.cycle_at for one in Recording(recording).snapshots]
    demand_splits(spark, recording, new_lake, moments)
    monkeypatch.setattr(chunks, "MOST_CYCLES", 3)
    lake = empty_lake(tmp_path / "lake")
    for _ in pipeline.run_window(spark, splitting(recording, lake, every=True, until=moments[-1]), lambda _: None):
        pass
    demand_the_same(new_lake, lake)
    demand_sound(spark, lake)
    again = replay(spark, asked_replay(str(new_lake), cluster=None, since=None, until=None), lambda *_: None)
    assert f"again: {len(moments)} of {len(moments)} recorded plans reproduced" in again.notes()
