"""Sums of doubles that do not depend on their order: the very bits of `spark.sql.exact_sum`, in plain Python.

Each figure is taken as the exact decimal that Java writes for it, at 18 decimals, added without rounding and made a
double once. Java (up to 18) writes the shortest decimal that reads back as the double, as Python does, but for powers
of two, where it takes too narrow a range, and for whole numbers beyond 2^53, of which it cuts off too few digits.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from math import frexp, ldexp

_BEYOND = 1e20
"""A figure, or a sum, of this size has no place in 38 digits of which 18 are decimals."""

_EXACT = Context(prec=60)
_STEP = Decimal("1e-18")
_NOTHING = 1e-19
"""A figure below it is nothing at 18 decimals."""
_MANY_DECIMALS = 0.01
"""A double below it may have more than 18 decimals; it has 17 digits at most."""

_WHOLE, _LONG = 2.0**53, 2.0**63
_POWER_OF_TWO = 0.5
"""The mantissa that `frexp` gives for one."""


def exact_sum(figures: Iterable[float | None]) -> float | None:
    """The sum; None of nothing, and of what has no exact sum: not a number, infinite, or 1e20 and more.

    None among the figures is passed over.
    """
    total, is_some, add = Decimal(0), False, _EXACT.add
    for figure in figures:
        if figure is None:
            continue
        size = abs(figure)
        if not size < _BEYOND:
            return None
        is_some = True
        if _MANY_DECIMALS <= size < _WHOLE and frexp(size)[0] != _POWER_OF_TWO:  # nearly all are
            total = add(total, Decimal(repr(figure)))
        elif size:
            total = add(total, _exact(figure))
    return float(total) if is_some and abs(total) < _BEYOND else None


def _exact(figure: float) -> Decimal:
    size = abs(figure)
    if size < _NOTHING:
        return Decimal(0)
    mantissa, exponent = frexp(size)
    if mantissa == _POWER_OF_TWO:
        exact = _of_a_power_of_two(size, exponent - 1).copy_sign(Decimal(figure))
    elif _WHOLE <= size < _LONG:
        exact = _of_a_large_whole(int(size), exponent - 1).copy_sign(Decimal(figure))
    else:
        exact = Decimal(repr(figure))
    return exact if size >= _MANY_DECIMALS else exact.quantize(_STEP, ROUND_HALF_UP, _EXACT)


def _of_a_power_of_two(size: float, exponent: int) -> Decimal:
    """The shortest decimal within half the distance to the double below, which is half as far as the one above."""
    if _WHOLE <= size < _LONG:
        return _of_a_large_whole(int(size), exponent)
    exact, within = Decimal(size), Decimal(ldexp(1.0, exponent - 54))
    digits, found = 0, Decimal(0)
    while not abs(found - exact) < within:
        digits += 1
        found = Context(prec=digits, rounding=ROUND_HALF_EVEN).create_decimal(exact)
    return found


def _of_a_large_whole(size: int, exponent: int) -> Decimal:
    """Rounded half up to a power of ten that is below the distance of doubles of this size."""
    step = 10 ** (0 if exponent < 58 else 1 if exponent < 61 else 2)
    return Decimal((size + step // 2) // step * step)
