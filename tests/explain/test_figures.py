"""The nearest value at which an answer differs is found on either side, to the last digits, and in few steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.explain.changes.figures import nearest, roundest

values = st.floats(1e-3, 1e9)


@given(value=values, factor=st.floats(0.01, 100.0))
def test_a_threshold_is_found_on_both_sides(value: float, factor: float) -> None:
    threshold = value * factor
    found = nearest(lambda tried: (tried >= threshold) != (value >= threshold), value)
    assert found is not None
    below, above = sorted((found.same, found.other))
    assert below < threshold <= above or below <= threshold <= above
    assert above - below <= 2e-10 * above
    assert (found.other >= threshold) != (value >= threshold)


@given(count=st.integers(0, 5_000), limit=st.integers(1, 5_000))
def test_counts_are_asked_in_whole_numbers(count: int, limit: int) -> None:
    asked: list[float] = []

    def differs(tried: float) -> bool:
        asked.append(tried)
        return (tried > limit) != (count > limit)

    found = nearest(differs, float(count), scale=max(count, limit), is_whole=True)
    assert found is not None
    assert {found.same, found.other} == {limit, limit + 1}
    assert all(tried == int(tried) >= 0 for tried in asked)


def test_of_two_boundaries_the_nearer_one_is_named() -> None:
    found = nearest(lambda tried: tried < 95.0 or tried > 120.0, 100.0)
    assert found is not None
    assert found.other == pytest.approx(95.0)


def test_a_guess_that_is_right_saves_the_bisection() -> None:
    asked: list[float] = []

    def differs(tried: float) -> bool:
        asked.append(tried)
        return tried >= 123.456

    assert nearest(differs, 100.0, guesses=[110.0, 123.456]) is not None
    assert len(asked) <= 20


def test_where_nothing_differs_nothing_is_named() -> None:
    assert nearest(lambda tried: False, 100.0) is None
    assert nearest(lambda tried: tried < 0, 100.0) is None
    assert nearest(lambda tried: tried < -20, -10.0) is not None


@pytest.mark.parametrize(
    ("first", "last", "number"),
    [(0.8499999, 0.8500001, 0.85), (999.9, 1000.1, 1000.0), (3.0, 3.0, 3.0), (40.2500000001, 40.25, 40.25)],
)
def test_the_roundest_number_between_two_is_shown(first: float, last: float, number: float) -> None:
    assert roundest(first, last) == number
