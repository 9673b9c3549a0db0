"""Parts of the sentences of verdicts: figures with their units, as text.

The texts are part of stored sentences: they never change.
"""

from __future__ import annotations

from evenkeel.model.amounts import amount
from evenkeel.model.consideration import Considered, Sentence


def measured(row: Considered) -> str:
    """Return the measured value with its unit."""
    return amount(row.measured, row.unit)


def threshold(row: Considered) -> str:
    """Return the threshold with its unit."""
    return amount(row.threshold, row.unit)


def number(row: Considered, name: str, unit: str = "count") -> str:
    """Return one of the numbers of the verdict, with its unit."""
    return amount(row.numbers.get(name), unit)


def points(fraction: float) -> str:
    """Return percentage points, without decimals if they are zero."""
    value = round(fraction * 100, 6)
    return f"{value:.0f} points" if value == round(value) else f"{value:.1f} points"


def destination_of(row: Considered) -> str | None:
    """Return the broker a placed bundle goes to: the first by name of the best ones; None if there is none."""
    return next((a.name for a in row.alternatives if a.verdict == "best"), None)


def bundle_stays(why: str) -> Sentence:
    """Return the sentence of a bundle that stays on its broker, with the reason."""
    return lambda row: f"{row.subject} stays on {row.broker}: {why}."
