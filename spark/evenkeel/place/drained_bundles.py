"""Placement of the bundles of drained brokers: one after the other, each on the broker with the least usage by then.

Pulsar's placement strategies choose for one bundle that was just looked up. For many bundles at once they would name
the same broker. This placement counts each bundle for the ones after it. Candidates are the brokers that the load
manager's filters leave. The usage that a bundle adds to a broker is not known beforehand. It is assumed to be the mean
of two shares of its old broker's usage: its share of that broker's traffic, and 1 / the number of that broker's
bundles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from evenkeel.cycle.reading import Row, Rows
from evenkeel.manual_requests.drain import BY_DRAINING, LEAVES
from evenkeel.model.amounts import amount, plural
from evenkeel.model.consideration import Alternative, Considered, Rule, finite
from evenkeel.place.placement import NO_CANDIDATE, Placement, goes_to
from evenkeel.place.rows import placement_row


class CandidateSet(Protocol):
    """The brokers that filters leave, and the rule that removed each of the others."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """The brokers that are left, by name."""

    @property
    def removed(self) -> Mapping[str, str]:
        """Broker -> the rule that removed it."""


class DrainRound(Protocol):
    """The placement round of either load manager, as far as drains need it."""

    def candidates(self, bundle: str) -> CandidateSet:
        """The brokers that may get the bundle."""

    def give(self, bundle: str, broker: str) -> None:
        """Count the bundle on the broker."""


def _words(row: Considered) -> str:
    removed = int(row.numbers["removed"])
    filters = f", {plural(removed, 'broker')} filtered out" if removed else ""
    of = f"{goes_to(row)}: of {plural(row.numbers['candidates'], 'candidate')}{filters}"
    if row.measured is None:
        return f"{of} none has load data, and it was given the fewest bundles of emptied brokers."
    return f"{of} it is used least, {amount(row.measured, row.unit)} with what it was given before."


LEAST_USED = Rule("placed", "least_used_by_then", _words)


def is_drained(row: Row) -> bool:
    """Return True if a row of `unload_decisions` is a bundle that leaves a drained broker."""
    return bool(row["strategy"] == BY_DRAINING and row["rule"] == LEAVES.name)


def drained_rows(rows: Rows, begin: Callable[[bool], DrainRound]) -> list[dict[str, Any]]:
    """Rows of `placement_decisions`, by bundle. `begin` gives a placement round, by True without groups."""
    asked = sorted(filter(is_drained, rows["unload_decisions"]), key=lambda row: str(row["subject"]))
    if not asked:
        return []
    placements, without = (_Forecast(rows, begin(freely)).place(asked) for freely in (False, True))
    pairs = zip(placements, without, strict=True)
    return [placement_row(placement, BY_DRAINING, BY_DRAINING, other) for placement, other in pairs]


class _Forecast:
    """Each broker's usage with the bundles that it was given so far; None where the usage is not known."""

    def __init__(self, rows: Rows, placing: DrainRound) -> None:
        self._placing = placing
        loads = {row["broker"]: row for row in rows["broker_load"]}
        self._usage: dict[str, float | None] = {name: finite(row.get("weighted_usage")) for name, row in loads.items()}
        self._traffic = {name: _throughput(row, "") for name, row in loads.items()}
        self._of_bundle = {row["bundle"]: _throughput(row, "used_") for row in rows["bundle_load"]}
        self._bundles = Counter(row["owner"] for row in rows["bundle_load"] if row["owner"] is not None)
        self._given: Counter[str] = Counter()

    def place(self, asked: Iterable[Row]) -> list[Placement]:
        return [self._place(row["subject"], row["broker"]) for row in asked]

    def _place(self, bundle: str, owner: str) -> Placement:
        filtered = self._placing.candidates(bundle)
        removed = [Alternative(broker, "removed", rule) for broker, rule in filtered.removed.items()]
        if not filtered.brokers:
            row = NO_CANDIDATE.about_bundle(bundle, owner, alternatives=_by_name(removed))
            return Placement(bundle, None, (), row.alternatives, row)
        taken = min(filtered.brokers, key=self._rank)
        usage = self._usage.get(taken)
        others = [
            Alternative(
                candidate, "best" if candidate == taken else "candidate", LEAST_USED.name, self._usage.get(candidate)
            )
            for candidate in filtered.brokers
        ]
        row = LEAST_USED.about_bundle(
            bundle,
            owner,
            measured=usage,
            unit="fraction",
            alternatives=_by_name([*others, *removed]),
            numbers={"candidates": len(filtered.brokers), "removed": len(removed), "given": self._given[taken]},
        )
        self._give(bundle, owner, taken)
        return Placement(bundle, taken, (taken,), row.alternatives, row)

    def _rank(self, broker: str) -> tuple[bool, float, int, str]:
        """Return a sort key: brokers with known usage first, then those with the fewest new bundles, then by name."""
        usage = self._usage.get(broker)
        return usage is None, usage or 0.0, self._given[broker], broker

    def _give(self, bundle: str, owner: str, taken: str) -> None:
        self._placing.give(bundle, taken)
        self._given[taken] += 1
        usage, source = self._usage.get(taken), self._usage.get(owner)
        if usage is not None and source is not None:
            self._usage[taken] = usage + source * self._share(bundle, owner)

    def _share(self, bundle: str, owner: str) -> float:
        """The mean of the bundle's shares of its broker's traffic and of the number of its bundles, from 0 to 1."""
        whole = self._traffic[owner]
        traffic = min(self._of_bundle.get(bundle, 0.0) / whole, 1.0) if whole > 0 else 0.0
        return (traffic + 1.0 / max(self._bundles[owner], 1)) / 2.0


def _by_name(alternatives: list[Alternative]) -> tuple[Alternative, ...]:
    return tuple(sorted(alternatives, key=lambda candidate: candidate.name))


def _throughput(row: Row, prefix: str) -> float:
    """Return the throughput in and out, byte/s; unknown figures and not-a-number count as 0."""
    return sum(finite(row.get(f"{prefix}msg_throughput_{way}")) or 0.0 for way in ("in", "out"))
