"""A window of landed snapshots: decided chunk by chunk, going on where the record ends, whatever ended it."""

import json
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from evenkeel import pipeline
from evenkeel.cli import main
from evenkeel.errors import BadInput, LakeError
from evenkeel.handover import Handover
from evenkeel.ingest import chunks
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import read_attempts
from evenkeel.pipeline import WindowProgress, run_window

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDING = Path(__file__).resolve().parents[2] / "demo" / "recordings" / "anti-affinity"
CYCLES = 3


@pytest.fixture(scope="module")
def lake(empty_lake: Callable[[Path], Path], tmp_path_factory) -> Path:
    """A lake without a cycle."""
    return empty_lake(tmp_path_factory.mktemp("window"))


@pytest.fixture(autouse=True)
def two_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks as small as that show what happens between them."""
    monkeypatch.setattr(chunks, "MOST_CYCLES", min(chunks.MOST_CYCLES, 2))


def over(lake: Path, **more) -> CycleRequest:
    return CycleRequest(str(lake), source=f"recording:{RECORDING}", every=True, run_id="window", **more)


def decided(spark, request: CycleRequest, **more) -> tuple[list[Handover], list[WindowProgress]]:
    seen: list[WindowProgress] = []
    return list(run_window(spark, request, seen.append, **more)), seen


def statuses(lake: Path) -> list[str]:
    return [attempt.status for attempt in read_attempts(lake)]


@pytest.mark.exhaustive
def test_a_window_killed_after_a_chunk_goes_on_where_the_record_ends(spark, lake, capsys) -> None:
    killed = cast("Generator[Handover]", run_window(spark, over(lake), lambda course: None))
    first = next(killed)
    killed.close()
    assert statuses(lake) == ["closed"] * len(first.cycles)

    handovers, seen = decided(spark, over(lake))
    assert statuses(lake) == ["closed"] * CYCLES
    assert (len(seen[0].decided_before), seen[0].of) == (len(first.cycles), CYCLES - len(first.cycles))
    assert sum(len(one.cycles) for one in handovers) == seen[0].of
    assert (seen[-1].task, seen[-1].cycles, seen[-1].share) == ("publish", seen[0].of, 1.0)
    assert [course.share for course in seen] == sorted(course.share for course in seen)
    assert [attempt.planned["predecessor_status"] for attempt in read_attempts(lake)] == ["none", "used", "used"]


@pytest.mark.exhaustive
def test_each_chunk_but_the_last_has_a_session_that_ends_with_it(spark, lake, monkeypatch) -> None:
    """What a session is sent stays with the server until it ends."""
    seen = []

    def runs(session, *more, run=pipeline._run_tasks):
        seen.append(session)
        return run(session, *more)

    monkeypatch.setattr(pipeline, "_run_tasks", runs)
    assert len(decided(spark, over(lake), anew=True)[0]) == len(seen) == 2
    own, last = seen
    assert last is spark
    assert own is not spark
    assert own.is_stopped
    assert spark.range(3).localCheckpoint(eager=True).count() == 3, "checkpoints are asked in the thread's own session"


@pytest.mark.exhaustive
def test_what_is_decided_is_decided_again_only_if_asked_or_if_settings_differ(spark, lake) -> None:
    plans = [attempt.plan_id for attempt in read_attempts(lake)]
    handovers, seen = decided(spark, over(lake))
    before = frozenset((attempt.cluster, attempt.cycle_at.isoformat()) for attempt in read_attempts(lake))
    assert (handovers, seen) == ([], [WindowProgress("", 0, 0, before, 1.0)])
    assert len(before) == CYCLES
    again, _ = decided(spark, over(lake), anew=True)
    assert sum(len(one.cycles) for one in again) == CYCLES
    assert [attempt.plan_id for attempt in read_attempts(lake)] == plans, "the same plans add nothing"

    moment = again[0].cycles[0].cycle_at
    other = over(lake, until=moment, overrides={"loadBalancerBrokerThresholdShedderPercentage": 11})
    handovers, seen = decided(spark, other)
    assert [cycle.cycle_at for one in handovers for cycle in one.cycles] == [moment]
    assert seen[0].decided_before == frozenset()
    assert decided(spark, other)[1] == [WindowProgress("", 0, 0, frozenset({("lab", moment)}), 1.0)]
    assert decided(spark, replace(other, kind="backfill"))[1][0].of == 1, "another kind is another attempt"


@pytest.mark.exhaustive
def test_a_task_that_fails_puts_its_chunk_on_record_as_failed_and_the_next_chunk_goes_on(
    spark, empty_lake, tmp_path, monkeypatch
) -> None:
    lake = empty_lake(tmp_path / "lake")
    calls = 0

    def shed(spark_, handover: Handover) -> Handover:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise LakeError("no room")
        return pipeline.shed(spark_, handover)

    broken = tuple(shed if task is pipeline.shed else task for task in pipeline.DECIDING)
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "DECIDING", broken)
        failures: list[tuple[int, str]] = []
        handovers, seen = decided(
            spark, over(lake), failed=lambda chunk, error: failures.append((len(chunk), str(error)))
        )
        first = min(chunks.MOST_CYCLES, CYCLES)
        assert failures == [(first, "no room")]
        assert sum(len(one.cycles) for one in handovers) == CYCLES - first
        assert seen[-1].cycles == CYCLES
        assert statuses(lake) == ["failed"] * first + ["closed"] * (CYCLES - first)
        assert read_attempts(lake)[0].reason == "shed failed: no room"
        calls = 0
        with pytest.raises(LakeError, match="no room"):
            decided(spark, over(lake))

    handovers, seen = decided(spark, over(lake))
    assert len(seen[0].decided_before) == CYCLES - first
    assert sum(len(one.cycles) for one in handovers) == first
    assert [one.status for one in read_attempts(lake) if one.decided] == ["closed"] * CYCLES


def test_a_window_that_is_asked_to_send_is_refused(spark, lake) -> None:
    with pytest.raises(BadInput, match="nothing is ever sent"):
        decided(spark, over(lake, mode="auto"))


@pytest.mark.exhaustive
def test_the_command_tells_a_line_per_cycle_and_goes_on(lake, tmp_path, engine, monkeypatch, capsys) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    words = ["rebalance", "--recording", str(RECORDING), "--lake", str(lake)]
    moments = sorted({attempt.cycle_at.isoformat() for attempt in read_attempts(lake)})[:2]
    assert main([*words, "--from", moments[0], "--to", moments[1], "--anew"]) == 0
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == moments
    assert "2 of 2 cycles, 100 %" in said.err
    # The first cycle has a newer attempt, under other settings: it is not what was decided now.
    own = {attempt.cycle_at.isoformat(): str(attempt.plan_id) for attempt in reversed(read_attempts(lake))}
    assert [line.split("plan ")[1].split()[0] for line in said.out.splitlines()] == [own[at][:12] for at in moments]
    assert main([*words, "--all", "--json"]) == 0
    said = capsys.readouterr()
    told = {cycle["cycle_at"]: cycle["status"] for cycle in map(json.loads, said.out.splitlines())}
    assert told == dict.fromkeys(own, "closed"), "readers use the newer attempt of the first"
    assert "3 cycles on record already" in said.err
