"""The drill: a lake is backed up while a cycle is decided, is lost, is restored, and the next cycles go on."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from evenkeel import pipeline
from evenkeel.lake.record import read_attempts
from evenkeel.maintenance.backup import back_up, restore
from evenkeel.pipeline import run_cycle
from evenkeel.verify import verify
from tests.planned import request

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]


def quiet(task: str, seconds: float) -> None:
    """Progress nobody looks at."""


def faults_of(spark: Any, lake: Path) -> list[str]:
    @contextmanager
    def session() -> Iterator[Any]:
        yield spark

    return [fault.sentence() for fault in verify(str(lake), session).faults]


def test_a_lake_that_is_backed_up_under_way_and_lost_goes_on(spark: Any, planned_cycle: Any, tmp_path: Path) -> None:
    lake, kept, new = tmp_path / "lake", tmp_path / "kept", tmp_path / "new"
    pipeline.publish(spark, planned_cycle(lake))
    seen: list[dict[str, int]] = []
    ended = threading.Event()

    def again_and_again() -> None:
        while not ended.is_set():
            seen.append(back_up(str(lake), str(kept), now=lambda: datetime.now(UTC)).tables)

    keeper = threading.Thread(target=again_and_again)
    keeper.start()
    try:
        run_cycle(spark, request(lake, 1), quiet)
    finally:
        ended.set()
        keeper.join()
    assert len(seen) > 1
    assert seen[0] != seen[-1], "nothing was written while a backup was taken"
    for name, version in seen[-1].items():
        assert DeltaTable(str(kept / name)).version() == version
    assert faults_of(spark, kept) == []
    known = [attempt.attempt_id for attempt in read_attempts(kept)]
    assert known == [attempt.attempt_id for attempt in read_attempts(lake)][: len(known)] != []
    shutil.rmtree(lake)
    restore(str(kept), str(new))
    for snapshot in (1, 2):
        run_cycle(spark, request(new, snapshot), quiet)
    attempts = read_attempts(new)
    assert [attempt.planned["predecessor_status"] for attempt in attempts] == ["none", "used", "used"]
    assert [attempt.status for attempt in attempts] == ["closed"] * 3
    assert [attempt.attempt_id for attempt in attempts][: len(known)] == known
    assert faults_of(spark, new) == []
