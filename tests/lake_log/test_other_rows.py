"""Rows that no manifest lists, as leaves: each once, whatever was killed, compacted or read anew."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import DamagedLog
from evenkeel.lake.store import Lake, as_arrow
from evenkeel.lake_log import new_rows
from evenkeel.lake_log.catch_up import begin, catch_up, open_log, storage_of
from evenkeel.lake_log.heads import HEADS
from evenkeel.lake_log.leaves import parse_manifest_leaf
from evenkeel.lake_log.new_rows import units_in
from evenkeel.lake_log.row_leaves import LOGGED_TABLES, Unit, leaves_of, parse_rows_leaf, units_of
from evenkeel.transparency.leaf import MOST_LEAF_BYTES
from tests.lake_log.lakes import LOG_KEY, kept_lake, publish_more

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def with_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of schema version 5 with its log."""
    lake = kept_lake(tmp_path_factory.mktemp("kept"), with_others=True)
    begin(str(lake), [LOG_KEY])
    return lake


@pytest.fixture
def lake(with_rows: Path, tmp_path: Path) -> Path:
    shutil.copytree(with_rows, tmp_path / "lake")
    return tmp_path / "lake"


def approval(cluster: str = "lab", **more: Any) -> dict[str, Any]:
    return {"cluster": cluster, "plan_id": "p", "answer": "approved", "by": "alice", "at": NOON, "note": None, **more}


def approve(lake: Path, *rows: dict[str, Any]) -> None:
    write_deltalake(str(lake / "approvals"), as_arrow("approvals", rows), mode="append", partition_by=["cluster"])


def logged(lake: Path) -> Counter[tuple[str, str]]:
    """Table and digest of all leaves of rows."""
    tree = open_log(storage_of(str(lake))).tree()
    found: Counter[tuple[str, str]] = Counter()
    for entry in tree.entries(0, tree.size):
        if (leaf := parse_rows_leaf(entry)) is not None:
            found.update((leaf.table, digest) for digest in leaf.digests)
    return found


def on_record(lake: Path) -> Counter[tuple[str, str]]:
    tables = LOGGED_TABLES.values()
    return Counter((one.table, one.digest) for table in tables for one in units_in(Lake(str(lake)), table))


def test_a_log_begins_with_manifests_and_then_all_other_rows(with_rows: Path) -> None:
    tree = open_log(storage_of(str(with_rows))).tree()
    kinds = [parse_manifest_leaf(entry) is not None for entry in tree.entries(1, tree.size)]
    assert kinds == sorted(kinds, reverse=True)
    assert logged(with_rows) == on_record(with_rows)
    tables = Counter(table for table, _ in logged(with_rows))
    assert tables == {"commands": 3, "controls": 4, "outcomes": 3, "wishes": 4}


def test_what_joins_is_logged_once_with_or_without_manifests(lake: Path) -> None:
    approve(lake, approval(), approval(), approval("modular"))
    found = catch_up(str(lake), [LOG_KEY])
    assert (found.leaves, found.manifests) == (2, 0), "two of one cluster and date share a leaf"
    assert logged(lake) == on_record(lake)
    assert max(logged(lake).values()) == 2, "a row that stands twice is logged twice"
    assert catch_up(str(lake), [LOG_KEY]).leaves == 0
    publish_more(lake, "lab")
    approve(lake, approval(answer="rejected"))
    found = catch_up(str(lake), [LOG_KEY])
    assert (found.leaves, found.manifests) == (3, 2)
    assert logged(lake) == on_record(lake)


def test_few_commits_are_read_and_the_whole_table_only_where_rows_were_rewritten(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: list[str] = []

    def all_units(of: Lake, table: Any) -> list[Unit]:
        whole.append(table.name)
        return units_in(of, table)

    monkeypatch.setattr(new_rows, "units_in", all_units)
    approve(lake, approval())
    approve(lake, approval(note="so be it"))
    assert catch_up(str(lake), [LOG_KEY]).leaves == 1
    approve(lake, approval("modular"))
    assert catch_up(str(lake), [LOG_KEY]).leaves == 1
    assert whole == []
    DeltaTable(str(lake / "approvals")).optimize.compact()
    assert catch_up(str(lake), [LOG_KEY]).leaves == 0
    approve(lake, approval("silent"))
    DeltaTable(str(lake / "approvals")).delete("cluster = 'modular'")
    assert catch_up(str(lake), [LOG_KEY]).leaves == 1
    assert whole == ["approvals"] * 2
    assert [table for table, _ in logged(lake) - on_record(lake)] == ["approvals"], "the row that was deleted"


@pytest.mark.parametrize("kept", ["old", "none", "broken"])
def test_what_was_logged_by_a_process_that_was_killed_is_not_logged_again(lake: Path, kept: str) -> None:
    """It is killed between the checkpoint and the file that says how far it came."""
    before = (lake / "_log" / HEADS).read_bytes()
    approve(lake, approval())
    catch_up(str(lake), [LOG_KEY])
    (lake / "_log" / HEADS).unlink()
    if kept != "none":
        text = before if kept == "old" else before.replace(b'"tables"', b'"tables":[],"others"')
        (lake / "_log" / HEADS).write_bytes(text)
    assert catch_up(str(lake), [LOG_KEY]).leaves == 0
    approve(lake, approval())
    assert catch_up(str(lake), [LOG_KEY]).leaves == 1
    assert logged(lake) == on_record(lake)


def test_a_table_that_cannot_be_read_stops_no_manifest(lake: Path) -> None:
    approve(lake, approval())
    (file,) = (lake / "approvals").rglob("*.parquet")
    text = file.read_bytes()
    file.write_bytes(b"PAR1")
    publish_more(lake, "lab")
    found = catch_up(str(lake), [LOG_KEY])
    assert (found.leaves, found.manifests) == (2, 2)
    (problem,) = found.problems
    assert problem.startswith("rows outside manifests cannot be logged: ")
    assert str(file) in problem
    file.write_bytes(text)
    assert catch_up(str(lake), [LOG_KEY]).leaves == 1
    assert logged(lake) == on_record(lake)


def test_a_leaf_keeps_within_its_kilobyte_and_holds_every_row(lake: Path) -> None:
    names = ("c", "c" * 200, "\u00e9" * 40)
    approve(lake, *(approval(name, note=str(number)) for name in names for number in range(100)))
    assert catch_up(str(lake), [LOG_KEY]).leaves == sum(-(-100 // most) for most in (16, 12, 11))
    tree = open_log(storage_of(str(lake))).tree()
    assert max(len(entry) for entry in tree.entries(0, tree.size)) <= MOST_LEAF_BYTES
    assert logged(lake) == on_record(lake)


def test_a_column_that_joins_changes_no_digest(lake: Path) -> None:
    approve(lake, approval())
    before = on_record(lake)
    more = as_arrow("approvals", [approval("modular")]).append_column("later", pa.array(["x"]))
    write_deltalake(str(lake / "approvals"), more, mode="append", schema_mode="merge", partition_by=["cluster"])
    assert len(on_record(lake) - before) == 1
    assert not before - on_record(lake)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.binary()
    | st.dates() | st.datetimes(timezones=st.none() | st.just(UTC)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(VALUES, VALUES)
def test_equal_rows_have_one_digest_and_others_another(one: Any, other: Any) -> None:
    def digest(value: Any) -> str:
        (unit,) = units_of(LOGGED_TABLES["approvals"], [approval(note=value)])
        return unit.digest

    assert digest(one) == digest(one)
    if repr(plain(one)) != repr(plain(other)):
        assert digest(one) != digest(other)


def plain(value: Any) -> Any:
    """What two values have to share to count as the same: a moment is one in whatever zone, −0.0 is no 0.0."""
    if isinstance(value, dict):
        return sorted((name, plain(one)) for name, one in value.items() if one is not None)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def test_what_is_no_leaf_of_rows_is_told() -> None:
    (leaf,) = leaves_of(units_of(LOGGED_TABLES["approvals"], [approval()]))
    found = parse_rows_leaf(leaf.text)
    assert found is not None
    assert (found.table, found.cluster, found.day, len(found.digests)) == ("approvals", "lab", "2026-11-25", 1)
    for wrong in (
        leaf.text.replace(b"approvals", b"elsewhere"),
        leaf.text.replace(b'"day":"2026-11-25"', b'"day":"soon"'),
        leaf.text.replace(b'"cluster":"lab"', b'"cluster":7'),
    ):
        with pytest.raises(DamagedLog):
            parse_rows_leaf(wrong)
    assert parse_rows_leaf(b'{"kind":"begun"}') is None


def test_the_rows_of_a_write_are_one_in_whatever_order_they_come() -> None:
    rows = [
        {
            "cluster": "lab",
            "write_id": write,
            "cycle_at": NOON,
            "seen_at": NOON + timedelta(minutes=n),
            "outcome": "done",
        }
        for n, write in enumerate(["a", "a", "b"])
    ]
    units = units_of(LOGGED_TABLES["outcomes"], rows)
    assert units == units_of(LOGGED_TABLES["outcomes"], rows[::-1])
    assert [(one.made_at, one.words) for one in units] == [
        (NOON, "write a of 2 rows"),
        (NOON + timedelta(minutes=2), "write b of 1 rows"),
    ]
    assert units != units_of(LOGGED_TABLES["outcomes"], rows[1:])
