"""Amounts that a statement rests on, rounded to the side on which it stays true."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from evenkeel.decisions.amounts import quantity, throughput_unit


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount as it is shown, with the value that the text stands for, in the row's unit."""

    text: str
    value: float


def at_least(value: float, unit: str) -> Amount:
    """The amount rounded up."""
    return _rounded(value, unit, math.ceil)


def at_most(value: float, unit: str) -> Amount:
    """The amount rounded down."""
    return _rounded(value, unit, math.floor)


def _rounded(value: float, unit: str, direction: Callable[[float], int]) -> Amount:
    step, steps = _steps(value, unit)
    # Beyond so many digits there is only what adding binary fractions leaves behind.
    rounded = direction(round(value / step * steps, 6)) / steps
    if unit in ("fraction", "percent", "points"):
        return Amount(f"{rounded:,.1f} points", rounded * step)
    if unit == "s":
        return Amount(f"{rounded:,.0f} s", rounded)
    return Amount(quantity(rounded * step, unit), rounded * step)


def _steps(value: float, unit: str) -> tuple[float, float]:
    """The size of the shown unit in the row's unit, and into how many parts it is cut by the digits shown of it."""
    if unit == "fraction":
        return 0.01, 10.0
    if unit == "byte/s":
        size, _ = throughput_unit(value)
        return size, 1.0 if size == 1.0 else 10.0
    if unit == "ms":
        return 1000.0, 1.0
    if unit == "s":
        return 1.0, 1.0
    return 1.0, 10.0
