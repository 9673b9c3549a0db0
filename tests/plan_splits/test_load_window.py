"""The loads of a window: a fold that asks the split rule, up to the cycle in which something is wrong."""

from __future__ import annotations

import json
import random

import pytest

from evenkeel.aggregate.round import OUTPUTS, STATE, fold
from evenkeel.plan_splits.round import decide, load_window
from evenkeel.rounds.window import FAILURES
from tests.aggregate.in_rows import rows_of, some_cycles

KEY = {"cluster": "shop"}


def test_loads_of_a_window_are_those_of_the_fold() -> None:
    rows = rows_of(*some_cycles(random.Random(7), 4))
    rows = {**rows, "topic_hashes": rows.get("topic_hashes", []), STATE: []}
    made = load_window(KEY, rows, parameters={"is_window": True})
    assert FAILURES not in made
    assert {table: made[table] for table in OUTPUTS} == fold(KEY, rows, decide)
    assert len({row["cycle_at"] for row in made["bundle_load"]}) == 4


def test_a_cycle_that_cannot_be_summed_up_ends_the_window_with_its_name() -> None:
    rows = rows_of(*some_cycles(random.Random(7), 3))
    moments = sorted(str(cycle["cycle_at"]) for cycle in rows["cycle"])
    broken = [
        {**cycle, "steering": '{"unreadable"'} if cycle["cycle_at"] == moments[1] else cycle for cycle in rows["cycle"]
    ]
    rows = {**rows, "cycle": broken, "topic_hashes": [], STATE: []}
    made = load_window(KEY, rows, parameters={"is_window": True})
    assert {row["cycle_at"] for row in made["bundle_load"]} == {moments[0]}
    (failure,) = made[FAILURES]
    assert failure["cycle_at"] == moments[1]
    assert failure["error"].startswith("JSONDecodeError: ")
    with pytest.raises(json.JSONDecodeError):
        load_window(KEY, rows, parameters={"is_window": False})
