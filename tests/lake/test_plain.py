"""Rows that were never written look as if they had been."""

from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import EngineError
from evenkeel.lake.plain_rows import as_read, columns_as_read, types_of
from evenkeel.lake.schema import STAMP_NAMES
from evenkeel.lake.schemas import TABLES
from evenkeel.spark.packing import Packing

DECIDED = (
    "split_decisions",
    "unload_decisions",
    "placement_decisions",
    "guard_decisions",
    "planner_targets",
    "planner_models",
    "planner_findings",
    "strategy_state",
    "commands",
)
_NUMBERS = st.one_of(st.floats(), st.integers(-(2**53), 2**53))


def value_of(kind: str) -> st.SearchStrategy[Any]:
    """What a round may put into a column of this type."""
    if kind.startswith("array<struct"):
        names = st.fixed_dictionaries({}, optional={"name": st.text(), "broker": st.text(), "measured": _NUMBERS})
        fields = {part.partition(":")[0] for part in kind[13:-2].split(",")}
        return st.lists(names.map(lambda found: {k: v for k, v in found.items() if k in fields}), max_size=2)
    if kind.startswith("array<"):
        return st.lists(value_of(kind[6:-1]), max_size=3).map(tuple)
    if kind.startswith("map<"):
        return st.dictionaries(st.text(max_size=3), _NUMBERS, max_size=3)
    return {
        "double": _NUMBERS,
        "timestamp": st.datetimes(timezones=st.just(UTC)),
        "boolean": st.booleans(),
        "int": st.integers(0, 99),
        "bigint": st.integers(0, 2**40),
    }.get(kind, st.text(max_size=5))


@st.composite
def rows(draw: Any) -> tuple[str, dict[str, Any]]:
    table = draw(st.sampled_from(DECIDED))
    columns = [column for column in TABLES[table].columns if column.name not in ("cycle_date", "write_id")]
    return table, {c.name: draw(st.none() | value_of(c.type)) for c in columns if draw(st.booleans())}


@given(rows())
def test_a_row_as_read_is_the_row_that_was_written_and_read(found: tuple[str, dict[str, Any]]) -> None:
    table, row = found
    packing = Packing({table: {name: kind for name, kind in types_of(table).items() if name not in STAMP_NAMES}})
    (read,) = packing.rows(packing.table({table: [row]}, {}))[table]
    assert repr(as_read(table, row)) == repr(read)
    names = list(read)
    assert repr(columns_as_read(table, names, [row])) == repr([[read[name]] for name in names])


def test_what_does_not_fit_its_column_is_refused_by_its_name() -> None:
    with pytest.raises(EngineError, match=r"^strategy_state\.value wants a double, got str '1'\.$"):
        as_read("strategy_state", {"value": "1"})
