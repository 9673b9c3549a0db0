"""Bounces: bundles that return to a broker that they left within the last hour."""

from __future__ import annotations

from dataclasses import dataclass, field

BOUNCE_MS = 3_600_000
"""A move back to an owner of this recent time is a bounce (milliseconds)."""


@dataclass
class FormerOwners:
    """Recent former owners of bundles: bundle -> owner -> when it last gave the bundle away (epoch ms)."""

    known: dict[str, dict[str, int]] = field(default_factory=dict)

    def left(self, bundle: str, owner: str, at: int) -> None:
        """Note that the owner gives the bundle away."""
        self.known.setdefault(bundle, {})[owner] = at

    def is_bounce(self, bundle: str, destination: str | None, at: int) -> bool:
        """Return True if the destination had the bundle within the last hour."""
        before = self.known.get(bundle, {}).get(destination or "")
        return before is not None and at - before <= BOUNCE_MS

    def forget(self, at: int) -> None:
        """Forget moves older than an hour."""
        if self.known:
            kept = {b: {o: t for o, t in owners.items() if at - t <= BOUNCE_MS} for b, owners in self.known.items()}
            self.known = {bundle: owners for bundle, owners in kept.items() if owners}
