"""Replays through the real Spark and tables, over cycles that the real tasks decided."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.record import read_table
from evenkeel.lake.schemas import OF_RECORD
from evenkeel.replay.comparison import VariantComparison
from evenkeel.replay.history import read_history
from evenkeel.replay.open_loop import OpenLoop, chunks, replay
from evenkeel.replay.variants import AGAIN, RECORDED, Variant, variants_of
from tests.replay.recorded_lake import CLUSTERS, snapshots_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

# Settings that change no decision, but are others: acts alone are decided then.
OTHERWISE = Variant("otherwise", {"evenkeelCommandsPerSecond": 7.0})


@pytest.fixture(scope="module")
def replayed(spark, lake) -> Mapping[str, VariantComparison]:
    """Each cluster decided again, as recorded and with settings that change nothing, in chunks of a cycle or two."""
    return {name: again(spark, lake, name, (Variant(AGAIN), OTHERWISE), most_rows=60) for name in CLUSTERS}


def again(spark: Any, lake: Path, cluster: str, variants: tuple[Variant, ...], **more: Any) -> VariantComparison:
    history = read_history(str(lake), cluster, None, None)
    return replay(spark, OpenLoop(history, variants, **more), lambda done, total: None)


def rows_of(lake: Path, table: str, replay_id: str) -> list[dict[str, Any]]:
    unstamped = ("write_id", "replay_id")
    rows = [row for row in read_table(lake, table) if row["replay_id"] == replay_id]
    rows = [{name: value for name, value in row.items() if name not in unstamped} for row in rows]
    return sorted(rows, key=lambda row: str([row[name] for name in sorted(row)]))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_recorded_settings_come_to_every_recorded_plan(cluster: str, replayed: Mapping[str, VariantComparison]) -> None:
    tally = replayed[cluster].tallies[AGAIN]
    assert (tally.reproduced, tally.not_reproduced) == (tally.cycles, [])
    assert tally.cycles == len(snapshots_of(cluster))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_wishes_for_the_largest_or_hottest_bundle_mean_the_bundle_that_they_meant(
    cluster: str, lake: Path, replayed: Mapping[str, VariantComparison]
) -> None:
    own = [
        row for row in read_table(lake, "split_decisions") if row["cluster"] == cluster and row["strategy"] == "wish"
    ]
    granted = {(row["cycle_at"], row["subject"]) for row in own if row["outcome"] == "split"}
    rows = rows_of(lake, "replay_decisions", replayed[cluster].replay_id)
    for variant in (RECORDED, AGAIN, "otherwise"):
        mine = [row for row in rows if (row["variant"], row["strategy"]) == (variant, "wish")]
        assert {(row["cycle_at"], row["bundle"]) for row in mine} == granted
        assert all(row["on_record"] for row in mine)
    assert len({bundle for _, bundle in granted}) >= 2


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_whoever_is_asked_for_acts_alone_comes_to_the_same_acts(
    cluster: str, replayed: Mapping[str, VariantComparison]
) -> None:
    again, otherwise, recorded = (replayed[cluster].tallies[n].figures() for n in (AGAIN, "otherwise", RECORDED))
    for figures in (again, otherwise):
        assert (figures["only_here"], figures["only_recorded"]) == (0, 0)
        assert {name: figures[name] for name in ("moves", "splits", "held", "moved_traffic", "max_over_mean")} == {
            name: recorded[name] for name in ("moves", "splits", "held", "moved_traffic", "max_over_mean")
        }


def test_the_recordings_hold_what_is_compared(replayed: Mapping[str, VariantComparison]) -> None:
    figures = {name: found.tallies[RECORDED].figures() for name, found in replayed.items()}
    assert all(one["moves"] + one["held"] for one in figures.values())
    assert any(one["splits"] for one in figures.values())


def test_neither_chunks_nor_parts_change_a_row(spark, lake, replayed) -> None:
    before = replayed["threshold"]
    whole = again(spark, lake, "threshold", (Variant(AGAIN), OTHERWISE), parts=1)
    assert len(list(chunks(read_history(str(lake), "threshold", None, None).cycles, 60))) > 1
    for table in ("replay_cycles", "replay_decisions"):
        rows = rows_of(lake, table, whole.replay_id)
        assert rows == rows_of(lake, table, before.replay_id)
        assert rows


def test_other_strategies_stand_beside_the_record_and_leave_it_alone(spark, lake) -> None:
    versions = {table: newest_version(str(lake / table)) for table in OF_RECORD}
    found = again(spark, lake, "threshold", variants_of(["AvgShedder", "UniformLoadShedder", "OverloadShedder"]))
    assert found.names() == [RECORDED, "AvgShedder", "UniformLoadShedder", "OverloadShedder"]
    assert {table: newest_version(str(lake / table)) for table in OF_RECORD} == versions
    (run,) = (row for row in read_table(lake, "replay_runs") if row["replay_id"] == found.replay_id)
    cycles = len(snapshots_of("threshold"))
    assert (run["kind"], run["cycles"], run["cluster"]) == ("open_loop", cycles, "threshold")
    listed = {write["table"]: write["rows"] for write in run["writes"]}
    assert listed["replay_cycles"] == len(rows_of(lake, "replay_cycles", found.replay_id)) == 4 * cycles
