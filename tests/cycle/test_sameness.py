"""Rows are the same only if every value is, to the bit; their order does not count."""

import marshal
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.lake.plain_rows import as_read
from evenkeel.lake.schemas import TABLES
from evenkeel.repetition import same

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


KEYS = st.sampled_from(("a", "b", "c"))
DOUBLES = st.sampled_from((None, 6, 6.0, 0.0, -0.0, 0, math.nan, math.inf, 0.1))
MOMENTS = st.sampled_from(("2026-11-22T01:00:00+01:00", "2026-11-22T00:00:00.000000+00:00"))
SPLITS = "split_decisions"
SPLIT_COLUMNS = tuple(column.name for column in TABLES[SPLITS].body_columns())
SPLIT_ROWS = st.fixed_dictionaries(
    {"subject": KEYS, "cycle_at": MOMENTS, "measured": DOUBLES},
    optional={
        "wish_id": st.none() | KEYS,
        "margin": DOUBLES,
        "alternatives": st.lists(st.fixed_dictionaries({"name": KEYS}, optional={"measured": DOUBLES}), max_size=2),
        "numbers": st.dictionaries(KEYS, DOUBLES, max_size=2),
        "cuts": st.none() | st.lists(st.integers(0, 2), max_size=2).map(tuple),
        "unload_children": st.none() | st.booleans(),
    },
)


def exactly(rows: Iterable[dict[str, Any]]) -> list[bytes]:
    """Rows in any order, each as bytes that no other row has."""
    return sorted(marshal.dumps([row[name] for name in SPLIT_COLUMNS], 2) for row in rows)


@st.composite
def decided_twice(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows decided then and now: the same in another order, of which at times some are changed or gone."""
    then = draw(st.lists(SPLIT_ROWS, max_size=5))
    now = draw(st.permutations(then))
    if now and draw(st.booleans()):
        now = [*now[1:], *draw(st.lists(SPLIT_ROWS | st.sampled_from(now), max_size=2))]
    return then, now


@given(decided_twice())
def test_rows_are_the_same_if_they_would_be_read_as_the_same(rows: tuple[Sequence[Any], Sequence[Any]]) -> None:
    then, now = rows
    recorded = [as_read(SPLITS, row) for row in then]
    assert same(SPLITS, SPLIT_COLUMNS, recorded, now) == (
        exactly(recorded) == exactly(as_read(SPLITS, row) for row in now)
    )


def test_rows_without_a_key_are_compared_all_the_same() -> None:
    nameless = {"cluster": "lab", "strategy": "s", "subject": None, "name": "n", "value": 1.0}
    named = {**nameless, "subject": "a"}
    assert same(TABLE, COLUMNS, [nameless, named], [named, nameless])
    assert not same(TABLE, COLUMNS, [nameless, named], [named, {**nameless, "value": -1.0}])
