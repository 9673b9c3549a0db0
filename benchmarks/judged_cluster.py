"""The judge's cluster: what brokers of a cluster come to under traffic, by another model than the one planners fit.

CPU is convex in bytes, messages and connections together. Reports are means over a minute with noise that lasts, and
end at 100 %. A bundle that moved brings its clients' reconnects along, and shows too much traffic for a minute. A
broker's network is a second resource. `simulate` (`evenkeel.replay`) has one straight line of bytes instead; who owns
what, what a split does and which figures are trusted is the same bookkeeping. No planner may import this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from evenkeel.cycle.reading import Row
from evenkeel.model.load import RATES, BundleStats
from evenkeel.planner.target import UsageCurve, UsageLine
from evenkeel.replay.modelled_cluster import Cluster, Topic
from evenkeel.settings import Settings
from evenkeel.times import utc_text

Array = np.ndarray[Any, np.dtype[Any]]
CPU, NETWORK = "cpu", "bandwidth_out"
FULL_BYTES, FULL_MESSAGES, FULL_CONNECTIONS = 200e6, 100e3, 30e3
"""What by itself takes all of a standard broker's CPU, but for the bend: byte/s and msg/s in and out, connections."""
STRAIGHT = 0.6
"""The part of CPU that grows in a straight line; the rest grows with the square of the work."""
SETTLES = timedelta(minutes=2)
RECONNECT = 3.0
"""A client that reconnects works a broker as so many connections, for a minute."""
BUFFERED = 1.3
"""A bundle that has just moved shows so many times its traffic for a minute: what clients had buffered."""
NOISE, LASTING = 0.015, 0.7
"""Of a report of CPU: standard deviation (fraction of usage), and how much of it is there a minute later."""
ONE_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class BentCurve:
    """CPU usage of a broker with work in standard brokers: `base` without any, 1.0 with as much as its strength."""

    base: float
    strength: float

    def usage(self, load: float) -> float:
        """The usage at this work; more than 1.0 is what would be needed."""
        part = load / self.strength
        return self.base + (1.0 - self.base) * (STRAIGHT * part + (1.0 - STRAIGHT) * part * part)

    def load_within(self, usage: float) -> float:
        """The most work at this usage."""
        above = (usage - self.base) / (1.0 - self.base)
        if above <= 0:
            return 0.0
        bend = 1.0 - STRAIGHT
        return self.strength * (math.sqrt(STRAIGHT * STRAIGHT + 4.0 * bend * above) - STRAIGHT) / (2.0 * bend)


@dataclass(frozen=True, slots=True)
class Machine:
    """A broker's machine: its CPU in standard brokers, its usage without work, byte/s out that fill its network."""

    strength: float = 1.0
    base: float = 0.06
    network: float = 400e6

    def curves(self) -> dict[str, UsageCurve]:
        """Its curve for each resource."""
        return {CPU: BentCurve(self.base, self.strength), NETWORK: UsageLine(0.0, 1.0 / self.network)}


@dataclass(frozen=True, eq=False)
class TopicTraffic:
    """Topics, and what they carry where their factor is 1: byte/s in, how often it goes out, bytes of a message,
    connections."""

    topics: Sequence[Topic]
    bytes_in: Array
    fan_out: Array
    message_bytes: Array
    connections: Array

    def loads(self, factors: Array) -> dict[str, Array]:
        """Resource -> load of every topic."""
        came_in = self.bytes_in * factors
        out = came_in * self.fan_out
        both = came_in + out
        work = both / FULL_BYTES + both / self.message_bytes / FULL_MESSAGES + self.connections / FULL_CONNECTIONS
        return {CPU: work, NETWORK: out}


@dataclass
class JudgedCluster(Cluster):
    """The cluster as it is. `machines`: by broker. `noise`: broker -> noise of its CPU report, by cycle."""

    machines: Mapping[str, Machine] = field(default_factory=dict)
    traffic: TopicTraffic | None = None
    noise: Mapping[str, Array] = field(default_factory=dict)
    policies: Sequence[Row] = ()
    said: Mapping[str, float] = field(default_factory=dict)
    """Broker -> the part of its CPU that it reports, where that is not all."""
    late: Mapping[str, int] = field(default_factory=dict)
    """Broker -> how many cycles its report is old, where it is not new."""
    every: timedelta = ONE_MINUTE
    cycle: int = -1
    demand: dict[str, dict[str, float]] = field(default_factory=dict)
    """Resource -> broker -> usage that its bundles need, which may be more than there is."""
    _before: dict[str, dict[str, float]] = field(default_factory=dict)
    _past: list[dict[str, dict[str, float]]] = field(default_factory=list)
    _bundles: list[str] = field(default_factory=list)
    _bundle_of_topic: Array | None = None
    _loads: dict[str, dict[str, float]] = field(default_factory=dict)
    _just_moved: dict[str, str] = field(default_factory=dict)
    _summed: dict[str, dict[str, float]] | None = None

    def observe(self, at: datetime, throughputs: Any, down: Iterable[str], settings: Settings) -> None:
        """Time goes on to `at`; `throughputs` are the factors on every topic's traffic."""
        self.cycle += 1
        self._before, self._summed = self.demand, None
        super().observe(at, throughputs, down, settings)
        self.demand = self.demand_now()
        self._reported = self._reports()
        self._just_moved = {}

    def _measured(self, throughputs: Any) -> dict[str, BundleStats]:
        assert self.traffic is not None
        self._place_topics()
        came_in = self.traffic.bytes_in * throughputs
        out = came_in * self.traffic.fan_out
        columns = (came_in / self.traffic.message_bytes, out / self.traffic.message_bytes, came_in, out)
        sums = [self._by_bundle(column) for column in columns]
        topics, connections = self._by_bundle(np.ones(len(came_in))), self._by_bundle(self.traffic.connections)
        self._loads = self.loads_under(throughputs)
        found = {}
        for n, bundle in enumerate(self._bundles):
            times = BUFFERED if bundle in self._just_moved and self.every <= ONE_MINUTE else 1.0
            clients = int(connections[n]) // 2
            found[bundle] = BundleStats(int(topics[n]), clients, clients, *(column[n] * times for column in sums))
        return found

    def _topic_figures(self) -> Iterable[tuple[float, float]]:
        assert self.traffic is not None
        both = self.traffic.bytes_in * self._throughputs * (1.0 + self.traffic.fan_out)
        return zip((both / self.traffic.message_bytes).tolist(), both.tolist(), strict=True)

    def loads_under(self, factors: Array) -> dict[str, dict[str, float]]:
        """Resource -> bundle -> its load with these factors on the topics' traffic."""
        assert self.traffic is not None
        self._place_topics()
        loads = self.traffic.loads(factors)
        return {
            resource: dict(zip(self._bundles, self._by_bundle(own), strict=True)) for resource, own in loads.items()
        }

    def _by_bundle(self, column: Array) -> list[float]:
        assert self._bundle_of_topic is not None
        found: list[float] = np.bincount(self._bundle_of_topic, column, len(self._bundles)).tolist()
        return found

    def _place_topics(self) -> None:
        """Which bundle each topic lies in, again after a split."""
        if self._bundle_of_topic is not None and len(self._bundles) == len(self.owner):
            return
        self._bundles = sorted(self.owner)
        number = {bundle: n for n, bundle in enumerate(self._bundles)}
        self._bundle_of_topic = np.array([number[bundle] for bundle in self._bundles_of_topics()])

    def load_of(self, bundle: str) -> dict[str, float]:
        """Resource -> load of a bundle; nothing of one that this cycle's plan makes by a split."""
        return {resource: loads.get(bundle, 0.0) for resource, loads in self._loads.items()}

    def throughput_share(self, bundle: str) -> float:
        """The part of the cluster's byte/s, in and out, that a bundle has, as guards count it."""
        total = math.fsum(row.msg_throughput_in + row.msg_throughput_out for row in self._now.values())
        stats = self.trusted.get(bundle)
        return (stats.msg_throughput_in + stats.msg_throughput_out) / total if stats and total > 0 else 0.0

    def unserved(self) -> float:
        """The part of the CPU's work that belongs to bundles without owner."""
        loads = self._loads[CPU]
        lost = math.fsum(load for bundle, load in loads.items() if self.owner.get(bundle) is None)
        return lost / math.fsum(loads.values())

    def carried(self) -> dict[str, dict[str, float]]:
        """Resource -> living broker -> the load of its bundles."""
        return self._carried(self._loads)

    def bundles_of(self, resource: str) -> dict[str, list[float]]:
        """Living broker -> the loads of its bundles."""
        found: dict[str, list[float]] = {broker: [] for broker in sorted(self.alive)}
        for owner, load in self._served(self._loads[resource]):
            found[owner].append(load)
        return found

    def carried_with(self, factors: Array) -> dict[str, dict[str, float]]:
        """Resource -> living broker -> the load of its bundles with these factors on the topics' traffic."""
        return self._carried(self.loads_under(factors))

    def _carried(self, every: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        found = {resource: dict.fromkeys(sorted(self.alive), 0.0) for resource in every}
        for resource, loads in every.items():
            for owner, load in self._served(loads):
                found[resource][owner] += load
        return found

    def _served(self, loads: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        """The living owner of each bundle that has one, and the bundle's load."""
        for bundle, load in loads.items():
            owner = self.owner.get(bundle)
            if owner is not None and owner in self.alive:
                yield owner, load

    def demand_now(self) -> dict[str, dict[str, float]]:
        """Resource -> living broker -> the usage that its bundles need."""
        return self._demand(self.carried())

    def demand_with(self, factors: Array) -> dict[str, dict[str, float]]:
        """Resource -> living broker -> the usage that its bundles would need with these factors."""
        return self._demand(self.carried_with(factors))

    def _demand(self, carried: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        return {
            resource: {broker: self.machines[broker].curves()[resource].usage(load) for broker, load in loads.items()}
            for resource, loads in carried.items()
        }

    def _reports(self) -> dict[str, dict[str, float]]:
        """What brokers say: half of the minute that a report tells of lies before the cycle's own."""
        share = 0.5 if self.every <= ONE_MINUTE else 1.0
        extra: dict[str, float] = {}
        for bundle, broker in self._just_moved.items():
            stats = self.trusted.get(bundle)
            clients = 0 if stats is None or self.every > ONE_MINUTE else stats.producers + stats.consumers
            extra[broker] = extra.get(broker, 0.0) + RECONNECT * clients / FULL_CONNECTIONS
        found = {}
        for resource, usage in self.demand.items():
            before = self._before.get(resource, usage)
            found[resource] = {b: share * now + (1.0 - share) * before.get(b, now) for b, now in usage.items()}
        for broker, usage in found[CPU].items():
            noisy = usage * (1.0 + self.noise[broker][self.cycle]) + extra.get(broker, 0.0)
            found[CPU][broker] = self.said.get(broker, 1.0) * min(1.0, max(0.0, noisy))
        found[NETWORK] = {broker: min(1.0, usage) for broker, usage in found[NETWORK].items()}
        self._past.append({resource: {**usages} for resource, usages in found.items()})
        for broker in self.late.keys() & self.alive:
            old = self._past[max(0, len(self._past) - 1 - self.late[broker])]
            for resource, usages in found.items():
                usages[broker] = old[resource].get(broker, usages[broker])
        return found

    def usage(self, *, lag: timedelta = timedelta(0)) -> dict[str, float]:
        """Broker -> the usage that it reports, of its busiest resource; a report is late by itself."""
        return {broker: max(own[broker] for own in self._reported.values()) for broker in sorted(self.alive)}

    def rows(self, settings: Settings) -> dict[str, list[Row]]:
        """What a cycle of Evenkeel would have of it, with its policies."""
        return {**super().rows(settings), "cluster_policies": [*self.policies]}

    def _report_row(self, broker: str, usage: float) -> dict[str, Any]:
        cpu, network = (100.0 * self._reported[resource][broker] for resource in (CPU, NETWORK))
        row = super()._report_row(broker, usage)
        assert self.at is not None
        measured_at = utc_text(self.at - min(self.cycle, self.late.get(broker, 0)) * self.every)
        return row | {
            "cpu_usage": cpu,
            "bandwidth_out_usage": network,
            "bandwidth_out_limit": 100.0,
            "report_at": measured_at,
        }

    def _sums(self, broker: str) -> dict[str, float]:
        if self._summed is None:
            self._summed = {each: dict.fromkeys(RATES, 0.0) for each in self.alive}
            for bundle, stats in self._now.items():
                own = self._summed.get(self.owner.get(bundle) or "")
                if own is not None:
                    for name in RATES:
                        own[name] += getattr(stats, name)
        return self._summed[broker]

    def _give(self, bundle: str, broker: str | None, at: datetime) -> None:
        super()._give(bundle, broker, at)
        self._summed = None
        if broker is not None:
            self._just_moved[bundle] = broker

    def _split(self, command: Row) -> None:
        super()._split(command)
        self._summed = None

    def _idlest(self) -> str | None:
        self._summed = None
        return super()._idlest()
