"""The load of a cluster, as the leader of either load manager knows it when it decides, and the owners of its bundles.

Rates are msg/s, throughputs byte/s, times epoch milliseconds. Brokers are named `host:port`, bundles
`tenant/namespace/0x00000000_0x40000000`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from evenkeel.errors import BadInput
from evenkeel.model.bundles import namespace_of

SHORT_TERM_SAMPLES = 10
LONG_TERM_SAMPLES = 1_000

Moment = datetime | int
"""An aware datetime, or epoch milliseconds."""


def milliseconds(moment: Moment) -> int:
    """Return epoch milliseconds; raises `BadInput` for a datetime that is not aware."""
    if isinstance(moment, int):
        return moment
    if moment.tzinfo is None:
        raise BadInput(f"time {moment.isoformat()} has no time zone: give an aware datetime or epoch milliseconds")
    return round(moment.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Usage and limit of one resource, both in that resource's own unit (CPU: percent of a core; bandwidth: Kbit/s)."""

    usage: float = 0.0
    limit: float = 0.0


class BundleStats(NamedTuple):
    """The latest figures of one bundle, as its broker reports them (Pulsar: NamespaceBundleStats)."""

    topics: int = 0
    consumers: int = 0
    producers: int = 0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    cache_size_bytes: int = 0

    @property
    def sessions(self) -> int:
        """Producers and consumers together."""
        return self.consumers + self.producers


RATES = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
"""Traffic of a topic, a bundle or a broker: msg/s in and out, byte/s in and out. Columns have these names too."""


@dataclass(frozen=True, slots=True)
class MessageAverages:
    """Averages over at most `max_samples` samples, of which `samples` have come in (Pulsar: TimeAverageMessageData)."""

    max_samples: int
    samples: int = 0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0

    @property
    def rate(self) -> float:
        """msg/s in and out."""
        return self.msg_rate_in + self.msg_rate_out

    @property
    def throughput(self) -> float:
        """byte/s in and out."""
        return self.msg_throughput_in + self.msg_throughput_out


@dataclass(frozen=True, slots=True)
class BundleHistory:
    """Short-term and long-term averages of one bundle, and its latest number of topics (Pulsar: BundleData).

    `samples_since_quota`: samples since the averages began from the bundle's resource quota; None if they did not.
    """

    short_term: MessageAverages
    long_term: MessageAverages
    topics: int = 0
    samples_since_quota: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerAverages:
    """Sums of the averages of a broker's bundles (Pulsar: TimeAverageBrokerData)."""

    short_term_throughput_in: float = 0.0
    short_term_throughput_out: float = 0.0
    short_term_rate_in: float = 0.0
    short_term_rate_out: float = 0.0
    long_term_throughput_in: float = 0.0
    long_term_throughput_out: float = 0.0
    long_term_rate_in: float = 0.0
    long_term_rate_out: float = 0.0

    @property
    def long_term_rate(self) -> float:
        """msg/s in and out."""
        return self.long_term_rate_in + self.long_term_rate_out


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """One broker's latest report (Pulsar: LocalBrokerData).

    `bundles` are the names in the report (a bundle without loaded topics may be listed and have no `stats`).
    `load_manager` is the class's simple name; None or "" if the report has none.
    """

    broker: str
    cpu: ResourceUsage = ResourceUsage()
    memory: ResourceUsage = ResourceUsage()
    direct_memory: ResourceUsage = ResourceUsage()
    bandwidth_in: ResourceUsage = ResourceUsage()
    bandwidth_out: ResourceUsage = ResourceUsage()
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    topics: int = 0
    bundles: frozenset[str] = frozenset()
    stats: Mapping[str, BundleStats] = field(default_factory=dict)
    version: str | None = None
    load_manager: str | None = "ModularLoadManagerImpl"
    persistent_topics: bool = True
    non_persistent_topics: bool = True

    @property
    def throughput(self) -> float:
        """byte/s in and out."""
        return self.msg_throughput_in + self.msg_throughput_out

    @property
    def rate(self) -> float:
        """msg/s in and out."""
        return self.msg_rate_in + self.msg_rate_out


@dataclass(frozen=True, slots=True)
class LoadData:
    """The leader's whole knowledge: available brokers, bundle histories, recent unloads and placements.

    `recently_unloaded`: bundle -> when its unload was done (epoch ms). `wished`: bundles that an operator's request
    unloads in this cycle; the shedder leaves them alone. `preallocated`: broker -> bundle -> history, for bundles
    assigned and not yet in the broker's report. `averages`: broker -> sums of its bundles' averages; a missing broker
    counts as zero.
    """

    brokers: Mapping[str, BrokerReport]
    histories: Mapping[str, BundleHistory] = field(default_factory=dict)
    recently_unloaded: Mapping[str, int] = field(default_factory=dict)
    preallocated: Mapping[str, Mapping[str, BundleHistory]] = field(default_factory=dict)
    averages: Mapping[str, BrokerAverages] = field(default_factory=dict)
    wished: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """Brokers that may serve some namespaces: regular expressions over names (Pulsar: NamespaceIsolationData).

    `matched`: list of expressions (`namespaces`, `primary`, `secondary`) -> for each of them the names that Java
    matches, None if Java refuses it. Without it Python's engine is asked: for lakes that do not have it, and golden
    cases.
    """

    namespaces: tuple[str, ...]
    primary: tuple[str, ...] = ()
    secondary: tuple[str, ...] = ()
    min_available: int = 1
    matched: Mapping[str, Sequence[Sequence[str] | None]] | None = None


@dataclass(frozen=True, slots=True)
class Policies:
    """The cluster's policies about placement.

    `groups`: namespace -> anti-affinity group. `domains`: failure domain -> broker names. `isolation`: policy name ->
    policy. `non_persistent_bundles`: bundles known to hold non-persistent topics.
    """

    groups: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    isolation: Mapping[str, IsolationPolicy] = field(default_factory=dict)
    non_persistent_bundles: frozenset[str] = frozenset()


# Knowledge of the extensible load manager's leader when it decides.
#
# Rates are msg/s, throughputs byte/s, times epoch milliseconds. Pulsar: BrokerLoadData, TopBundlesLoadData,
# BrokerLookupData, LoadManagerContext.


@dataclass(frozen=True, slots=True)
class BrokerLoadData:
    """The load that one broker published last. A broker never updated counts as full (1.0 = 100 %).

    `weighted_max_ema`: moving average of the weighted usage, a fraction. `msg_throughput_ema`: of in and out, byte/s.
    `topics` are the loaded ones. `updated_at`: when the broker measured this, epoch ms.
    """

    weighted_max_ema: float = 1.0
    msg_throughput_ema: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    topics: int = 0
    updated_at: int = 0

    @property
    def throughput(self) -> float:
        """byte/s in and out, the latest."""
        return self.msg_throughput_in + self.msg_throughput_out


class TopBundle(NamedTuple):
    """One bundle of a broker's top list, with its latest figures."""

    bundle: str
    stats: BundleStats

    @property
    def throughput(self) -> float:
        """byte/s in and out, the latest."""
        return self.stats.msg_throughput_in + self.stats.msg_throughput_out


@dataclass(frozen=True, slots=True)
class ExtensibleLoad:
    """All that decides transfers and placement under the extensible manager.

    `brokers`: the available brokers, with their registration (of a report: version, load manager, topic domains).
    `loads`: published load data; a broker may have none, and load data may outlive its broker. `top_bundles`: broker ->
    its busiest bundles, the lightest of them first. `not_owned`: bundles in a top list whose broker no longer owns
    them. `recently_unloaded`: bundle -> when its unload was done (epoch ms). `wished`: bundles that an operator's
    request unloads in this cycle; the shedder leaves them alone.
    """

    brokers: Mapping[str, BrokerReport]
    loads: Mapping[str, BrokerLoadData]
    top_bundles: Mapping[str, tuple[TopBundle, ...]] = field(default_factory=dict)
    not_owned: frozenset[str] = frozenset()
    recently_unloaded: Mapping[str, int] = field(default_factory=dict)
    wished: frozenset[str] = frozenset()


Owned = Mapping[str, Mapping[str, Collection[str]]]
"""Namespace -> broker -> its bundles of that namespace."""


def by_namespace(bundles: Mapping[str, Iterable[str]]) -> Owned:
    """Return the bundles of brokers sorted by namespace; raises `BadName` for a name that is not a bundle's."""
    owned: dict[str, dict[str, set[str]]] = {}
    for broker, names in sorted(bundles.items()):
        of_broker: dict[str, set[str]] = {}
        for bundle in names:
            namespace = bundle.rpartition("/")[0]
            if namespace not in of_broker:
                of_broker[namespace] = owned.setdefault(namespace_of(bundle), {}).setdefault(broker, set())
            of_broker[namespace].add(bundle)
    return owned


def owned_of(load: LoadData) -> Owned:
    """Return the bundles of brokers by namespace: reported, or assigned and not reported yet."""
    given = {name: load.preallocated.get(name, {}) for name in load.brokers}
    return by_namespace({name: chain(r.bundles, r.stats, given[name]) for name, r in load.brokers.items()})


class Ownership:
    """Bundles per namespace and broker (Pulsar: BundleRangeCache). A bundle given twice to a broker counts once.

    They are sorted by namespace on the first question: most rounds ask none. `known` is the sorted result for another
    caller; it stays unchanged.
    """

    def __init__(
        self, bundles: Mapping[str, Iterable[str]] | None = None, *, known: Callable[[], Owned] | None = None
    ) -> None:
        self._known: Callable[[], Owned] = known or (lambda: by_namespace(bundles or {}))
        self._sorted: Owned | None = None
        self._given: dict[str, dict[str, set[str]]] = {}

    def _of(self, namespace: str) -> Mapping[str, Collection[str]]:
        """Return broker -> bundles of the namespace, those assigned in this round included."""
        if namespace in self._given:
            return self._given[namespace]
        if self._sorted is None:
            self._sorted = self._known()
        return self._sorted.get(namespace, {})

    def add(self, bundle: str, broker: str) -> None:
        """Note that the broker has, or will have, the bundle."""
        namespace = namespace_of(bundle)
        if namespace not in self._given:
            self._given[namespace] = {owner: {*bundles} for owner, bundles in self._of(namespace).items()}
        self._given[namespace].setdefault(broker, set()).add(bundle)

    def bundles_of(self, namespace: str, broker: str) -> int:
        """Return how many bundles of the namespace the broker has."""
        return len(self._of(namespace).get(broker, ()))

    def owners_of(self, namespace: str) -> Mapping[str, int]:
        """Return the brokers with at least one bundle of the namespace, with how many."""
        return {broker: len(bundles) for broker, bundles in self._of(namespace).items()}
