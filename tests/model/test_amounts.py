"""How amounts are written: a line per case."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.model import amounts

MIB = 1_048_576.0
QUANTITIES = [
    (0.7149, "fraction", "71.5 %"),
    (0.71, "fraction", "71.0 %"),
    (71.49, "percent", "71.5 %"),
    (1.5 * MIB, "byte/s", "1.5 MiB/s"),
    (1_299_000.0, "byte/s", "1.2 MiB/s"),
    (5_120 * MIB, "byte/s", "5,120.0 MiB/s"),
    (MIB, "byte/s", "1.0 MiB/s"),
    (1_040_187.0, "byte/s", "1,015.8 KiB/s"),
    (1_024.0, "byte/s", "1.0 KiB/s"),
    (1_023.0, "byte/s", "1,023 byte/s"),
    (3.0, "byte/s", "3 byte/s"),
    (0.0, "byte/s", "0 byte/s"),
    (12_345.6, "msg/s", "12,345.6 msg/s"),
    (1_500.0, "msg/s", "1,500 msg/s"),
    (1_001.0, "count", "1,001"),
    (1_001, "count", "1,001"),
    (12.54, "count", "12.5"),
    (18_000.0, "ms", "18 s"),
    (7_500_000.0, "ms", "7,500 s"),
    (2.5, "", "2.5"),
]
ON_PAGES = [
    (-0.004, "fraction", "−0.4 %"),
    (-0.00001, "fraction", "0.0 %"),
    (-2_000.0, "count", "−2,000"),
    (240.0, "s", "4 min"),
    (2.5, None, "2.5"),
    (10.0, "MiB/s", "10 MiB/s"),
    (None, "fraction", "–"),
    (float("nan"), "byte/s", "–"),
    (float("inf"), None, "–"),
]


@pytest.mark.parametrize(("value", "unit", "text"), QUANTITIES)
def test_a_figure_reads_the_same_in_a_sentence_and_on_a_page(value: float, unit: str, text: str) -> None:
    assert amounts.amount(value, unit) == amounts.quantity(value, unit) == text


@pytest.mark.parametrize(("value", "unit", "text"), ON_PAGES)
def test_pages_have_words_for_nothing_and_a_minus_sign(value: float | None, unit: str | None, text: str) -> None:
    assert amounts.quantity(value, unit) == text


def test_a_sentence_says_that_a_figure_is_unknown() -> None:
    assert amounts.amount(None, "byte/s") == "an unknown figure"


@pytest.mark.parametrize(
    ("written", "value", "text"),
    [
        (amounts.percent, 0.714, "71.4 %"),
        (amounts.percent, None, "unknown"),
        (amounts.throughput, 307 * 1024.0, "307.0 KiB/s"),
        (amounts.throughput, float("nan"), "unknown"),
        (amounts.rate, 2_231.0, "2,231 msg/s"),
        (amounts.rate, None, "unknown"),
        (amounts.ratio, 1.4233, "1.42"),
        (amounts.ratio, None, "unknown"),
        (amounts.count, 12_345, "12,345"),
        (amounts.count, None, "unknown"),
        (amounts.duration, 0.24, "0.2 s"),
        (amounts.duration, 18.4, "18 s"),
        (amounts.duration, 119.4, "119 s"),
        (amounts.duration, 240.0, "4 min"),
        (amounts.duration, 7_200.0, "2 h"),
        (amounts.duration, 7_500.0, "2 h 5 min"),
        (amounts.duration, None, "unknown"),
        (amounts.size, 17, "17 B"),
        (amounts.size, 4_200_000, "4.2 MB"),
        (amounts.size, 5e15, "5000.0 TB"),
        (amounts.size, None, ""),
    ],
)
def test_each_kind_of_amount(written: Callable[[Any], str], value: float | None, text: str) -> None:
    assert written(value) == text


@given(value=st.floats(0, 1e15), unit=st.sampled_from(["fraction", "percent", "byte/s", "msg/s", "ms", "count", ""]))
def test_every_figure_of_a_row_reads_on_a_page_as_in_its_sentence(value: float, unit: str) -> None:
    assert amounts.quantity(value, unit) == amounts.amount(value, unit)
