"""A window in which the round of a cycle fails, and the same window once that is mended.

Cycles are run one by one into a lake. A second lake gets their observed and summed up rows and nothing of what was
decided on them; there plan_splits, shed, place and publish take all cycles at once.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from evenkeel import pipeline
from evenkeel.handover import Handover, Predecessor, Write
from evenkeel.ingest.open_run import CycleRequest, open_cycles
from evenkeel.lake.record import read_attempts, read_table
from evenkeel.lake.store import Lake
from evenkeel.publish import task as publish
from evenkeel.sources.recordings import Recording
from tests.pipeline.window_cases import CASES, CHECKOUT, demand_sound

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

SUMMED_UP = (pipeline.ingest, pipeline.validate, pipeline.aggregate)
DECIDED = (pipeline.plan_splits, pipeline.shed, pipeline.place)
OUTBOX = ("commands", "outcomes")


@dataclass(frozen=True)
class Decided:
    """A lake with cycles that were run one by one, and their hand-overs as they were before anything was decided."""

    lake: Path
    summed_up: tuple[Handover, ...]

    @property
    def cluster(self) -> str:
        return self.summed_up[0].cycles[0].cluster

    def undecided(self, empty_lake: Callable[[Path], Path], folder: Path, *numbers: int) -> Handover:
        """The window of these cycles, all by default, in a lake that holds none of their decisions."""
        made = empty_lake(folder)
        for table in {write.table for one in self.summed_up for write in one.writes}:
            shutil.rmtree(made / table)
            shutil.copytree(self.lake / table, made / table)
        chosen = [one for n, one in enumerate(self.summed_up) if n in numbers or not numbers]
        cycles = [replace(cycle, predecessor=_unknown(cycle.predecessor)) for one in chosen for cycle in one.cycles]
        writes = tuple(write for one in chosen for write in one.writes)
        return Handover(str(made), replace(chosen[0].run, run_id="window"), tuple(cycles), writes)


def _unknown(before: Predecessor) -> Predecessor:
    return Predecessor("none" if before.expected_at is None else "missing", expected_at=before.expected_at)


@pytest.fixture(scope="module")
def decided(spark: Any, empty_lake: Callable[[Path], Path], tmp_path_factory: Any) -> Decided:
    folder, overrides = CASES["modular, unloads assumed"]
    lake = empty_lake(tmp_path_factory.mktemp("one-by-one") / "lake")
    summed_up = []
    for snapshot in Recording(CHECKOUT / folder).snapshots:
        asked = CycleRequest(
            str(lake), f"recording:{CHECKOUT / folder}", at=snapshot.cycle_at, overrides=overrides, run_id="alone"
        )
        handover = open_cycles(spark, asked)
        for task in SUMMED_UP:
            handover = task(spark, handover)
        summed_up.append(handover)
        for task in DECIDED:
            handover = task(spark, handover)
        pipeline.publish(spark, handover)
    return Decided(lake, tuple(summed_up))


def decide(spark: Any, handover: Handover) -> Handover:
    for task in DECIDED:
        handover = task(spark, handover)
    return pipeline.publish(spark, handover)


def test_a_cycle_whose_round_fails_is_failed_alone_and_the_window_ends_there(
    spark: Any, decided: Decided, empty_lake: Callable[[Path], Path], tmp_path: Path
) -> None:
    decide_broken(spark, decided, decided.undecided(empty_lake, tmp_path / "lake"))
    attempts = read_attempts(tmp_path / "lake")
    assert [attempt.status for attempt in attempts] == ["closed", "failed", *["skipped"] * (len(attempts) - 2)]
    assert attempts[0].plan_id == read_attempts(decided.lake)[0].plan_id
    assert "failed: JSONDecodeError" in attempts[1].reason
    before = attempts[1].cycle_at.isoformat(timespec="microseconds")
    assert all(f"the cycle of {before} before it failed" in attempt.reason for attempt in attempts[2:])
    demand_sound(spark, tmp_path / "lake")


def decide_broken(spark: Any, decided: Decided, given: Handover) -> None:
    """Isolation policies that are no JSON, which no snapshot leaves there, are more than a round can take."""
    second = given.cycles[1]
    broken = [w for w in given.writes if (w.table, w.cycle_at) == ("cluster_policies", second.cycle_at)]
    assert len(broken) == 1
    lake = Lake(given.lake)
    frame = lake.read(spark, "cluster_policies", broken).drop("write_id", "cycle_date")
    frame = frame.withColumn("isolation_policies", F.lit('{"unreadable"'))
    alone = Handover(given.lake, given.run, (second,))
    (rewritten,) = lake.append(spark, {"cluster_policies": frame}, handover=alone, task="test")
    writes: list[Write] = [rewritten if write in broken else write for write in given.writes]
    decide(spark, replace(given, writes=tuple(writes)))


def test_once_it_is_mended_the_window_goes_on_where_the_record_ends_even_if_killed_before_its_manifests(
    spark: Any, decided: Decided, empty_lake: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = handover = decided.undecided(empty_lake, tmp_path / "lake")
    decide_broken(spark, decided, given)
    for task in DECIDED:
        handover = task(spark, handover)
    with monkeypatch.context() as patched:
        patched.setattr(publish, "append_manifests", killed)
        with pytest.raises(Killed):
            pipeline.publish(spark, handover)
    pipeline.publish(spark, handover)
    mended = [attempt for attempt in read_attempts(tmp_path / "lake") if attempt.plan_id]
    assert [attempt.plan_id for attempt in mended] == [attempt.plan_id for attempt in read_attempts(decided.lake)]
    assert {attempt.status for attempt in mended} == {"closed"}
    for table in OUTBOX:
        ids = sorted(row["command_id"] for row in read_table(tmp_path / "lake", table))
        assert ids == sorted(row["command_id"] for row in read_table(decided.lake, table))


class Killed(BaseException):
    """Nothing in the code under test may catch this."""


def killed(*_: Any) -> None:
    raise Killed
