"""Files chosen by what the log knows of them: none that may hold a row is left out, and what is kept is bounded."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from evenkeel.lake.record import recent_rows as module
from evenkeel.lake.record.known_files import FIRST_MOMENT, KnownFile, KnownFiles
from evenkeel.lake.record.recent_rows import Recent
from tests.lakes.small_lake import SmallLake, moment

START = moment("2026-11-21T12:00:00")
SPANS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(0, 20)), max_size=12)


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def actions(spans: list[tuple[str, int, int]], *, known: bool = True) -> Any:
    """The log's figures of files, a span of minutes each."""
    columns = {
        "path": [f"cluster={cluster}/{place}.parquet" for place, (cluster, _, _) in enumerate(spans)],
        "size_bytes": [1] * len(spans),
        "num_records": [2] * len(spans),
        "partition.cluster": [cluster for cluster, _, _ in spans],
    }
    if known:
        columns |= {"min.cycle_at": [at(begin) for _, begin, _ in spans]}
        columns |= {"max.cycle_at": [at(begin + length) for _, begin, length in spans]}
    types = {"min.cycle_at": pa.timestamp("us", tz="UTC"), "max.cycle_at": pa.timestamp("us", tz="UTC")}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})


@given(SPANS, st.integers(-5, 90), st.integers(0, 30))
def test_files_between_are_those_whose_span_touches(spans: list[tuple[str, int, int]], first: int, more: int) -> None:
    files = KnownFiles(actions(spans) if spans else pa.table({}))
    for cluster in "ab":
        found = {file.path for file in files.between(cluster, at(first), at(first + more))}
        expected = {
            f"cluster={cluster}/{place}.parquet"
            for place, (own, begin, length) in enumerate(spans)
            if own == cluster and begin <= first + more and begin + length >= first
        }
        assert found == expected
        lasts = [file.last for file in files.newest_first(cluster)]
        assert lasts == sorted(lasts, reverse=True)
        assert len(lasts) == sum(own == cluster for own, _, _ in spans)


@given(SPANS, st.integers(-5, 90), st.integers(1, 60))
def test_moments_of_files_are_those_that_the_log_has(spans: list[tuple[str, int, int]], asked: int, rows: int) -> None:
    files = KnownFiles(actions(spans) if spans else None)
    for cluster in "ab":
        own = [(at(begin), at(begin + length)) for name, begin, length in spans if name == cluster]
        before = [last if last <= at(asked) else first for first, last in own if first <= at(asked)]
        after = [first if first > at(asked) else last for first, last in own if last > at(asked)]
        assert files.last_known(cluster, at(asked)) == max(before, default=None)
        assert files.next_known(cluster, at(asked)) == min(after, default=None)
        ends = (min(first for first, _ in own), max(last for _, last in own)) if own else None
        assert files.ends([cluster]) == ends
    since = files.since(["a", "b"], at(asked), rows)
    begun = [(at(begin), at(begin + length)) for _, begin, length in spans if at(begin) <= at(asked)]
    if since is None:
        assert 2 * len(begun) <= rows
    else:  # files of two rows each: enough of them hold something from then on
        assert 2 * sum(last >= since for _, last in begun) >= rows


def test_a_day_is_what_is_known_of_a_file_without_moments() -> None:
    whole = pa.table(
        {
            "path": ["p"],
            "size_bytes": [1],
            "num_records": [2],
            "partition.cluster": ["a"],
            "partition.cycle_date": ["2026-11-20"],
        }
    )
    files, day = KnownFiles(whole), datetime(2026, 11, 20, tzinfo=UTC)
    assert files.ends("a") == (day, day + timedelta(days=1) - timedelta(microseconds=1))
    assert files.dates("a") == [day.date()]
    assert files.last_known("a", FIRST_MOMENT) is None


def test_a_file_of_which_the_log_knows_no_moments_may_hold_any() -> None:
    files = KnownFiles(actions([("a", 0, 0), ("a", 5, 0)], known=False))
    assert len(files.between("a", at(1_000), at(1_001))) == 2
    assert files.clusters() == ["a"]
    assert [*files.newest_first("b")] == []


def test_what_is_kept_is_bounded_and_what_fell_out_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = SmallLake(tmp_path)
    for number in range(6):
        lake.add("a", at(number), {})
    recent = Recent(tmp_path)
    files = [*recent.files("cycles").newest_first("a")]
    monkeypatch.setattr(module, "_KEPT_BYTES", 5_000)
    for file in files:
        recent.rows("cycles", [file], ("cycle_at",))
    kept = [recent.is_kept("cycles", file, ("cycle_at",)) for file in files]
    assert kept[-1]
    assert not kept[0]
    assert [row["cycle_at"] for row in recent.rows("cycles", files[:1], ("cycle_at",))] == [at(5)]


def test_columns_that_a_file_lacks_are_none_and_rows_keep_to_their_files(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    for name in ("a", "b"):
        lake.add(name, START, {}, status="skipped", reason=name)
    recent = Recent(tmp_path)
    files = [file for name in ("a", "b") for file in recent.files("cycles").newest_first(name)]
    rows = recent.rows("cycles", files, ("reason", "joined_later"))
    assert rows == [{"cluster": name, "joined_later": None, "reason": name} for name in ("a", "b")]
    assert recent.rows("cycles", files, ("reason", "joined_later"), shown=("reason",))[1] == {
        "cluster": "b",
        "reason": "b",
    }


NESTED = pa.list_(pa.struct([("cycle_at", pa.string()), ("n", pa.int64())]))
COLUMNS = ("rule", "cycle_at", "acts", "joined")


def files_of_other_shapes(folder: Path) -> list[KnownFile]:
    """Files of a table through its life: a column has joined, one is of large texts, one has no row."""
    zone = pa.timestamp("us", tz="UTC")
    plain = {
        "before": pa.array([1, 2, 3]),
        "acts": pa.array([[{"cycle_at": "x", "n": 1}], [], None], NESTED),
        "rule": pa.array(["a", "b", "a"]),
        "cycle_at": pa.array([at(1), at(2), at(3)], zone),
    }
    large = {**plain, "rule": pa.array(["a", "a", None], pa.large_string())}
    int96 = {**plain, "cycle_at": plain["cycle_at"].cast(pa.timestamp("us"))}
    tables = [pa.table(one) for one in (plain, {**plain, "joined": pa.array([7, 8, 9])}, large, plain, int96)]
    tables.insert(3, tables[0].slice(0, 0))
    found = []
    for number, table in enumerate(tables):
        path = folder / f"{number}.parquet"
        pq.write_table(table, path, use_deprecated_int96_timestamps=number == 5)
        found.append(KnownFile(path.name, "a", 0, 0, table.num_rows, path.stat().st_size))
    return found


@pytest.mark.parametrize("where", [None, pc.field("rule").cast(pa.string()) == "a"])
def test_files_read_one_after_the_other_hold_what_each_holds_alone(tmp_path: Path, where: Any) -> None:
    files, system = files_of_other_shapes(tmp_path), LocalFileSystem()
    found = module._read_files(str(tmp_path), system, files, COLUMNS, where)
    rows = [table.to_pylist() for table in found]
    expected = []
    for file in files:
        own = pq.read_table(tmp_path / file.path, coerce_int96_timestamp_unit="us")
        own = own.select([name for name in own.column_names if name in COLUMNS])
        place = own.column_names.index("cycle_at")
        own = own.set_column(place, "cycle_at", own.column(place).cast(pa.timestamp("us", tz="UTC")))
        expected.append((own if where is None else own.filter(where)).to_pylist())
    assert rows == expected
    assert sum(map(len, rows)) == (15 if where is None else 10)


def test_a_large_file_is_read_as_small_ones_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, system = files_of_other_shapes(tmp_path), LocalFileSystem()
    where = pc.field("rule").cast(pa.string()) == "a"
    small = [one.to_pylist() for one in module._read_files(str(tmp_path), system, files, COLUMNS, where)]
    monkeypatch.setattr(module, "_SMALL_BYTES", 0)
    assert [one.to_pylist() for one in module._read_files(str(tmp_path), system, files, COLUMNS, where)] == small
