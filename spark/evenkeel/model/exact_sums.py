"""Sums of doubles that do not depend on their order: exactly the bits of `spark.sql.exact_sum`, without Spark.

Each figure is taken as the exact decimal that Java writes for it, at 18 decimals, added without rounding and made a
double once. Java (up to 18) writes the shortest decimal that reads back as the double, as Python does, except that of
whole numbers beyond 2^53 it cuts off too few digits. No power of two, whose range Java takes too narrow, shows it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import accumulate, chain

_BEYOND = 1e20
"""Bound of a figure, or a sum: 38 digits, of which 18 are decimals, cannot hold it."""

_EXACT = Context(prec=60)
_DECIMALS = 18
_STEP = Decimal("1e-18")
_MANY_DECIMALS = 0.01
"""A double below it may have more than 18 decimals; it has 17 digits at most."""

_WHOLE, _LONG = 2.0**53, 2.0**63
"""From the first on, below the second, Java writes other whole numbers than Python does."""
_WORTH_ARROW = 100
_A_UNIT = 10**_DECIMALS
_MOST_STEPS = int(_BEYOND) * _A_UNIT


def exact_sum(figures: Iterable[float | None]) -> float | None:
    """Return the sum of known figures; None without any, and for inexact sums: NaN, infinite, 1e20 and more."""
    total, is_some, add = Decimal(0), False, _EXACT.add
    for figure in figures:
        if figure is None:
            continue
        size = abs(figure)
        if not size < _BEYOND:
            return None
        is_some = True
        if _MANY_DECIMALS <= size < _WHOLE:  # nearly all are
            total = add(total, Decimal(repr(figure)))
        elif size:
            total = add(total, _exact(figure))
    return float(total) if is_some and abs(total) < _BEYOND else None


def exact_sums(groups: Iterable[Iterable[float | None]]) -> list[float | None]:
    """Return `exact_sum` of each group. Of many figures Arrow makes the decimals, all at once."""
    present = [[figure for figure in group if figure is not None] for group in groups]
    if sum(map(len, present)) < _WORTH_ARROW:
        return [exact_sum(figures) for figures in present]
    totals = iter(_totals([figures for figures in present if figures]))
    return [next(totals) if figures else None for figures in present]


def _totals(groups: Sequence[Sequence[float]]) -> list[float | None]:
    """Return `exact_sums` of groups that are not empty: a decimal is a whole number of steps of 1e-18, in 128 bits."""
    import numpy as np
    import pyarrow as pa

    figures = np.array([*chain.from_iterable(groups)], np.float64)
    sizes = np.abs(figures)
    is_plain = (sizes >= _MANY_DECIMALS) & (sizes < _WHOLE)
    texts = pa.array(np.where(is_plain, figures, 0.0)).cast(pa.string())
    decimals = texts.cast(pa.decimal128(38, _DECIMALS))
    words = np.frombuffer(decimals.buffers()[1], "<u4").reshape(-1, 4)
    begins = [0, *accumulate(map(len, groups))][:-1]
    low = np.add.reduceat(words[:, :3].astype(np.int64), begins).tolist()
    high = np.add.reduceat(words[:, 3].view("<i4").astype(np.int64), begins).tolist()
    steps = [a + (b << 32) + (c << 64) + (d << 96) for (a, b, c), d in zip(low, high, strict=True)]
    of_group = np.repeat(np.arange(len(groups)), [*map(len, groups)])
    beyond = {*of_group[~(sizes < _BEYOND)].tolist()}
    for place in np.flatnonzero(~is_plain & (sizes > 0) & (sizes < _BEYOND)).tolist():
        steps[of_group[place]] += int(_exact(float(figures[place])).scaleb(_DECIMALS, _EXACT))
    return [
        None if number in beyond or abs(total) >= _MOST_STEPS else total / _A_UNIT for number, total in enumerate(steps)
    ]


def _exact(figure: float) -> Decimal:
    size = abs(figure)
    if _WHOLE <= size < _LONG:
        return _of_a_large_whole(int(size)).copy_sign(Decimal(figure))
    exact = Decimal(repr(figure))
    return exact if size >= _MANY_DECIMALS else exact.quantize(_STEP, ROUND_HALF_UP, _EXACT)


def _of_a_large_whole(size: int) -> Decimal:
    """Return the number rounded half up to a power of ten that is below the distance of doubles of this size."""
    step = 1 if size < 2**58 else 10 if size < 2**61 else 100
    return Decimal((size + step // 2) // step * step)
