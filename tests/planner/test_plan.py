"""What came of a plan's promise is seen from usage and the load that it is of, also where load goes to and fro."""

from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.planner.memory import BrokerMemory, PlannerMemory, Promise
from evenkeel.planner.plan import plan
from evenkeel.planner.usage_model import UsageSums
from evenkeel.planner.view import BundleFigures, PlannerBroker, PlannerBundle, PlannerView
from evenkeel.settings import Settings

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
BEFORE = AT - timedelta(minutes=5)
MIB = 1024.0 * 1024.0


def misses_after(latest: float, usage: float, before: float = 0.5) -> int:
    """Plans that broke their promise in a row, where one did already, and the next was to bring b1 from 50 MiB/s at
    50 % to 40 MiB/s; now it has `latest` MiB/s at `usage`, after an average of 40, since load goes to and fro."""
    kept = UsageSums(near_weight=5.0, near_load=250.0 * MIB, near_usage=2.5)
    memory = PlannerMemory(
        at=BEFORE,
        reversals=-5.0,
        changes=5.0,
        misses=1,
        brokers={name: BrokerMemory(1.0, 50.0 * MIB, 0.5) for name in ("b1", "b2")},
        sums={("cpu", name): kept for name in ("b1", "b2")},
        promises={"b1": Promise(BEFORE, "cpu", 0.1, before, 40.0 * MIB)},
    )
    average = BundleFigures(bytes_in=40.0 * MIB)
    view = PlannerView(
        at=AT,
        brokers={"b1": PlannerBroker("b1", {"cpu": usage}), "b2": PlannerBroker("b2", {"cpu": 0.4})},
        bundles=[
            PlannerBundle(
                f"a/b/{n}", f"b{n}", BundleFigures(bytes_in=load * MIB), average, brokers=frozenset({"b1", "b2"})
            )
            for n, load in ((1, latest), (2, 40.0))
        ],
        moved=frozenset({(BEFORE, "b1")}),
    )
    made = plan(view, memory, Settings())
    assert made.figures is not None
    assert made.figures.is_swinging
    assert not made.memory.promises
    return made.memory.misses


@pytest.mark.parametrize(
    ("latest", "usage", "misses"), [(80.0, 0.8, 0), (20.0, 0.2, 0), (80.0, 0.9, 2), (20.0, 0.3, 2)]
)
def test_a_swing_of_load_neither_breaks_a_promise_nor_keeps_it(latest: float, usage: float, misses: int) -> None:
    assert misses_after(latest, usage) == misses


@pytest.mark.parametrize(("before", "usage", "misses"), [(0.949, 0.949, 2), (0.95, 0.949, 1), (0.949, 0.95, 1)])
def test_a_promise_of_a_broker_that_was_or_is_full_is_not_judged(before: float, usage: float, misses: int) -> None:
    """Usage stays as it was; from 95 % on a broker is full, and one miss is on record."""
    assert misses_after(40.0, usage, before) == misses
