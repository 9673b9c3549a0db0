"""What upkeep has dropped is no fault, and where it cut a chain the chain begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel.lake.record import Attempt
from evenkeel.lake.schemas import TABLES
from evenkeel.maintenance.expiry import Periods
from evenkeel.verify.chain import Anchor, Kept, anchor_of, kept_by
from evenkeel.verify.contents import can_decide

NOW = datetime(2026, 11, 22, 3, tzinfo=UTC)
TABLES_OF_A_CYCLE = ("topic_stats", "bundle_load", "unload_decisions", "settings")


def attempt(days: int) -> Attempt:
    writes = [
        {"table": table, "write_id": f"w-{table}", "version": 1, "rows": 3, "commit": "d"}
        for table in TABLES_OF_A_CYCLE
    ]
    planned = {"cluster": "lab", "cycle_at": NOW - timedelta(days=days), "attempt_id": "a", "writes": writes}
    return Attempt({**planned, "reads": [], "files": [], "plan_id": "p"})


@pytest.mark.parametrize(
    ("days", "promised", "decides"),
    [
        (14, set(TABLES_OF_A_CYCLE), True),
        (15, {"bundle_load", "unload_decisions", "settings"}, True),
        (31, {"settings"}, False),
        (401, set(), False),
    ],
)
def test_rows_are_promised_as_long_as_the_last_upkeep_left_them(days: int, promised: set[str], decides: bool) -> None:
    kept = Kept(Periods(), NOW)
    assert {write.table for write in kept.writes(attempt(days))} == promised
    assert can_decide(attempt(days), kept) == decides
    assert {write.table for write in Kept().writes(attempt(days))} == set(TABLES_OF_A_CYCLE)
    assert all(Kept().promises(attempt(days), table) for table in TABLES)


def anchor(sequence: int) -> dict[str, Any]:
    return {"sequence": sequence, "manifest_digest": f"d{sequence}"}


def test_a_chain_begins_after_the_newest_anchor_before_it() -> None:
    assert anchor_of(7, [anchor(2), anchor(6), anchor(8)]) == Anchor(6, "d6")
    assert anchor_of(7, []) is None
    assert anchor_of(1, [anchor(6)]) is None  # an upkeep that was killed before the rows went


def test_a_lake_without_upkeep_keeps_everything() -> None:
    assert kept_by([]) == Kept()


def test_the_newest_upkeep_says_what_is_kept() -> None:
    rows = [
        {"begun_at": NOW - timedelta(days=days), "upkeep_id": f"u{days}", "periods": {"audit_days": 400 - days}}
        for days in (2, 1, 3)
    ]
    kept = kept_by(rows)
    assert (kept.at, kept.periods and kept.periods.audit_days) == (NOW - timedelta(days=1), 399)
