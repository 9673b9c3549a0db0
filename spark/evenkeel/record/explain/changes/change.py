"""What would have changed an answer: one figure, everything else as it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evenkeel.model.amounts import quantity, throughput_unit

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """Had `subject`'s `figure` been `needed` instead of `measured`, the answer would have been another.

    `is_strict`: `needed` has to be passed, reaching it is not enough. `effect` says what would have been, and
    `sentence` all of it, with an amount rounded to the side on which the statement stays true. Of a limit that would
    have had to be another, `subject` is the setting's key. `is_more`: it would have had to be more, else less.
    """

    subject: str
    figure: str
    measured: float | None
    needed: float | None
    unit: str
    is_strict: bool
    effect: str
    sentence: str
    is_more: bool = True

    @property
    def by(self) -> float | None:
        """needed - measured; None for what is not a figure."""
        return None if self.needed is None or self.measured is None else self.needed - self.measured


@dataclass(frozen=True)
class Context:
    """What a row was decided with: the rows of its table in its cycle, and the values of settings that were read.

    `is_complete` is False where rows may be missing: what rests on all brokers or bundles is not said then. A cycle may
    have a hundred thousand rows, so what is looked for again and again is sorted out once.
    """

    rows: Sequence[Row] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_complete: bool = True

    @cached_property
    def brokers(self) -> list[Row]:
        """The rows about brokers."""
        return [row for row in self.rows if row["subject_kind"] == "broker"]

    @cached_property
    def bundles_of(self) -> Mapping[str | None, list[Row]]:
        """broker -> the rows about bundles on it."""
        found: dict[str | None, list[Row]] = {}
        for row in self.rows:
            if row["subject_kind"] == "bundle":
                found.setdefault(row["broker"], []).append(row)
        return found


# Amounts that a statement rests on, rounded to the side on which it stays true.


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount as it is shown, with the value that the text stands for, in the row's unit."""

    text: str
    value: float


def compared(row: Row) -> tuple[float, float] | None:
    """What was measured and its threshold; None where one of them is not on record."""
    measured, threshold = row["measured"], row["threshold"]
    return None if measured is None or threshold is None else (measured, threshold)


def within(row: Row) -> tuple[float, float] | None:
    """What was measured and its threshold, where the first is not above the second; else None."""
    found = compared(row)
    return None if found is None or found[1] < found[0] else found


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
