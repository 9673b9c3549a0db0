"""What is decided in a task's own process is what a worker decides."""

import math
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cycle import frames, runner
from evenkeel.cycle.runner import Made, RoundInputs, decide_rounds
from evenkeel.errors import DecideFailed
from evenkeel.handover import FAILED, OPEN, Handover
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from tests.lake.states import handover, states
from tests.spark import deciders
from tests.written_rows import rows_digest

pytestmark = pytest.mark.spark

STATE = TABLES["strategy_state"]
VALUES = [0.0, -0.0, 5e-324, math.nan, math.inf, 1 / 3, None]


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory) -> Lake:
    made = Lake(str(tmp_path_factory.mktemp("lake")))
    made.ensure_tables(spark, ["strategy_state"])
    return made


def decided(spark, lake: Lake, decide: Any, clusters: tuple[str, ...] = ("east", "west")) -> tuple[Made, Handover]:
    """What rounds come to that are given some rows."""
    given = handover(lake.root, *clusters)
    rows = [(name, f"b{n}", value) for name in clusters for n, value in enumerate(VALUES)]
    given = given.with_writes(
        lake.append(spark, {STATE.name: states(spark, *rows)}, handover=given, task="plan_splits")
    )
    inputs = RoundInputs(spark, lake, given, STATE.name)
    return decide_rounds(given, inputs, decide, [STATE.name], "shed")


def test_both_give_the_same_rows(spark, lake, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for most in (frames.MOST_HERE, 0):
        monkeypatch.setattr(frames, "MOST_HERE", most)
        made, _ = decided(spark, lake, deciders.remembered)
        given = handover(lake.root, "east", "west")
        writes = lake.append(spark, made.frames([STATE.name]), handover=given, task="shed")
        found[most] = [(write.cluster, write.rows, rows_digest(lake.root, write)) for write in writes]
        assert len(made.rows(STATE.name)) == 2 * len(VALUES)
        assert made.filled([STATE.name]) == [STATE.name]
    assert len({*map(str, found.values())}) == 1
    assert all(rows == len(VALUES) for _, rows, _ in found[0])


@pytest.mark.parametrize("decide", [deciders.refusing, deciders.straying, deciders.misfitting])
def test_both_tell_an_error_in_the_same_words(spark, lake, monkeypatch: pytest.MonkeyPatch, decide: Any) -> None:
    told = []
    for most in (frames.MOST_HERE, 0):
        monkeypatch.setattr(frames, "MOST_HERE", most)
        with pytest.raises(DecideFailed) as error:
            decided(spark, lake, decide, ('o\'Brien "x" Zürich',))
        told.append(str(error.value))
    assert told[0] == told[1]
    assert decide.__name__ in told[0]


@pytest.mark.parametrize("most", [frames.MOST_HERE, 0])
def test_an_error_of_a_rule_stays_with_its_cluster(spark, lake, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(frames, "MOST_HERE", most)
    made, left = decided(spark, lake, deciders.refusing_east)
    assert {row["cluster"] for row in made.rows(STATE.name)} == {"west"}
    east, west = left.cycles
    assert (east.status, west.status) == (FAILED, OPEN)
    assert east.reason == f"shed failed: ValueError: cannot decide on {len(VALUES)} rows"
    with pytest.raises(DecideFailed, match=r"east: ValueError: cannot decide .*; west: ValueError: "):
        decided(spark, lake, deciders.refusing_each)


def test_rows_without_files_are_fetched_and_what_spark_computes_is_decided_by_workers(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    lake.ensure_tables(spark, [STATE.name])
    given = handover(lake.root, "east")
    rows = [("east", name, value) for name, value in zip("edcba", VALUES, strict=False)]
    writes = lake.append(spark, {STATE.name: states(spark, *rows)}, handover=given, task="plan_splits")
    given = given.with_writes(writes)
    by_files = RoundInputs(spark, lake, given, STATE.name).rows()[STATE.name]
    assert len(by_files) == len(rows)
    monkeypatch.setattr(runner, "rows_at_hand", lambda *_: None)
    inputs = RoundInputs(spark, lake, given, STATE.name)
    assert inputs.is_small
    assert list(map(repr, inputs.rows()[STATE.name])) == list(map(repr, by_files))
    inputs.add("computed", states(spark, ("east", "b", 1.0)))
    assert not inputs.is_small
    assert set(inputs.frames()) == {STATE.name, "computed"}
