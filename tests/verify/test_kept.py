"""What upkeep has dropped is no fault, and where it cut a chain the chain begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
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


def upkeep(days: int, **periods: int) -> dict[str, Any]:
    return {"upkeep_id": "u", "begun_at": NOW - timedelta(days=days), "periods": Periods(**periods).as_dict()}


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
    kept = kept_by([upkeep(0)])
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


@pytest.mark.parametrize("order", permutations(range(3)))
def test_what_an_upkeep_dropped_is_not_missed_after_longer_periods_or_an_upkeep_of_a_year_ago(
    order: tuple[int, ...],
) -> None:
    """The first one dropped rows of 30 days ago; later ones do not bring them back, whatever their clocks say."""
    rows = [upkeep(1), upkeep(0, observed_days=60), upkeep(365, observed_days=90)]
    kept = kept_by(rows[number] for number in order)
    assert [kept.promises(attempt(days), "bundle_load") for days in (31, 32)] == [True, False]
    assert [kept.promises(attempt(days), "settings") for days in (400, 401)] == [True, False]
