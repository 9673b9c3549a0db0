"""From a bundle chosen to split to the split itself: the guards Pulsar checks after choosing, the cut, the children.

Pulsar: ModularLoadManagerImpl.checkNamespaceBundleSplit, NamespaceBundleFactory.splitBundles. Keys:
defaultNamespaceBundleSplitAlgorithm, loadBalancerAutoUnloadSplitBundlesEnabled. A bundle that passes the first guards
loses its history, whether the split succeeds or not (4.x).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.errors import BadRange
from evenkeel.filters.unload_gates import UnloadGates
from evenkeel.model.bundles import HIGHEST_HASH, apply_split, bundle_name, namespace_of, range_of
from evenkeel.model.considered import Considered
from evenkeel.model.load import BundleHistory
from evenkeel.plan_splits.rules.bundle_splitter_task import SplitPlan
from evenkeel.settings import Settings
from evenkeel.split_algorithms import cut_by_broker, option_of
from evenkeel.split_algorithms.split_option import NO_TOPICS, BundleTopics, PlannedSplit, cut_numbers, why_no_cut

FULL_BOUNDARIES = (0, HIGHEST_HASH)


@dataclass(frozen=True, slots=True)
class SplitRound:
    """The splits that pass all guards, and every bundle considered (a chosen one with the guard that refused it)."""

    splits: tuple[PlannedSplit, ...]
    considered: tuple[Considered, ...]


def histories_after_splits(
    histories: Mapping[str, BundleHistory], plan: SplitPlan, boundaries: Mapping[str, Sequence[int]]
) -> dict[str, BundleHistory]:
    """The histories that remain once those of the bundles to be split are forgotten.

    Shedding in the same cycle looks at these, so that no bundle is split and unloaded at once.
    """
    gone = {bundle for bundle in plan.splits if refusal(bundle, boundaries) is None}
    return {bundle: history for bundle, history in histories.items() if bundle not in gone}


def refusal(bundle: str, boundaries: Mapping[str, Sequence[int]]) -> str | None:
    """None if a chosen bundle can be split, else "too_narrow" or "bundle_gone" (no longer one of its namespace's).

    A namespace without known boundaries is one full bundle.
    """
    found = range_of(bundle)
    if found.width <= 1:
        return "too_narrow"
    current = boundaries.get(namespace_of(bundle), FULL_BOUNDARIES)
    index = bisect_left(current, found.lower)
    return None if tuple(current[index : index + 2]) == (found.lower, found.upper) else "bundle_gone"


def unloads_children(bundle: str, broker: str, gates: UnloadGates, settings: Settings) -> bool:
    """Whether the children of a split are unloaded: switched on, another broker may have them, and 7.3 of the group."""
    if not settings.loadBalancerAutoUnloadSplitBundlesEnabled:
        return False
    return gates.refusal(bundle, broker) is None


def carry_out(
    plan: SplitPlan,
    boundaries: Mapping[str, Sequence[int]],
    topics: Mapping[str, BundleTopics],
    gates: UnloadGates,
    settings: Settings,
) -> SplitRound:
    """Guard, cut and name the children of every chosen bundle.

    `boundaries`: namespace -> its boundaries. `topics`: bundle -> its topics, needed by all algorithms but
    range_equally_divide. Cuts are made by defaultNamespaceBundleSplitAlgorithm, in whatever generation of Pulsar.
    """
    splits = []
    rows = []
    for row in plan.considered:
        if row.outcome != "split":
            rows.append(row)
            continue
        if plan.splits.get(row.subject) != row.broker:
            rows.append(row._replace(outcome="skipped", rule="reported_by_two_brokers"))
            continue
        made = _carry_out(row, boundaries, topics, gates, settings)
        if isinstance(made, PlannedSplit):
            splits.append(made)
            rows.append(made.reason)
        else:
            rows.append(made)
    return SplitRound(tuple(sorted(splits, key=lambda split: split.bundle)), tuple(rows))


def _carry_out(
    row: Considered,
    boundaries: Mapping[str, Sequence[int]],
    topics: Mapping[str, BundleTopics],
    gates: UnloadGates,
    settings: Settings,
) -> PlannedSplit | Considered:
    bundle, broker, namespace = row.subject, row.broker or "", namespace_of(row.subject)
    found = range_of(bundle)
    refused = refusal(bundle, boundaries)
    if refused is not None:
        return row._replace(outcome="refused", rule=refused)
    algorithm = settings.defaultNamespaceBundleSplitAlgorithm
    cut = cut_by_broker("", option_of(found, settings, topics.get(bundle, NO_TOPICS)), settings)
    if not cut.positions:
        return row._replace(outcome="refused", rule=why_no_cut(cut))
    try:
        split = apply_split(boundaries.get(namespace, FULL_BOUNDARIES), found, cut.positions)
    except BadRange:
        return row._replace(outcome="refused", rule="cut_outside_bundle")
    if split is None:
        return row._replace(outcome="refused", rule="bundle_gone")
    unload = unloads_children(bundle, broker, gates, settings)
    numbers = {**row.numbers, **cut_numbers(cut), "unload_children": int(unload)}
    return PlannedSplit(
        bundle=bundle,
        broker=broker,
        algorithm=algorithm,
        cuts=cut.positions,
        children=tuple(bundle_name(namespace, child) for child in split.children),
        unload=unload,
        reason=row._replace(numbers=numbers),
    )
