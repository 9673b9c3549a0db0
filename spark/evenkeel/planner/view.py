"""What the planner looks at: the brokers and bundles of one cluster at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

DAY = timedelta(days=1)
NETWORK = {"bandwidth_in": "bytes_in", "bandwidth_out": "bytes_out"}
"""Resources that carry bytes of one direction, with the figure of a bundle that loads them."""
OWN_NAMESPACE = "brokers_own_namespace"
"""Why a bundle stays that belongs to its broker; a stored name."""
UNSETTLED_PART = 0.1
"""While the figures of more than this part of the brokers are blurred, nothing is moved; else what they have no part in
is."""
RESOURCES = ("cpu", "memory", "direct_memory", *NETWORK)


@dataclass(frozen=True, slots=True)
class PlannerBroker:
    """A broker that reported.

    `usages`: resource -> weighted usage (fraction, finite), of resources that count. `is_settled`: no command of late
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
        """One of so many equal parts."""
        return BundleFigures(self.bytes_in / of, self.bytes_out / of, self.messages / of)

    def share(self, fraction: float) -> BundleFigures:
        """A fraction of it."""
        return BundleFigures(self.bytes_in * fraction, self.bytes_out * fraction, self.messages * fraction)


@dataclass(frozen=True, slots=True)
class PlannerBundle:
    """A bundle with its latest figures and their short-term `average`.

    `owner`: None where it has none. `brokers`: those that may have it, its owner not necessarily among them. `left`:
    those that it left within the return window, `left_today`: within the day. `held`: the rule by which it stays where
    it is, None where it may leave. `group`: its anti-affinity group, of which one bundle moves at a time. `part`: 0, or
    the number of a part that a split of this cycle makes; it cannot move before the next, and its load is still on
    `carried_by`. `children`: of a bundle that is split in this cycle, where nothing is foretold of its parts.
    """

    name: str
    owner: str | None
    figures: BundleFigures
    average: BundleFigures
    sessions: float = 0.0
    topics: int = 0
    brokers: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    left_today: frozenset[str] = frozenset()
    held: str | None = None
    group: str | None = None
    part: int = 0
    carried_by: str | None = None
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spent:
    """What commands that come before the planner's take of the budgets.

    `anywhere`: unloads of which the destination is not known yet; each may count for any broker.
    """

    unloads: int = 0
    traffic: float = 0.0
    from_broker: Mapping[str, int] = field(default_factory=dict)
    to_broker: Mapping[str, int] = field(default_factory=dict)
    anywhere: int = 0


@dataclass(frozen=True, slots=True)
class PlannerView:
    """One cluster at one moment, as the planner sees it.

    `bundles`: of brokers in `brokers`, of those that are emptied, and without owner. `stopped`: why nothing at all may
    be moved now (a rule's name), None where it may. `traffic`: of all bundles, byte/s in and out. `moved`: (cycle,
    broker) of unloads that were carried out lately. `refused_splits`: bundles whose split the planner wanted, and this
    cycle refused. `has_averages`: whether averages rest on enough samples to say how steady the load is.
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
        """Whether the figures of nearly all brokers can be trusted; those of which nobody knows until when they cannot
        are not waited for."""
        waiting = sum(not broker.is_settled and not broker.waits_until_known for broker in self.brokers.values())
        return waiting <= UNSETTLED_PART * len(self.brokers)
