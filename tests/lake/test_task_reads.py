"""Rows of `cycles` as tasks read them: those that Spark reads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import LakeError
from evenkeel.handover import DataFile, Write
from evenkeel.lake import task_reads
from evenkeel.lake.manifest import CYCLES, append_manifests, file_rows, write_rows
from evenkeel.lake.record import Record, Row
from evenkeel.lake.store import Lake
from evenkeel.lake.task_reads import find_predecessors, manifests_within
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


@pytest.mark.parametrize("few", [0, 32])
@pytest.mark.parametrize(("first", "last"), [(1, 1), (2, 2), (5, 5), (1, 3)])
def test_the_rows_of_moments_are_those_that_spark_reads(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch, first: int, last: int, few: int
) -> None:
    monkeypatch.setattr(task_reads, "_FEW", few)
    record = Record(lake.root)
    found = [
        row for name in ("lab", ODD, "new") for row in manifests_within(record, name, at(first), at(last), COLUMNS)
    ]
    chain = spark.read.format("delta").load(lake.path("cycles")).select(*COLUMNS)
    expected = [row for row in with_moments(chain, ("cycle_at",)) if at(first) <= row["cycle_at"] <= at(last)]
    assert len(found) == {(1, 1): 6, (2, 2): 2, (5, 5): 0, (1, 3): 10}[first, last]
    by_place = sorted(found, key=lambda row: (row["cluster"], row["sequence"]))
    assert by_place == sorted(expected, key=lambda row: (row["cluster"], row["sequence"]))


@pytest.mark.parametrize(("second", "attempt"), [(1, None), (2, "again"), (3, "b2"), (9, "b3"), (10, "c"), (30, "c")])
def test_the_newest_before_a_moment_is_taken_over(lake: Lake, second: int, attempt: str | None) -> None:
    asked = [(name, at(second).isoformat(), None) for name in ("lab", ODD, "new")]
    found = {name: one.attempt_id for (name, _), one in find_predecessors(lake, asked, kind="live").items()}
    assert found == {"lab": attempt, ODD: attempt, "new": None}


def test_an_attempt_that_decided_is_found_behind_days_of_others(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.ensure_tables(spark, ["cycles"])
    append_manifests(spark, lake, [manifest("lab", 1, "a")])
    append_manifests(spark, lake, [manifest("lab", 2, "skipped", status="skipped")])
    for later in (timedelta(hours=1), timedelta(days=40)):
        append_manifests(spark, lake, [{**manifest("lab", 3, f"{later}", status="failed"), "cycle_at": at(3) + later}])
        (found,) = find_predecessors(lake, [("lab", (at(4) + later).isoformat(), None)], kind="live").values()
        assert (found.attempt_id, found.writes) == ("a", (WRITE,))


def test_a_file_that_is_gone_is_named(spark: Any, tmp_path: Path) -> None:
    broken = Lake(str(tmp_path))
    broken.ensure_tables(spark, ["cycles"])
    append_manifests(spark, broken, [manifest("lab", 1, "a")])
    for file in Path(broken.path("cycles")).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(LakeError, match=r"table cycles of the lake .* cannot be read"):
        manifests_within(Record(broken.root), "lab", at(1), at(1), COLUMNS)
    with pytest.raises(LakeError, match=r"table cycles of the lake .* cannot be read"):
        find_predecessors(broken, [("lab", at(2).isoformat(), None)], kind="live")
    assert manifests_within(Record(broken.root), "other", at(1), at(1), COLUMNS) == []
