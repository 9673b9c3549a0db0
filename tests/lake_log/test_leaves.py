"""Leaves of manifests: what they are made of, and what is read back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import DamagedLog
from evenkeel.lake.merkle import root_of
from evenkeel.lake_log.leaves import (
    LEAF_COLUMNS,
    ChainEnd,
    ManifestLeaf,
    begun_leaf,
    manifest_leaf,
    parse_leaf,
    parse_manifest_leaf,
)
from evenkeel.transparency.leaf import MOST_LEAF_BYTES

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
ROW: dict[str, Any] = {
    "cluster": "eu-1",
    "sequence": 7,
    "cycle_at": NOON,
    "attempt": 1,
    "status": "planned",
    "plan_id": "ab" * 32,
    "manifest_digest": "cd" * 32,
    "roots": [{"table": "settings", "rows": 3, "root": "ef" * 32}],
}

digests = st.text("0123456789abcdef", min_size=64, max_size=64)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=60)
roots = st.none() | st.lists(
    st.fixed_dictionaries({"table": st.text("abc_", min_size=1, max_size=12), "rows": st.integers(1), "root": digests}),
    unique_by=lambda one: one["table"],
    max_size=30,
)
rows = st.fixed_dictionaries(
    {
        "cluster": names,
        "sequence": st.integers(1, 10**12),
        "cycle_at": st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
        "attempt": st.integers(1, 1000),
        "status": st.sampled_from(["planned", "closed", "skipped", "failed", "withheld"]),
        "plan_id": st.none() | digests,
        "manifest_digest": digests,
        "roots": roots,
    }
)


@given(rows)
def test_a_manifest_is_read_back_from_its_leaf(row: dict[str, Any]) -> None:
    text = manifest_leaf(row).text
    assert len(text) <= MOST_LEAF_BYTES
    found = parse_manifest_leaf(text)
    assert found is not None
    assert (found.cluster, found.sequence, found.status) == (row["cluster"], row["sequence"], row["status"])
    assert found.digest == row["manifest_digest"]
    at = datetime.fromisoformat(found.cycle_at)
    assert timedelta(0) <= row["cycle_at"] - at < timedelta(milliseconds=1)


@given(rows, st.sampled_from(["cluster", *LEAF_COLUMNS]), st.data())
def test_manifests_that_differ_in_what_a_leaf_holds_have_other_leaves(
    row: dict[str, Any], column: str, data: st.DataObject
) -> None:
    other = {**row, column: data.draw(rows)[column]}
    if column == "cycle_at":
        other[column] = other[column].replace(microsecond=other[column].microsecond // 1000 * 1000)
        row = {**row, column: row[column].replace(microsecond=row[column].microsecond // 1000 * 1000)}
    same = other[column] == row[column] or (not other[column] and not row[column])
    if column == "roots" and not same:
        by_name = [
            sorted((one["table"], one["rows"], one["root"]) for one in each[column] or ()) for each in (row, other)
        ]
        same = by_name[0] == by_name[1]
    assert (manifest_leaf(row).text == manifest_leaf(other).text) == same


def test_a_manifest_without_roots_is_a_leaf_without_tables() -> None:
    for of_then in ({**ROW, "roots": None}, {name: value for name, value in ROW.items() if name != "roots"}):
        assert json.loads(manifest_leaf(of_then).text)["tables"] == 0
    assert json.loads(manifest_leaf(ROW).text)["tables"] == 1
    assert json.loads(manifest_leaf({**ROW, "plan_id": None}).text)["plan_id"] == ""


def test_the_first_leaf_counts_the_manifests_and_covers_where_each_chain_ended() -> None:
    ends = {"b": ChainEnd(2, 2, "aa" * 32), "a": ChainEnd(5, 9, "bb" * 32)}
    found = parse_leaf(begun_leaf(ends).text)
    entries = [b'["a",5,9,"%s"]' % (b"bb" * 32), b'["b",2,2,"%s"]' % (b"aa" * 32)]
    assert (found["kind"], found["clusters"], found["manifests"]) == ("begun", 2, 7)
    assert found["chains_root"] == root_of(entries).hex()
    assert found["note"] == "nothing witnessed these manifests before this log began"
    many = {f"cluster-{number}": ChainEnd(10**6, 10**6, "aa" * 32) for number in range(500)}
    assert len(begun_leaf(many).text) < MOST_LEAF_BYTES / 2
    assert parse_manifest_leaf(begun_leaf(ends).text) is None


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"[]",
        b"{}",
        b'{"kind":1}',
        b'{"kind":"cycle"}',
        b"\xff",
        manifest_leaf(ROW).text.replace(b'"sequence":7', b'"sequence":"7"'),
        manifest_leaf(ROW).text.replace(b'"sequence":7', b'"sequence":0'),
        manifest_leaf({**ROW, "manifest_digest": "CD" * 32}).text,
        manifest_leaf(ROW).text.replace(b"2026-11-26T", b"yesterday"),
    ],
)
def test_what_is_not_the_leaf_of_a_manifest_is_refused(entry: bytes) -> None:
    with pytest.raises(DamagedLog):
        parse_manifest_leaf(entry)


def test_leaves_of_kinds_that_come_later_are_passed_over() -> None:
    assert parse_manifest_leaf(b'{"kind":"upkeep","version":1}') is None
    assert parse_manifest_leaf(manifest_leaf(ROW).text) == ManifestLeaf(
        "eu-1", 7, "2026-11-26T12:00:00.000Z", "planned", "cd" * 32
    )
