"""The planner's input: the brokers and bundles of one cluster at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

DAY = timedelta(days=1)
NETWORK = {"bandwidth_in": "bytes_in", "bandwidth_out": "bytes_out"}
"""Resources that carry bytes of one direction, with the figure of a bundle that loads them."""
OWN_NAMESPACE = "brokers_own_namespace"
"""Rule that holds a bundle which belongs to its broker; a stored name."""
ISOLATION, ANTI_AFFINITY = "isolation", "anti_affinity"
"""Rules that a bundle may break where it is."""
UNSETTLED_PART = 0.1
"""If more than this part of the brokers has unsettled figures, nothing is moved; else moves without these brokers
are."""
RESOURCES = ("cpu", "memory", "direct_memory", *NETWORK)


@dataclass(frozen=True, slots=True)
class PlannerBroker:
    """A broker that reported.

    `usages`: resource -> weighted usage (fraction, finite), of resources that count. `is_settled`: no command recently
    blurs its figures. `waits_until_known`: they are blurred until the outcome of a command is known.
    """

    name: str
    usages: Mapping[str, float]
    is_settled: bool = True
    waits_until_known: bool = False


@dataclass(frozen=True, slots=True)
class BundleFigures:
    """A bundle's traffic: byte/s and msg/s, each finite and at least 0."""

    bytes_in: float = 0.0
    bytes_out: float = 0.0
    messages: float = 0.0

    @property
    def traffic(self) -> float:
        """byte/s in and out."""
        return self.bytes_in + self.bytes_out

    def part(self, of: int) -> BundleFigures:
        """Return one of so many equal parts."""
        return BundleFigures(self.bytes_in / of, self.bytes_out / of, self.messages / of)

    def share(self, fraction: float) -> BundleFigures:
        """A fraction of it."""
        return BundleFigures(self.bytes_in * fraction, self.bytes_out * fraction, self.messages * fraction)


@dataclass(frozen=True, slots=True)
class PlannerBundle:
    """A bundle with its latest figures and their short-term `average`.

    `owner`: None without one. `brokers`: the brokers that may have it, not necessarily its owner. `allowed`: of one in
    an anti-affinity group also those that the group leaves out; else empty. `breach`: the rule that it breaks
    where it is, None without one. `left`: the brokers that it left within the return window, `left_today`: within the
    day. `held`: the rule that keeps it where it is, None if it may leave. `group`: its anti-affinity group, of which
    one bundle moves at a time. `part`: 0, or the number of a part that a split of this cycle makes. A part cannot move
    before the next cycle, and its load is still on `carried_by`. `children`: of a bundle that is split in this cycle,
    if nothing is predicted of its parts.
    """

    name: str
    owner: str | None
    figures: BundleFigures
    average: BundleFigures
    sessions: float = 0.0
    topics: int = 0
    brokers: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()
    breach: str | None = None
    left: frozenset[str] = frozenset()
    left_today: frozenset[str] = frozenset()
    held: str | None = None
    group: str | None = None
    part: int = 0
    carried_by: str | None = None
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spent:
    """Budget used by commands before the planner's. `anywhere`: unloads that may count for any broker."""

    unloads: int = 0
    traffic: float = 0.0
    from_broker: Mapping[str, int] = field(default_factory=dict)
    to_broker: Mapping[str, int] = field(default_factory=dict)
    anywhere: int = 0


@dataclass(frozen=True, slots=True)
class PlannerView:
    """One cluster at one moment, as the planner reads it.

    `bundles`: of brokers in `brokers`, of brokers that are emptied, and without owner. `stopped`: the rule by which
    nothing may move now, None if bundles may move. `traffic`: of all bundles, byte/s in and out. `moved`: (cycle,
    broker) of unloads carried out recently. `refused_splits`: bundles whose requested split this cycle refused.
    `has_averages`: averages have enough samples to judge the steadiness of the load.
    """

    at: datetime
    brokers: Mapping[str, PlannerBroker]
    bundles: Sequence[PlannerBundle]
    spent: Spent = Spent()
    stopped: str | None = None
    traffic: float = 0.0
    moved: frozenset[tuple[datetime, str]] = frozenset()
    usage_settles_minutes: float = 2.0
    refused_splits: frozenset[str] = frozenset()
    has_averages: bool = True

    @property
    def is_settled(self) -> bool:
        """Return True if figures can be trusted of nearly all brokers, those without a known settling time aside."""
        waiting = sum(not broker.is_settled and not broker.waits_until_known for broker in self.brokers.values())
        return waiting <= UNSETTLED_PART * len(self.brokers)
