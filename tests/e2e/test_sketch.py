"""The planner beside each load manager's shedder in the scenes of `make e2e`, on a modelled cluster."""

import pytest

from tests.e2e.beside import shortfalls, table
from tests.e2e.planner_beside import BANDS, PLANNER, SHEDDERS
from tests.e2e.scene import EVEN, SKEWED
from tests.e2e.sketch import BROKERS, sketched

ON = {"evenkeelPlanner": "on", **BANDS["extensible"]}


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


@pytest.mark.parametrize("part", [1 / 3, 0.5])
def test_what_usage_is_off_by_chance_is_not_taken_for_room(part: float) -> None:
    """As on real brokers, of which none is quite like the others in any cycle."""
    exact = sketched(PLANNER, "extensible", part, ON)
    for seed in range(5):
        noisy = sketched(PLANNER, "extensible", part, ON, noise=0.02, seed=seed)
        assert noisy.max_over_mean <= exact.max_over_mean + 0.005
        assert noisy.acting_cycles == exact.acting_cycles == 2
