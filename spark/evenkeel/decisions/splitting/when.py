"""When a bundle is split, by the modular manager's rule.

Pulsar: BundleSplitterTask.findBundlesToSplit, ModularLoadManagerImpl.checkNamespaceBundleSplit. Keys:
loadBalancerNamespaceBundleMaxTopics, …MaxSessions, …MaxMsgRate, …MaxBandwidthMbytes,
loadBalancerNamespaceMaximumBundles, evenkeelSplitEnabled. Topics and sessions are the latest ones, rate and throughput
long-term averages; every limit is strict. Needs at least two brokers. Which bundle gets a namespace's last free slot
follows names: broker, then bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenkeel.decisions.bundles import namespace_of
from evenkeel.decisions.considered import Considered, Outcome, Unit, considered
from evenkeel.decisions.load import BrokerReport, BundleHistory, BundleStats
from evenkeel.settings import Settings

FEWEST_TOPICS = 2
FEWEST_BROKERS = 2
_MIB = 1_048_576


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Bundles to split with their broker (`splits`, in name order), and every bundle considered."""

    splits: Mapping[str, str]
    considered: tuple[Considered, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """One figure of a bundle against its limit."""

    rule: str
    setting: str
    measured: float
    threshold: float
    unit: Unit

    @property
    def exceeded(self) -> bool:
        """Strictly above the limit."""
        return self.measured > self.threshold

    @property
    def share(self) -> float:
        """Measured as a share of the threshold: how near the limit is."""
        return self.measured / self.threshold if self.threshold > 0 else self.measured + 1.0


def decide_splits(
    brokers: Mapping[str, BrokerReport],
    histories: Mapping[str, BundleHistory],
    bundle_counts: Mapping[str, int],
    settings: Settings,
) -> SplitPlan:
    """Which bundles to split, before the guards of `execute`.

    `bundle_counts`: namespace -> number of bundles (a namespace not in it counts as one bundle). With the switch off or
    fewer than two brokers nothing is split and one row about the cluster says so.
    """
    stopped = _stopped(brokers, settings)
    if stopped is not None:
        return SplitPlan({}, (stopped,))
    return find_bundles_to_split(brokers, histories, bundle_counts, settings)


def find_bundles_to_split(
    brokers: Mapping[str, BrokerReport],
    histories: Mapping[str, BundleHistory],
    bundle_counts: Mapping[str, int],
    settings: Settings,
) -> SplitPlan:
    """The rule itself, whatever the switch and the number of brokers."""
    splits: dict[str, str] = {}
    rows: list[Considered] = []
    chosen: dict[str, int] = {}
    for broker, report in sorted(brokers.items()):
        for bundle, stats in sorted(report.stats.items()):
            row = _consider(bundle, broker, stats, histories.get(bundle), bundle_counts, chosen, settings)
            rows.append(row)
            if row.outcome == "split":
                splits[bundle] = broker
                namespace = namespace_of(bundle)
                chosen[namespace] = chosen.get(namespace, 0) + 1
    return SplitPlan(dict(sorted(splits.items())), tuple(rows))


def limits_of(stats: BundleStats, rate: float, throughput: float, settings: Settings) -> tuple[Limit, ...]:
    """The figures that are held against limits, in the order in which Pulsar names its reason.

    `rate` (msg/s) and `throughput` (byte/s) are those that the load manager looks at.
    """
    topics = settings.loadBalancerNamespaceBundleMaxTopics
    sessions = settings.loadBalancerNamespaceBundleMaxSessions
    limits = [Limit("topics_over_limit", "loadBalancerNamespaceBundleMaxTopics", stats.topics, topics, "count")]
    if sessions > 0:
        key = "loadBalancerNamespaceBundleMaxSessions"
        limits.append(Limit("sessions_over_limit", key, stats.sessions, sessions, "count"))
    limits += [
        Limit(
            "rate_over_limit",
            "loadBalancerNamespaceBundleMaxMsgRate",
            rate,
            settings.loadBalancerNamespaceBundleMaxMsgRate,
            "msg/s",
        ),
        Limit(
            "throughput_over_limit",
            "loadBalancerNamespaceBundleMaxBandwidthMbytes",
            throughput,
            bandwidth_limit(settings),
            "byte/s",
        ),
    ]
    return tuple(limits)


def bandwidth_limit(settings: Settings) -> int:
    """byte/s; Pulsar multiplies in 32 bits, so that from 2048 MiB/s on the limit is negative and any bundle exceeds."""
    product = settings.loadBalancerNamespaceBundleMaxBandwidthMbytes * _MIB
    return (product + (1 << 31)) % (1 << 32) - (1 << 31)


def switched_off(settings: Settings) -> Considered | None:
    """The row about a cluster whose switch for splits is off; None where it is on."""
    if settings.evenkeelSplitEnabled:
        return None
    return considered("cluster", "cluster", None, "skipped", "switched_off", setting="evenkeelSplitEnabled")


def _stopped(brokers: Mapping[str, BrokerReport], settings: Settings) -> Considered | None:
    off = switched_off(settings)
    if off is not None:
        return off
    if len(brokers) < FEWEST_BROKERS:
        return considered(
            "cluster",
            "cluster",
            None,
            "skipped",
            "too_few_brokers",
            measured=len(brokers),
            threshold=FEWEST_BROKERS,
            unit="count",
        )
    return None


def _consider(
    bundle: str,
    broker: str,
    stats: BundleStats,
    history: BundleHistory | None,
    bundle_counts: Mapping[str, int],
    chosen: Mapping[str, int],
    settings: Settings,
) -> Considered:
    if stats.topics < FEWEST_TOPICS:
        return considered(
            bundle,
            "bundle",
            broker,
            "skipped",
            "too_few_topics",
            measured=stats.topics,
            threshold=FEWEST_TOPICS,
            unit="count",
        )
    rate = history.long_term.rate if history else 0.0
    throughput = history.long_term.throughput if history else 0.0
    limits = limits_of(stats, rate, throughput, settings)
    figures = figures_of(limits)
    exceeded = next((limit for limit in limits if limit.exceeded), None)
    if exceeded is None:
        nearest = max(limits, key=lambda limit: limit.share)
        return limit_row(bundle, broker, "kept", "below_limits", nearest, figures)
    namespace = namespace_of(bundle)
    bundles = bundle_counts.get(namespace, 1) + chosen.get(namespace, 0)
    figures["bundles_of_namespace"] = bundles
    if bundles < settings.loadBalancerNamespaceMaximumBundles:
        return limit_row(bundle, broker, "split", exceeded.rule, exceeded, figures)
    return considered(
        bundle,
        "bundle",
        broker,
        "refused",
        "maximum_bundles",
        setting="loadBalancerNamespaceMaximumBundles",
        measured=bundles,
        threshold=settings.loadBalancerNamespaceMaximumBundles,
        unit="count",
        numbers=figures,
    )


def limit_row(
    bundle: str, broker: str, outcome: Outcome, rule: str, limit: Limit, figures: Mapping[str, float]
) -> Considered:
    """The verdict on a bundle that one of its limits settled."""
    return considered(
        bundle,
        "bundle",
        broker,
        outcome,
        rule,
        setting=limit.setting,
        measured=limit.measured,
        threshold=limit.threshold,
        unit=limit.unit,
        numbers=figures,
    )


def figures_of(limits: Iterable[Limit]) -> dict[str, float]:
    """What was measured, by name."""
    return {limit.rule.removesuffix("_over_limit"): limit.measured for limit in limits}
