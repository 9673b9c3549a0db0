"""What is found of a cluster for all of its bundles at once is what is found for each of them."""

from datetime import UTC, datetime
from random import Random

import pytest

from evenkeel.planner.figures import ALWAYS_HELD, AloneOnBest, PlannerFigures
from evenkeel.planner.memory import PlannerMemory
from evenkeel.planner.plan import plan
from evenkeel.planner.usage_model import load_of
from evenkeel.planner.view import BundleFigures, PlannerBroker, PlannerBundle, PlannerView
from evenkeel.settings import Settings

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
HELD = [None, None, "frozen", "unsettled"]
"""Why a bundle stays: for good, or for a while."""


def one_by_one(one: PlannerBundle, figures: PlannerFigures) -> float | None:
    """The least usage that any broker that may have the bundle has with it alone."""
    places = (one.brokers | {one.owner or ""}) & figures.usage.keys()
    if one.held in ALWAYS_HELD and one.owner in figures.usage:
        places = frozenset({one.owner or ""})
    loads = {r: load_of(one.figures, r, figures.message_bytes) for r in figures.resources}
    return min((figures.usage_at(broker, loads) for broker in sorted(places)), default=None)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_broker_for_a_bundle_alone_is_that_of_a_look_at_each(seed: int) -> None:
    chance = Random(seed)
    names = [f"b{n}" for n in range(chance.randint(1, 6))]
    brokers = {
        name: PlannerBroker(name, {"cpu": chance.random(), "bandwidth_in": chance.random() / 2}) for name in names
    }
    bundles = []
    for n in range(30):
        figures = BundleFigures(1e6 * chance.paretovariate(1.1), 1e6 * chance.random(), 1e3 * chance.random())
        places = frozenset(chance.sample([*names, "gone"], chance.randint(0, len(names))))
        owner = chance.choice([*names, "gone", None])
        bundles.append(PlannerBundle(f"a/b/{n}", owner, figures, figures, brokers=places, held=chance.choice(HELD)))
    view = PlannerView(AT, brokers, bundles)
    found = plan(view, PlannerMemory(), Settings()).figures
    assert found is not None
    on_best = AloneOnBest(found)
    assert [on_best.usage(one) for one in bundles] == [one_by_one(one, found) for one in bundles]
