"""Layout of a loaded cluster: namespaces, bundles, topics with their rates, and the first broker of each bundle.

A topic's bundle follows from the hash of its name, so names are chosen until they fall into the right one. Equal
arguments give equal layouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evenkeel.model.bundles import BundleRange, bundle_name, bundle_of, initial_boundaries, ranges_of, topic_hash

VARIETY = (1.0, 1.4, 0.8, 1.2, 0.6)  # rates of neighbours differ, so that no two bundles are alike


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic (or one partition) by its full name, with messages per second."""

    name: str
    rate: float


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle with topics, and the broker (host:port) that shall own it at first; None leaves that to Pulsar."""

    namespace: str
    range: BundleRange
    topics: tuple[Topic, ...]
    broker: str | None = None

    @property
    def name(self) -> str:
        return bundle_name(self.namespace, self.range)

    @property
    def rate(self) -> float:
        return sum(topic.rate for topic in self.topics)


@dataclass(frozen=True, slots=True)
class Layout:
    """A tenant's load. `bundles` are those with topics; `bundle_counts` has every namespace.

    `partitioned` are topics with their numbers of partitions, `groups` namespaces with their anti-affinity group,
    `domains` failure domains with their brokers. Where messages are not batched, each costs a broker the same CPU.
    """

    tenant: str
    bundle_counts: Mapping[str, int]
    bundles: tuple[Bundle, ...]
    partitioned: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    message_bytes: int = 600
    is_batched: bool = True

    @property
    def topics(self) -> tuple[Topic, ...]:
        return tuple(topic for bundle in self.bundles for topic in bundle.topics)

    @property
    def hottest(self) -> Bundle:
        """The bundle that carries most."""
        return max(self.bundles, key=lambda bundle: bundle.rate)


def skewed(
    tenant: str,
    brokers: Sequence[str],
    *,
    rate: float = 1000.0,
    hot_broker_share: float = 0.7,
    hot_bundle_share: float = 0.24,
    hot_topics: int = 8,
    namespaces: int = 4,
    bundles: int = 6,
    apart: int = 2,
    domains: Mapping[str, Sequence[str]] | None = None,
    is_batched: bool = True,
) -> Layout:
    """Return a layout of `rate` messages/s.

    The first broker carries `hot_broker_share` of it, one of its bundles `hot_bundle_share`. The hot bundle's
    `hot_topics` are in both halves of its range, so a split in the middle halves it. Beside the ordinary namespaces
    there are `apart` namespaces of one bundle in one anti-affinity group and a topic of six partitions, both with
    little load.
    """
    hot, *others = brokers
    laid_out: list[Bundle] = []
    group = {f"{tenant}/apart-{number}": f"{tenant}-apart" for number in range(apart)}
    # Two brokers that each place a bundle of the group may not know of the other's yet, so their places are set.
    for place, namespace in enumerate(group):
        broker = brokers[(place + 1) % len(brokers)]
        laid_out.append(_bundle(namespace, ranges_of(initial_boundaries(1))[0], 2, 0.005 * rate, broker))
    pool, partitions = f"{tenant}/pool", 6
    laid_out += _partitioned(f"persistent://{pool}/shared", partitions, 0.03 * rate, bundles=3, brokers=others)
    left = rate - sum(bundle.rate for bundle in laid_out) - hot_bundle_share * rate

    ordinary = [
        (f"{tenant}/load-{number}", bundle_range)
        for bundle_range in ranges_of(initial_boundaries(bundles))
        for number in range(namespaces)
    ]
    (namespace, bundle_range), *remaining = ordinary
    laid_out.append(_bundle(namespace, bundle_range, hot_topics, hot_bundle_share * rate, hot))
    weights = [VARIETY[place % len(VARIETY)] for place in range(len(remaining))]
    on_hot = hot_bundle_share * rate
    for place, ((namespace, bundle_range), weight) in enumerate(zip(remaining, weights, strict=True)):
        share = left * weight / sum(weights)
        broker = hot if on_hot + share / 2 < hot_broker_share * rate else others[place % len(others)]
        on_hot += share if broker == hot else 0.0
        laid_out.append(_bundle(namespace, bundle_range, 3, share, broker))
    counts = {f"{tenant}/load-{number}": bundles for number in range(namespaces)} | {pool: 3} | dict.fromkeys(group, 1)
    return Layout(
        tenant,
        counts,
        tuple(laid_out),
        {f"persistent://{pool}/shared": partitions},
        group,
        domains or {},
        is_batched=is_batched,
    )


def _bundle(namespace: str, bundle_range: BundleRange, topics: int, rate: float, broker: str | None = None) -> Bundle:
    """Return a bundle with so many topics, alternating between its halves, with unequal parts of its rate."""
    middle = bundle_range.lower + bundle_range.width // 2
    halves = (BundleRange(bundle_range.lower, middle), BundleRange(middle, bundle_range.upper))
    weights = [VARIETY[(place // 2) % len(VARIETY)] for place in range(topics)]
    names: list[str] = []
    number = 0
    while len(names) < topics:
        name = f"persistent://{namespace}/t-{number:04d}"
        if halves[len(names) % 2].includes(topic_hash(name)):
            names.append(name)
        number += 1
    bundle_topics = [Topic(name, rate * weight / sum(weights)) for name, weight in zip(names, weights, strict=True)]
    return Bundle(namespace, bundle_range, tuple(bundle_topics), broker)


def _partitioned(topic: str, partitions: int, rate: float, *, bundles: int, brokers: Sequence[str]) -> list[Bundle]:
    """The bundles in which the partitions of a topic fall; the brokers take them by turns."""
    namespace = topic.partition("://")[2].rpartition("/")[0]
    boundaries = initial_boundaries(bundles)
    by_range: dict[BundleRange, list[Topic]] = {}
    for number in range(partitions):
        name = f"{topic}-partition-{number}"
        by_range.setdefault(bundle_of(boundaries, topic_hash(name)), []).append(Topic(name, rate / partitions))
    return [
        Bundle(namespace, bundle_range, tuple(topics), brokers[place % len(brokers)] if brokers else None)
        for place, (bundle_range, topics) in enumerate(sorted(by_range.items()))
    ]
