"""Files chosen by what the log knows of them: none that may hold a row is left out, and what is kept is bounded."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.record.read import recent as module
from evenkeel.record.read.recent import KnownFiles, Recent
from tests.record.small_lake import SmallLake, moment

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
