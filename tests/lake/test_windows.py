"""A run of many cycles of each cluster appends them at once: each has a write of its own, as if it were alone."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from evenkeel.errors import LakeError
from evenkeel.handover import ClusterCycle, CycleKey, Handover, Run, Snapshot, Write, commits_of
from evenkeel.lake import store
from evenkeel.lake.delta_log import hashed
from evenkeel.lake.store import Lake
from tests.written_rows import rows_digest

pytestmark = pytest.mark.spark

TABLE = "strategy_state"
EAST, WEST = "east", "west 1%/x"
# Over midnight, with and without a fraction of a second; `EAST` decides at three moments, `WEST` at two.
TIMES = tuple(f"2026-11-2{time}+00:00" for time in ("1T23:55:00.000000", "1T23:59:59.999999", "2T00:05:04.000001"))
CYCLES: tuple[CycleKey, ...] = (*((EAST, at) for at in TIMES), *((WEST, at) for at in TIMES[1:]))
EMPTY = (WEST, TIMES[2])
"""A cycle of the run that has no rows."""


def handover(root: str, *keys: CycleKey) -> Handover:
    cycles = (ClusterCycle(cluster, at, Snapshot("s", at), {}, settings_digest=f"s{at}") for cluster, at in keys)
    return Handover(root, Run("cli", "run"), tuple(cycles))


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = Lake(str(tmp_path_factory.mktemp("lake") / "with space"))
    made.ensure_tables(spark, [TABLE])
    return made


def states(spark: Any, *keys: CycleKey) -> Any:
    """Rows whose figures differ from cycle to cycle, among them such as only bits tell apart; none of `EMPTY`."""
    figures = (0.1, -0.0, float("nan"), None)
    rows = [
        (cluster, at, f"b{n}", figure if figure != 0.1 else figure * (1 + TIMES.index(at)))
        for cluster, at in keys
        if (cluster, at) != EMPTY
        for n, figure in enumerate(figures)
    ]
    frame = spark.createDataFrame(rows, "cluster string, cycle_at string, subject string, value double")
    return frame.select(
        "cluster", F.to_timestamp("cycle_at").alias("cycle_at"), F.lit("ThresholdShedder").alias("strategy"), "subject",
        F.lit("usage_average").alias("name"), "value", F.to_timestamp("cycle_at").alias("at"),
    )  # fmt: skip


def appended(spark: Any, lake: Lake, *keys: CycleKey, partitions: int = 3) -> dict[CycleKey, Write]:
    frame = states(spark, *keys).repartition(partitions)
    writes = lake.append(spark, {TABLE: frame}, handover=handover(lake.root, *keys), task="shed")
    return {(write.cluster, write.cycle_at): write for write in writes}


def content(lake: Lake, write: Write) -> tuple[int, str]:
    return write.rows, rows_digest(lake.root, write)


def subjects(frame: Any) -> list[tuple[str, ...]]:
    rows = frame.select("cluster", F.date_format("cycle_at", "HH:mm:ss.SSSSSS").alias("at"), "subject").collect()
    return sorted(tuple(row) for row in rows)


@pytest.fixture(scope="module")
def alone(spark: Any, lake: Lake) -> dict[CycleKey, tuple[int, str]]:
    """Rows and digest of each cycle that is written by itself."""
    return {key: content(lake, appended(spark, lake, key)[key]) for key in CYCLES if key != EMPTY}


def test_each_cycle_has_the_rows_that_it_has_alone(
    spark: Any, lake: Lake, alone: dict[CycleKey, tuple[int, str]]
) -> None:
    found = appended(spark, lake, *CYCLES)
    assert {key: content(lake, write) for key, write in found.items()} == alone
    assert [*found] == [key for key in CYCLES if key != EMPTY]
    assert len({write.version for write in found.values()}) == 1
    # What a row bears is what its cycle's write says.
    table = spark.read.format("delta").load(lake.path(TABLE)).where(F.col("cluster") == EAST)
    for key in CYCLES[:3]:
        own = table.where(F.col("write_id") == found[key].write_id).select("cycle_at").distinct()
        (row,) = own.select(F.date_format("cycle_at", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'+00:00'").alias("at")).collect()
        assert row["at"] == key[1]


def test_clusters_with_a_cycle_each_share_one_id_however_many_they_are(spark: Any, lake: Lake) -> None:
    keys = ((EAST, TIMES[0]), (WEST, TIMES[1]), ("idle", TIMES[0]))
    alone = {key: content(lake, appended(spark, lake, key)[key]) for key in keys}
    found = appended(spark, lake, *keys)
    assert {key: content(lake, write) for key, write in found.items()} == alone
    assert len({write.write_id for write in found.values()}) == 1


def test_a_file_is_listed_for_every_cycle_that_has_rows_in_it_and_hashed_once(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(table: str, path: str) -> Any:
        asked.append(path)
        return hashed(table, path)

    monkeypatch.setattr("evenkeel.lake.delta_log.hashed", counted)
    found = appended(spark, lake, *CYCLES, partitions=1)
    (commit,) = commits_of(found.values())
    text = Path(lake.path(TABLE), f"_delta_log/{commit.version:020d}.json").read_bytes()
    assert commit.digest == hashlib.sha256(text).hexdigest()
    assert len(commit.files) == 3
    assert len(asked) == len(set(asked)) == 3, "a file for each cluster and date"
    first, second, third = (found[key].files for key in CYCLES[:3])
    assert first == second
    assert len(first) == len(third) == 1
    assert first != third
    assert EMPTY not in found
    for file in {*first, *third, *found[WEST, TIMES[1]].files}:
        held = Path(lake.path(TABLE), file.path).read_bytes()
        assert (file.size, file.digest) == (len(held), hashlib.sha256(held).hexdigest())


@pytest.mark.parametrize(
    ("place", "most"),
    [
        pytest.param("lake", 1, id="files-join"),
        pytest.param("lake [1]", 1_000, id="delta-condition"),
        pytest.param("lake", 1_000, id="files-condition", marks=pytest.mark.exhaustive),
        pytest.param("lake [1]", 1, id="delta-join", marks=pytest.mark.exhaustive),
    ],
)
def test_exactly_the_rows_of_the_writes_asked_for_are_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, place: str
) -> None:
    monkeypatch.setattr(store, "MOST_NAMED", most)
    lake = Lake(str(tmp_path / place))
    lake.ensure_tables(spark, [TABLE])
    found = appended(spark, lake, *CYCLES)
    appended(spark, lake, *CYCLES)
    for keys in (CYCLES[1:2], CYCLES[:2], ((EAST, TIMES[0]), (WEST, TIMES[1])), (EMPTY,), CYCLES):
        expected = sorted(
            (cluster, at[11:26], f"b{n}") for cluster, at in keys if (cluster, at) != EMPTY for n in range(4)
        )
        assert subjects(lake.read(spark, TABLE, [found[key] for key in keys if key != EMPTY])) == expected


def test_rows_of_a_cycle_that_is_no_part_of_the_run_are_not_passed_over(spark: Any, lake: Lake) -> None:
    for run in (CYCLES[:2], ((EAST, TIMES[0]), (WEST, TIMES[0]))):
        frame = states(spark, (EAST, TIMES[0]), (EAST, TIMES[2]) if run == CYCLES[:2] else ("other", TIMES[0]))
        with pytest.raises(LakeError, match=r"8 rows to strategy_state .* of no cycle of the run"):
            lake.append(spark, {TABLE: frame}, handover=handover(lake.root, *run), task="shed")


def test_a_commit_of_a_window_names_its_cycles_and_the_tries_that_it_read(spark: Any, lake: Lake) -> None:
    read = appended(spark, lake, *CYCLES)
    alone = appended(spark, lake, CYCLES[0])[CYCLES[0]]
    given = handover(lake.root, *CYCLES).with_writes(read.values())
    (write, *_) = lake.append(spark, {TABLE: states(spark, *CYCLES)}, handover=given, task="place", reads=[alone])
    history = spark.sql(f"DESCRIBE HISTORY delta.`{lake.path(TABLE)}`").where(F.col("version") == write.version)
    said = json.loads(history.collect()[0]["userMetadata"])
    assert said["cycles"] == {EAST: [*TIMES], WEST: [*TIMES[1:]]}
    assert said["settings"] == {EAST: [f"s{at}" for at in TIMES], WEST: [f"s{at}" for at in TIMES[1:]]}
    assert write.write_id.startswith(said["write_id"][:19])
    tries = {(table, version): name for table, version, name in said["reads"]}
    assert len(said["reads"]) == len(tries) == 2
    assert all(one.write_id.startswith(tries[TABLE, one.version]) for one in (*read.values(), alone))


def test_cycles_that_were_left_out_are_not_read_as_open_ones(spark: Any, lake: Lake) -> None:
    given = handover(lake.root, *CYCLES)
    writes = lake.append(spark, {TABLE: states(spark, *CYCLES)}, handover=given, task="shed")
    left = replace(given, writes=writes).leave_out({CYCLES[1]: "late", (WEST, TIMES[2]): "late"})
    found = {row[:2] for row in subjects(lake.read(spark, TABLE, left.open_writes(TABLE)))}
    assert found == {(cluster, at[11:26]) for cluster, at in ((EAST, TIMES[0]), (EAST, TIMES[2]), (WEST, TIMES[1]))}
