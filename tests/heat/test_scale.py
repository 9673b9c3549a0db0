"""The scale of 8 bits: what is read back is near what was stored, and nothing, not known and little stay apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.errors import BadInput
from evenkeel.heat.scale import METRICS, Metric, metric_named


@given(st.sampled_from([*METRICS.values()]), st.floats(0, 1))
def test_a_value_on_the_scale_comes_back_within_half_a_step(metric: Metric, place: float) -> None:
    value = metric.lowest * (metric.highest / metric.lowest) ** place
    back = metric.value_of(int(metric.codes(np.array([value]))[0]))
    assert back is not None
    assert 1 / metric.factor**0.5001 <= back / value <= metric.factor**0.5001


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_half_a_step_is_less_than_six_percent(metric: Metric) -> None:
    assert metric.factor**0.5 < 1.06


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_not_known_nothing_and_what_lies_beyond_the_scale_have_codes_of_their_own(metric: Metric) -> None:
    codes = metric.codes(np.array([np.nan, 0.0, metric.lowest / 1e3, metric.highest * 1e3, np.inf, -1.0]))
    assert codes.tolist() == [0, 1, 2, 255, 255, 1]
    assert metric.value_of(0) is None
    assert metric.value_of(1) == 0.0
    assert metric.value_of(2) == pytest.approx(metric.lowest)
    assert metric.value_of(255) == pytest.approx(metric.highest)


def test_every_code_is_the_code_of_its_own_value() -> None:
    for metric in METRICS.values():
        assert metric.codes(metric.values()).tolist() == [*range(256)]


def test_an_unknown_metric_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match="unknown metric 'heat'; known are message_rate, byte_rate, topics"):
        metric_named("heat")
