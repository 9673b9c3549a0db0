"""The modular manager's split rule.

Pulsar: BundleSplitterTask.findBundlesToSplit, ModularLoadManagerImpl.checkNamespaceBundleSplit. Keys:
loadBalancerNamespaceBundleMaxTopics, …MaxSessions, …MaxMsgRate, …MaxBandwidthMbytes,
loadBalancerNamespaceMaximumBundles, evenkeelSplitEnabled. Topics and sessions are the latest figures; rate and
throughput are long-term averages. Every limit is strict. The rule needs at least two brokers. Names decide which bundle
gets a namespace's last free slot: broker, then bundle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from evenkeel.model.amounts import plural
from evenkeel.model.bundles import namespace_of
from evenkeel.model.consideration import (
    SWITCHED_OFF,
    TOO_FEW_BROKERS,
    Considered,
    Rule,
    Unit,
    measured,
    number,
    threshold,
)
from evenkeel.model.load import BrokerReport, BundleHistory, BundleStats
from evenkeel.planner.memory import part_name
from evenkeel.settings import Settings

TOPICS_KEY = "loadBalancerNamespaceBundleMaxTopics"
SESSIONS_KEY = "loadBalancerNamespaceBundleMaxSessions"
RATE_KEY = "loadBalancerNamespaceBundleMaxMsgRate"
THROUGHPUT_KEY = "loadBalancerNamespaceBundleMaxBandwidthMbytes"
MOST_BUNDLES_KEY = "loadBalancerNamespaceMaximumBundles"
FEWEST_TOPICS = 2
FEWEST_BROKERS = 2
_MIB = 1_048_576

_FIGURES: Mapping[str, str] = {
    TOPICS_KEY: "its {} topics are",
    SESSIONS_KEY: "its {} sessions are",
    RATE_KEY: "its long-term rate of {} is",
    THROUGHPUT_KEY: "its long-term throughput of {} is",
}


def figure_words(row: Considered) -> str:
    """Return the figure that is compared with a limit, with its verb."""
    return _FIGURES.get(row.setting or "", "its {} are").format(measured(row))


def where_cut(row: Considered) -> str:
    """Return the words of a split about its cuts if Evenkeel's planner chose them; "" otherwise."""
    if part_name(1) not in row.numbers:
        return ""
    heaviest = number(row, "heaviest_part", "fraction")
    return f"; it is cut where Evenkeel's planner can place the parts, of which the heaviest has {heaviest} of the load"


def _over_limit(row: Considered) -> str:
    return f"{row.subject} is split: {figure_words(row)} over the limit of {threshold(row)}{where_cut(row)}."


OVER_LIMIT = {
    name: Rule("split", f"{name}_over_limit", _over_limit, "above")
    for name in ("topics", "sessions", "rate", "throughput")
}
"""By the name of the figure."""
BELOW_LIMITS = Rule(
    "kept",
    "below_limits",
    lambda row: (
        f"{row.subject} is not split: {figure_words(row)} within the limit of {threshold(row)}, the nearest of its "
        "limits."
    ),
    "at most",
)
TOO_FEW_TOPICS = Rule(
    "skipped",
    "too_few_topics",
    lambda row: (
        f"{row.subject} is not considered for a split: it has {plural(row.measured, 'topic')}, and a split needs two."
    ),
    "below",
)
MAXIMUM_BUNDLES = Rule(
    "refused",
    "maximum_bundles",
    lambda row: (
        f"{row.subject} is over a limit but is not split: its namespace has {plural(row.measured, 'bundle')}, "
        f"splits chosen in this cycle included, and may have {threshold(row)}."
    ),
    "at least",
)


@dataclass(frozen=True)
class SplitPlan:
    """Bundles to split with their broker (`splits`, in name order); `tell` gives every bundle considered."""

    splits: Mapping[str, str]
    tell: Callable[[], tuple[Considered, ...]]

    @cached_property
    def considered(self) -> tuple[Considered, ...]:
        """The verdict on every bundle, by broker and name; those below all limits are made when asked for."""
        return self.tell()


Figures = tuple[float, float, float, float]
"""Topics, sessions, msg/s and byte/s of a bundle, as a load manager looks at them."""


class Limit(NamedTuple):
    """One figure of a bundle and its limit; `name`: "topics", "sessions", "rate" or "throughput"."""

    name: str
    setting: str
    measured: float
    threshold: float
    unit: Unit

    @property
    def rule(self) -> Rule:
        """The rule by which a bundle over this limit is split."""
        return OVER_LIMIT[self.name]

    @property
    def exceeded(self) -> bool:
        """Return True if strictly above the limit."""
        return self.measured > self.threshold


class Bounds:
    """The limits that settings hold every bundle to, in the order in which Pulsar names its reason.

    A bundle's figures are tuples in that order. Only the limit that settles a verdict is made a `Limit` of.
    """

    def __init__(self, settings: Settings) -> None:
        self._counts_sessions = settings.loadBalancerNamespaceBundleMaxSessions > 0
        bounds = [bound for bound in _bounds(settings) if self._counts_sessions or bound[0] != "sessions"]
        self._bounds = bounds
        self._names = [name for name, _, _, _ in bounds]
        self._thresholds = [threshold for _, _, threshold, _ in bounds]

    def measured(self, stats: BundleStats, rate: float, throughput: float) -> tuple[float, ...]:
        """A bundle's figures; `rate` (msg/s) and `throughput` (byte/s) are those that the load manager looks at."""
        if self._counts_sessions:
            return stats.topics, stats.sessions, rate, throughput
        return stats.topics, rate, throughput

    def by_name(self, measured: Sequence[float]) -> dict[str, float]:
        """Return the measured figures by name."""
        return dict(zip(self._names, measured, strict=True))

    def limits(self, measured: Sequence[float]) -> tuple[Limit, ...]:
        """Return all figures with their limits."""
        return tuple(self._limit(index, figure) for index, figure in enumerate(measured))

    def exceeded(self, measured: Sequence[float]) -> Limit | None:
        """The first limit that a bundle is over."""
        for index, figure in enumerate(measured):
            if figure > self._thresholds[index]:
                return self._limit(index, figure)
        return None

    def nearest(self, measured: Sequence[float]) -> Limit:
        """Return the limit with the largest ratio of figure to limit; the first of several."""
        shares = [
            figure / most if most > 0 else figure + 1.0 for figure, most in zip(measured, self._thresholds, strict=True)
        ]
        index = shares.index(max(shares))
        return self._limit(index, measured[index])

    def _limit(self, index: int, measured: float) -> Limit:
        name, setting, most, unit = self._bounds[index]
        return Limit(name, setting, measured, most, unit)


def _bounds(settings: Settings) -> list[tuple[str, str, float, Unit]]:
    """Name, setting, threshold and unit of each limit."""
    return [
        ("topics", TOPICS_KEY, settings.loadBalancerNamespaceBundleMaxTopics, "count"),
        ("sessions", SESSIONS_KEY, settings.loadBalancerNamespaceBundleMaxSessions, "count"),
        ("rate", RATE_KEY, settings.loadBalancerNamespaceBundleMaxMsgRate, "msg/s"),
        ("throughput", THROUGHPUT_KEY, bandwidth_limit(settings), "byte/s"),
    ]


def most_figures(settings: Settings) -> Figures:
    """The largest figures of a bundle that is over no limit; infinite where none is too large."""
    topics, sessions, rate, throughput = (most for _, _, most, _ in _bounds(settings))
    return topics, sessions if sessions > 0 else math.inf, rate, throughput


class LongTermAverages(Protocol):
    """Long-term averages of bundles, msg/s and byte/s, in and out; zeros for a bundle without history."""

    def long_term(self, bundle: str) -> tuple[float, float]:
        """Rate and throughput of one bundle."""

    def above(self, rate: float, throughput: float) -> Collection[str]:
        """Return the bundles with a history that have one figure above its limit; not-a-number is not above."""


class _AveragesOfHistories:
    """The averages in these histories."""

    def __init__(self, histories: Mapping[str, BundleHistory]) -> None:
        self._histories = histories

    def long_term(self, bundle: str) -> tuple[float, float]:
        history = self._histories.get(bundle)
        return (0.0, 0.0) if history is None else (history.long_term.rate, history.long_term.throughput)

    def above(self, rate: float, throughput: float) -> Collection[str]:
        # Not by the properties of averages: this is asked of every bundle of a cluster.
        return {
            bundle
            for bundle, history in self._histories.items()
            if (average := history.long_term).msg_rate_in + average.msg_rate_out > rate
            or average.msg_throughput_in + average.msg_throughput_out > throughput
        }


def busy_for_long(brokers: Mapping[str, BrokerReport], averages: LongTermAverages, most: Figures) -> Collection[str]:
    """The bundles whose long-term rate or throughput is above the `most`; bundles of no report may be among them."""
    _, _, rate, throughput = most
    if rate >= 0 and throughput >= 0:
        return averages.above(rate, throughput)
    # Bundles without history are above such a limit, too.
    reported = {bundle: averages.long_term(bundle) for report in brokers.values() for bundle in report.stats}
    return {bundle for bundle, rates in reported.items() if rates[0] > rate or rates[1] > throughput}


def over_a_limit(reported: Mapping[str, BundleStats], busy: Collection[str], most: Figures) -> list[str]:
    """The bundles with topics to part that are `busy` or have more topics or sessions than the `most`."""
    most_topics, most_sessions, _, _ = most
    return [
        bundle
        for bundle, stats in reported.items()
        if (stats.topics > most_topics or stats.consumers + stats.producers > most_sessions or bundle in busy)
        and stats.topics >= FEWEST_TOPICS
    ]


def decide_splits(
    brokers: Mapping[str, BrokerReport],
    histories: Mapping[str, BundleHistory],
    bundle_counts: Mapping[str, int],
    settings: Settings,
) -> SplitPlan:
    """Decide which bundles to split, before the guards of `execute`.

    `bundle_counts`: namespace -> number of bundles (a missing namespace counts as one bundle). With the switch off or
    fewer than two brokers nothing is split, and one row about the cluster states that.
    """
    return decide_splits_by(brokers, _AveragesOfHistories(histories), bundle_counts, settings)


def decide_splits_by(
    brokers: Mapping[str, BrokerReport],
    averages: LongTermAverages,
    bundle_counts: Mapping[str, int],
    settings: Settings,
) -> SplitPlan:
    """Decide which bundles to split from these long-term averages; else like `decide_splits`."""
    stopped = _stopped(brokers, settings)
    if stopped is not None:
        return SplitPlan({}, lambda: (stopped,))
    return _ModularRound(averages, bundle_counts, settings).plan(brokers)


def find_bundles_to_split(
    brokers: Mapping[str, BrokerReport],
    histories: Mapping[str, BundleHistory],
    bundle_counts: Mapping[str, int],
    settings: Settings,
) -> SplitPlan:
    """Apply the rule itself, without regard to the switch and the number of brokers."""
    return _ModularRound(_AveragesOfHistories(histories), bundle_counts, settings).plan(brokers)


def bandwidth_limit(settings: Settings) -> int:
    """Return the limit in byte/s. Pulsar multiplies in 32 bits: from 2048 MiB/s on it is negative and exceeded."""
    product = settings.loadBalancerNamespaceBundleMaxBandwidthMbytes * _MIB
    return (product + (1 << 31)) % (1 << 32) - (1 << 31)


def switched_off(settings: Settings) -> Considered | None:
    """Return the row about a cluster whose switch for splits is off; None if it is on."""
    if settings.evenkeelSplitEnabled:
        return None
    return SWITCHED_OFF.about_cluster(setting="evenkeelSplitEnabled")


def _stopped(brokers: Mapping[str, BrokerReport], settings: Settings) -> Considered | None:
    off = switched_off(settings)
    if off is not None:
        return off
    if len(brokers) < FEWEST_BROKERS:
        return TOO_FEW_BROKERS.about_cluster(measured=len(brokers), threshold=FEWEST_BROKERS, unit="count")
    return None


class _ModularRound:
    """One round over all bundles.

    The choice follows from the bundles over a limit alone, few of many thousands. So only those are checked, by broker
    and name. The verdicts follow from that choice and from each bundle's figures; they are made on request.
    """

    def __init__(self, averages: LongTermAverages, bundle_counts: Mapping[str, int], settings: Settings) -> None:
        self._averages, self._bundle_counts, self._settings = averages, bundle_counts, settings
        self._bounds = Bounds(settings)
        self._most_bundles = settings.loadBalancerNamespaceMaximumBundles

    def plan(self, brokers: Mapping[str, BrokerReport]) -> SplitPlan:
        """Every bundle of every report, by broker and name."""
        most = most_figures(self._settings)
        busy = busy_for_long(brokers, self._averages, most)
        splits: dict[str, str] = {}
        limits: dict[str, dict[str, int]] = {}
        chosen: dict[str, int] = {}
        for broker, report in sorted(brokers.items()):
            broker_limits = limits[broker] = {}
            for bundle in sorted(over_a_limit(report.stats, busy, most)):
                namespace = namespace_of(bundle)
                taken = chosen.get(namespace, 0)
                broker_limits[bundle] = bundles = self._bundle_counts.get(namespace, 1) + taken
                if bundles < self._most_bundles:
                    chosen[namespace] = taken + 1
                    splits[bundle] = broker
        return SplitPlan(dict(sorted(splits.items())), lambda: tuple(self._verdicts(brokers, limits)))

    def _verdicts(
        self, brokers: Mapping[str, BrokerReport], over: Mapping[str, Mapping[str, int]]
    ) -> Iterator[Considered]:
        """Return the verdicts. `over`: broker -> its bundles over a limit -> its namespace's bundles then."""
        for broker, report in sorted(brokers.items()):
            broker_limits = over[broker]
            for bundle in sorted(report.stats):
                yield self._verdict(bundle, broker, report.stats[bundle], broker_limits.get(bundle))

    def _verdict(self, bundle: str, broker: str, stats: BundleStats, bundles: int | None) -> Considered:
        if stats.topics < FEWEST_TOPICS:
            return TOO_FEW_TOPICS.about_bundle(
                bundle, broker, measured=stats.topics, threshold=FEWEST_TOPICS, unit="count"
            )
        measured = self._bounds.measured(stats, *self._averages.long_term(bundle))
        figures = self._bounds.by_name(measured)
        if bundles is None or (exceeded := self._bounds.exceeded(measured)) is None:
            return limit_row(BELOW_LIMITS, bundle, broker, self._bounds.nearest(measured), figures)
        figures["bundles_of_namespace"] = bundles
        if bundles < self._most_bundles:
            return limit_row(exceeded.rule, bundle, broker, exceeded, figures)
        return maximum_bundles_row(bundle, broker, bundles, self._settings, figures)


def maximum_bundles_row(
    bundle: str, broker: str | None, bundles: int, settings: Settings, figures: Mapping[str, float]
) -> Considered:
    """The verdict on a bundle whose namespace has as many `bundles` as it may have."""
    return MAXIMUM_BUNDLES.about_bundle(
        bundle,
        broker,
        setting=MOST_BUNDLES_KEY,
        measured=bundles,
        threshold=settings.loadBalancerNamespaceMaximumBundles,
        unit="count",
        numbers=figures,
    )


def limit_row(rule: Rule, bundle: str, broker: str, limit: Limit, figures: Mapping[str, float]) -> Considered:
    """The verdict on a bundle that one of its limits settled."""
    return rule.about_bundle(
        bundle,
        broker,
        setting=limit.setting,
        measured=limit.measured,
        threshold=limit.threshold,
        unit=limit.unit,
        numbers=figures,
    )
