"""Landed snapshots decided in windows, by all seven tasks, come to what they come to one by one."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.ingest import chunks
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import Attempt, read_attempts, read_rows
from evenkeel.pipeline import run_cycle, run_window
from evenkeel.sources.recordings import Recording
from tests import planned
from tests.pipeline.window_cases import CASES, CHECKOUT, content, demand_sound, demand_the_same
from tests.planned import SNAPSHOTS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CALM = {"evenkeelSplitEnabled": False, "evenkeelSheddingEnabled": False}


def alone(spark: Any, request: CycleRequest) -> None:
    run_cycle(spark, request, lambda *_: None)


def together(spark: Any, request: CycleRequest) -> None:
    for _ in run_window(spark, request, lambda _: None):
        pass


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_chunks_of_a_recording_come_to_what_its_cycles_come_to_one_by_one(
    spark: Any, empty_lake: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder, overrides = CASES[name]
    lakes = [empty_lake(tmp_path / each) for each in ("alone", "together")]
    request = CycleRequest("", f"recording:{CHECKOUT / folder}", overrides=overrides, run_id="test")
    for snapshot in Recording(CHECKOUT / folder).snapshots:
        alone(spark, replace(request, lake=str(lakes[0]), at=snapshot.cycle_at))
    monkeypatch.setattr(chunks, "MOST_CYCLES", 2)
    together(spark, replace(request, lake=str(lakes[1]), every=True))
    demand_the_same(*lakes)
    demand_sound(spark, lakes[1])


@pytest.mark.exhaustive
def test_a_wish_that_was_granted_by_its_topics_ends_a_bundles_averages_in_a_window_too(
    spark: Any, engine: Any, empty_lake: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    lake, other = empty_lake(tmp_path / "alone"), tmp_path / "together"
    alone(spark, planned.request(lake, 0, overrides=CALM))
    loads = read_rows(lake, read_attempts(lake)[0], "bundle_load")
    bundle = max((row for row in loads if not row["is_system"]), key=lambda row: (row["topics"] or 0, row["bundle"]))
    namespace, _, found = str(bundle["bundle"]).rpartition("/")
    words = ["split", namespace, "-b", found, "-san", "topic_count_equally_divide"]
    assert main(["wish", *words, "--lake", str(lake), "--cluster", "lab", "--at", SNAPSHOTS[1].cycle_at]) == 0
    alone(spark, planned.request(lake, 1, overrides=CALM))
    granted = [row for row in read_rows(lake, read_attempts(lake)[1], "split_decisions") if row["wish_id"]]
    assert [row["outcome"] for row in granted] == ["split"]
    shutil.copytree(lake, other)

    for number in (1, 2):
        alone(spark, planned.request(lake, number, overrides=CALM, kind="backfill"))
    span = {"at": None, "since": SNAPSHOTS[1].cycle_at, "until": SNAPSHOTS[2].cycle_at}
    together(spark, planned.request(other, 1, overrides=CALM, kind="backfill", **span))
    made: list[Attempt] = [read_attempts(each)[-1] for each in (lake, other)]
    assert {one.cycle_at.isoformat(timespec="microseconds") for one in made} == {SNAPSHOTS[2].cycle_at}
    assert content(other, made[1]) == content(lake, made[0])
    (after,) = [row for row in read_rows(other, made[1], "bundle_load") if row["bundle"] == bundle["bundle"]]
    assert after["long_samples"] <= 1, "its averages begin anew"
