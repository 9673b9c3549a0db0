"""Amounts that a statement rests on, rounded to the side on which it stays true."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

_BINARY = ((1024.0**3, "GiB/s"), (1024.0**2, "MiB/s"), (1024.0, "KiB/s"), (1.0, "byte/s"))


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
    factor, digits, name = _scale(value, unit)
    steps = 10.0**digits
    # Beyond so many digits there is only what adding binary fractions leaves behind.
    rounded = direction(round(value / factor * steps, 6)) / steps
    return Amount(f"{rounded:,.{digits}f} {name}".strip(), rounded * factor)


def _scale(value: float, unit: str) -> tuple[float, int, str]:
    """The shown unit's size in the row's unit, the digits after the point, and the shown unit's name."""
    if unit == "fraction":
        return 0.01, 1, "points"
    if unit in ("percent", "points"):
        return 1.0, 1, "points"
    if unit == "byte/s":
        size, name = next((pair for pair in _BINARY if abs(value) >= pair[0]), (1.0, "byte/s"))
        return size, 0 if size == 1.0 else 2, name
    if unit == "msg/s":
        return 1.0, 1, "msg/s"
    if unit == "ms":
        return 1000.0, 1, "s"
    if unit == "s":
        return 1.0, 0, "s"
    return 1.0, 0 if value == int(value) else 2, ""
