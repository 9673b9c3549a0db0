"""What a cycle's plan comes to, in figures that can be compared between strategies.

Usage is what the cycle recorded for its brokers, whatever weights a variant sets, so that all are held against the same
measure. After a plan it is a forecast: a moved bundle takes along its share of its broker's usage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenkeel.rounds.forecast import Forecast

BOUNCE_MS = 3_600_000
"""A move back to an owner of this last while is a bounce."""

Move = tuple[str, str | None, str | None]
"""Bundle, the broker that it leaves, the broker where it would go."""


@dataclass
class FormerOwners:
    """Who had a bundle of late: bundle -> owner -> when it last gave it away (epoch ms)."""

    known: dict[str, dict[str, int]] = field(default_factory=dict)

    def left(self, bundle: str, owner: str, at: int) -> None:
        """Notes that the owner gives the bundle away."""
        self.known.setdefault(bundle, {})[owner] = at

    def is_bounce(self, bundle: str, destination: str | None, at: int) -> bool:
        """Whether the destination had the bundle within the last hour."""
        before = self.known.get(bundle, {}).get(destination or "")
        return before is not None and at - before <= BOUNCE_MS

    def forget(self, at: int) -> None:
        """Drops what is older than an hour."""
        if self.known:
            kept = {b: {o: t for o, t in owners.items() if at - t <= BOUNCE_MS} for b, owners in self.known.items()}
            self.known = {bundle: owners for bundle, owners in kept.items() if owners}


def bounces(moves: Iterable[Move], former: FormerOwners, at: int) -> set[str]:
    """The bundles that go back to an owner of the hour before; the moves are noted for later."""
    moves = [*moves]
    back = {bundle for bundle, _, destination in moves if former.is_bounce(bundle, destination, at)}
    for bundle, source, _ in moves:
        if source is not None:
            former.left(bundle, source, at)
    return back


def load_figures(change: Forecast, limit: float) -> dict[str, Any]:
    """The columns of `replay_cycles` about the brokers' load."""
    after = [*change.after.values()]
    return {
        "moved_traffic_share": change.moved_share,
        "before_max_usage": max(change.before.values(), default=None),
        "after_max_usage": max(after, default=None),
        "before_max_over_mean": change.before_max_over_mean,
        "after_max_over_mean": change.after_max_over_mean,
        "before_spread": spread(change.before.values()),
        "after_spread": spread(after),
        "over_limit": max(after) > limit if after else None,
    }


def spread(values: Iterable[float]) -> float | None:
    """Standard deviation; None without values."""
    found = sorted(values)
    if not found:
        return None
    mean = math.fsum(found) / len(found)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in found) / len(found))


def command_key(command: Mapping[str, Any], destination: str | None) -> tuple[Any, ...]:
    """What makes two commands the same: kind, bundle, where it goes or is cut."""
    if command["kind"] == "split":
        return "split", command["bundle"], tuple(command["cuts"] or ())
    return "unload", command["bundle"], destination


def owners_changed(
    before: Mapping[str, str | None], bundles: Sequence[str], owners: Sequence[str | None]
) -> list[tuple[str, str]]:
    """Bundles whose owner is another than in the cycle before, with the one they had."""
    return [
        (bundle, was)
        for bundle, now in zip(bundles, owners, strict=True)
        if (was := before.get(bundle)) is not None and now is not None and was != now
    ]
