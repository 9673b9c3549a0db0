"""From a bundle chosen to split to the split itself: the guards Pulsar checks after choosing, the cut, the children.

Pulsar: ModularLoadManagerImpl.checkNamespaceBundleSplit, NamespaceBundleFactory.splitBundles. Keys:
defaultNamespaceBundleSplitAlgorithm, loadBalancerAutoUnloadSplitBundlesEnabled. A bundle that passes the first guards
loses its history, whether the split succeeds or not (4.x). Where Evenkeel's own planner decides where bundles go, the
children stay with their owner until it moves them (`children_stay`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.errors import BadRange
from evenkeel.model.bundles import HIGHEST_HASH, apply_split, bundle_name, namespace_of, range_of
from evenkeel.model.consideration import REPORTED_TWICE, Considered, Rule, Sentence, by_name, threshold
from evenkeel.model.filters.broker_filters import UnloadGates
from evenkeel.model.split_algorithms import cut_by_broker, option_of
from evenkeel.model.split_algorithms.split_option import NO_TOPICS, BundleTopics, Cut, PlannedSplit, cut_numbers
from evenkeel.plan_splits.rules.bundle_splitter_task import SplitPlan, figure_words
from evenkeel.settings import Settings

FULL_BOUNDARIES = (0, HIGHEST_HASH)


def not_split_although(why: str) -> Sentence:
    """The sentence of a bundle that is over a limit and stays whole, with the reason."""
    return lambda row: (
        f"{row.subject} is not split although {figure_words(row)} over the limit of {threshold(row)}: {why}."
    )


TOO_NARROW = Rule("refused", "too_narrow", not_split_although("its range cannot be divided any further"))
BUNDLE_GONE = Rule("refused", "bundle_gone", not_split_although("its namespace no longer has a bundle of that range"))
CUT_OUTSIDE_BUNDLE = Rule(
    "refused", "cut_outside_bundle", not_split_although("the cut would leave one side without any range")
)
NOTHING_TO_CUT = Rule(
    "refused", "nothing_to_cut", not_split_although("the split algorithm finds too few topics to cut between")
)
NOT_CUT = {
    "too_few_topics": NOTHING_TO_CUT,
    **by_name(
        "rules",
        Rule(
            "refused",
            "no_positions",
            not_split_although("the split algorithm cuts at given positions, and none are given"),
        ),
        Rule("refused", "no_position_inside", not_split_although("none of the given positions lies inside its range")),
        Rule(
            "refused",
            "too_few_busy_topics",
            not_split_although("fewer than two of its topics have traffic to cut between"),
        ),
        Rule(
            "refused",
            "traffic_below_gate",
            not_split_although(
                "its loaded topics' present traffic is not far enough over the limits of rate and throughput"
            ),
        ),
        Rule("refused", "one_piece", not_split_although("its loaded topics' present traffic fits into one bundle")),
    ),
}
"""Why an algorithm cut nothing, by the name in `Cut.rule`."""


def why_not_cut(cut: Cut) -> Rule:
    """Return the rule by which a bundle stays whole that an algorithm did not cut."""
    return NOT_CUT[cut.rule]


@dataclass(frozen=True, slots=True)
class SplitRound:
    """The splits that pass all guards, and every bundle considered (a chosen one with the guard that refused it)."""

    splits: tuple[PlannedSplit, ...]
    considered: tuple[Considered, ...]


def refusal(bundle: str, boundaries: Mapping[str, Sequence[int]]) -> Rule | None:
    """Return None if a chosen bundle can be split, else TOO_NARROW or BUNDLE_GONE (not in its namespace any more).

    A namespace without known boundaries is one full bundle.
    """
    bundle_range = range_of(bundle)
    if bundle_range.width <= 1:
        return TOO_NARROW
    current = boundaries.get(namespace_of(bundle), FULL_BOUNDARIES)
    index = bisect_left(current, bundle_range.lower)
    return None if tuple(current[index : index + 2]) == (bundle_range.lower, bundle_range.upper) else BUNDLE_GONE


def unloads_children(bundle: str, broker: str, gates: UnloadGates, settings: Settings) -> bool:
    """Return True if a split's children are unloaded: it is switched on, and unload gates let it go."""
    if not settings.loadBalancerAutoUnloadSplitBundlesEnabled:
        return False
    return gates.refusal(bundle, broker) is None


def carry_out(
    plan: SplitPlan,
    boundaries: Mapping[str, Sequence[int]],
    topics: Mapping[str, BundleTopics],
    gates: UnloadGates,
    settings: Settings,
    *,
    children_stay: bool = False,
) -> SplitRound:
    """Guard, cut and name the children of every chosen bundle.

    `boundaries`: namespace -> its boundaries. `topics`: bundle -> its topics, needed by all algorithms but
    range_equally_divide. Cuts are made by defaultNamespaceBundleSplitAlgorithm, for every generation of Pulsar.
    `children_stay`: no children are unloaded, whatever the settings.
    """
    splits = []
    rows = []
    for row in plan.considered:
        if row.outcome != "split":
            rows.append(row)
            continue
        if plan.splits.get(row.subject) != row.broker:
            rows.append(REPORTED_TWICE.instead_of(row))
            continue
        unloads = not children_stay and unloads_children(row.subject, row.broker or "", gates, settings)
        executed = _carry_out(row, boundaries, topics, settings, unloads=unloads)
        if isinstance(executed, PlannedSplit):
            splits.append(executed)
            rows.append(executed.reason)
        else:
            rows.append(executed)
    return SplitRound(tuple(sorted(splits, key=lambda split: split.bundle)), tuple(rows))


def _carry_out(
    row: Considered,
    boundaries: Mapping[str, Sequence[int]],
    topics: Mapping[str, BundleTopics],
    settings: Settings,
    *,
    unloads: bool,
) -> PlannedSplit | Considered:
    bundle, broker, namespace = row.subject, row.broker or "", namespace_of(row.subject)
    bundle_range = range_of(bundle)
    refused = refusal(bundle, boundaries)
    if refused is not None:
        return refused.instead_of(row)
    algorithm = settings.defaultNamespaceBundleSplitAlgorithm
    cut = cut_by_broker("", option_of(bundle_range, settings, topics.get(bundle, NO_TOPICS)), settings)
    if not cut.positions:
        return why_not_cut(cut).instead_of(row)
    try:
        split = apply_split(boundaries.get(namespace, FULL_BOUNDARIES), bundle_range, cut.positions)
    except BadRange:
        return CUT_OUTSIDE_BUNDLE.instead_of(row)
    if split is None:
        return BUNDLE_GONE.instead_of(row)
    numbers = {**row.numbers, **cut_numbers(cut), "unload_children": int(unloads)}
    return PlannedSplit(
        bundle=bundle,
        broker=broker,
        algorithm=algorithm,
        cuts=cut.positions,
        children=tuple(bundle_name(namespace, child) for child in split.children),
        unload=unloads,
        reason=row._replace(numbers=numbers),
    )
