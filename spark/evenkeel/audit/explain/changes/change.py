"""What would have changed an answer: one figure, everything else as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

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
        """needed - measured; None for what is no figure."""
        return None if self.needed is None or self.measured is None else self.needed - self.measured


@dataclass(frozen=True)
class Around:
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
