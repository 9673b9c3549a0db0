"""The guards' input and output: a plan's commands with the known state of the cluster, and the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Literal

from evenkeel.errors import BadInput
from evenkeel.model.amounts import counted
from evenkeel.model.bundles import BundleRange, namespace_of, range_of
from evenkeel.model.consideration import finite
from evenkeel.model.past_commands import Move

CommandKind = Literal["split", "unload", "unload_topic"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command as the plan wants it.

    `source`: the owner, None if no broker owns the bundle. `destination`: the broker where an unloaded bundle is
    expected, even if Pulsar does not get it. `traffic`: of the bundle, byte/s in and out, None if unknown. `cuts`: of a
    split. `wished`: a manual request; `asked_again`: if it is held back now, the next cycle requests it again. `topic`:
    of `unload_topic`, which moves no load.
    """

    kind: CommandKind
    bundle: str
    source: str | None
    destination: str | None = None
    traffic: float | None = 0.0
    cuts: int = 0
    wished: bool = False
    asked_again: bool = False
    topic: str | None = None

    @property
    def turn(self) -> int:
        """Return the guards' order: one-time requests first, then operators' requests, then strategies."""
        return 0 if self.wished and not self.asked_again else 1 if self.wished else 2


@dataclass(frozen=True, slots=True)
class Broker:
    """A listed broker. `usage`: weighted, a fraction, None if not known. `traffic`: of its bundles, byte/s in and out.

    `report_age`: seconds from its report to the decision, None if not known.
    """

    reported: bool = False
    report_age: float | None = None
    usage: float | None = None
    traffic: float = 0.0


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A bundle or broker whose figures are not to be trusted before `until`; None: no one knows until when."""

    subject: str
    until: datetime | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Harm:
    """A command did harm to a bundle; `kind` is the command's, `at` when the harm was first seen."""

    bundle: str
    kind: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Pause:
    """An operator's word that this cluster is to be left alone."""

    reason: str = ""
    by: str = ""


@dataclass(frozen=True)
class Situation:
    """One cluster at one moment. `commands` are in the order of the plan, which decides who comes first in a budget.

    `brokers`: those that the cluster lists. `traffic`: of all bundles, byte/s in and out. `bundle_counts`: namespace ->
    bundles. `unclear`: bundles claimed by two brokers, or by none while a broker's list is missing. `bundles`: number
    of bundles. Only the order of `commands` counts.
    """

    cluster: str
    at: datetime
    commands: Sequence[Command]
    brokers: Mapping[str, Broker]
    traffic: float = 0.0
    bundle_counts: Mapping[str, int] = field(default_factory=dict)
    unclear: Collection[str] = frozenset()
    moves: Sequence[Move] = ()
    unsettled: Sequence[Unsettled] = ()
    pauses: Sequence[Pause] = ()
    harms: Sequence[Harm] = ()

    @property
    def bundles(self) -> int:
        """Bundles of all namespaces."""
        return sum(self.bundle_counts.values())

    def moves_of(self, bundle: str) -> Sequence[Move]:
        """The moves of a bundle."""
        return self._moves_by_bundle.get(bundle, ())

    def unsettled_at(self, subject: str) -> Iterator[Unsettled]:
        """Return the unsettled events of a broker, or of a bundle and those that share hashes with it."""
        for event in self._unsettled_by_namespace.get(_namespace(subject), ()):
            if overlaps(subject, event.subject):
                yield event

    @cached_property
    def _moves_by_bundle(self) -> Mapping[str, list[Move]]:
        moves: dict[str, list[Move]] = {}
        for move in self.moves:
            moves.setdefault(move.bundle, []).append(move)
        return moves

    @cached_property
    def _unsettled_by_namespace(self) -> Mapping[str, list[Unsettled]]:
        """Return the events that are still unsettled, by the namespace of a bundle; a broker's under its own name."""
        events: dict[str, list[Unsettled]] = {}
        for event in self.unsettled:
            if event.until is None or event.until > self.at:
                events.setdefault(_namespace(event.subject), []).append(event)
        return events

    def share(self, traffic: float) -> float:
        """Return the percent of the cluster's traffic; 0 if the cluster has none."""
        return 100.0 * traffic / self.traffic if self.traffic > 0 else 0.0


def _namespace(subject: str) -> str:
    return subject.rpartition("/")[0] or subject


def overlaps(bundle: str, other: str) -> bool:
    """Return True if two bundles of one namespace share hashes; a name that is not a bundle's equals itself only."""
    if bundle == other:
        return True
    ranges = _ranges(bundle, other)
    return ranges is not None and ranges[0].lower < ranges[1].upper and ranges[1].lower < ranges[0].upper


def is_part_of(bundle: str, whole: str) -> bool:
    """Return True if a bundle is inside another one and smaller."""
    ranges = _ranges(bundle, whole) if bundle != whole else None
    return ranges is not None and ranges[1].covers(ranges[0])


def _ranges(bundle: str, other: str) -> tuple[BundleRange, BundleRange] | None:
    """The ranges of two bundles of one namespace."""
    try:
        if namespace_of(bundle) != namespace_of(other):
            return None
        return range_of(bundle), range_of(other)
    except BadInput:
        return None


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
