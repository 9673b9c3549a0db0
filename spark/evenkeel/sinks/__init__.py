"""Where commands go. A sink takes commands that are on record and says what was seen of each.

Which sink it is makes no difference to what was decided: a dry run is the same code with another sink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was seen of a command. `outcome` is one of those that the table `outcomes` names."""

    command_id: str
    outcome: str
    seen_at: datetime
    detail: str


class Sink(Protocol):
    """Takes rows of `commands` in the order of their steps."""

    def send(self, commands: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """Carries the commands out, or not, and tells of every one of them."""
        ...
