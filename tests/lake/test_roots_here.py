"""Digests and roots of a few rows, made in this process: to the bit what Spark makes, or left to Spark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from evenkeel.handover import Write
from evenkeel.lake import table_roots as tables
from evenkeel.lake.roots_here import row_digests
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.store import Lake
from tests.lake.states import handover

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 11, 21, 12, 0, 0, 123_999, tzinfo=UTC)
TEXTS = [
    "",
    "plain",
    'say "no"',
    "back\\slash",
    "\\u0041 as it stands",
    "a\nb\tc\rd\be\ff",
    "тема 🚢\u2028é\x7f",
    "</x>",
]
DOUBLES = [0.0, -0.0, 1.0, -1e-3, 9.99e-4, 1e7, 9_999_999.999, 1e21, 5e-324, 2.2250738585072014e-308, 1 / 3, math.inf]
DOUBLES += [-math.inf, math.nan]
ALTERNATIVE = {"name": "b1", "verdict": "no\n", "rule": None, "measured": 1e-5}
DECISION: dict[str, Any] = {
    "cluster": "lab",
    "cycle_at": NOON,
    "alternatives": [ALTERNATIVE, {**ALTERNATIVE, "measured": None}],
    "numbers": {"b": 1.0, "a": math.nan, "ß": -0.0},
    "best": ["b2", None, 'x"y'],
    "candidates": [{"broker": "b1", "removed_by": None, "score": 3.0}],
}
POLICIES: dict[str, Any] = {
    "cluster": "lab",
    "cycle_at": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    "failure_domains": {"z": ["b2", "b1"], "a": []},
    "configuration": {"later": "1", "earlier": "", "key\\": "<a>"},
}


def frame(spark: SparkSession, table: str, rows: Sequence[dict[str, Any]]) -> DataFrame:
    """The rows; what they leave out is NULL, or where that is not allowed some value."""
    schema = TABLES[table].body_type()
    usual = {f.name: None if f.nullable else _USUAL.get(f.dataType.typeName()) for f in schema.fields}
    return spark.createDataFrame([tuple(row.get(name, usual[name]) for name in schema.names) for row in rows], schema)


_USUAL: dict[str, Any] = {"string": "x", "boolean": True, "array": [], "map": {}}


def hostile(spark: SparkSession) -> dict[str, DataFrame]:
    states = [
        {"cluster": "lab", "cycle_at": NOON, "strategy": "s", "subject": text, "name": "n", "value": double, "at": NOON}
        for text in TEXTS
        for double in DOUBLES
    ]
    rows = {
        "strategy_state": [*states, {**states[0], "at": None, "value": None}, states[3]],
        "placement_decisions": [DECISION, {**DECISION, "numbers": {}, "best": []}],
        "cluster_policies": [POLICIES, {**POLICIES, "failure_domains": None}],
    }
    return {table: frame(spark, table, own) for table, own in rows.items()}


@pytest.fixture(scope="module")
def written(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, tuple[Write, ...], tuple[Write, ...]]:
    """The same rows, digested in this process and by Spark."""
    lake = Lake(str(tmp_path_factory.mktemp("here")))
    frames = hostile(spark)
    lake.ensure_tables(spark, frames)
    both = [
        lake.append(spark, frames, handover=handover(lake.root, "lab"), task="shed", few=few) for few in (True, False)
    ]
    return lake, both[0], both[1]


@pytest.mark.spark
def test_digests_and_roots_are_those_of_spark(spark: Any, written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, here, there = written
    assert [(one.table, one.rows, one.digest) for one in here] == [(one.table, one.rows, one.digest) for one in there]
    assert all(one.root for one in here)
    assert not any(one.root for one in there)
    monkeypatch.setattr(tables, "root_here", lambda *_: None)
    roots = {
        one["table"]: one["root"] for own in tables.table_roots(spark, lake, [[one] for one in there]) for one in own
    }
    assert {one.table: one.root for one in here} == roots


@pytest.mark.spark
def test_a_root_is_given_for_the_rows_that_were_written_alone(written: Any) -> None:
    lake, here, there = written
    for one, other in zip(here, there, strict=True):
        assert tables.root_here(lake, [one]) == tables.root_here(lake, [other]) == one.root
        assert tables.root_here(lake, [replace(one, digest="0" * 64)]) is None
        assert tables.root_here(lake, [replace(one, rows=one.rows + 1)]) is None


@pytest.mark.spark
@pytest.mark.parametrize("text", ["\u001f", "\ufffd", "\\\u0001"])
def test_a_text_that_java_may_write_otherwise_is_left_to_spark(spark: Any, tmp_path: Path, text: str) -> None:
    lake = Lake(str(tmp_path))
    rows = frame(spark, "strategy_state", [{"cluster": "lab", "cycle_at": NOON, "strategy": "s", "subject": text}])
    lake.ensure_tables(spark, ["strategy_state"])
    one = handover(lake.root, "lab")
    here, there = (
        lake.append(spark, {"strategy_state": rows}, handover=one, task="shed", few=few)[0] for few in (True, False)
    )
    assert here.digest == there.digest


def test_an_escape_is_told_from_a_text_that_looks_like_one() -> None:
    def digests(text: str) -> list[bytes] | None:
        row = {"cluster": ["lab"], "cycle_at": pa.array([0], pa.timestamp("us", "UTC")), "subject": [text]}
        return row_digests("strategy_state", pa.table(row))

    assert all(digests(text) for text in ("\\u0041", "\\\\u0041", "a\\", "\n"))
    assert not any(digests(text) for text in ("\u0001", "\\\u0001", "\ufffd"))


@pytest.mark.spark
def test_spark_makes_the_digests_of_rows_whose_files_are_elsewhere(
    spark: Any, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, here, _ = written
    monkeypatch.setattr(tables, "found_rows", lambda *_: None)
    assert tables.root_here(lake, here[:1]) is None
    (own,) = tables.table_roots(spark, lake, [here[:1]])
    assert [one["root"] for one in own] == [here[0].root]
