"""The extensible manager's split rule.

Pulsar: DefaultNamespaceBundleSplitStrategyImpl.findBundlesToSplit. Keys: loadBalancerNamespaceBundleMaxTopics,
…MaxSessions, …MaxMsgRate, …MaxBandwidthMbytes, loadBalancerNamespaceBundleSplitConditionHitCountThreshold,
loadBalancerNamespaceMaximumBundles, loadBalancerMaxNumberOfBundlesToSplitPerCycle,
defaultNamespaceBundleSplitAlgorithm, evenkeelSplitEnabled. Each broker decides on its own bundles from the latest
figures, without averages. It acts once a bundle was over a limit in more rounds in a row than the threshold. Only a
single cut is carried out: an algorithm that wants several is refused. Children stay with their parent's owner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from evenkeel.model.amounts import plural
from evenkeel.model.bundles import BundleRange, boundary_text, bundle_name, namespace_of, range_of
from evenkeel.model.consideration import REPORTED_TWICE, Considered, Rule, number, threshold
from evenkeel.model.load import BrokerReport, BundleStats
from evenkeel.model.split_algorithms import cut_by_broker, name_in_force, option_of
from evenkeel.model.split_algorithms.split_option import NO_TOPICS, BundleTopics, Cut, PlannedSplit, cut_numbers
from evenkeel.plan_splits.rules.apply_splits import (
    BUNDLE_GONE,
    CUT_OUTSIDE_BUNDLE,
    NOT_CUT,
    NOTHING_TO_CUT,
    not_split_although,
    refusal,
    why_not_cut,
)
from evenkeel.plan_splits.rules.bundle_splitter_task import (
    BELOW_LIMITS,
    FEWEST_TOPICS,
    TOO_FEW_TOPICS,
    Bounds,
    Limit,
    figure_words,
    limit_row,
    maximum_bundles_row,
    switched_off,
    where_cut,
)
from evenkeel.settings import Settings

State = Mapping[str, Mapping[str, float]]
HITS = "hits"
HIT_COUNT_KEY = "loadBalancerNamespaceBundleSplitConditionHitCountThreshold"
MOST_SPLITS_KEY = "loadBalancerMaxNumberOfBundlesToSplitPerCycle"

NOT_THE_OWNER = Rule(
    "skipped",
    "not_the_owner",
    lambda row: f"{row.subject} is not considered for a split: {row.broker} reports it and does not own it.",
)
TOO_NARROW = Rule(
    "skipped",
    "too_narrow",
    lambda row: f"{row.subject} cannot be split: its range cannot be divided any further.",
    "at most",
)
ENOUGH_SPLITS = Rule(
    "skipped",
    "enough_splits",
    lambda row: (
        f"{row.subject} is left for the next round: {row.broker} has decided on {plural(row.measured, 'split')}, "
        "as many as it may in one round."
    ),
    "at least",
)
OVER_LIMIT_TOO_BRIEFLY = Rule(
    "kept",
    "over_limit_too_briefly",
    lambda row: (
        f"{row.subject} is not split yet: it is over a limit in {plural(row.measured, 'round')} in a row, "
        f"and more than {threshold(row)} are needed."
    ),
    "at most",
)
NO_CONDITION = Rule(
    "split",
    "no_condition",
    lambda row: (
        f"{row.subject} is split although it is over no limit: {HIT_COUNT_KEY} is below 0, so that no round over a "
        f"limit is needed{where_cut(row)}."
    ),
)
SPLITTING_ALREADY = Rule(
    "refused", "splitting_already", not_split_although("a bundle that shares one of its edges is being split")
)
MORE_THAN_ONE_CUT = Rule(
    "refused",
    "more_than_one_cut",
    lambda row: (
        f"{row.subject} is not split although {figure_words(row)} over the limit of {threshold(row)}: the split "
        f"algorithm wants {number(row, 'cuts')} cuts, and the extensible manager makes one at a time."
    ),
)
FAILURES = frozenset(
    rule.name for rule in (TOO_NARROW, MORE_THAN_ONE_CUT, CUT_OUTSIDE_BUNDLE, NOTHING_TO_CUT, *NOT_CUT.values())
)
"""Verdicts that Pulsar counts as failures; after every other verdict the bundle waits for the next round."""


@dataclass(frozen=True, slots=True)
class View:
    """Inputs beside the figures.

    `bundle_counts`: namespace -> number of bundles (1 if missing). `topics`: bundle -> its topics, for algorithms that
    read them. `splitting`: bundles being split now. `not_owned`: bundles with another owner than the broker that
    reports them. `moved`: bundles that changed their owner since the last count; each broker counts for itself and so
    starts again.
    """

    bundle_counts: Mapping[str, int] = field(default_factory=dict)
    topics: Mapping[str, BundleTopics] = field(default_factory=dict)
    splitting: Collection[str] = ()
    not_owned: Collection[str] = frozenset()
    moved: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ExtensibleSplits:
    """The splits in name order, every bundle considered, and the state: "hits" -> bundle -> rounds in a row."""

    splits: tuple[PlannedSplit, ...]
    considered: tuple[Considered, ...]
    state: State

    @property
    def failures(self) -> int:
        """Return how many bundles Pulsar would count as failed."""
        return sum(row.rule in FAILURES for row in self.considered)


def decide_splits(
    brokers: Mapping[str, BrokerReport], state: State, view: View, settings: Settings
) -> ExtensibleSplits:
    """Decide one round of every broker, by broker name; a bundle in two reports counts in the first.

    A broker counts the earlier chosen splits towards its namespaces' maximum, as if they were done. Each broker has its
    own cap of splits. With the switch off nothing is checked and the state stays as it is.
    """
    stopped = switched_off(settings)
    if stopped is not None:
        return ExtensibleSplits((), (stopped,), state)
    counted = {bundle: hits for bundle, hits in state.get(HITS, {}).items() if bundle not in view.moved}
    round_ = _ExtensibleRound(counted, view, settings)
    for broker, report in sorted(brokers.items()):
        round_.decide(broker, report.stats)
    return round_.result()


def without_gone(decided: ExtensibleSplits, boundaries: Mapping[str, Sequence[int]]) -> ExtensibleSplits:
    """The round without splits of bundles that their namespace no longer has: Pulsar decides on them, and then fails.

    `boundaries`: namespace -> its boundaries. The hits stay forgotten, as in Pulsar.
    """
    gone = {split.bundle for split in decided.splits if refusal(split.bundle, boundaries) is not None}
    rows = tuple(BUNDLE_GONE.instead_of(row) if row.subject in gone else row for row in decided.considered)
    return ExtensibleSplits(tuple(split for split in decided.splits if split.bundle not in gone), rows, decided.state)


class _ExtensibleRound:
    """The state of one round over all brokers."""

    def __init__(self, hits: Mapping[str, float], view: View, settings: Settings) -> None:
        self._before, self._view, self._settings = hits, view, settings
        self._bounds = Bounds(settings)
        self._hits: dict[str, float] = {}
        self._chosen: dict[str, int] = {}
        self._splits: dict[str, PlannedSplit] = {}
        self._rows: list[Considered] = []
        self._seen: set[str] = set()

    def result(self) -> ExtensibleSplits:
        splits = tuple(self._splits[bundle] for bundle in sorted(self._splits))
        return ExtensibleSplits(splits, tuple(self._rows), {HITS: dict(sorted(self._hits.items()))})

    def decide(self, broker: str, stats: Mapping[str, BundleStats]) -> None:
        """Decide one broker's round over its bundles, by name, up to its maximum of splits."""
        most = self._settings.loadBalancerMaxNumberOfBundlesToSplitPerCycle
        splits, full = 0, False
        for bundle, figures in sorted(stats.items()):
            if bundle in self._seen:
                self._rows.append(REPORTED_TWICE.about_bundle(bundle, broker))
                continue
            self._seen.add(bundle)
            if bundle in self._before:
                self._hits[bundle] = self._before[bundle]
            if full:
                self._rows.append(
                    ENOUGH_SPLITS.about_bundle(
                        bundle, broker, setting=MOST_SPLITS_KEY, measured=splits, threshold=splits, unit="count"
                    )
                )
                continue
            row = self._consider(bundle, broker, figures)
            self._rows.append(row)
            if row.outcome == "split":
                splits += 1
                # Pulsar compares for equality, so that a cap of 0 is none.
                full = splits == most

    def _consider(self, bundle: str, broker: str, stats: BundleStats) -> Considered:
        early = self._not_looked_at(bundle, broker, stats)
        if early is not None:
            return early
        rate, throughput = stats.msg_rate_in + stats.msg_rate_out, stats.msg_throughput_in + stats.msg_throughput_out
        measured = self._bounds.measured(stats, rate, throughput)
        exceeded = self._bounds.exceeded(measured)
        hits = self._count(bundle, exceeded)
        numbers = {**self._bounds.by_name(measured), "hits": hits}
        threshold = self._settings.loadBalancerNamespaceBundleSplitConditionHitCountThreshold
        shown = exceeded or self._bounds.nearest(measured)
        if hits <= threshold:
            if exceeded is None:
                return limit_row(BELOW_LIMITS, bundle, broker, shown, numbers)
            return OVER_LIMIT_TOO_BRIEFLY.about_bundle(
                bundle, broker, setting=HIT_COUNT_KEY, measured=hits, threshold=threshold, unit="count", numbers=numbers
            )
        row = limit_row(exceeded.rule if exceeded else NO_CONDITION, bundle, broker, shown, numbers)
        return self._crowded(row) or self._cut(row)

    def _not_looked_at(self, bundle: str, broker: str, stats: BundleStats) -> Considered | None:
        if stats.topics < FEWEST_TOPICS:
            return _skipped(TOO_FEW_TOPICS, bundle, broker, stats.topics, FEWEST_TOPICS)
        if bundle in self._view.not_owned:
            return NOT_THE_OWNER.about_bundle(bundle, broker)
        width = range_of(bundle).width
        return _skipped(TOO_NARROW, bundle, broker, width, 1) if width <= 1 else None

    def _count(self, bundle: str, exceeded: Limit | None) -> float:
        if exceeded is None:
            self._hits.pop(bundle, None)
            return 0
        self._hits[bundle] = self._hits.get(bundle, 0) + 1
        return self._hits[bundle]

    def _crowded(self, row: Considered) -> Considered | None:
        """The refusal for a namespace with too many bundles, or one that splits at this bundle's edge already."""
        namespace, most = namespace_of(row.subject), self._settings.loadBalancerNamespaceMaximumBundles
        bundles = self._view.bundle_counts.get(namespace, 1) + self._chosen.get(namespace, 0)
        if bundles >= most:
            numbers = {**row.numbers, "bundles_of_namespace": bundles}
            return maximum_bundles_row(row.subject, row.broker, bundles, self._settings, numbers)
        return SPLITTING_ALREADY.instead_of(row) if self._is_splitting(row.subject) else None

    def _is_splitting(self, bundle: str) -> bool:
        """Return True if a bundle that shares an edge is being split; Pulsar compares namespaces by how names begin."""
        namespace, bundle_range = namespace_of(bundle), range_of(bundle)
        lower, upper = boundary_text(bundle_range.lower), boundary_text(bundle_range.upper)
        for other in self._view.splitting:
            edges = other.rpartition("/")[2]
            if other.startswith(namespace) and (edges.startswith(lower) or edges.endswith(upper)):
                return True
        return False

    def _cut(self, row: Considered) -> Considered:
        bundle, settings = row.subject, self._settings
        bundle_range = range_of(bundle)
        cut = cut_by_broker("", option_of(bundle_range, settings, self._view.topics.get(bundle, NO_TOPICS)), settings)
        if len(cut.positions) != 1:
            rule = MORE_THAN_ONE_CUT if cut.positions else why_not_cut(cut)
            return rule.instead_of(row, cuts=len(cut.positions))
        if not bundle_range.lower < cut.positions[0] < bundle_range.upper:
            return CUT_OUTSIDE_BUNDLE.instead_of(row, cut=cut.positions[0])
        return self._split(row, bundle_range, cut)

    def _split(self, row: Considered, bundle_range: BundleRange, cut: Cut) -> Considered:
        namespace, at = namespace_of(row.subject), cut.positions[0]
        self._chosen[namespace] = self._chosen.get(namespace, 0) + 1
        self._hits.pop(row.subject, None)
        numbers = {**row.numbers, **cut_numbers(cut), "unload_children": 0}
        verdict = row._replace(numbers=numbers)
        self._splits[row.subject] = PlannedSplit(
            bundle=row.subject,
            broker=row.broker or "",
            algorithm=name_in_force("", self._settings),
            cuts=cut.positions,
            children=tuple(
                bundle_name(namespace, child)
                for child in (BundleRange(bundle_range.lower, at), BundleRange(at, bundle_range.upper))
            ),
            unload=False,
            reason=verdict,
        )
        return verdict


def _skipped(rule: Rule, bundle: str, broker: str, measured: float, least: float) -> Considered:
    return rule.about_bundle(bundle, broker, measured=measured, threshold=least, unit="count")
