"""What was seen of a command, which of several outcomes of one command counts, and what a sink is.

Which sink it is makes no difference to what was decided: a dry run is the same code with another sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


# Which of several outcomes of one command stands.
#
# Two agents may each speak of a command: one carried it out, and the other, to whom the queue gave it again, found its
# premise gone. So a word that tells of an effect stands against one that tells of none, and what is known against what
# is not; of equals the earlier one.

STRENGTH = ("done", "overridden", "lost", "timed_out", "unknown", "refused", "stale", "withheld", "dry_run")
"""All outcomes that a command can have, the strongest first."""


def standing(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """One outcome per `command_id`."""
    stands: dict[str, Outcome] = {}
    for one in sorted(outcomes, key=lambda one: (STRENGTH.index(one.outcome), one.seen_at)):
        stands.setdefault(one.command_id, one)
    return stands
