"""The planner beside each load manager's shedder in the scenes of `make e2e`, on a modelled cluster."""

from __future__ import annotations

import pytest

from tests.e2e.beside import shortfalls, table
from tests.e2e.planner_beside import BANDS, PLANNER, SHEDDERS
from tests.e2e.scene import EVEN, SKEWED
from tests.e2e.sketch import BROKERS, sketched


@pytest.mark.parametrize(
    ("manager", "part"), [("modular", 0.5), ("extensible", 1 / 3), ("extensible", 0.5), ("extensible", 0.9)]
)
def test_the_planner_is_as_even_in_no_more_cycles_with_fewer_reconnects(manager: str, part: float) -> None:
    shedder = sketched(SHEDDERS[manager], manager, part, {})
    planner = sketched(PLANNER, manager, part, {"evenkeelPlanner": "on", **BANDS[manager]})
    print("\n".join(table([shedder, planner])))
    assert shedder.at_first == planner.at_first > SKEWED * len(BROKERS)
    assert max(shedder.max_over_mean, planner.max_over_mean) < EVEN
    assert min(shedder.splits, planner.splits) == 1
    assert not shortfalls(shedder, planner)
