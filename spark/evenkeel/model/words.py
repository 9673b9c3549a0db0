"""What the sentences of verdicts are made of: figures with their units, as text.

The texts stand in stored sentences: they stay byte for byte.
"""

from __future__ import annotations

from evenkeel.model.amounts import amount
from evenkeel.model.consideration import Considered, Sentence


def measured(row: Considered) -> str:
    """The measured value with its unit."""
    return amount(row.measured, row.unit)


def threshold(row: Considered) -> str:
    """The threshold with its unit."""
    return amount(row.threshold, row.unit)


def number(row: Considered, name: str, unit: str = "count") -> str:
    """One of the numbers of the verdict, with its unit."""
    return amount(row.numbers.get(name), unit)


def points(fraction: float) -> str:
    """Percentage points, without decimals where there are none to show."""
    value = round(fraction * 100, 6)
    return f"{value:.0f} points" if value == round(value) else f"{value:.1f} points"


def destination_of(row: Considered) -> str | None:
    """The broker a placed bundle goes to: the first by name of the best ones; None if there is none."""
    return next((a.name for a in row.alternatives if a.verdict == "best"), None)


def bundle_stays(why: str) -> Sentence:
    """The sentence of a bundle that stays on its broker, with the reason."""
    return lambda row: f"{row.subject} stays on {row.broker}: {why}."
