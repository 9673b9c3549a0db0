"""Rows that were never written look as if they had been; few rows are read from data files, as Spark reads them."""

import math
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from evenkeel.errors import EngineError
from evenkeel.lake.plain_rows import as_read, columns_as_read, rows_at_hand, types_of
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from evenkeel.spark.packing import Packing
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


DECIDED = (
    "split_decisions",
    "unload_decisions",
    "placement_decisions",
    "guard_decisions",
    "planner_targets",
    "planner_models",
    "planner_findings",
    "strategy_state",
    "commands",
)
_NUMBERS = st.one_of(st.floats(), st.integers(-(2**53), 2**53))


def value_of(kind: str) -> st.SearchStrategy[Any]:
    """Values that a round may put into a column of this type."""
    if kind.startswith("array<struct"):
        names = st.fixed_dictionaries({}, optional={"name": st.text(), "broker": st.text(), "measured": _NUMBERS})
        fields = {part.partition(":")[0] for part in kind[13:-2].split(",")}
        return st.lists(names.map(lambda found: {k: v for k, v in found.items() if k in fields}), max_size=2)
    if kind.startswith("array<"):
        return st.lists(value_of(kind[6:-1]), max_size=3).map(tuple)
    if kind.startswith("map<"):
        return st.dictionaries(st.text(max_size=3), _NUMBERS, max_size=3)
    return {
        "double": _NUMBERS,
        "timestamp": st.datetimes(timezones=st.just(UTC)),
        "boolean": st.booleans(),
        "int": st.integers(0, 99),
        "bigint": st.integers(0, 2**40),
    }.get(kind, st.text(max_size=5))


@st.composite
def rows(draw: Any) -> tuple[str, dict[str, Any]]:
    table = draw(st.sampled_from(DECIDED))
    columns = [column for column in TABLES[table].columns if column.name not in ("cycle_date", "write_id")]
    return table, {c.name: draw(st.none() | value_of(c.type)) for c in columns if draw(st.booleans())}


@given(rows())
def test_a_row_as_read_is_the_row_that_was_written_and_read(found: tuple[str, dict[str, Any]]) -> None:
    table, row = found
    packing = Packing({table: {name: kind for name, kind in types_of(table).items() if name not in STAMP_NAMES}})
    (read,) = packing.rows(packing.table({table: [row]}, {}))[table]
    assert repr(as_read(table, row)) == repr(read)
    names = list(read)
    assert repr(columns_as_read(table, names, [row])) == repr([[read[name]] for name in names])


def test_what_does_not_fit_its_column_is_refused_by_its_name() -> None:
    with pytest.raises(EngineError, match=r"^strategy_state\.value wants a double, got str '1'\.$"):
        as_read("strategy_state", {"value": "1"})
