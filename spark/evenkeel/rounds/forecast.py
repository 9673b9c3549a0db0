"""What the plan would do to the brokers' load: a forecast by share of traffic, not a promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Move:
    """A bundle that changes its broker, with its throughput in byte/s, in and out. `source` None: it had no owner."""

    bundle: str
    source: str | None
    destination: str
    throughput: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Broker to weighted usage (fraction) before and after, and the share of the cluster's traffic that moves."""

    before: Mapping[str, float]
    after: Mapping[str, float]
    moved_share: float

    @property
    def before_max_over_mean(self) -> float | None:
        """The largest usage over the mean before the moves; None where there is no mean."""
        return max_over_mean(self.before.values())

    @property
    def after_max_over_mean(self) -> float | None:
        """The largest usage over the mean after the moves; None where there is no mean."""
        return max_over_mean(self.after.values())


def forecast(usage: Mapping[str, float], throughput: Mapping[str, float], moves: Iterable[Move]) -> Forecast:
    """A moved bundle takes along the part of its broker's usage that its share of the broker's throughput is.

    `usage` is a fraction per broker, `throughput` byte/s per broker. Brokers are assumed to be equally strong; a
    bundle from a broker without known throughput moves no usage.
    """
    after = dict(usage)
    moved = 0.0
    for move in sorted(moves, key=lambda move: move.bundle):
        moved += move.throughput
        source = move.source or ""
        whole = throughput.get(source, 0.0)
        if source not in usage or move.destination not in usage or whole <= 0.0:
            continue
        part = usage[source] * min(move.throughput / whole, 1.0)
        after[source] -= part
        after[move.destination] += part
    total = sum(throughput[broker] for broker in sorted(throughput))
    return Forecast(dict(usage), after, moved / total if total > 0 else 0.0)


def max_over_mean(values: Iterable[float]) -> float | None:
    """Largest value over the mean; None without values or where all are zero."""
    found = sorted(values)
    mean = sum(found) / len(found) if found else 0.0
    return found[-1] / mean if mean > 0 else None
