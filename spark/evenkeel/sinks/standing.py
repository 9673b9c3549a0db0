"""Which of several outcomes of one command stands.

Two agents may each speak of a command: one carried it out, and the other, to whom the queue gave it again, found its
premise gone. So a word that tells of an effect stands against one that tells of none, and what is known against what
is not; of equals the earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable

from evenkeel.sinks import Outcome

STRENGTH = ("done", "overridden", "lost", "timed_out", "unknown", "refused", "stale", "withheld", "dry_run")
"""All outcomes that a command can have, the strongest first."""


def standing(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """One outcome per `command_id`."""
    stands: dict[str, Outcome] = {}
    for one in sorted(outcomes, key=lambda one: (STRENGTH.index(one.outcome), one.seen_at)):
        stands.setdefault(one.command_id, one)
    return stands
