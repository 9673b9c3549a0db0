"""What an operator may ask for, which bundle is meant, and what is known when the request is looked at.

Pulsar: admin/v2/Namespaces, impl/NamespacesBase. Options are named as in Pulsar's admin CLI.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from evenkeel.errors import BadRange
from evenkeel.manual_requests.schema import HOT, LARGEST
from evenkeel.model.bundles import BundleRange, bundle_name, parse_range, ranges_of
from evenkeel.model.considered import Considered, considered
from evenkeel.model.load import BundleHistory
from evenkeel.split_algorithms import Generation
from evenkeel.split_algorithms.split_option import BundleTopics, PlannedSplit

Manager = Literal["modular", "extensible"]

NO_CONTENT = 204
NOT_FOUND, CONFLICT, PRECONDITION_FAILED, SERVER_ERROR = 404, 409, 412, 500


@dataclass(frozen=True, slots=True)
class SplitWish:
    """A bundle to split: `bundle` (-b) is a range, LARGEST or HOT (written so), `algorithm` (-san) "" for the broker's
    default, `positions` (-sb) the cuts for specified_positions_divide, `unload` (-u) whether the children go at once.
    """

    namespace: str
    bundle: str
    algorithm: str = ""
    positions: tuple[int, ...] = ()
    unload: bool = False


@dataclass(frozen=True, slots=True)
class UnloadWish:
    """A bundle to unload: `bundle` (-b) is a range, `destination` (-d) a broker id `host:port`, None to leave it to
    placement."""

    namespace: str
    bundle: str
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What is known of a cluster when wishes are looked at.

    `boundaries`: namespace -> its boundaries; a namespace not in it does not exist. `owners`: bundle -> broker, without
    bundles that nobody owns. `brokers`: the available ones, by broker id; `silent`: those of them that did not answer.
    `histories` decide which bundle is HOT, `persistent_topics` (bundle -> topics, loaded or not) which is LARGEST.
    `topics`: bundle -> its topics, for algorithms that look at them. `splitting`, `unloading`: bundles that are split,
    or unloaded for another wish, in this cycle already.
    """

    manager: Manager
    generation: Generation
    boundaries: Mapping[str, Sequence[int]]
    owners: Mapping[str, str]
    brokers: Collection[str]
    silent: Collection[str] = frozenset()
    histories: Mapping[str, BundleHistory] = field(default_factory=dict)
    persistent_topics: Mapping[str, int] = field(default_factory=dict)
    topics: Mapping[str, BundleTopics] = field(default_factory=dict)
    splitting: Collection[str] = frozenset()
    unloading: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Granted:
    """The verdict on a wish, and what is to be done: `split` for one to split, `destination` for one to unload.

    An unload that is granted without destination leaves it to placement.
    """

    verdict: Considered
    split: PlannedSplit | None = None
    destination: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether anything is to be done."""
        return self.verdict.outcome in ("split", "unload")


def refused(
    subject: str,
    owner: str | None,
    rule: str,
    status: int,
    *,
    setting: str | None = None,
    measured: float | None = None,
    threshold: float | None = None,
    numbers: Mapping[str, float] | None = None,
) -> Granted:
    """A wish that Pulsar would not carry out; `status` is the HTTP status with which it would answer."""
    row = considered(
        subject,
        "bundle",
        owner,
        "refused",
        rule,
        setting=setting,
        measured=measured,
        threshold=threshold,
        unit="" if measured is None else "count",
        numbers={"http_status": status, **(numbers or {})},
    )
    return Granted(row)


def subject_of(wish: SplitWish | UnloadWish) -> str:
    """The name under which a wish is put on record before its bundle is known."""
    return bundle_name(wish.namespace, wish.bundle)


# Which bundle a wish means.
#
# Pulsar: NamespacesBase.findHotBundle and findLargestBundleWithTopics (internalSplitNamespaceBundle),
# validateNamespaceBundleRange.


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
