"""Whatever a recording holds, and however it is cut, windows come to what its cycles come to one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from evenkeel.ingest import task as ingest
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import read_attempts
from evenkeel.sources.recordings import Recording
from evenkeel.validate import task as validate
from tests.pipeline.odd_recordings import write_odd
from tests.pipeline.window_cases import CHECKOUT
from tools.windows_alike import compared, differences, ways_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

SOURCES = ("demo/recordings/own-threshold", "tests/recordings/own-transfer", "tests/recordings/lost-modular")
OVERRIDES = {"evenkeelMissingBrokersToleratedPercent": 70.0, "evenkeelMaxSnapshotSeconds": 86_400.0}
"""A snapshot with something wrong in it is decided all the same where that can be."""
SNAPSHOTS = 5
SEEDS = range(1, 9)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recording_in_which_much_is_wrong_comes_out_alike_in_windows(
    spark: SparkSession, empty_lake: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    if seed % 2:  # taken in and validated in the smallest pieces
        monkeypatch.setattr(ingest, "_PIECE", 1_000_000)
        monkeypatch.setattr(validate, "parts", partial(validate.parts, most_rows=200))
    sources = [CHECKOUT / source for source in SOURCES[seed % 2 :]]
    folder = write_odd(sources, tmp_path / "odd", seed, SNAPSHOTS)
    request = CycleRequest("", f"recording:{folder}", overrides=OVERRIDES, run_id="alike")
    ways = ways_of(len(Recording(folder).snapshots), 1, seed)
    assert list(compared(spark, request, tmp_path, ways, empty_lake)) == []
    assert read_attempts(tmp_path / "lake-0")
    if seed == SEEDS[0]:
        demand_that_differences_are_named(tmp_path / "lake-0", tmp_path / "lake-1", empty_lake(tmp_path / "empty"))


def demand_that_differences_are_named(one: Path, other: Path, empty: Path) -> None:
    assert all(line.endswith("1 attempts, then 0") for line in differences(one, empty))
    changed = DeltaTable(other / "cycles").update(
        updates={"splits": "77"}, predicate="row_kind = 'planned' and splits = 0"
    )
    lines = list(differences(one, other))
    assert [line.partition(": ")[2] for line in lines] == ["planned.splits: 0, then 77"] * changed["num_updated_rows"]
    assert lines
