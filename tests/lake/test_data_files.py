"""Rows of a few writes, read from their files in this process."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from evenkeel.lake.data_files import rows_at_hand
from evenkeel.lake.plain_rows import types_of
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.store import Lake
from evenkeel.spark.row_order import in_content_order
from tests.lake.states import handover, states

pytestmark = pytest.mark.spark

AWKWARD = [0.0, -0.0, 5e-324, math.nan, math.inf, -math.inf, 1 / 3, None]


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory) -> Lake:
    made = Lake(str(tmp_path_factory.mktemp("lake") / "with space"))
    made.ensure_tables(spark, ["strategy_state", "bundle_load"])
    return made


def by_spark(spark, lake: Lake, writes) -> list[dict]:
    columns = {
        name: kind for name, kind in types_of("strategy_state").items() if name not in ("cycle_date", "write_id")
    }
    found = lake.read(spark, "strategy_state", writes).drop(*STAMP_NAMES).toArrow()
    return in_content_order(columns, found)


@pytest.mark.parametrize("name", ["east", 'o\'Brien "x" 100%/a=b #1?[0]{*}:\\', "Zürich 🐦 <script>"])
def test_they_are_what_spark_reads_bit_for_bit_and_in_the_order_of_their_content(spark, lake, name: str) -> None:
    both = handover(lake.root, name, "another")
    rows = [(cluster, f"b{n}", value) for n, value in enumerate(AWKWARD) for cluster in (name, "another")]
    frame = states(spark, *rows).repartition(3)
    writes = lake.append(spark, {"strategy_state": frame}, handover=both, task="shed")
    own = [write for write in writes if write.cluster == name]
    found = rows_at_hand(lake, "strategy_state", own)
    assert repr(found) == repr(by_spark(spark, lake, own))
    assert found is not None
    assert {row["cluster"] for row in found} == {name}
    assert len(found) == len(AWKWARD)
    assert len(rows_at_hand(lake, "strategy_state", writes) or []) == 2 * len(AWKWARD)


def test_of_a_window_each_cycle_has_its_own_rows(spark, lake) -> None:
    at = ["2026-11-21T08:27:04.000000+00:00", "2026-11-21T08:28:04.000000+00:00"]
    one = handover(lake.root, "window")
    two = one.with_cycles(replace(one.cycles[0], cycle_at=moment) for moment in at)
    frame = states(spark, ("window", "b0", 1.0), ("window", "b1", 2.0))
    moments = [F.to_timestamp(F.lit(moment)) for moment in at]
    own = F.when(F.col("subject") == "b0", moments[0]).otherwise(moments[1])
    writes = lake.append(spark, {"strategy_state": frame.withColumn("cycle_at", own)}, handover=two, task="shed")
    found = [rows_at_hand(lake, "strategy_state", [write]) or [] for write in writes]
    assert [[row["subject"] for row in rows] for rows in found] == [["b0"], ["b1"]]


def test_where_a_file_or_its_commit_is_not_at_hand_spark_is_left_to_find_them(spark, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    lake.ensure_tables(spark, ["strategy_state"])
    one = handover(lake.root, "east")
    (write,) = lake.append(spark, {"strategy_state": states(spark, ("east", "b", 1.0))}, handover=one, task="shed")
    assert rows_at_hand(lake, "strategy_state", [replace(write, rows=2)]) is None
    assert rows_at_hand(lake, "strategy_state", [replace(write, write_id="another")]) is None
    (tmp_path / "lake" / "strategy_state" / write.files[0].path).unlink()
    assert rows_at_hand(lake, "strategy_state", [write]) is None
    assert rows_at_hand(lake, "strategy_state", [replace(write, rows=0)]) == []
