"""Rows of `cycles` read without Spark: those that Spark reads, or none at all."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evenkeel.handover import DataFile, Write
from evenkeel.lake import local_manifests as manifests_here
from evenkeel.lake.local_manifests import Row, manifests_at, newest_manifests
from evenkeel.lake.manifest import CYCLES, append_manifests, file_rows, write_rows
from evenkeel.lake.store import Lake
from evenkeel.spark.sql import with_moments

pytestmark = pytest.mark.spark
COLUMNS = ("cluster", "cycle_at", "sequence", "attempt_id", "attempt", "row_kind", "plan_id", "writes", "files")
ODD = 'o\'Brien "x" 100%/a=b #1?[0]{*}:\\ Zürich 🐦'
CHAINED = {"sequence", "attempt", "previous_digest", "manifest_digest", "body_digest", "cycle_date", "write_id"}
WRITE = Write("strategy_state", "w", 3, 2, "digest", "lab", (DataFile("cluster=é/p'1", 7, "of it"),))


def at(second: int) -> datetime:
    return datetime(2026, 11, 21, 8, 0, second, 123_456, tzinfo=UTC)


def manifest(cluster: str, second: int, attempt_id: str, **more: Any) -> Row:
    row: Row = {c.name: None for c in CYCLES.columns if c.name not in CHAINED}
    row |= {"cluster": cluster, "cycle_at": at(second), "attempt_id": attempt_id, "row_kind": "planned", "reads": []}
    row |= {"kind": "live", "status": "planned", "mode": "dry_run", "wishes": [], "recorded_at": datetime.now(UTC)}
    row["schema_version"] = 1
    return row | {"writes": write_rows([WRITE]), "files": file_rows([WRITE])} | more


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = Lake(str(tmp_path_factory.mktemp("lake") / "with space"))
    made.ensure_tables(spark, ["cycles"])
    for name in ("lab", ODD):
        append_manifests(spark, made, [manifest(name, 1, "a"), manifest(name, 1, "a", row_kind="closed")])
        append_manifests(spark, made, [manifest(name, 1, "again", kind="rerun", files=[])])
        append_manifests(spark, made, [manifest(name, n, f"b{n}") for n in (2, 3)])
        append_manifests(spark, made, [manifest(name, 9, "c")])
    return made


def rank(row: Row) -> tuple[Any, ...] | None:
    return (row["cycle_at"], row["attempt"]) if row["row_kind"] == "planned" else None


@pytest.mark.parametrize("second", [1, 2, 5])
def test_the_rows_of_a_moment_are_those_that_spark_reads(spark: Any, lake: Lake, second: int) -> None:
    found = manifests_at(lake, dict.fromkeys(("lab", ODD, "new"), at(second)), COLUMNS)
    chain = spark.read.format("delta").load(lake.path("cycles")).select(*COLUMNS)
    expected = [row for row in with_moments(chain, ("cycle_at",)) if row["cycle_at"] == at(second)]
    assert found is not None
    assert len(found) == {1: 6, 2: 2, 5: 0}[second]
    by_place = sorted(found, key=lambda row: (row["cluster"], row["sequence"]))
    assert by_place == sorted(expected, key=lambda row: (row["cluster"], row["sequence"]))


@pytest.mark.parametrize(("second", "attempt"), [(1, None), (2, "again"), (3, "b2"), (9, "b3"), (10, "c")])
def test_the_newest_before_a_moment_is_the_one_of_the_highest_rank(
    lake: Lake, second: int, attempt: str | None
) -> None:
    found = newest_manifests(lake, dict.fromkeys(("lab", ODD, "new"), at(second)), COLUMNS, rank)
    assert found is not None
    expected = {} if attempt is None else dict.fromkeys(("lab", ODD), attempt)
    assert {name: row["attempt_id"] for name, row in found.items()} == expected
    none = newest_manifests(lake, {"lab": at(9)}, COLUMNS, rank, at(4))
    assert none == {}


def test_spark_is_asked_where_files_are_gone_many_or_out_of_reach(
    spark: Any, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests_here, "MOST_FILES", 1)
    assert manifests_at(lake, {"lab": at(1)}, COLUMNS) is None
    monkeypatch.undo()
    broken = Lake(str(tmp_path))
    broken.ensure_tables(spark, ["cycles"])
    append_manifests(spark, broken, [manifest("lab", 1, "a")])
    for file in Path(broken.path("cycles")).rglob("*.parquet"):
        file.unlink()
    assert manifests_at(broken, {"lab": at(1)}, COLUMNS) is None
    assert newest_manifests(broken, {"lab": at(2)}, COLUMNS, rank) is None
    assert manifests_at(broken, {"other": at(1)}, COLUMNS) == []
