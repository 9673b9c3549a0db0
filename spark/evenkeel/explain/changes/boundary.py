"""The nearest value of a figure at which an answer is another one: growing steps to both sides, then bisection."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

_STEPS = tuple(2.0**power for power in (*range(-6, 1), 2, 4, 7, 10, 14, 18))
"""By how much a value is changed at first, as multiples of it."""
_CLOSE = 1e-10
_MOST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Boundary:
    """`same` is the last value at which the answer is the recorded one, `other` the first one at which it differs."""

    same: float
    other: float


def nearest(
    differs: Callable[[float], bool],
    value: float,
    *,
    scale: float = 0.0,
    is_whole: bool = False,
    guesses: Collection[float] = (),
) -> Boundary | None:
    """Return the boundary nearest to `value`; None if growing steps to both sides cross none.

    `scale` is the unit of the steps, by default the value. `guesses` are values at which a boundary may be; a correct
    guess saves the bisection. Values below zero are not tried, unless `value` is below zero.
    """
    lowest = min(value, 0.0) * (1 + _STEPS[-1])
    last = {1: value, -1: value}
    for part in _STEPS:
        step = part * (scale or abs(value) or 1.0)
        boundaries = []
        for side in last:
            tried = max(lowest, value + side * (max(1.0, float(round(step))) if is_whole else step))
            if tried != last[side] and differs(tried):
                boundaries.append(_between(differs, Boundary(last[side], tried), is_whole, guesses))
            last[side] = tried
        if boundaries:
            return min(boundaries, key=lambda boundary: abs(boundary.other - value))
    return None


def _between(
    differs: Callable[[float], bool], around: Boundary, is_whole: bool, guesses: Collection[float]
) -> Boundary:
    """Bisect until no value, or nearly none, is between the two."""
    same, other = around.same, around.other
    floor = _CLOSE * max(abs(same), abs(other))
    tries = [] if is_whole else [guess + side * _CLOSE * abs(guess) * 0.4 for guess in guesses for side in (1, -1)]
    while abs(other - same) > (1.0 if is_whole else max(_CLOSE * max(abs(same), abs(other)), floor * 1e-4)):
        middle = tries.pop() if tries else float(int((same + other) / 2)) if is_whole else (same + other) / 2
        if min(same, other) < middle < max(same, other):
            same, other = (same, middle) if differs(middle) else (middle, other)
    return Boundary(same, other)


def roundest(first: float, last: float) -> float:
    """Return the number with the fewest digits between two numbers, both included."""
    for digits in range(1, _MOST_DIGITS):
        for number in (float(f"{first:.{digits}g}"), float(f"{last:.{digits}g}")):
            if min(first, last) <= number <= max(first, last):
                return number
    return last
