"""The planner's figures: usage alone on the best broker, and loads that swing from cycle to cycle."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from evenkeel.planner.figures import ALWAYS_HELD, AloneOnBest, PlannerFigures, planned_load
from evenkeel.planner.memory import BrokerMemory, PlannerMemory
from evenkeel.planner.plan import plan
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
    loads = {r: figures.load(one, r) for r in figures.resources}
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


@pytest.mark.parametrize("messages", [0.25, 1_000.0])
@pytest.mark.parametrize(
    ("known", "mean", "counts_as"),
    [
        (0.0, 64.0, 64.0),
        (0.5, 0.25, 0.5),
        (64.0, 32.0, 64.0),
        (64.0, 31.9, 31.9),
        (64.0, 128.0, 64.0),
        (64.0, 128.1, 128.1),
    ],
)
def test_a_message_counts_as_its_first_mean_until_the_mean_is_twice_or_half_of_it(
    known: float, mean: float, counts_as: float, messages: float
) -> None:
    flow = BundleFigures(0.6 * messages * mean, 0.4 * messages * mean, messages)
    bundles = [PlannerBundle("a/b/0", "b1", flow, flow, brokers=frozenset({"b1"}))]
    view = PlannerView(AT, {"b1": PlannerBroker("b1", {"cpu": 0.5})}, bundles)
    found = plan(view, PlannerMemory(message_bytes=known), Settings())
    assert found.memory.message_bytes == pytest.approx(counts_as)


BROKERS = ("b1", "b2")


def figures(
    reversals: float,
    changes: float = 5.0,
    minutes: float = 60.0,
    window: int = 60,
    known: Mapping[str, BrokerMemory] | None = None,
) -> PlannerFigures:
    """Figures of two brokers, so many minutes after the previous cycle. Each has one bundle, of 40 byte/s
    on average; the bundle of `b1` has 100 byte/s in the latest cycle, that of `b2` has 40."""
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
    memory = PlannerMemory(
        at=AT - timedelta(minutes=minutes), reversals=reversals, changes=changes, brokers=known or {}
    )
    found = plan(view, memory, Settings(evenkeelPlannerReturnWindowMinutes=window)).figures
    assert found is not None
    one = view.bundles[0]
    assert found.load(one, "cpu") == planned_load(one, "cpu", 0.0, found.latest_part) == found.loads["cpu"]["b1"]
    return found


@pytest.mark.parametrize(
    ("undone", "load"), [(0.8, 40.0), (0.5, 40.0), (0.4, 52.0), (0.25, 70.0), (0.125, 85.0), (0.0, 85.0), (-0.2, 100.0)]
)
def test_the_less_of_a_change_is_undone_the_more_the_latest_figures_count(undone: float, load: float) -> None:
    found = figures(-undone * 5.0)
    assert found.loads["cpu"]["b1"] == pytest.approx(load)
    assert found.loads["cpu"]["b2"] == pytest.approx(40.0)
    assert found.is_swinging == (load < 100.0)


@pytest.mark.parametrize(("before", "latest_part"), [(0.0, 1.0), (0.0144, 0.75)])
def test_one_jump_is_no_swing_and_another_is(before: float, latest_part: float) -> None:
    """Each broker has one bundle, as before, and `b1` has 100 byte/s where it had 40; `before`: one such change."""
    known = {name: BrokerMemory(1.0, 40.0) for name in BROKERS}
    assert figures(0.0, before, known=known).latest_part == latest_part


def test_small_changes_are_no_swing_whatever_is_undone() -> None:
    assert figures(-0.002, 0.004).latest_part == 1.0


@pytest.mark.parametrize(
    ("minutes", "part"),
    [(60.0, 0.5), (30.0, (0.5 + 0.25) / 2), (15.0, (0.5 + 0.25 + 0.125 + 0.0625) / 4), (240.0, 0.5)],
)
def test_what_lasts_for_a_cycle_counts_less_the_more_cycles_a_bundle_stays_where_it_is(
    minutes: float, part: float
) -> None:
    assert figures(-1.25, minutes=minutes).latest_part == pytest.approx(part)


def test_cycles_at_once_and_no_window_at_all_are_borne() -> None:
    assert figures(-1.25, minutes=0.0).latest_part == pytest.approx(1.0 / 60.0)
    assert figures(-1.25, minutes=15.0, window=0).latest_part == pytest.approx(0.5)


@pytest.mark.parametrize(("reversals", "part"), [(-2.5, 0.8), (2.5, 1.0)])
def test_the_band_is_narrower_where_averages_are_gone_by(reversals: float, part: float) -> None:
    found, settings = figures(reversals), Settings()
    one = found.open_levels[BROKERS[0]]
    levels = (one.stop, one.act, one.at_once)
    percents = (
        settings.evenkeelPlannerStopAtPercent,
        settings.evenkeelPlannerActAbovePercent,
        settings.evenkeelPlannerActAtOnceAbovePercent,
    )
    assert [level / found.even for level in levels] == pytest.approx([1.0 + part * one / 100.0 for one in percents])
