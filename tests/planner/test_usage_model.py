"""Fits of usage: used where they are proven, and never a reason to fail."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.planner.reconciler import FROM_BROKER, MOVED_TRAFFIC, PER_CYCLE, TO_BROKER, CycleBudget
from evenkeel.planner.target import UsageLine
from evenkeel.planner.usage_model import UsageSums, by_traffic, load_of, models_of
from evenkeel.planner.view import BundleFigures, Spent
from evenkeel.settings import Settings

SPREAD = [100.0, 140.0, 80.0, 120.0, 60.0, 150.0, 90.0, 110.0, 130.0, 70.0, 105.0, 95.0, 145.0, 65.0, 125.0]


def after(samples: list[tuple[float, float]], *, minutes: float = 5.0) -> UsageSums:
    sums = UsageSums()
    for load, usage in samples:
        sums = sums.decayed(minutes).with_sample(load, usage)
    return sums


def test_a_base_and_a_slope_are_found_and_proven() -> None:
    sums = after([(load, 0.3 + 0.002 * load) for load in SPREAD])
    assert sums.is_proven
    assert sums.line.base == pytest.approx(0.3)
    assert sums.line.slope == pytest.approx(0.002)
    model = models_of({"b1": 0.5}, {"b1": 100.0}, {"b1": sums})["b1"]
    assert model.is_used
    assert model.line.usage(200.0) == pytest.approx(0.7)


def test_usage_in_proportion_to_load_needs_no_fit() -> None:
    sums = after([(load, 0.004 * load + (0.02 if n % 2 else -0.02)) for n, load in enumerate(SPREAD)])
    model = models_of({"b1": 0.4}, {"b1": 100.0}, {"b1": sums})["b1"]
    assert model.line.usage(100.0) == pytest.approx(0.4, abs=0.03)


def test_too_few_samples_usage_that_falls_with_load_and_saturation_prove_nothing() -> None:
    assert not after([(load, 0.3 + 0.002 * load) for load in SPREAD[:9]]).is_proven
    falling = after([(load, 0.9 - 0.003 * load) for load in SPREAD])
    assert falling.slope == 0.0
    assert not falling.is_proven
    assert not after([(load, 0.5) for load in SPREAD]).is_proven, "the same usage at any load"
    full = after([(load, 1.0) for load in SPREAD])
    assert full.samples == 0
    assert models_of({"b1": 1.0}, {"b1": 100.0}, {"b1": full})["b1"].line.slope == pytest.approx(1.0 / SPREAD[-1])


def test_a_saturated_figure_is_forgotten_with_the_first_that_is_not() -> None:
    sums = after([(200.0, 1.0), (200.0, 1.0), (100.0, 0.8)])
    assert (sums.near_load, sums.near_usage) == (100.0, 0.8)


def test_a_broker_that_is_nearly_idle_counts_as_others_do() -> None:
    loads = {"b1": 100.0, "b2": 100.0, "b3": 1.0, "b4": 0.0}
    found = models_of({"b1": 0.5, "b2": 0.5, "b3": 0.06, "b4": 0.06}, loads, {})
    assert found["b3"].line == UsageLine(pytest.approx(0.055), 0.005)
    assert found["b4"].line == UsageLine(0.06, 0.005)


def test_what_all_brokers_have_without_load_is_seen_where_one_line_explains_them() -> None:
    loads = {"b1": 650.0, "b2": 175.0, "b3": 180.0}
    found = models_of({name: 0.3 + 0.0005 * load for name, load in loads.items()}, loads, {})
    assert all(model.is_alike and not model.is_used for model in found.values())
    for model in found.values():
        assert model.line.slope == pytest.approx(0.0005)
        assert model.line.base == pytest.approx(0.3)


def test_of_brokers_on_one_line_only_what_is_far_from_it_is_their_own() -> None:
    loads = {f"b{n}": 100.0 * n for n in range(1, 41)}
    usages = {name: 0.3 + 0.0001 * load for name, load in loads.items()}
    exact = models_of(usages, loads, {})
    found = models_of({**usages, "b20": usages["b20"] + 0.03, "b21": usages["b21"] - 0.03}, loads, {})
    assert {model.line for model in found.values()} == {found["b1"].line}
    found = models_of({**usages, "b20": usages["b20"] + 0.2, "b21": usages["b21"] - 0.2}, loads, {})
    for name, away in (("b1", 0.0), ("b20", 0.15), ("b21", -0.15)):
        assert found[name].line.base - exact[name].line.base == pytest.approx(away, abs=0.005)


@pytest.mark.parametrize(
    "usages",
    [
        {"b1": 0.65, "b2": 0.18, "b3": 0.19},  # next to nothing without load
        {"b1": 0.40, "b2": 0.40, "b3": 0.40},  # as machines of different strength that are evenly used
        {"b1": 0.60, "b2": 0.30, "b3": 0.50},  # no line
        {"b1": 0.65, "b3": 0.40},  # two always lie on a line
        {"b1": 0.96, "b2": 0.40, "b3": 0.40},  # saturated: it may need any usage
    ],
)
def test_usage_grows_in_proportion_where_no_line_explains_the_brokers(usages: dict[str, float]) -> None:
    loads = {"b1": 550.0, "b2": 175.0, "b3": 180.0}
    found = models_of(usages, {name: loads[name] for name in usages}, {})
    assert not any(model.is_alike for model in found.values())
    for name, usage in usages.items():
        assert found[name].line.slope >= usage / loads[name] * 0.999
        assert found[name].line.base == 0.0


def test_saturated_usage_says_only_what_it_is_at_least() -> None:
    loads = {"b1": 100.0, "b2": 100.0, "b3": 300.0, "b4": 110.0}
    found = models_of({"b1": 0.5, "b2": 0.6, "b3": 1.0, "b4": 1.0}, loads, {})
    assert found["b3"].line.slope == pytest.approx(0.006)  # as others, and not a third of a hundredth
    assert found["b4"].line.slope == pytest.approx(1.0 / 110.0)  # it is weaker than they are
    full = models_of(dict.fromkeys(loads, 0.999), loads, {})
    assert {round(model.line.slope, 9) for model in full.values()} == {round(4 * 0.999 / 610.0, 9)}


def test_load_that_has_grown_since_usage_was_measured_takes_no_more_than_that_of_others() -> None:
    sums = {"b1": after([(10.0, 0.2)]), "b2": after([(200.0, 0.4)])}
    found = models_of({"b1": 0.2, "b2": 0.4}, {"b1": 100.0, "b2": 200.0}, sums)
    slope = 0.6 / 210.0
    assert found["b1"].line == UsageLine(pytest.approx(0.2 - 10.0 * slope), pytest.approx(slope))
    assert found["b2"].line == UsageLine(0.0, 0.002)


@pytest.mark.parametrize(
    ("kept", "load", "slope"),
    [
        ([(0.5, 0.2)], 0.6, 0.4),
        ([(10.0, 0.2), (10.0, 0.2)], 10.0, 0.02),
        ([(0.0, 0.2)], 100.0, 0.003),  # usage without load: of no use for a proportion
        ([(10.0, 0.0)], 100.0, 0.003),
        ([(0.0, 0.0)], 0.5, 0.6),
    ],
)
def test_remembered_figures_count_before_the_latest_where_both_load_and_usage_are_known(
    kept: list[tuple[float, float]], load: float, slope: float
) -> None:
    found = models_of({"b1": 0.3}, {"b1": load}, {"b1": after(kept)})
    assert found["b1"].line == UsageLine(0.0, pytest.approx(slope))


def test_a_broker_without_known_usage_or_load_counts_as_others_do() -> None:
    loads = {"b1": 100.0, "b2": 100.0, "b3": 100.0}
    for usages in ({"b1": 0.5}, {"b1": 0.5, "b2": 0.0, "b3": 0.0}):
        assert models_of(usages, loads, {})["b2"].line == UsageLine(0.0, 0.005)
    assert models_of({"b1": 0.3}, {"b1": 0.0}, {})["b1"].line == UsageLine(0.3, 0.0)
    full = models_of({"b2": 0.5}, {"b1": 300.0, "b2": 100.0}, {"b1": after([(300.0, 1.0)])})
    assert full["b1"].line == UsageLine(0.0, 0.005), "a remembered figure may be saturated, too"


def test_half_of_the_load_is_messages() -> None:
    small, large = BundleFigures(0.0, 500.0, 5.0), BundleFigures(500.0, 1_000.0, 1.0)
    assert load_of(small, "cpu", 100.0) == 1_000.0
    assert load_of(large, "cpu", 100.0) == 1_600.0
    assert load_of(large, "bandwidth_in", 100.0) == 500.0
    assert load_of(large, "bandwidth_out", 100.0) == 1_000.0


def test_without_any_usage_brokers_are_alike() -> None:
    found = by_traffic({"b1": 300.0, "b2": 100.0})
    assert [found[name].line.usage(load) for name, load in (("b1", 300.0), ("b2", 100.0))] == [0.75, 0.25]
    assert by_traffic({"b1": 0.0})["b1"].line.usage(5.0) == 0.0


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 1e9, 1e18]), st.floats(0.0, 3.0)), max_size=30), st.booleans())
def test_no_figures_make_it_fail(samples: list[tuple[float, float]], swings: bool) -> None:
    sums = UsageSums()
    for load, usage in samples:
        sums = sums.decayed(30.0).with_sample(load, usage, is_swinging=swings)
        model = models_of({"b1": usage}, {"b1": load, "b2": 1.0}, {"b1": sums})["b1"]
        assert math.isfinite(model.line.usage(load))
        assert model.line.slope >= 0


def test_each_budget_has_its_limit_and_wishes_come_first() -> None:
    spent = Spent(unloads=1, traffic=3.0, from_broker={"b1": 1}, to_broker={"b2": 1}, anywhere=1)
    limits = {
        PER_CYCLE: 3, FROM_BROKER: 2, TO_BROKER: 3, MOVED_TRAFFIC: 9.0,
    }  # fmt: skip
    budget = CycleBudget(spent, 100.0, Settings().with_values({**limits}))
    assert budget.full([("b1", "b3", 5.9)]) == ""
    assert budget.full([("b1", "b3", 6.1)]) == MOVED_TRAFFIC
    assert budget.full([("b1", "b3", 1.0), ("b1", "b3", 1.0)]) == FROM_BROKER
    assert budget.full([("b4", "b2", 1.0), ("b5", "b2", 1.0)]) == TO_BROKER
    budget.take("b4", "b2", 1.0)
    budget.take("b5", "b3", 1.0)
    assert budget.full([("b6", "b4", 0.0)]) == PER_CYCLE
    received = CycleBudget(Spent(), 100.0, Settings().with_values({TO_BROKER: 1}))
    received.take("b4", "b2", 1.0)
    assert [received.full([("b5", target, 1.0)]) for target in ("b2", "b3")] == [TO_BROKER, ""]
    assert not budget.may_go_alone()
    assert CycleBudget(Spent(), 100.0, Settings()).may_go_alone()
    off = CycleBudget(spent, 100.0, Settings().with_values({"evenkeelGuardsEnabled": False}))
    assert off.full([("b1", "b3", 99.0)] * 30) == ""
