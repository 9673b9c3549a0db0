"""Rows read from files as rounds take them are, to the bit, those that Spark hands to its workers."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from evenkeel.lake.schemas import TABLES
from evenkeel.spark.column_types import columns_of
from evenkeel.spark.rows import rows_of
from evenkeel.verify.rows_in_files import rows_in
from tests.builders import frame

pytestmark = [pytest.mark.spark]

AT = datetime(2026, 11, 21, 9, 15, 0, 123456, UTC)
ROWS: dict[str, list[dict[str, Any]]] = {
    "split_decisions": [
        {
            "subject": "acme/web/0x00000000_0x80000000",
            "subject_kind": "bundle",
            "outcome": "kept",
            "measured": -0.0,
            "threshold": math.inf,
            "margin": math.nan,
            "alternatives": [],
            "numbers": {"topics": 3.0, "rate": 5e-324, "sessions": math.nan},
            "sentence": "Straße „quoted“ \\ \n \u2028 end",
        },
        {
            "subject": "acme/web/0x80000000_0xffffffff",
            "subject_kind": "bundle",
            "outcome": "split",
            "measured": 1e16,
            "threshold": 0.1 + 0.2,
            "alternatives": [
                {"name": "b", "verdict": "next", "rule": None, "measured": None},
                {"name": "a", "verdict": "best", "rule": "r", "measured": -0.0},
            ],
            "numbers": {},
            "cuts": [1, 2**40],
            "children": ["x", "y"],
            "unload_children": False,
        },
        {"subject": "third", "subject_kind": "cluster", "outcome": "skipped", "numbers": {"a": None}},
    ],
    "cluster_policies": [
        {
            "brokers": ["b1", "b2"],
            "failure_domains": {"west": ["b2"], "east": ["b1"], "none": []},
            "anti_affinity_groups": {},
            "snapshot_started_at": AT,
        }
    ],
    "strategy_state": [
        {"strategy": "s", "subject": "b", "name": "n", "value": 1.0, "at": AT},
        {"strategy": "s", "subject": "a", "name": "n", "value": None, "at": None},
    ],
    "bundle_load": [
        {"bundle": "two", "topics": 7, "has_non_persistent": False, "short_msg_rate_in": 0.1},
        {"bundle": "one", "topics": None, "has_non_persistent": True, "short_msg_rate_in": None},
    ],
}

PLAIN = {"string": "x", "timestamp": AT, "date": AT.date(), "int": 0, "bigint": 0, "boolean": False, "double": 0.0}
PLAIN |= {
    "array<string>": [],
    "map<string,double>": {},
    **{column.type: [] for column in TABLES["split_decisions"].columns if column.type.startswith("array<")},
}


@pytest.mark.parametrize("table", sorted(ROWS))
def test_files_give_what_spark_hands_over(spark: Any, tmp_path: Path, table: str) -> None:
    needed = {column.name: PLAIN[column.type] for column in TABLES[table].columns if not column.nullable}
    written = frame(spark, table, [{**needed, "cluster": "lab", **row} for row in ROWS[table]])
    names = written.columns
    stamped = written.coalesce(1).drop("cluster").withColumn("write_id", F.lit("w"))
    stamped.write.parquet(str(tmp_path / "rows"))
    handed_over = rows_of(written.select(*names).toArrow(), columns_of(written.schema, table))
    (file,) = (tmp_path / "rows").glob("*.parquet")
    found = rows_in([(str(file), "w")], table, names, "lab")
    assert sorted(map(repr, found)) == sorted(map(repr, handed_over))
    keys = [[str(row[name]) for name in TABLES[table].key] for row in found]
    assert keys == sorted(keys)


def test_a_column_that_a_file_lacks_is_none_and_several_files_are_one_table(spark: Any, tmp_path: Path) -> None:
    for number, broker in enumerate(("two", "one")):
        part = spark.createDataFrame([(AT, broker, "w")], "cycle_at timestamp, broker string, write_id string")
        part.coalesce(1).write.parquet(str(tmp_path / str(number)))
    files = [str(path) for path in tmp_path.rglob("*.parquet")]
    assert pq.read_schema(files[0]).names == ["cycle_at", "broker", "write_id"]
    found = rows_in(
        [(file, "w") for file in files], "broker_load", ["cluster", "cycle_at", "broker", "cpu_percent"], "lab"
    )
    assert [json.dumps(row) for row in found] == [
        json.dumps(
            {"cluster": "lab", "cycle_at": "2026-11-21T09:15:00.123456+00:00", "broker": broker, "cpu_percent": None}
        )
        for broker in ("one", "two")
    ]


@pytest.mark.parametrize("table", sorted(ROWS))
@pytest.mark.parametrize("row_group_size", [1, 3, 1_000])
def test_of_a_file_with_rows_of_many_writes_those_of_one_are_read(
    spark: Any, tmp_path: Path, table: str, row_group_size: int
) -> None:
    needed = {column.name: PLAIN[column.type] for column in TABLES[table].columns if not column.nullable}
    rows = [{**needed, "cluster": "lab", **row} for row in ROWS[table]]
    names, keys = frame(spark, table, rows).columns, TABLES[table].key[-1:]
    alone, together = [], []
    for number in range(4):
        own = [{**row, **{key: f"{row.get(key)}{number}-{n}" for key in keys}} for row in rows for n in range(number)]
        written = frame(spark, table, own).coalesce(1).drop("cluster").withColumn("write_id", F.lit(f"w{number}"))
        written.write.parquet(str(tmp_path / str(number)))
        read = [pq.read_table(path) for path in (tmp_path / str(number)).glob("*.parquet")]
        together += read
        alone.append([(str(path), f"w{number}") for path in (tmp_path / str(number)).glob("*.parquet")])
    whole = pa.concat_tables([one for one in together if one.num_rows])
    shuffled = whole.take([*range(1, whole.num_rows, 2), *range(0, whole.num_rows, 2)])
    pq.write_table(shuffled, tmp_path / "window.parquet", row_group_size=row_group_size)
    for number in (0, 1, 2, 3, 1, 3, 2, 0):
        found = rows_in([(str(tmp_path / "window.parquet"), f"w{number}")], table, names, "lab")
        assert repr(found) == repr(rows_in(alone[number], table, names, "lab"))
        assert len(found) == number * len(rows)
    assert rows_in([(str(tmp_path / "window.parquet"), "of nobody")], table, names, "lab") == []
