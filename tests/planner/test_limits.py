"""What moves that go together may come to, so that a cycle's budgets ever have room for them."""

from __future__ import annotations

import math

import pytest

from evenkeel.planner.limits import MOVED_TRAFFIC, CycleBudget, largest_unit
from evenkeel.planner.view import Spent
from evenkeel.settings import Settings


def test_the_largest_unit_has_room_in_an_empty_cycle_and_a_larger_one_has_not() -> None:
    settings = Settings()
    traffic, count = largest_unit(1_000.0, settings)
    assert (traffic, count) == (pytest.approx(90.0), 5)
    budget = CycleBudget(Spent(), 1_000.0, settings)
    assert budget.full([("b1", "b2", traffic / count)] * count) == ""
    assert budget.full([("b1", "b2", traffic / count)] * (count + 1)) != ""
    assert budget.full([("b1", "b2", 1.000001 * traffic)]) == MOVED_TRAFFIC


def test_nothing_bounds_a_unit_where_no_budget_does() -> None:
    free = Settings(
        evenkeelMaxUnloadsPerCycle=-1,
        evenkeelMaxUnloadsFromBroker=-1,
        evenkeelMaxUnloadsToBroker=-1,
        evenkeelMaxMovedTrafficPercent=100.0,
    )
    for settings in (Settings(evenkeelGuardsEnabled=False), free):
        traffic, count = largest_unit(1_000.0, settings)
        assert math.isinf(traffic)
        assert count > 1_000_000
