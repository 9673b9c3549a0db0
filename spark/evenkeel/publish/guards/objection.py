"""What a guard says: the rule that speaks against a command, with its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from evenkeel.model.considered import finite
from evenkeel.publish.guards.situation import Command

Unit = Literal["percent", "count", "s", "points", ""]


@dataclass(frozen=True, slots=True)
class Objection:
    """A rule and the comparison that it made. `words` are names and texts that its sentence needs.

    `keeps_place`: the command counts in the budgets although it is held back. So it is where something is not known
    well enough: what is missing must never make room for another command.
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
    """What guards came to. `command` None: about the cluster as a whole, and then every command is held back.

    `position`: of the command in the plan, from 1; 0 for the cluster. "allowed" is only said where a rule objected and
    an exception of its own let the command through.
    """

    outcome: Literal["held", "allowed"]
    objection: Objection
    command: Command | None = None
    position: int = 0
