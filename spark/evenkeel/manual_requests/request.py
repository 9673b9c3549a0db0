"""Operators' requests: the possible ones, the bundle they mean, and the knowledge for judging them.

Pulsar: admin/v2/Namespaces, impl/NamespacesBase. Options are named as in Pulsar's admin CLI.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Unpack

from evenkeel.errors import BadRange
from evenkeel.manual_requests.wish_schema import HOT, LARGEST
from evenkeel.model.bundles import BundleRange, bundle_name, parse_range, ranges_of
from evenkeel.model.consideration import Considered, Rule, VerdictFigures, number
from evenkeel.model.load import BundleHistory
from evenkeel.model.split_algorithms import Generation
from evenkeel.model.split_algorithms.split_option import BundleTopics, PlannedSplit

Manager = Literal["modular", "extensible"]

NO_CONTENT = 204
NOT_FOUND, CONFLICT, PRECONDITION_FAILED, SERVER_ERROR = 404, 409, 412, 500


@dataclass(frozen=True, slots=True)
class SplitWish:
    """A bundle to split.

    `bundle` (-b) is a range, LARGEST or HOT (literally). `algorithm` (-san) is "" for the broker's default. `positions`
    (-sb) are the cuts for specified_positions_divide. `unload` (-u): the children are unloaded at once.
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
    """Knowledge of a cluster when wishes are judged.

    `boundaries`: namespace -> its boundaries; a namespace not in it does not exist. `owners`: bundle -> broker, without
    bundles that have no owner. `brokers`: the available ones, by broker id; `silent`: those of them that did not
    answer. `histories` decide which bundle is HOT, `persistent_topics` (bundle -> topics, loaded or not) which is
    LARGEST. `topics`: bundle -> its topics, for algorithms that read them. `splitting`, `unloading`: bundles that are
    split, or unloaded for another wish, in this cycle already.
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
    """The verdict on a wish, and its effect: `split` for one to split, `destination` for one to unload.

    A granted unload without destination leaves it to placement.
    """

    verdict: Considered
    split: PlannedSplit | None = None
    destination: str | None = None

    @property
    def accepted(self) -> bool:
        """True if anything is to be done."""
        return self.verdict.outcome in ("split", "unload")


def not_carried_out(name: str, why: str) -> Rule:
    """Return the rule of a refused wish, by its stored name and the reason in words.

    The sentence names the HTTP status with which Pulsar itself would answer.
    """
    return Rule(
        "refused",
        name,
        lambda row: (
            f"{row.subject}: the request is not carried out, because {why} (Pulsar's answer: HTTP "
            f"{number(row, 'http_status')})."
        ),
    )


def refused(subject: str, owner: str | None, rule: Rule, status: int, **figures: Unpack[VerdictFigures]) -> Granted:
    """Return a wish that Pulsar would not carry out; `status` is the HTTP status with which it would answer."""
    if "measured" in figures:
        figures["unit"] = "count"
    figures["numbers"] = {"http_status": status, **(figures.get("numbers") or {})}
    return Granted(rule.about_bundle(subject, owner, **figures))


NO_NAMESPACE = not_carried_out("wish_no_namespace", "there is no such namespace")
NO_RANGE = not_carried_out("wish_no_range", "that is not a range of a bundle; write it like 0x00000000_0x40000000")
NO_BUNDLE = not_carried_out("wish_no_bundle", "its namespace has no bundle of that range")
NOTHING_HOT = not_carried_out("wish_nothing_hot", "nothing is known of the traffic of its namespace's bundles")
NOTHING_LARGE = not_carried_out("wish_nothing_large", "its namespace has no persistent topic")
SPLIT_ALREADY = not_carried_out("wish_split_already", "the bundle is split in this cycle already")


def subject_of(wish: SplitWish | UnloadWish) -> str:
    """Return the name under which a wish is recorded before its bundle is known."""
    return bundle_name(wish.namespace, wish.bundle)


# The bundle that a wish means.
#
# Pulsar: NamespacesBase.findHotBundle and findLargestBundleWithTopics (internalSplitNamespaceBundle),
# validateNamespaceBundleRange.


def bundle_meant(wish: SplitWish | UnloadWish, view: ClusterView) -> BundleRange | Granted:
    """Return the range of the bundle, or the refusal: no such namespace, no such bundle, none that is largest or
    hot."""
    if wish.namespace not in view.boundaries:
        return refused(subject_of(wish), None, NO_NAMESPACE, NOT_FOUND)
    if isinstance(wish, SplitWish) and wish.bundle in (LARGEST, HOT):
        bundles = ranges_of(view.boundaries[wish.namespace])
        if wish.bundle == HOT:
            chosen = _hottest(wish.namespace, bundles, view)
            if chosen is not None:
                return chosen
            if view.manager == "modular":
                return refused(subject_of(wish), None, NOTHING_HOT, NOT_FOUND)
        return _largest(wish.namespace, bundles, view) or refused(subject_of(wish), None, NOTHING_LARGE, NOT_FOUND)
    try:
        bundle_range = parse_range(wish.bundle)
    except BadRange:
        # Pulsar does not check the range of an unload before it builds a bundle of it.
        status = PRECONDITION_FAILED if isinstance(wish, SplitWish) else SERVER_ERROR
        return refused(subject_of(wish), None, NO_RANGE, status)
    current = view.boundaries[wish.namespace]
    index = bisect_left(current, bundle_range.lower)
    if tuple(current[index : index + 2]) != (bundle_range.lower, bundle_range.upper):
        numbers = {"bundles_of_namespace": len(current) - 1}
        return refused(bundle_name(wish.namespace, bundle_range), None, NO_BUNDLE, PRECONDITION_FAILED, numbers=numbers)
    return bundle_range


def _hottest(namespace: str, bundles: tuple[BundleRange, ...], view: ClusterView) -> BundleRange | None:
    """Return the bundle with topics and the highest long-term throughput; the extensible manager keeps no such
    averages."""
    if view.manager == "extensible":
        return None
    known = {bundle: view.histories.get(bundle_name(namespace, bundle)) for bundle in bundles}
    busy = [
        (bundle, history.long_term.throughput) for bundle, history in known.items() if history and history.topics > 0
    ]
    return max(busy, key=lambda bundle_and_load: bundle_and_load[1])[0] if busy else None


def _largest(namespace: str, bundles: tuple[BundleRange, ...], view: ClusterView) -> BundleRange | None:
    """Return the bundle with most persistent topics; of equal ones the first by range (Pulsar: by the order of its
    topics)."""
    counts = [view.persistent_topics.get(bundle_name(namespace, bundle), 0) for bundle in bundles]
    most = max(counts, default=0)
    return bundles[counts.index(most)] if most > 0 else None
