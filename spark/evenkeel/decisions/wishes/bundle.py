"""Which bundle a wish means.

Pulsar: NamespacesBase.findHotBundle and findLargestBundleWithTopics (internalSplitNamespaceBundle),
validateNamespaceBundleRange.
"""

from __future__ import annotations

from bisect import bisect_left

from evenkeel.decisions.bundles import BundleRange, bundle_name, parse_range, ranges_of
from evenkeel.decisions.wishes.schema import HOT, LARGEST
from evenkeel.decisions.wishes.wish import (
    NOT_FOUND,
    PRECONDITION_FAILED,
    SERVER_ERROR,
    ClusterView,
    Granted,
    SplitWish,
    UnloadWish,
    refused,
    subject_of,
)
from evenkeel.errors import BadRange


def bundle_meant(wish: SplitWish | UnloadWish, view: ClusterView) -> BundleRange | Granted:
    """The range of the bundle, or the refusal: no such namespace, no such bundle, none that is largest or hot."""
    if wish.namespace not in view.boundaries:
        return refused(subject_of(wish), None, "wish_no_namespace", NOT_FOUND)
    if isinstance(wish, SplitWish) and wish.bundle in (LARGEST, HOT):
        return _picked(wish, view)
    try:
        found = parse_range(wish.bundle)
    except BadRange:
        # Pulsar does not look at the range of an unload before it builds a bundle of it.
        status = PRECONDITION_FAILED if isinstance(wish, SplitWish) else SERVER_ERROR
        return refused(subject_of(wish), None, "wish_no_range", status)
    current = view.boundaries[wish.namespace]
    index = bisect_left(current, found.lower)
    if tuple(current[index : index + 2]) != (found.lower, found.upper):
        numbers = {"bundles_of_namespace": len(current) - 1}
        return refused(bundle_name(wish.namespace, found), None, "wish_no_bundle", PRECONDITION_FAILED, numbers=numbers)
    return found


def _picked(wish: SplitWish, view: ClusterView) -> BundleRange | Granted:
    bundles = ranges_of(view.boundaries[wish.namespace])
    if wish.bundle == HOT:
        found = _hottest(wish.namespace, bundles, view)
        if found is not None:
            return found
        if view.manager == "modular":
            return refused(subject_of(wish), None, "wish_nothing_hot", NOT_FOUND)
    return _largest(wish.namespace, bundles, view) or refused(subject_of(wish), None, "wish_nothing_large", NOT_FOUND)


def _hottest(namespace: str, bundles: tuple[BundleRange, ...], view: ClusterView) -> BundleRange | None:
    """The bundle with topics and the highest long-term throughput; the extensible manager keeps no such averages."""
    if view.manager == "extensible":
        return None
    known = {found: view.histories.get(bundle_name(namespace, found)) for found in bundles}
    busy = [(found, history.long_term.throughput) for found, history in known.items() if history and history.topics > 0]
    return max(busy, key=lambda one: one[1])[0] if busy else None


def _largest(namespace: str, bundles: tuple[BundleRange, ...], view: ClusterView) -> BundleRange | None:
    """The bundle with most persistent topics; of equal ones the first by range (Pulsar: by the order of its topics)."""
    counts = [view.persistent_topics.get(bundle_name(namespace, found), 0) for found in bundles]
    most = max(counts, default=0)
    return bundles[counts.index(most)] if most > 0 else None
