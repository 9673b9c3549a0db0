"""The chain of manifests: no fork, no gap, whoever writes at the same time."""

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import groupby

import pytest

from evenkeel.errors import LakeError
from evenkeel.handover import DataFile, Write
from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.manifest import (
    CYCLES,
    append_manifests,
    body_digest,
    file_rows,
    write_rows,
    writes_of,
)
from evenkeel.lake.record.tables import rows_where
from evenkeel.lake.store import Lake
from evenkeel.lake.task_reads import find_predecessors
from evenkeel.spark.session import close, connect
from evenkeel.verify.chain import Link, check_links

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
    row |= {"wishes": [], "files": [], "schema_version": 1}
    return row | {"recorded_at": datetime.now(UTC)} | more


def moment(second: int) -> str:
    return f"2026-11-21T08:00:{second:02}.000000+00:00"


@pytest.fixture
def lake(new_lake) -> Lake:
    return Lake(str(new_lake))


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
@pytest.mark.parametrize("publishers", [3, pytest.param(8, marks=pytest.mark.exhaustive)])
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
    found = {key[0]: one for key, one in find_predecessors(lake, wanted, kind="live").items()}
    assert (found["lab"].status, found["lab"].attempt_id, found["lab"].writes) == ("older", "a", (write,))
    assert found["lab"].expected_at == moment(3)
    assert (found["new"].status, found["gap"].status) == ("none", "missing")
    assert find_predecessors(lake, wanted[:1], kind="backfill")["lab", moment(4)].attempt_id == "b"


@pytest.mark.parametrize("kind", ["live", pytest.param("backfill", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "near",
    [
        pytest.param(timedelta(days=1), id="a day", marks=pytest.mark.exhaustive),
        pytest.param(timedelta(seconds=3), id="three seconds"),
    ],
)
def test_each_cycle_of_a_window_is_told_what_it_would_be_told_alone(spark, lake, monkeypatch, kind, near) -> None:
    monkeypatch.setattr("evenkeel.lake.task_reads._NEAR", near)
    write = Write("strategy_state", "w", 3, 2, "digest", "lab")
    first = [
        *(manifest("lab", n, f"a{n}", writes=write_rows([write])) for n in (2, 12, 14)),
        *(manifest("lab", n, f"b{n}", kind="backfill") for n in (4, 15)),
        manifest("lab", 13, "skipped", status="skipped"),
        manifest("lab", 20, "later"),
        manifest("other", 3, "x"),
    ]
    for rows in (  # an append takes one attempt of a cycle, by the time of the cycles
        sorted(first, key=lambda row: row["cycle_at"]),
        [manifest("lab", 14, "b14", kind="backfill")],
        [manifest("lab", 14, "again", kind="rerun")],
    ):
        append_manifests(spark, lake, rows)
    window = [("lab", moment(n), moment(n - 1)) for n in (9, 12, 13, 14, 15, 16)]
    window += [("other", moment(9), None), ("new", moment(9), moment(8)), ("new", moment(10), moment(9))]
    found = find_predecessors(lake, window, kind=kind)
    for one in window:
        assert {one[:2]: found[one[:2]]} == find_predecessors(lake, [one], kind=kind)
    expected = {
        "live": ["a2", "a2", "a12", "a12", "again", "again"],
        "backfill": ["b4", "b4", "a12", "a12", "b14", "b15"],
    }
    assert [found["lab", at].attempt_id for name, at, _ in window if name == "lab"] == expected[kind]
    assert (found["lab", moment(13)].status, found["lab", moment(13)].writes) == ("used", (write,))
    assert (found["lab", moment(9)].status, found["new", moment(10)].status) == ("older", "missing")


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
    assert all(write.files == () for write in writes_of("lab", write_rows(writes), ()))


def test_the_files_of_a_manifest_are_in_its_digest_as_they_are_read_again(spark, lake) -> None:
    files = file_rows([written("strategy_state", "w1", "cluster=é ü/p'1", "p2")])
    append_manifests(spark, lake, [manifest("lab", 1, "a", files=files)])
    (row,) = rows_where(lake.root, "cycles")
    assert row["files"] == files
    assert body_digest(row) == row["body_digest"]


def test_the_digest_covers_every_value_but_the_recording_clock() -> None:
    row = manifest("lab", 1, "a")
    later = {**row, "recorded_at": datetime(2030, 1, 1, tzinfo=UTC)}
    assert body_digest(later) == body_digest(row)
    for name in row.keys() - {"recorded_at"}:
        assert body_digest({**row, name: "changed"}) != body_digest(row), name


@pytest.mark.exhaustive
def test_both_rows_of_an_attempt_in_one_append_are_chained_like_two_appends(spark, lake) -> None:
    append_manifests(spark, lake, [manifest("lab", 1, "a")])
    closed = {"row_kind": "closed", "status": "closed"}
    append_manifests(
        spark, lake, [manifest("lab", 2, "b"), manifest("lab", 2, "b", **closed), manifest("other", 2, "c")]
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
        manifest("lab", 1, "b", row_kind="closed"),
        manifest("lab", 1, "a"),
        manifest("lab", 1, "b"),
        manifest("lab", 0, "b"),
    ],
)
def test_two_attempts_at_one_cycle_at_once_and_cycles_out_of_order_are_refused(spark, lake, second) -> None:
    with pytest.raises(LakeError, match="rows of lab that are of two attempts for one cycle, or not in order"):
        append_manifests(spark, lake, [manifest("other", 2, "x"), manifest("lab", 1, "a"), second])
    assert chain(spark, lake, "other") == []


CLOSED = {"row_kind": "closed", "status": "closed"}
# Appends of several cycles, each a list of (cluster, second, attempt, rows): after one another in one chain.
WINDOWS: tuple[tuple[tuple[str, int, str, int], ...], ...] = (
    (("lab", 1, "a", 1),),
    (("lab", 1, "a2", 2), ("lab", 2, "b", 1), ("lab", 3, "c", 2), ("other é", 2, "d", 2), ("other é", 9, "e", 1)),
    (("lab", 0, "f", 1), ("lab", 2, "g", 2), ("lab", 3, "c3", 1), ("lab", 30, "h", 2), ("new", 5, "i", 1)),
    (("lab", 2, "g4", 2), ("new", 4, "j", 2), ("new", 5, "k", 2), ("other é", 9, "l", 2)),
)


def rows_of(window: tuple[tuple[str, int, str, int], ...]) -> list[dict]:
    return [
        manifest(cluster, second, name, snapshot=f"{cluster} {name}", **more)
        for cluster, second, name, rows in window
        for more in ({}, CLOSED)[:rows]
    ]


@pytest.mark.exhaustive
def test_many_cycles_in_one_append_are_chained_as_if_appended_one_by_one(spark, lake, tmp_path) -> None:
    apart = Lake(str(tmp_path / "apart"))
    apart.ensure_tables(spark, ["cycles"])
    for window in WINDOWS:
        before = newest_version(lake.path("cycles"))
        append_manifests(spark, lake, rows_of(window))
        assert newest_version(lake.path("cycles")) == before + 1
        for row in rows_of(window):
            append_manifests(spark, apart, [row])
    # An attempt that was planned in one window is closed in a later one, and keeps its number.
    for one in (lake, apart):
        append_manifests(spark, one, [manifest("lab", 1, "a", **CLOSED), manifest("lab", 2, "b", **CLOSED)][:1])
    append_manifests(spark, lake, [manifest("lab", 2, "b", **CLOSED), manifest("lab", 3, "z", **CLOSED)])
    for row in (manifest("lab", 2, "b", **CLOSED), manifest("lab", 3, "z", **CLOSED)):
        append_manifests(spark, apart, [row])
    for cluster in ("lab", "other é", "new"):
        found, expected = chain(spark, lake, cluster), chain(spark, apart, cluster)
        assert_unbroken(found)
        assert [without_clock(row) for row in found] == [without_clock(row) for row in expected]
    rows = chain(spark, lake, "lab")
    attempts = {(row.cycle_at.second, row.attempt_id): row.attempt for row in rows}
    assert [attempts[1, name] for name in ("a", "a2")] == [1, 2]
    assert [attempts[2, name] for name in ("b", "g", "g4")] == [1, 2, 3]
    assert list(check_links("lab", [Link(*(_plain(row[name]) for name in Link._fields)) for row in rows])) == []


def without_clock(row) -> dict:
    return {name: value for name, value in row.asDict(recursive=True).items() if name != "recorded_at"}


def _plain(value):
    return int(value.timestamp() * 1_000_000) if isinstance(value, datetime) else value


@pytest.mark.slow
@pytest.mark.exhaustive
def test_windows_at_once_make_one_unbroken_chain(engine, spark, lake) -> None:
    """Each is whole in the chain: nothing comes between its rows."""

    def publish(number: int) -> None:
        own = connect(engine.url)
        try:
            rows = [manifest("lab", n, f"a{number}-{n}", **more) for n in range(12) for more in ({}, CLOSED)]
            append_manifests(own, lake, rows)
        finally:
            close(own)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(publish, range(3)))
    rows = chain(spark, lake, "lab")
    assert_unbroken(rows)
    publishers = [row.attempt_id.partition("-")[0] for row in rows]
    assert [name for name, _ in groupby(publishers)] == sorted(set(publishers), key=publishers.index)
    assert Counter(publishers) == {f"a{n}": 24 for n in range(3)}
    assert [row.attempt for row in rows] == [1] * 24 + [2] * 24 + [3] * 24
