"""A cluster that obeys: bundles carry traffic, brokers get busy by it, and commands take effect.

A broker's usage is a base and so much per byte/s (`UsageFit`). It follows a move only after two report intervals, as a
real broker's does, whose figures are means over whole intervals; ownership shows at once. Pure: no clock, no
randomness.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from evenkeel.cycle.reading import Row
from evenkeel.model.averages import default_history, updated
from evenkeel.model.bundles import boundary_text, bundle_name, namespace_of, range_of, ranges_of
from evenkeel.model.load import RATES, BundleHistory, BundleStats
from evenkeel.model.past_commands import acts_of, unsettled_bundles
from evenkeel.settings import Settings
from evenkeel.times import utc_text

LAG_INTERVALS = 2
CLASSES = {
    "modular": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "extensible": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
}
_OTHER_RESOURCES = ("memory", "direct_memory", "bandwidth_in", "bandwidth_out")
_ACTS_ARE_KEPT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class UsageFit:
    """Usage of a broker (fraction): `base` without traffic, and `per_byte` for each byte/s in and out."""

    base: float
    per_byte: float

    def usage(self, throughput: float) -> float:
        """The usage (fraction, at least 0) of a broker at this throughput (byte/s in and out)."""
        return max(0.0, self.base + self.per_byte * throughput)


def fitted(points: Sequence[tuple[float, float]]) -> UsageFit:
    """The line through (byte/s, usage) of least squares; flat where usage does not grow with traffic."""
    if not points:
        return UsageFit(0.0, 0.0)
    mean_x, mean_y = (math.fsum(column) / len(points) for column in zip(*points, strict=True))
    across = math.fsum((x - mean_x) ** 2 for x, _ in points)
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in points) / across if across > 0 else 0.0
    return UsageFit(mean_y, 0.0) if slope <= 0 else UsageFit(mean_y - slope * mean_x, slope)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its bundle, and the size of its messages in bytes."""

    namespace: str
    hash: int
    message_bytes: float = 1_024.0


@dataclass
class Cluster:
    """The cluster as it is. `owner`: bundle -> broker or None. `acts`: the acts on it, in the form of hand-overs."""

    name: str
    fits: Mapping[str, UsageFit]
    topics: Sequence[Topic]
    boundaries: dict[str, tuple[int, ...]]
    owner: dict[str, str | None]
    manager: str = "modular"
    last_owner: dict[str, str] = field(default_factory=dict)
    histories: dict[str, BundleHistory] = field(default_factory=dict)
    trusted: dict[str, BundleStats] = field(default_factory=dict)
    acts: list[dict[str, Any]] = field(default_factory=list)
    moved: dict[str, list[tuple[datetime, str | None]]] = field(default_factory=dict)
    alive: frozenset[str] = frozenset()
    at: datetime | None = None
    _of_topic: list[str] | None = None
    _now: dict[str, BundleStats] = field(default_factory=dict)
    _throughputs: Sequence[float] = ()

    def observe(self, at: datetime, throughputs: Sequence[float], down: Iterable[str], settings: Settings) -> None:
        """Move the time to `at`, with this byte/s for every topic; brokers in `down` lose their bundles."""
        self.at, self.alive = at, frozenset(self.fits) - frozenset(down)
        for bundle, owner in self.owner.items():
            if owner is not None and owner not in self.alive:
                self.owner[bundle] = None
        self.last_owner |= {bundle: owner for bundle, owner in self.owner.items() if owner is not None}
        self.acts = [act for act in self.acts if at - datetime.fromisoformat(act["cycle_at"]) <= _ACTS_ARE_KEPT]
        self._throughputs = throughputs
        measured = self._measured(throughputs)
        unsettled = unsettled_bundles(acts_of(self.acts), at, settings)
        for bundle, stats in measured.items():
            if bundle in unsettled and bundle in self.trusted:
                self.trusted[bundle] = self.trusted[bundle]._replace(topics=stats.topics)
                continue
            self.trusted[bundle] = stats
            if self.owner[bundle] is not None:
                self.histories[bundle] = updated(self.histories.get(bundle), stats)
        self._now = measured

    def _measured(self, throughputs: Sequence[float]) -> dict[str, BundleStats]:
        sums: dict[str, list[float]] = {bundle: [0, 0.0, 0.0] for bundle in self.owner}
        for bundle, topic, throughput in zip(self._bundles_of_topics(), self.topics, throughputs, strict=True):
            figures = sums[bundle]
            figures[0] += 1
            figures[1] += throughput / topic.message_bytes
            figures[2] += throughput
        return {
            bundle: BundleStats(int(n), int(n), int(n), rate / 2, rate / 2, flow / 2, flow / 2)
            for bundle, (n, rate, flow) in sums.items()
        }

    def _bundles_of_topics(self) -> list[str]:
        if self._of_topic is None:
            names = {
                namespace: [bundle_name(namespace, piece) for piece in ranges_of(edges)]
                for namespace, edges in self.boundaries.items()
            }
            places = ((t.namespace, bisect_left(self.boundaries[t.namespace], t.hash + 1) - 1) for t in self.topics)
            self._of_topic = [names[ns][min(place, len(names[ns]) - 1)] for ns, place in places]
        return self._of_topic

    def usage(self, *, lag: timedelta = timedelta(0)) -> dict[str, float]:
        """Return broker -> usage; with a lag, by the earlier owners of bundles, as long as they exist."""
        flows = dict.fromkeys(sorted(self.alive), 0.0)
        for bundle, stats in self._now.items():
            owner = self._owner_before(bundle, lag)
            if owner in flows:
                flows[owner] += stats.msg_throughput_in + stats.msg_throughput_out
        return {broker: self.fits[broker].usage(flow) for broker, flow in flows.items()}

    def _owner_before(self, bundle: str, lag: timedelta) -> str | None:
        now = self.owner[bundle]
        assert self.at is not None
        for moment, was in self.moved.get(bundle, ()):
            if self.at - moment < lag:
                return was if was in self.alive else now
        return now

    def rows(self, settings: Settings) -> dict[str, list[Row]]:
        """Return the tables of this cluster that rounds read."""
        lag = timedelta(minutes=LAG_INTERVALS * settings.loadBalancerHostUsageCheckIntervalMinutes)
        usage = self.usage(lag=lag)
        return {
            "bundle_load": [self._bundle_row(bundle) for bundle in sorted(self.owner)],
            "broker_load": [self._load_row(broker, usage[broker]) for broker in sorted(usage)],
            "broker_reports": [self._report_row(broker, usage[broker]) for broker in sorted(usage)],
            "namespace_bundles": [
                {"namespace": namespace, "boundaries": [boundary_text(edge) for edge in edges]}
                for namespace, edges in sorted(self.boundaries.items())
            ],
            "cluster_policies": [],
        }

    def topic_hashes(self, bundles: Collection[str]) -> list[Row]:
        """The topics of these bundles, as splits look at them (`plan_splits.task.TOPICS_TYPE`), all of them loaded."""
        asked = {bundle: list[tuple[int, float, float]]() for bundle in sorted(bundles) if bundle in self.owner}
        if not asked:
            return []
        for bundle, topic, (rate, flow) in zip(
            self._bundles_of_topics(), self.topics, self._topic_figures(), strict=True
        ):
            if bundle in asked:
                asked[bundle].append((topic.hash, rate, flow))
        rows: list[Row] = []
        for bundle, bundle_topics in asked.items():
            hashes, rates, flows = (
                (list(column) for column in zip(*sorted(bundle_topics), strict=True)) if bundle_topics else ([], [], [])
            )
            rows.append(
                {
                    "cluster": self.name,
                    "bundle": bundle,
                    "hashes": hashes,
                    "loaded_hashes": hashes,
                    "loaded_rates": rates,
                    "loaded_throughputs": flows,
                }
            )
        return rows

    def _topic_figures(self) -> Iterable[tuple[float, float]]:
        """msg/s and byte/s of every topic, in and out."""
        return ((flow / topic.message_bytes, flow) for topic, flow in zip(self.topics, self._throughputs, strict=True))

    def _bundle_row(self, bundle: str) -> dict[str, Any]:
        stats, owner = self.trusted[bundle], self.owner[bundle]
        history = self.histories.get(bundle) or default_history()
        row: dict[str, Any] = {
            "bundle": bundle,
            "namespace": namespace_of(bundle),
            "owner": owner,
            "ownership": "unowned" if owner is None else "owned",
            "last_owner": self.last_owner.get(bundle),
            "has_non_persistent": False,
            "topics": stats.topics,
            "consumers": stats.consumers,
            "producers": stats.producers,
            "msg_backlog": None,
            "short_samples": history.short_term.samples,
            "long_samples": history.long_term.samples,
            "samples_since_quota": history.samples_since_quota,
        }
        for prefix, figures in (("used", stats), ("short", history.short_term), ("long", history.long_term)):
            row |= {f"{prefix}_{rate}": getattr(figures, rate) for rate in RATES}
        return row

    def _sums(self, broker: str) -> dict[str, float]:
        owned = [
            self._now[bundle] for bundle, owner in sorted(self.owner.items()) if owner == broker and bundle in self._now
        ]
        return {rate: math.fsum(getattr(stats, rate) for stats in owned) for rate in RATES}

    def _load_row(self, broker: str, usage: float) -> dict[str, Any]:
        return {"broker": broker, "state": "reported", "weighted_usage": usage, **self._sums(broker)}

    def _report_row(self, broker: str, usage: float) -> dict[str, Any]:
        assert self.at is not None
        moment = utc_text(self.at)
        owned = sorted(bundle for bundle, owner in self.owner.items() if owner == broker)
        return {
            "broker": broker,
            "state": "reported",
            "is_listed": True,
            "cpu_usage": 100.0 * usage,
            "cpu_limit": 100.0,
            **{f"{name}_{end}": None for name in _OTHER_RESOURCES for end in ("usage", "limit")},
            "bundles": owned,
            "topics": sum(self._now[bundle].topics for bundle in owned),
            "pulsar_version": "4.2.4",
            "load_manager_class": CLASSES[self.manager],
            "persistent_topics_enabled": True,
            "non_persistent_topics_enabled": True,
            "report_at": moment,
            "asked_at": moment,
            **self._sums(broker),
        }

    def carry_out(self, commands: Iterable[tuple[Row, str | None]], placed: Iterable[tuple[str, str]]) -> None:
        """Commands, each with the broker where an unloaded bundle goes, and bundles without owner that get one."""
        assert self.at is not None
        done_at = self.at + timedelta(seconds=1)
        for command, destination in commands:
            if command["kind"] == "split":
                self._split(command)
            elif command["kind"] == "unload" and destination in self.alive:
                self._give(command["bundle"], destination, done_at)
            self.acts.append(_act(command, destination, self.at, done_at))
        for bundle, destination in placed:
            if bundle in self.owner and destination in self.alive:
                self._give(bundle, destination, done_at)

    def _give(self, bundle: str, broker: str | None, at: datetime) -> None:
        past = self.moved.setdefault(bundle, [])
        past.append((at, self.owner[bundle]))
        del past[:-4]
        self.owner[bundle] = broker

    def _split(self, command: Row) -> None:
        parent = command["bundle"]
        namespace, edges = namespace_of(parent), range_of(parent)
        inside = [cut for cut in command["cuts"] or () if edges.lower < cut < edges.upper]
        if parent not in self.owner or not inside:
            return
        self.boundaries[namespace] = tuple(sorted({*self.boundaries[namespace], *inside}))
        owner = self.owner.pop(parent)
        for known in (self.trusted, self.histories, self.moved, self._now):
            known.pop(parent, None)
        children = [bundle_name(namespace, piece) for piece in ranges_of(sorted({edges.lower, *inside, edges.upper}))]
        self.owner |= dict.fromkeys(children)
        self._of_topic = None
        measured = self._measured(self._throughputs)
        for child in children:
            self.trusted[child] = self._now[child] = measured[child]
            self.owner[child] = self._idlest() if command["unload_children"] else owner

    def _idlest(self) -> str | None:
        """Return where clients find a bundle unloaded without a destination: the broker with least traffic."""
        flows = {broker: math.fsum(self._sums(broker).values()) for broker in sorted(self.alive)}
        return min(flows, key=lambda broker: flows[broker], default=None)


def _act(command: Row, destination: str | None, at: datetime, seen_at: datetime) -> dict[str, Any]:
    names = ("command_id", "plan_id", "kind", "bundle", "from_broker", "cuts", "unload_children")
    done = {"mode": "auto", "outcome": "done", "detail": "in the model", "expires_at": None}
    times = {"cycle_at": utc_text(at), "seen_at": utc_text(seen_at)}
    return {**{name: command[name] for name in names}, "destination": destination, **done, **times}
