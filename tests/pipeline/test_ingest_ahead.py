"""The next chunk of a window is ingested beside the one before: once, in its own session, and as the record says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel import pipeline
from evenkeel.errors import LakeError
from evenkeel.handover import Handover, Predecessor
from evenkeel.ingest import ahead as ahead_module
from evenkeel.ingest import chunks
from evenkeel.ingest.ahead import IngestAhead
from evenkeel.ingest.chunks import Chunk, in_chunks, landed_in
from evenkeel.ingest.open_run import CycleRequest, open_listed
from evenkeel.pipeline import run_window
from evenkeel.record.read import read_attempts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDING = Path(__file__).resolve().parents[2] / "demo" / "recordings" / "anti-affinity"
AHEAD = "ingest-ahead"


def request_over(lake: Path) -> CycleRequest:
    return CycleRequest(str(lake), source=f"recording:{RECORDING}", every=True, run_id="window")


@pytest.fixture(scope="module")
def two(
    empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[CycleRequest, list[Chunk]]:
    """A request over a lake without a cycle, and its two chunks."""
    request = request_over(empty_lake(tmp_path_factory.mktemp("ahead")))
    return request, in_chunks(landed_in(request), most_cycles=2)


def is_stopped(spark: Any) -> bool:
    return bool(spark.is_stopped)


def threads_ahead() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith(AHEAD)]


@pytest.mark.parametrize("fails", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_chunk_is_ingested_once_ahead_and_in_its_turn_where_that_failed(
    spark: SparkSession,
    empty_lake: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails: bool,
) -> None:
    places: list[str] = []

    def ingest(own: SparkSession, handover: Handover, real: pipeline.Task = pipeline.ingest) -> Handover:
        places.append(threading.current_thread().name.partition("_")[0])
        if fails and places[-1] == AHEAD:
            raise LakeError("no room")
        return real(own, handover)

    ingest.__name__ = "ingest"
    monkeypatch.setattr(pipeline, "ingest", ingest)
    monkeypatch.setattr(pipeline, "DECIDING", (ingest, *pipeline.DECIDING[1:]))
    monkeypatch.setattr(chunks, "MOST_CYCLES", 2)
    lake = empty_lake(tmp_path / "lake")
    told: list[str] = []
    handovers = list(run_window(spark, request_over(lake), lambda course: told.append(course.task)))
    here = threading.main_thread().name
    assert places == ([here, AHEAD, here] if fails else [here, AHEAD])
    assert [len(one.cycles) for one in handovers] == [2, 1]
    assert told == ["", *[*(task.__name__ for task in pipeline.DECIDING), "publish"] * 2]
    attempts = read_attempts(lake)
    assert [one.status for one in attempts] == ["closed"] * 3
    assert [one.planned["predecessor_status"] for one in attempts] == ["none", "used", "used"]
    assert threads_ahead() == []


def test_what_the_record_says_is_asked_again_and_another_input_is_ingested_again(
    spark: SparkSession, two: tuple[CycleRequest, list[Chunk]]
) -> None:
    request, (first, second) = two
    with IngestAhead(spark, request, pipeline.ingest) as ahead:
        ahead.begin(first, second)
        with ahead.session(first, is_last=False) as own:
            assert ahead.handover(first, open_listed(own, request, list(first))) is None, "this one is not on its way"
        with ahead.session(second, is_last=True) as own:
            assert own is not spark
            opened = open_listed(own, request, list(second))
            ahead.begin(second, first)  # one is on its way already
            (cycle,) = opened.cycles
            now = replace(cycle, predecessor=Predecessor("used", attempt_id="attempt"), wishes=({"kind": "split"},))
            found = ahead.handover(second, opened.with_cycles([now]))
            assert found is not None
            assert found.writes
            (taken,) = found.cycles
            assert (taken.predecessor, taken.wishes) == (now.predecessor, now.wishes)
            assert taken.settings_digest is not None
            other = replace(now, overrides={"loadBalancerEnabled": False})
            assert ahead.handover(second, opened.with_cycles([other])) is None
        assert is_stopped(own)
        with ahead.session(second, is_last=True) as own:
            assert own is spark
    assert spark.range(3).localCheckpoint(eager=True).count() == 3, "checkpoints are asked in the thread's own session"


def test_what_is_on_its_way_ends_with_the_window(spark: SparkSession, two: tuple[CycleRequest, list[Chunk]]) -> None:
    request, (first, second) = two
    sessions: list[SparkSession] = []
    has_begun = threading.Event()

    def endless(own: SparkSession, _: Handover) -> Handover:
        sessions.append(own)
        has_begun.set()
        own.sql("SELECT count_if(sha(a.id || b.id) = '') FROM range(1000000) a, range(1000000) b").collect()
        raise AssertionError("it came to an end")

    def begin_and_fail() -> None:
        with IngestAhead(spark, request, endless) as ahead:
            ahead.begin(first, second)
            assert has_begun.wait(60)
            raise KeyError

    with pytest.raises(KeyError):
        begin_and_fail()
    assert threads_ahead() == []
    assert is_stopped(sessions[0])


def test_two_chunks_that_are_too_large_for_the_server_come_one_after_the_other(
    spark: SparkSession, two: tuple[CycleRequest, list[Chunk]], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, (first, second) = two
    monkeypatch.setattr(ahead_module, "MOST_BYTES", 1_000)
    with IngestAhead(spark, request, pipeline.ingest) as ahead:
        ahead.begin(first, second)
        with ahead.session(second, is_last=True) as own:
            assert own is spark
