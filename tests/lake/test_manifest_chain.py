"""The chain of manifests: no fork, no gap, whoever writes at the same time."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from evenkeel.errors import LakeError
from evenkeel.handover import DataFile, Write
from evenkeel.lake.manifest import (
    CYCLES,
    append_manifests,
    body_digest,
    file_rows,
    find_predecessors,
    write_rows,
    writes_of,
)
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.store import Lake
from evenkeel.record.read.tables import rows_where
from evenkeel.spark.session import close, connect

pytestmark = pytest.mark.spark

GIVEN_BY_THE_CHAIN = {
    "sequence",
    "attempt",
    "previous_digest",
    "manifest_digest",
    "body_digest",
    "cycle_date",
    "write_id",
}


def manifest(cluster: str, second: int, attempt_id: str, **more) -> dict:
    row = {c.name: None for c in CYCLES.columns if c.name not in GIVEN_BY_THE_CHAIN}
    row |= {"cluster": cluster, "cycle_at": datetime(2026, 11, 21, 8, 0, second, tzinfo=UTC), "attempt_id": attempt_id}
    row |= {"row_kind": "planned", "kind": "live", "status": "planned", "mode": "dry_run", "writes": [], "reads": []}
    row |= {"wishes": []}
    return row | {"recorded_at": datetime.now(UTC)} | more


def moment(second: int) -> str:
    return f"2026-11-21T08:00:{second:02}.000000+00:00"


@pytest.fixture
def lake(spark, tmp_path) -> Lake:
    made = Lake(str(tmp_path))
    made.ensure_tables(spark, ["cycles"])
    return made


def chain(spark, lake: Lake, cluster: str) -> list:
    rows = spark.read.format("delta").load(lake.path("cycles")).where(f"cluster = '{cluster}'")
    return rows.orderBy("sequence").collect()


def assert_unbroken(rows: list) -> None:
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    before = ""
    for row in rows:
        assert row.previous_digest == before
        before = hashlib.sha256((before + row.body_digest).encode()).hexdigest()
        assert row.manifest_digest == before


@pytest.mark.slow
@pytest.mark.parametrize("publishers", [4, pytest.param(8, marks=pytest.mark.exhaustive)])
def test_publishers_at_once_make_one_unbroken_chain(engine, spark, lake, publishers) -> None:
    def publish(number: int) -> None:
        own = connect(engine.url)
        try:
            append_manifests(own, lake, [manifest("lab", number, f"a{number}")])
        finally:
            close(own)

    with ThreadPoolExecutor(publishers) as pool:
        list(pool.map(publish, range(publishers)))
    rows = chain(spark, lake, "lab")
    assert {row.attempt_id for row in rows} == {f"a{n}" for n in range(publishers)}
    assert_unbroken(rows)


def test_attempts_count_per_cycle_and_both_rows_of_one_share_its_number(spark, lake) -> None:
    append_manifests(spark, lake, [manifest("lab", 1, "a"), manifest("other", 1, "b")])
    append_manifests(spark, lake, [manifest("lab", 1, "a", row_kind="closed", status="closed")])
    append_manifests(spark, lake, [manifest("lab", 1, "c", kind="rerun")])
    append_manifests(spark, lake, [manifest("lab", 2, "d")])
    rows = chain(spark, lake, "lab")
    assert [(row.attempt_id, row.attempt) for row in rows] == [("a", 1), ("a", 1), ("c", 2), ("d", 1)]
    assert_unbroken(rows)
    assert_unbroken(chain(spark, lake, "other"))


def test_state_comes_from_the_newest_live_attempt_before_and_a_gap_is_named(spark, lake) -> None:
    write = Write("strategy_state", "w", 3, 2, "digest", "lab")
    append_manifests(spark, lake, [manifest("lab", 1, "a", writes=write_rows([write]))])
    append_manifests(spark, lake, [manifest("lab", 2, "b", kind="backfill")])
    append_manifests(spark, lake, [manifest("lab", 3, "c", status="skipped")])
    wanted = [("lab", moment(4), moment(3)), ("new", moment(4), None), ("gap", moment(4), moment(3))]
    found = find_predecessors(spark, lake, wanted, kind="live")
    assert (found["lab"].status, found["lab"].attempt_id, found["lab"].writes) == ("older", "a", (write,))
    assert found["lab"].expected_at == moment(3)
    assert (found["new"].status, found["gap"].status) == ("none", "missing")
    assert find_predecessors(spark, lake, wanted[:1], kind="backfill")["lab"].attempt_id == "b"


def written(table: str, write_id: str, *paths: str) -> Write:
    return Write(table, write_id, 3, 2, "digest", "lab", tuple(DataFile(path, 7, f"of {path}") for path in paths))


def test_files_stand_in_a_fixed_order_and_come_back_to_their_writes() -> None:
    writes = [written("strategy_state", "w2", "p2", "p1"), written("strategy_state", "w1", "p3"), written("a", "w3")]
    rows = file_rows(writes[:1], file_rows(writes[1:]))
    assert [(row["table"], row["write_id"], row["path"]) for row in rows] == [
        ("strategy_state", "w1", "p3"), ("strategy_state", "w2", "p1"), ("strategy_state", "w2", "p2")
    ]  # fmt: skip
    assert rows == file_rows(writes[::-1])
    back = writes_of("lab", write_rows(writes), rows)
    assert {write.write_id: write.files for write in back} == {
        write.write_id: tuple(sorted(write.files, key=lambda file: file.path)) for write in writes
    }
    assert all(write.files == () for write in writes_of("lab", write_rows(writes)))


def test_the_files_of_a_manifest_are_in_its_digest_as_they_are_read_again(spark, lake) -> None:
    files = file_rows([written("strategy_state", "w1", "cluster=é ü/p'1", "p2")])
    append_manifests(spark, lake, [manifest("lab", 1, "a", schema_version=SCHEMA_VERSION, files=files)])
    (row,) = rows_where(lake.root, "cycles")
    assert row["files"] == files
    assert body_digest(row) == row["body_digest"]


def test_the_digest_covers_every_value_but_the_recording_clock() -> None:
    row = manifest("lab", 1, "a", schema_version=SCHEMA_VERSION)
    later = {**row, "recorded_at": datetime(2030, 1, 1, tzinfo=UTC)}
    assert body_digest(later) == body_digest(row)
    for name in row.keys() - {"recorded_at", "schema_version"}:
        assert body_digest({**row, name: "changed"}) != body_digest(row), name
    assert body_digest({**row, "schema_version": 1}) != body_digest(row)


def test_both_rows_of_an_attempt_in_one_append_are_chained_like_two_appends(spark, lake) -> None:
    append_manifests(spark, lake, [manifest("lab", 1, "a")])
    closed = {"row_kind": "closed", "status": "closed"}
    append_manifests(
        spark,
        lake,
        [manifest("lab", 2, "b"), manifest("lab", 2, "b", **closed), manifest("other", 2, "c")],
    )
    append_manifests(spark, lake, [manifest("lab", 3, "d")])
    rows = chain(spark, lake, "lab")
    assert [(r.attempt_id, r.row_kind, r.attempt) for r in rows] == [
        ("a", "planned", 1),
        ("b", "planned", 1),
        ("b", "closed", 1),
        ("d", "planned", 1),
    ]
    assert_unbroken(rows)
    assert_unbroken(chain(spark, lake, "other"))


@pytest.mark.parametrize(
    "second",
    [
        manifest("lab", 2, "b"),
        manifest("lab", 1, "b", row_kind="closed"),
        manifest("lab", 1, "a"),
    ],
)
def test_rows_of_two_attempts_for_one_cluster_at_once_are_refused(spark, lake, second) -> None:
    with pytest.raises(LakeError, match="two attempts for one cluster"):
        append_manifests(spark, lake, [manifest("lab", 1, "a"), second])
