"""Conditions, cases and unions over many clusters, nested as little as can be.

A plan reaches the Connect server as a message that may be nested a hundred levels deep. A chain of `or` or of unions
nests one or two levels with every link, so that a run over some forty clusters could not be sent; here it nests with
the logarithm of their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import or_
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_T = TypeVar("_T")


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions holds; false if there is none."""
    from pyspark.sql import functions as F

    return _folded(list(conditions), or_, F.lit(False))


def first_of(cases: Iterable[tuple[Column, str]], otherwise: Column) -> Column:
    """The text of the first case whose condition holds."""
    from pyspark.sql import functions as F

    return F.coalesce(*(F.when(condition, F.lit(text)) for condition, text in cases), otherwise)


def united(frames: Iterable[DataFrame]) -> DataFrame:
    """The rows of all frames, one at least, by column name."""
    return _folded(list(frames), lambda left, right: left.unionByName(right))


def _folded(items: list[_T], combine: Callable[[_T, _T], _T], nothing: _T | None = None) -> _T:
    if not items:
        if nothing is None:
            raise ValueError("nothing to put together")
        return nothing
    while len(items) > 1:
        pairs = [combine(*items[at : at + 2]) for at in range(0, len(items) - 1, 2)]
        items = pairs + items[len(pairs) * 2 :]
    return items[0]
