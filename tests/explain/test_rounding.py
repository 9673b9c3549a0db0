import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.explain.changes import at_least

UNITS = st.sampled_from(["fraction", "percent", "points", "byte/s", "msg/s", "ms", "s", "count", ""])


@given(value=st.floats(0, 1e12), unit=UNITS)
def test_an_amount_is_rounded_up_so_that_it_stays_true(value: float, unit: str) -> None:
    dust = 1e-6 * max(1.0, value)
    assert at_least(value, unit).value >= value - dust


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0301, "fraction", "3.1 points"),
        ((0.4 - 0.2) * 3 / 2, "fraction", "30.0 points"),
        (1500.0, "byte/s", "1.5 KiB/s"),
        (12.01, "msg/s", "12.1 msg/s"),
        (1_000.0, "msg/s", "1,000 msg/s"),
        (1_048_500.0, "byte/s", "1.0 MiB/s"),
        (41_950.0, "ms", "42 s"),
        (60.0, "count", "60"),
    ],
)
def test_amounts_have_their_units(value: float, unit: str, text: str) -> None:
    assert at_least(value, unit).text == text
