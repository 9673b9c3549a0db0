"""Rows are the same only if every value is, to the bit; their order does not count."""

from __future__ import annotations

import math
from typing import Any

import pytest

from evenkeel.rounds.sameness import same

TABLE = "strategy_state"
COLUMNS = ("cluster", "subject", "value")


def row(subject: str, number: Any) -> dict[str, Any]:
    return {"cluster": "lab", "subject": subject, "value": number}


def test_order_and_other_columns_do_not_count() -> None:
    recorded = [row("b", 2.0), row("a", math.nan)]
    made = [{**row("a", math.nan), "cycle_at": "2026-11-22T00:00:00+00:00"}, row("b", 2)]
    assert same(TABLE, COLUMNS, recorded, made)


@pytest.mark.parametrize(
    "made",
    [
        [row("a", 1.0)],
        [row("a", 1.0), row("a", 1.0), row("b", 0.0)],
        [row("a", 1.0), row("b", -0.0)],
        [row("a", math.nextafter(1.0, 2.0)), row("b", 0.0)],
        [row("a", 1.0), row("b", None)],
        [row("a", 1.0), row("c", 0.0)],
    ],
)
def test_any_other_row_or_number_of_rows_differs(made: list[dict[str, Any]]) -> None:
    assert not same(TABLE, COLUMNS, [row("a", 1.0), row("b", 0.0)], made)
