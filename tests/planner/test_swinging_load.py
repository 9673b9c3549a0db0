"""What is planned with where load goes to and fro: between its average and its latest figures, as it comes back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.planner.figures import PlannerFigures, planned_load
from evenkeel.planner.memory import PlannerMemory
from evenkeel.planner.plan import plan
from evenkeel.planner.view import BundleFigures, PlannerBroker, PlannerBundle, PlannerView
from evenkeel.settings import Settings

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
BROKERS = ("b1", "b2")


def figures(reversals: float, changes: float = 5.0) -> PlannerFigures:
    """What is planned with for two brokers. Each has one bundle, of 40 byte/s on average; the bundle of `b1` has 100
    byte/s in the latest cycle, that of `b2` has 40."""
    view = PlannerView(
        at=AT,
        brokers={name: PlannerBroker(name, {"cpu": 0.5}) for name in BROKERS},
        bundles=[
            PlannerBundle(
                f"a/b/{name}",
                name,
                BundleFigures(bytes_in=load),
                BundleFigures(bytes_in=40.0),
                brokers=frozenset(BROKERS),
            )
            for name, load in zip(BROKERS, (100.0, 40.0), strict=True)
        ],
    )
    memory = PlannerMemory(at=AT - timedelta(minutes=1), reversals=reversals, changes=changes)
    found = plan(view, memory, Settings()).figures
    assert found is not None
    one = view.bundles[0]
    assert found.load(one, "cpu") == planned_load(one, "cpu", 0.0, found.latest_part) == found.loads["cpu"]["b1"]
    return found


@pytest.mark.parametrize(
    ("undone", "load"), [(0.8, 40.0), (0.5, 40.0), (0.4, 52.0), (0.25, 70.0), (0.1, 100.0), (0.0, 100.0)]
)
def test_the_less_of_a_change_is_undone_the_more_the_latest_figures_count(undone: float, load: float) -> None:
    found = figures(-undone * 5.0)
    assert found.loads["cpu"]["b1"] == pytest.approx(load)
    assert found.loads["cpu"]["b2"] == pytest.approx(40.0)
    assert found.is_swinging == (load < 100.0)


def test_small_changes_are_no_swing_whatever_is_undone() -> None:
    assert figures(-0.002, 0.004).latest_part == 1.0
