"""A guard's verdict: the rule against a command, with its numbers; and the parts of causes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from evenkeel.model.amounts import counted
from evenkeel.model.consideration import finite
from evenkeel.publish.guards.situation import Command

Unit = Literal["percent", "count", "s", "points", ""]


@dataclass(frozen=True, slots=True)
class Objection:
    """A rule and the comparison that it made. `words` are names and texts that its sentence needs.

    `keeps_place`: the command counts in the budgets although it is held back. This holds for uncertain data: missing
    data must never make room for another command.
    """

    rule: str
    setting: str | None = None
    measured: float | None = None
    threshold: float | None = None
    unit: Unit = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    keeps_place: bool = False

    @property
    def margin(self) -> float | None:
        """measured - threshold, in `unit`."""
        if self.measured is None or self.threshold is None:
            return None
        return finite(self.measured - self.threshold)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The guards' verdict. `command` None: on the whole cluster, and then every command is held back.

    `position`: of the command in the plan, from 1; 0 for the cluster. "allowed" is used only if a rule objected and its
    own exception let the command pass.
    """

    outcome: Literal["held", "allowed"]
    objection: Objection
    command: Command | None = None
    position: int = 0


Cause = Callable[[Objection], str]
"""Why a command is held back, or passes in spite of a rule, in words; the part of a sentence after the colon."""


def duration(seconds: float | None) -> str:
    """`40 seconds`, `12 minutes`, `3.5 hours`."""
    if seconds is None:
        return "an unknown time"
    if seconds < 120:
        return counted(seconds, "second")
    if seconds < 7200:
        return counted(seconds / 60, "minute")
    hours = round(seconds / 3600, 1)
    return counted(hours, "hour") if hours == int(hours) else f"{hours:.1f} hours"


def percent(value: float | None) -> str:
    """A percentage with one decimal."""
    return "an unknown share" if value is None else f"{value:.1f} %"


def points(value: float | None) -> str:
    """Return a number with one decimal, or without decimals if it has none."""
    if value is None:
        return "unknown"
    rounded = round(value, 1)
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,.1f}"


def because(text: str) -> str:
    """An operator's or another cycle's own words, as an end of a sentence without a second full stop."""
    words = " ".join(text.split()).rstrip(".")
    return f" ({words})" if words else ""
