"""When a bundle is split, by the extensible manager's rule.

Pulsar: DefaultNamespaceBundleSplitStrategyImpl.findBundlesToSplit. Keys: loadBalancerNamespaceBundleMaxTopics,
…MaxSessions, …MaxMsgRate, …MaxBandwidthMbytes, loadBalancerNamespaceBundleSplitConditionHitCountThreshold,
loadBalancerNamespaceMaximumBundles, loadBalancerMaxNumberOfBundlesToSplitPerCycle,
defaultNamespaceBundleSplitAlgorithm, evenkeelSplitEnabled. Each broker decides about its own bundles, by the latest
figures and no averages, and acts once a bundle has been over a limit in more rounds in a row than the threshold. Only a
single cut is carried out: an algorithm that wants several is refused. Children stay with their parent's owner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from evenkeel.model.bundles import BundleRange, boundary_text, bundle_name, namespace_of, range_of
from evenkeel.model.considered import Considered, considered
from evenkeel.model.load import BrokerReport, BundleStats
from evenkeel.plan_splits.rules.apply_splits import refusal
from evenkeel.plan_splits.rules.bundle_splitter_task import FEWEST_TOPICS, Bounds, Limit, limit_row, switched_off
from evenkeel.settings import Settings
from evenkeel.split_algorithms import cut_by_broker, name_in_force, option_of
from evenkeel.split_algorithms.split_option import (
    NO_CUT,
    NO_TOPICS,
    BundleTopics,
    Cut,
    PlannedSplit,
    cut_numbers,
    why_no_cut,
)

State = Mapping[str, Mapping[str, float]]
HITS = "hits"
# What Pulsar counts as a failure; every other verdict is a bundle left for the next round.
FAILURES = frozenset({"too_narrow", "more_than_one_cut", "cut_outside_bundle", *NO_CUT})
NO_CONDITION = "no_condition"


@dataclass(frozen=True, slots=True)
class View:
    """What is known beside the figures.

    `bundle_counts`: namespace -> number of bundles (1 if missing). `topics`: bundle -> its topics, for algorithms that
    look at them. `splitting`: bundles being split now. `not_owned`: bundles whose owner is another broker than the one
    that reports them. `moved`: bundles that changed their owner since the hits were counted; a broker counts for itself
    and so starts anew.
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
        """How many bundles Pulsar would count as failed."""
        return sum(row.rule in FAILURES for row in self.considered)


def decide_splits(
    brokers: Mapping[str, BrokerReport], state: State, view: View, settings: Settings
) -> ExtensibleSplits:
    """One round of every broker, one after the other by name; a bundle in two reports counts in the first.

    A broker counts the splits chosen before it towards its namespaces' maximum, as if they were done by then; the cap
    of splits is each broker's own. With the switch off nothing is looked at and the state stays as it is.
    """
    stopped = switched_off(settings)
    if stopped is not None:
        return ExtensibleSplits((), (stopped,), state)
    counted = {bundle: hits for bundle, hits in state.get(HITS, {}).items() if bundle not in view.moved}
    round_ = _Round(counted, view, settings)
    for broker, report in sorted(brokers.items()):
        round_.decide(broker, report.stats)
    return round_.result()


def without_gone(made: ExtensibleSplits, boundaries: Mapping[str, Sequence[int]]) -> ExtensibleSplits:
    """The same without splits of bundles that their namespace no longer has: Pulsar decides on them, and then fails.

    `boundaries`: namespace -> its boundaries. The hits stay forgotten, as in Pulsar.
    """
    gone = {split.bundle for split in made.splits if refusal(split.bundle, boundaries) is not None}
    rows = tuple(_refused(row, "bundle_gone") if row.subject in gone else row for row in made.considered)
    return ExtensibleSplits(tuple(split for split in made.splits if split.bundle not in gone), rows, made.state)


class _Round:
    """What a round has come to so far."""

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
        """One broker's round over its bundles, by name, until it has as many splits as it may have."""
        most = self._settings.loadBalancerMaxNumberOfBundlesToSplitPerCycle
        made, full = 0, False
        for bundle, figures in sorted(stats.items()):
            if bundle in self._seen:
                self._rows.append(considered(bundle, "bundle", broker, "skipped", "reported_by_two_brokers"))
                continue
            self._seen.add(bundle)
            if bundle in self._before:
                self._hits[bundle] = self._before[bundle]
            if full:
                self._rows.append(self._left_for_later(bundle, broker, made))
                continue
            row = self._consider(bundle, broker, figures)
            self._rows.append(row)
            if row.outcome == "split":
                made += 1
                # Pulsar compares for equality, so that a cap of 0 is none.
                full = made == most

    def _left_for_later(self, bundle: str, broker: str, made: int) -> Considered:
        key = "loadBalancerMaxNumberOfBundlesToSplitPerCycle"
        return considered(
            bundle,
            "bundle",
            broker,
            "skipped",
            "enough_splits",
            setting=key,
            measured=made,
            threshold=made,
            unit="count",
        )

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
                return limit_row(bundle, broker, "kept", "below_limits", shown, numbers)
            return _waits(bundle, broker, hits, threshold, numbers)
        row = limit_row(bundle, broker, "split", exceeded.rule if exceeded else NO_CONDITION, shown, numbers)
        return self._crowded(row) or self._cut(row)

    def _not_looked_at(self, bundle: str, broker: str, stats: BundleStats) -> Considered | None:
        if stats.topics < FEWEST_TOPICS:
            return _skipped(bundle, broker, "too_few_topics", stats.topics, FEWEST_TOPICS)
        if bundle in self._view.not_owned:
            return considered(bundle, "bundle", broker, "skipped", "not_the_owner")
        width = range_of(bundle).width
        return _skipped(bundle, broker, "too_narrow", width, 1) if width <= 1 else None

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
            key = "loadBalancerNamespaceMaximumBundles"
            return considered(
                row.subject,
                "bundle",
                row.broker,
                "refused",
                "maximum_bundles",
                setting=key,
                measured=bundles,
                threshold=most,
                unit="count",
                numbers={**row.numbers, "bundles_of_namespace": bundles},
            )
        return _refused(row, "splitting_already") if self._is_splitting(row.subject) else None

    def _is_splitting(self, bundle: str) -> bool:
        """Whether a bundle that shares an edge is being split; Pulsar compares namespaces by how names begin."""
        namespace, found = namespace_of(bundle), range_of(bundle)
        lower, upper = boundary_text(found.lower), boundary_text(found.upper)
        for other in self._view.splitting:
            edges = other.rpartition("/")[2]
            if other.startswith(namespace) and (edges.startswith(lower) or edges.endswith(upper)):
                return True
        return False

    def _cut(self, row: Considered) -> Considered:
        bundle, settings = row.subject, self._settings
        found = range_of(bundle)
        cut = cut_by_broker("", option_of(found, settings, self._view.topics.get(bundle, NO_TOPICS)), settings)
        if len(cut.positions) != 1:
            rule = why_no_cut(cut) if not cut.positions else "more_than_one_cut"
            return _refused(row, rule, {"cuts": len(cut.positions)})
        if not found.lower < cut.positions[0] < found.upper:
            return _refused(row, "cut_outside_bundle", {"cut": cut.positions[0]})
        return self._split(row, found, cut)

    def _split(self, row: Considered, found: BundleRange, cut: Cut) -> Considered:
        namespace, at = namespace_of(row.subject), cut.positions[0]
        self._chosen[namespace] = self._chosen.get(namespace, 0) + 1
        self._hits.pop(row.subject, None)
        numbers = {**row.numbers, **cut_numbers(cut), "unload_children": 0}
        made = row._replace(numbers=numbers)
        self._splits[row.subject] = PlannedSplit(
            bundle=row.subject,
            broker=row.broker or "",
            algorithm=name_in_force("", self._settings),
            cuts=cut.positions,
            children=tuple(
                bundle_name(namespace, child) for child in (BundleRange(found.lower, at), BundleRange(at, found.upper))
            ),
            unload=False,
            reason=made,
        )
        return made


def _skipped(bundle: str, broker: str, rule: str, measured: float, threshold: float) -> Considered:
    return considered(bundle, "bundle", broker, "skipped", rule, measured=measured, threshold=threshold, unit="count")


def _waits(bundle: str, broker: str, hits: float, threshold: int, numbers: Mapping[str, float]) -> Considered:
    return considered(
        bundle,
        "bundle",
        broker,
        "kept",
        "over_limit_too_briefly",
        setting="loadBalancerNamespaceBundleSplitConditionHitCountThreshold",
        measured=hits,
        threshold=threshold,
        unit="count",
        numbers=numbers,
    )


def _refused(row: Considered, rule: str, numbers: Mapping[str, float] | None = None) -> Considered:
    """The row of a bundle that was to be split, with the gate that said no; its limit and figures stay."""
    return row._replace(outcome="refused", rule=rule, numbers={**row.numbers, **(numbers or {})})
