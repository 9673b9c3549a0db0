"""A split that an operator requests (Pulsar: NamespacesBase.internalSplitNamespaceBundleAsync, NamespaceService).

Keys: supportedNamespaceBundleSplitAlgorithms, defaultNamespaceBundleSplitAlgorithm,
loadBalancerNamespaceMaximumBundles. No limit has to be exceeded, and the maximum of bundles does not apply: the verdict
notes that it is passed. A broker first takes a bundle without owner, and then splits it.
"""

from __future__ import annotations

from evenkeel.errors import BadRange
from evenkeel.manual_requests.request import (
    CONFLICT,
    NO_CONTENT,
    PRECONDITION_FAILED,
    SERVER_ERROR,
    SPLIT_ALREADY,
    ClusterView,
    Granted,
    SplitWish,
    bundle_meant,
    not_carried_out,
    refused,
)
from evenkeel.model.bundles import BundleRange, apply_split, bundle_name
from evenkeel.model.consideration import Considered, Rule, measured, number, threshold
from evenkeel.model.split_algorithms import SPECIFIED, cut_by_broker, name_in_force, option_of
from evenkeel.model.split_algorithms.split_option import NO_TOPICS, Cut, PlannedSplit, cut_numbers
from evenkeel.settings import Settings

SUPPORTED_KEY = "supportedNamespaceBundleSplitAlgorithms"
MOST_BUNDLES_KEY = "loadBalancerNamespaceMaximumBundles"


def _requested(row: Considered) -> str:
    text = f"{row.subject} is split into {number(row, 'children')} bundles, as requested"
    if row.numbers.get("unowned"):
        text += "; no broker owns it, so one takes it first"
    if row.numbers.get("over_maximum"):
        text += (
            f"; its namespace then has {measured(row)} bundles, more than the {threshold(row)} that automatic splits "
            "keep to"
        )
    if row.numbers.get("unload_ignored"):
        text += "; the children stay where they are, since the extensible manager does not unload them"
    elif row.numbers.get("unload_children"):
        text += "; the children are unloaded at once"
    return f"{text}."


REQUESTED = Rule("split", "wish", _requested)
ALGORITHM_UNSUPPORTED = not_carried_out(
    "wish_algorithm_unsupported", "its split algorithm is not one of supportedNamespaceBundleSplitAlgorithms"
)
TOO_NARROW = not_carried_out("wish_too_narrow", "the bundle's range cannot be divided any further")
NO_POSITIONS = not_carried_out("wish_no_positions", "specified_positions_divide needs positions, and none are given")
MORE_THAN_ONE_CUT = not_carried_out(
    "wish_more_than_one_cut", "the extensible manager makes exactly one cut at a time, and this split takes more"
)
CUT_TWICE = not_carried_out("wish_cut_twice", "one position is given twice, and a bundle cannot be empty")
CUT_OUTSIDE_BUNDLE = not_carried_out("wish_cut_outside_bundle", "the cut would leave one side without any range")
NOT_CUT = {
    rule.name.removeprefix("wish_"): rule
    for rule in (
        NO_POSITIONS,
        not_carried_out(
            "wish_flow_is_not_default",
            "brokers before 5.0 cut by flow_or_qps_equally_divide only where defaultNamespaceBundleSplitAlgorithm "
            "names it",
        ),
        not_carried_out("wish_too_few_topics", "the bundle has fewer than two topics to cut between"),
        not_carried_out("wish_no_position_inside", "none of the positions lies inside the bundle"),
        not_carried_out("wish_too_few_busy_topics", "fewer than two of the bundle's topics have traffic"),
        not_carried_out(
            "wish_traffic_below_gate",
            "the traffic of the bundle's loaded topics is not far enough over the limits of rate and throughput",
        ),
        not_carried_out("wish_one_piece", "the traffic of the bundle's loaded topics fits into one bundle"),
    )
}
"""Reasons of an algorithm that cut nothing, or failed, by the name in `Cut.rule`."""


def grant_split(wish: SplitWish, view: ClusterView, settings: Settings) -> Granted:
    """Return the split, with its cuts and children, or why Pulsar would not make it."""
    bundle_range = bundle_meant(wish, view)
    if isinstance(bundle_range, Granted):
        return bundle_range
    bundle = bundle_name(wish.namespace, bundle_range)
    owner = view.owners.get(bundle)
    if bundle in view.splitting:
        return refused(bundle, owner, SPLIT_ALREADY, CONFLICT)
    unfit = _unfit_algorithm(wish, bundle, owner, settings)
    if unfit is not None:
        return unfit
    if bundle_range.width <= 1:
        return refused(bundle, owner, TOO_NARROW, PRECONDITION_FAILED, measured=bundle_range.width, threshold=1)
    option = option_of(bundle_range, settings, view.topics.get(bundle, NO_TOPICS), wish.positions)
    return _cut(wish, bundle_range, cut_by_broker(wish.algorithm, option, settings, view.generation), view, settings)


def _unfit_algorithm(wish: SplitWish, bundle: str, owner: str | None, settings: Settings) -> Granted | None:
    """Return the refusal of an algorithm that brokers do not support, or that lacks its positions; "" is the
    default."""
    supported = settings.supportedNamespaceBundleSplitAlgorithms
    if wish.algorithm.strip() and wish.algorithm not in supported:
        numbers = {"supported": len(supported)}
        return refused(
            bundle, owner, ALGORITHM_UNSUPPORTED, PRECONDITION_FAILED, setting=SUPPORTED_KEY, numbers=numbers
        )
    if wish.algorithm == SPECIFIED and not wish.positions:
        return refused(bundle, owner, NO_POSITIONS, PRECONDITION_FAILED)
    return None


def _cut(wish: SplitWish, bundle_range: BundleRange, cut: Cut, view: ClusterView, settings: Settings) -> Granted:
    bundle, extensible = bundle_name(wish.namespace, bundle_range), view.manager == "extensible"
    owner = view.owners.get(bundle)
    if cut.failed:
        return refused(bundle, owner, NOT_CUT[cut.rule], SERVER_ERROR)
    count = len(cut.positions)
    if count == 0:
        # Too few topics, no position inside, or traffic below the gate. The modular manager changes nothing then.
        status = SERVER_ERROR if view.manager == "extensible" else NO_CONTENT
        topics = len(view.topics.get(bundle, NO_TOPICS).hashes)
        numbers = {"topics": topics, "positions": len(wish.positions)}
        return refused(bundle, view.owners.get(bundle), NOT_CUT[cut.rule], status, numbers=numbers)
    if extensible and count != 1:
        return refused(bundle, owner, MORE_THAN_ONE_CUT, PRECONDITION_FAILED, measured=count, threshold=1)
    try:
        split = apply_split(view.boundaries[wish.namespace], bundle_range, cut.positions)
    except BadRange:
        # A duplicate position: an HTTP 412 of the extensible manager, and no answer at all of the modular one.
        twice = len(set(cut.positions)) < count
        rule = CUT_TWICE if twice else CUT_OUTSIDE_BUNDLE
        return refused(bundle, owner, rule, PRECONDITION_FAILED, numbers={"cuts": count, "cut": cut.positions[0]})
    assert split is not None, bundle
    return _granted(wish, bundle, cut, tuple(bundle_name(wish.namespace, c) for c in split.children), view, settings)


def _granted(
    wish: SplitWish, bundle: str, cut: Cut, children: tuple[str, ...], view: ClusterView, settings: Settings
) -> Granted:
    owner, most = view.owners.get(bundle), settings.loadBalancerNamespaceMaximumBundles
    after = len(view.boundaries[wish.namespace]) - 1 + len(cut.positions)
    unload = wish.unload and view.manager == "modular"
    verdict = REQUESTED.about_bundle(
        bundle,
        owner,
        setting=MOST_BUNDLES_KEY,
        measured=after,
        threshold=most,
        unit="count",
        numbers={
            **cut_numbers(cut),
            "bundles_of_namespace": after - len(cut.positions),
            "over_maximum": int(after > most),
            "unowned": int(owner is None),
            "unload_children": int(unload),
            "unload_ignored": int(wish.unload and not unload),
        },
    )
    algorithm = name_in_force(wish.algorithm, settings)
    return Granted(verdict, PlannedSplit(bundle, owner or "", algorithm, cut.positions, children, unload, verdict))
