"""Where commands go. A sink takes commands that are on record and says what was seen of each.

Which sink it is makes no difference to what was decided: a dry run is the same code with another sink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

# Pulsar gives an unload or split up after 60 s (namespaceBundleUnloadingTimeoutMs): no answer may still come then.
LONGEST_REQUEST_S = 65.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was seen of a command. `outcome` is one of those that the table `outcomes` names."""

    command_id: str
    outcome: str
    seen_at: datetime
    detail: str


def not_sent(command_id: str, at: datetime, why: str) -> Outcome:
    """The outcome of a command that was held back and not sent."""
    return Outcome(command_id, "withheld", at, f"not sent: {why}")


Stop = Callable[[], str | None]
"""Why no further command may go out; None while all is well."""

Told = Callable[[Outcome], None]
"""Takes what was seen of a command, as soon as it was seen."""
