"""Moving averages of a broker's usage under the extensible manager."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model.load import BrokerReport, ResourceUsage
from evenkeel.model.usage import ExtensibleAverages, advanced
from evenkeel.settings import Settings
from tests.cycle.extensible_clusters import MANAGER

SETTINGS = Settings(loadManagerClassName=MANAGER)


def test_an_average_moves_with_the_time_that_has_passed() -> None:
    assert advanced(None, 0.4, 60.0, 0.9) == 0.4
    assert advanced(0.2, 0.8, 5.0, 0.9) == 0.2 * 0.9 + (1 - 0.9) * 0.8
    assert advanced(0.2, 0.8, 0.0, 0.9) == advanced(0.2, 0.8, -5.0, 0.9) == 0.2
    assert advanced(0.2, 0.8, 1e9, 0.9) == 0.8
    stepwise = 0.2
    for _ in range(12):
        stepwise = advanced(stepwise, 0.8, 5.0, 0.9)
    assert advanced(0.2, 0.8, 60.0, 0.9) == pytest.approx(stepwise, rel=1e-12)


@given(
    history=st.floats(0, 2),
    sample=st.floats(0, 2),
    elapsed=st.floats(0, 1e5),
    weight=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
)
def test_an_average_stays_between_history_and_sample(
    history: float, sample: float, elapsed: float, weight: float
) -> None:
    moved = advanced(history, sample, elapsed, weight)
    assert min(history, sample) - 1e-12 <= moved <= max(history, sample) + 1e-12


def test_after_one_tick_the_averages_are_a_brokers_own() -> None:
    report = BrokerReport("b1:8080", cpu=ResourceUsage(30.0, 100.0), msg_throughput_in=5.0, msg_throughput_out=7.0)
    busy = replace(report, cpu=ResourceUsage(90.0, 100.0), msg_throughput_in=50.0)
    start = ExtensibleAverages().advanced(report, 600.0, SETTINGS)
    assert start == ExtensibleAverages().updated(report, SETTINGS)
    assert start.advanced(busy, 5.0, SETTINGS) == start.updated(busy, SETTINGS)
