"""Spark reads what is on record, whatever somebody put into a table's log beside the commits of ours."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evenkeel.errors import LakeError
from evenkeel.lake.controls import answer_row, answers, control_row, leases, paused, take_leases
from evenkeel.lake.store import Lake, append_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MINOR_COMPACTION = "spark.databricks.delta.deltaLog.minorCompaction.useForReads"


def commit(lake: Path, table: str, version: int) -> Path:
    return lake / table / "_delta_log" / f"{version:020}.json"


def lie(path: Path, column: str) -> None:
    """The statistics of a commit's file say that all its values lie beyond every one that is asked for."""
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            stats = json.loads(action["add"]["stats"])
            stats["minValues"][column] = stats["maxValues"][column] = "zzzz"
            action["add"]["stats"] = json.dumps(stats)
    path.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def test_statistics_that_lie_hide_neither_pauses_nor_answers(spark: SparkSession, new_lake: Path) -> None:
    from pyspark.sql import functions as F

    lake = Lake(str(new_lake))
    append_row(lake, "controls", control_row("lab", "pause", "ann", "a test"))
    append_row(lake, "approvals", answer_row("lab", "plan", "rejected", "ann"))
    lie(commit(new_lake, "controls", 1), "kind")
    lie(commit(new_lake, "approvals", 1), "plan_id")
    rows = spark.read.format("delta").load(lake.path("controls"))
    assert rows.where(F.col("kind") == "pause").count() == 0, "Delta goes by the statistics"
    assert list(paused(lake, ["lab"])) == ["lab"]
    assert [one["answer"] for one in answers(lake, ["plan"])] == ["rejected"]
    assert answers(lake, []) == []


def test_statistics_that_lie_do_not_give_a_lease_to_two(spark: SparkSession, new_lake: Path) -> None:
    lake, length = Lake(str(new_lake)), timedelta(minutes=5)
    held = {**control_row("lab", "lease", "one", None), "token": 1, "until": datetime.now(UTC) + length}
    append_row(lake, "controls", held)
    lie(commit(new_lake, "controls", 1), "kind")
    assert take_leases(spark, lake, ["lab"], "two", length)["lab"].holder == "one"
    assert leases(lake, ["lab"])["lab"].token == 1


def test_commits_put_together_are_not_read(spark: SparkSession, new_lake: Path) -> None:
    lake = Lake(str(new_lake))
    for kind in ("resume", "resume", "pause"):
        append_row(lake, "controls", control_row("lab", kind, "ann", None))
    log = commit(new_lake, "controls", 0).parent
    forged = [line for line in commit(new_lake, "controls", 1).read_text().splitlines() if '"add"' in line]
    (log / f"{1:020}.{3:020}.compacted.json").write_text("".join(f"{line}\n" for line in forged))
    assert spark.conf.get(MINOR_COMPACTION) == "false"
    assert list(paused(lake, ["lab"])) == ["lab"]


def test_a_table_with_foreign_metadata_is_refused_before_spark_reads_it(spark: SparkSession, new_lake: Path) -> None:
    lake = Lake(str(new_lake))
    lake.ensure_tables(spark, ["controls", "commands"])
    actions = [json.loads(line) for line in commit(new_lake, "commands", 0).read_text().splitlines()]
    (metadata,) = (one["metaData"] for one in actions if "metaData" in one)
    metadata["configuration"]["delta.constraints.forged"] = "java_method('java.lang.System', 'exit', 1) IS NULL"
    commit(new_lake, "commands", 1).write_text(json.dumps({"metaData": metadata}) + "\n")
    with pytest.raises(LakeError, match=r"table commands of .* is not read: property delta\.constraints\.forged"):
        lake.ensure_tables(spark, ["controls", "commands"])
