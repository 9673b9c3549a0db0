"""A chain of manifests shows every row that was changed, added or removed."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.lake.manifest import CYCLES, body_digest
from evenkeel.lake.record import read_attempts
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.verify.chain import CHAIN, Anchor, Fault, Link, check_bodies, check_links, check_reads
from tests.lakes.small_lake import SmallLake, moment

BEGIN = datetime(2026, 11, 21, 8, tzinfo=UTC)
WRITE = {"table": "bundle_load", "write_id": "w", "version": 3, "rows": 12, "commit": "d"}
FILE = {"table": "bundle_load", "write_id": "w", "path": "cluster=lab/part-0.parquet", "size": 4711, "digest": "f"}


def body(cycle: int, row_kind: str) -> dict[str, Any]:
    """A manifest row without what the chain gives it."""
    row: dict[str, Any] = {column.name: None for column in CYCLES.columns}
    row |= {"cluster": "lab", "cycle_at": BEGIN + timedelta(minutes=cycle), "row_kind": row_kind, "mode": "dry_run"}
    row |= {"attempt_id": f"a{cycle}", "kind": "live", "status": "planned", "plan_id": f"p{cycle}", "wishes": []}
    row |= {"writes": [WRITE], "reads": [], "before_max_over_mean": 1.25, "recorded_at": BEGIN}
    return row | {"files": [FILE], "schema_version": SCHEMA_VERSION}


def chain(cycles: int) -> list[dict[str, Any]]:
    """A sound chain of two rows a cycle."""
    rows, last = [], ""
    for cycle in range(cycles):
        for row_kind in ("planned", "closed"):
            row = body(cycle, row_kind)
            digest = body_digest(row)
            linked = hashlib.sha256((last + digest).encode()).hexdigest()
            row |= {"sequence": len(rows) + 1, "attempt": 1, "body_digest": digest, "previous_digest": last}
            rows.append(row | {"manifest_digest": linked})
            last = linked
    return rows


def link(row: dict[str, Any]) -> Link:
    microseconds = (row["cycle_at"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return Link(**{**{name: row[name] for name in Link._fields}, "cycle_at": microseconds})


def faults(rows: list[dict[str, Any]], anchor: Anchor | None = None) -> list[tuple[str, str]]:
    ordered = sorted(rows, key=lambda row: (row["sequence"], row["manifest_digest"]))
    found = [*check_links("lab", map(link, ordered), anchor), *check_bodies(rows)]
    assert {(fault.cluster, fault.cycle_at) for fault in found} <= {("lab", row["cycle_at"]) for row in rows}
    return [(fault.place, fault.words) for fault in found]


def test_a_sound_chain_has_no_fault() -> None:
    assert faults(chain(3)) == []


CHANGES = {"plan_id": "other", "status": "withheld", "writes": [{**WRITE, "rows": 11}], "before_max_over_mean": 1.26}
CHANGES["files"] = [{**FILE, "digest": "e"}]


@pytest.mark.parametrize("column", CHANGES)
def test_a_changed_value_is_named(column: str) -> None:
    rows = chain(3)
    rows[2][column] = CHANGES[column]
    ((place, words),) = faults(rows)
    assert place == "row 3, planned"
    assert "changed after it was written" in words


@given(gone=st.integers(0, 6))
def test_a_removed_row_leaves_a_gap(gone: int) -> None:
    rows = chain(4)
    del rows[gone]
    ((place, words),) = faults(rows)
    assert place.startswith(f"row {gone + 2},")
    assert f"row {gone + 1} before it is missing" in words


def test_several_removed_rows_are_counted() -> None:
    rows = chain(4)
    del rows[2:5]
    ((_, words),) = faults(rows)
    assert "rows 3 to 5 before it is missing" in words or "rows 3 to 5" in words


def test_an_added_row_stands_beside_another() -> None:
    rows = chain(3)
    extra = {**rows[3], "attempt_id": "forged"}
    extra |= {"body_digest": body_digest(extra)}
    extra["manifest_digest"] = hashlib.sha256((extra["previous_digest"] + extra["body_digest"]).encode()).hexdigest()
    assert any("one of them was added" in words for _, words in faults([*rows, extra]))


def test_a_row_that_was_replaced_with_digests_to_match_does_not_fit_its_neighbour() -> None:
    rows = chain(3)
    rows[2]["plan_id"] = "forged"
    rows[2]["body_digest"] = body_digest(rows[2])
    linked = hashlib.sha256((rows[2]["previous_digest"] + rows[2]["body_digest"]).encode()).hexdigest()
    rows[2]["manifest_digest"] = linked
    ((place, words),) = faults(rows)
    assert place == "row 4, closed"
    assert "does not name the digest of the row before it" in words


def test_an_attempt_that_numbers_itself_otherwise_is_named() -> None:
    rows = chain(3)
    rows[4]["attempt"] = 2
    assert faults(rows) == [("row 5, planned", "it is attempt 1 at its cycle, and says 2")]
    rows[4]["attempt"] = 1
    again = {**body(2, "planned"), "attempt_id": "b", "attempt": 7, "sequence": 7}
    again |= {"body_digest": body_digest(again), "previous_digest": rows[5]["manifest_digest"]}
    again["manifest_digest"] = hashlib.sha256((again["previous_digest"] + again["body_digest"]).encode()).hexdigest()
    ((place, words),) = faults([*rows, again])
    assert (place, words) == ("row 7, planned", "it is attempt 2 at its cycle, and says 7")


def test_a_fault_names_its_cluster_if_it_has_one() -> None:
    fault = Fault("lab", BEGIN, "chain", "cycles", "row 1", "gone")
    assert fault.sentence() == f"lab at {BEGIN.isoformat()}: cycles (row 1): gone"
    assert Fault("", None, "content", "settings", "commit 1", "empty").sentence() == "settings (commit 1): empty"


def test_a_chain_whose_beginning_expired_starts_at_its_anchor() -> None:
    rows = chain(4)
    anchor = Anchor(rows[3]["sequence"], rows[3]["manifest_digest"])
    assert faults(rows[4:], anchor) == []
    assert faults([{**row, "attempt": 3} for row in rows[4:6]], anchor) == []  # earlier ones may have expired
    assert "rows 1 to 4" in faults(rows[4:])[0][1]
    assert "does not name the digest" in faults(rows[4:], Anchor(4, "other"))[0][1]


def test_a_predecessor_that_a_later_manifest_names_and_the_chain_lacks_is_named(tmp_path: Path) -> None:
    """The end of the chain was lost while the next cycle was on its way; the links that are left fit each other."""
    lake, minute, at = SmallLake(tmp_path / "lake"), timedelta(minutes=1), moment("2026-11-21T08:00:00")
    first = lake.add("lab", at, {}, predecessor_attempt_id=None)
    lake.add("lab", at + minute, {}, predecessor_attempt_id=first, predecessor_cycle_at=at)
    lake.add("lab", at + 3 * minute, {}, predecessor_attempt_id="gone", predecessor_cycle_at=at + 2 * minute)
    attempts = read_attempts(tmp_path / "lake")
    (fault,) = check_reads(attempts, attempts, {"lab": at})
    assert (fault.kind, fault.table, fault.cycle_at) == (CHAIN, "cycles", at + 3 * minute)
    assert "its predecessor, attempt gone at 2026-11-21T08:02:00+00:00, is not on record" in fault.words
    assert not [*check_reads(attempts, attempts, {"lab": at + 2 * minute})], "upkeep may have dropped it"
