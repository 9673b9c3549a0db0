"""Splits that Evenkeel's own planner requests: the granted ones with their algorithm, and those that wait.

Keys: evenkeelSplitEnabled, defaultNamespaceBundleSplitAlgorithm, supportedNamespaceBundleSplitAlgorithms,
loadBalancerNamespaceMaximumBundles, evenkeelGuardsEnabled, evenkeelMaxSplitsPerCycle,
evenkeelPlannerReturnWindowMinutes. Manual requests and Pulsar's own triggers come first and use the budgets. A bundle
is checked again. It is split if it still has more load than there is room for, and if more than one topic has load.

The cut lies between topics, where the parts can be placed (`planner_positions`). A topic that is too heavy for any
broker becomes a part of its own. If brokers take no positions, or the request does not contain their room, Pulsar's
default algorithm cuts. Another supported algorithm is used if its heaviest part is lighter by more than `CLEARLY` of
the load; then no topic may be nearly all of the load. The children stay with their owner. The planner moves them once
their figures have settled. A refused request is not repeated for a while. A skipped one is decided again in the next
cycle.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from evenkeel.errors import BadRange
from evenkeel.model.amounts import counted
from evenkeel.model.bundles import BundleRange, Split, apply_split, bundle_name, namespace_of, range_of
from evenkeel.model.consideration import LEFT_TO_REQUEST, Considered, Rule, Sentence, measured, number, threshold
from evenkeel.model.split_algorithms import SPECIFIED, algorithm_named, name_in_force, option_of
from evenkeel.model.split_algorithms.split_option import (
    NO_TOPICS,
    BundleTopics,
    Cut,
    PlannedSplit,
    TopicLoads,
    cut_numbers,
)
from evenkeel.plan_splits.rules.apply_splits import FULL_BOUNDARIES, refusal
from evenkeel.plan_splits.rules.bundle_splitter_task import FEWEST_TOPICS, MOST_BUNDLES_KEY, switched_off
from evenkeel.plan_splits.rules.planner_positions import positions_between
from evenkeel.planner.memory import WantedSplit, part_name
from evenkeel.planner.usage_model import load_of
from evenkeel.planner.view import BundleFigures
from evenkeel.planner.wanted_splits import ASKED_AGAIN_AFTER
from evenkeel.settings import Settings

MOST_SPLITS_KEY = "evenkeelMaxSplitsPerCycle"
NEARLY_ALL = 0.9
"""A topic with at least so much of a bundle's load is the bundle: no cut makes it lighter."""
CLEARLY = 0.05
LIGHTEST_REST = 0.001
"""With at most this part of the load beside one topic, a cut that isolates the topic has no value."""
FEWEST_HALVED = 4
"""So many parts or more are made by halving, where brokers make one cut at a time."""
HEAVY = 0.1
"""A bundle is split only with at least so much of its broker's traffic or messages: as long as others have more, they
are moved."""


@dataclass(frozen=True, slots=True)
class PlannerSplitView:
    """Inputs of the decision on the planner's requests.

    `boundaries`: namespace -> its boundaries. `figures`: bundle -> its traffic; `owners`: bundle -> its only owner.
    `topics`: bundle -> its topics, of bundles that were looked into. `message_bytes`: bytes that a message counts as.
    `heavy`: bundles with a large part of their broker's load. `requested`: bundles that manual requests or drains
    decide on; `triggered`: bundles that Pulsar's own rule splits, in this cycle; `unsettled`: bundles with untrusted
    figures; `moved` and `split`: bundles moved, or requested to split, within the return window. `splits`: how many
    splits this cycle already has; `added`: bundles that they add to namespaces. `brokers`: number of brokers of the
    cluster.
    """

    boundaries: Mapping[str, Sequence[int]]
    figures: Mapping[str, BundleFigures]
    owners: Mapping[str, str]
    topics: Mapping[str, BundleTopics] = field(default_factory=dict)
    message_bytes: float = 0.0
    heavy: Collection[str] = frozenset()
    requested: Collection[str] = frozenset()
    triggered: Collection[str] = frozenset()
    unsettled: Collection[str] = frozenset()
    moved: Collection[str] = frozenset()
    split: Collection[str] = frozenset()
    splits: int = 0
    added: Mapping[str, int] = field(default_factory=dict)
    is_extensible: bool = False
    brokers: int = 0


class PlacedCut(NamedTuple):
    """A cut with its parts. `algorithm`: Pulsar's name; `parts`: the load of each child (byte/s)."""

    algorithm: str
    cut: Cut
    split: Split
    parts: tuple[float, ...]

    @property
    def heaviest(self) -> float:
        """The load of the heaviest child (byte/s)."""
        return max(self.parts)


def _asked(row: Considered) -> str:
    if row.numbers.get("is_stuck"):
        why = (
            f"{row.broker} would stay at {measured(row)} with all of the planner's moves made, above the "
            f"{threshold(row)} that brokers are to come to, and no other broker has room for the bundle as a whole"
        )
    else:
        why = (
            f"alone it takes {measured(row)} of the best broker that may have it, above the {threshold(row)} at which "
            "the planner acts"
        )
    return (
        f"{row.subject} is split into {number(row, 'children')} bundles for Evenkeel's planner: {why}; "
        f"{_where(row)}, and the heaviest part has {number(row, 'heaviest_part', 'fraction')}."
    )


def _where(row: Considered) -> str:
    """Return the reason for the place of the cut."""
    if "leave_part" not in row.numbers:
        return f"a broker has room for {number(row, 'room_part', 'fraction')} of its load"
    alone = ""
    if row.numbers["heaviest_topic"] > row.numbers["stay_part"]:
        alone = f"one topic has {number(row, 'heaviest_topic', 'fraction')} of its load and is to be alone; "
    return (
        f"{alone}it is cut where its parts can be placed: its broker has room for "
        f"{number(row, 'stay_part', 'fraction')} of its load, another one for {number(row, 'leave_part', 'fraction')}"
    )


def _refused(why: str) -> Sentence:
    again = counted(ASKED_AGAIN_AFTER.total_seconds() / 60, "minute")
    return lambda row: (
        f"{row.subject} is not split although the planner wants it: {why.format(**_words(row))}; it asks again in "
        f"{again} at the earliest."
    )


def _waits(why: str) -> Sentence:
    return lambda row: f"{row.subject} is not split yet although the planner wants it: {why.format(**_words(row))}."


def _words(row: Considered) -> dict[str, str]:
    return {
        "measured": measured(row),
        "threshold": threshold(row),
        "heaviest": number(row, "heaviest_topic", "fraction"),
        "cuts": number(row, "cuts"),
    }


FOR_PLACEMENT = Rule("split", "planner_target", _asked, "above")
ONE_TOPIC = Rule(
    "refused",
    "planner_one_topic",
    _refused("one topic has {heaviest} of its load, which no split makes lighter; partition that topic"),
)
MAXIMUM_BUNDLES = Rule(
    "refused",
    "planner_maximum_bundles",
    _refused("its namespace would have {measured} bundles, and may have {threshold}"),
    "above",
)
TOO_NARROW = Rule("refused", "planner_too_narrow", _refused("its range cannot be divided any further"))
NOTHING_TO_CUT = Rule(
    "refused",
    "planner_nothing_to_cut",
    _refused("none of Pulsar's split algorithms that its brokers support finds a place to cut it"),
)
SPLIT_LATELY = Rule(
    "refused",
    "planner_split_lately",
    _refused("it was asked to be split within the planner's return window, and is still there"),
)
OFF = Rule("skipped", "planner_splits_off", _waits("evenkeelSplitEnabled is off"))
GONE = Rule(
    "skipped",
    "planner_bundle_gone",
    lambda row: f"{row.subject} is not split for the planner: its namespace no longer has a bundle of that range.",
)
COOLED = Rule(
    "skipped",
    "planner_cooled",
    lambda row: (
        f"{row.subject} is not split for the planner: it has cooled down to {measured(row)}, and there is room for "
        f"{threshold(row)}."
    ),
    "at most",
)
OTHERS_FIRST = Rule("skipped", "planner_others_first", _waits("other bundles have nearly all of its broker's load"))
TRIGGERED = Rule(
    "skipped",
    "planner_left_to_trigger",
    lambda row: f"{row.subject} is not split for the planner: Pulsar's own rule splits it in this cycle.",
)
NO_OWNER = Rule("skipped", "planner_no_owner", _waits("it has no owner, two, or an unknown one"))
UNSETTLED = Rule("skipped", "planner_unsettled", _waits("its figures have not settled"))
MOVED_LATELY = Rule("skipped", "planner_moved_lately", _waits("it moved within the planner's return window"))
TOPICS_UNKNOWN = Rule("skipped", "planner_topics_unknown", _waits("nothing is known of the load of its topics"))
ENOUGH_SPLITS = Rule(
    "skipped",
    "planner_splits_per_cycle",
    _waits("{threshold} in one cycle are the most, and with it there would be {measured}"),
    "above",
)

Answer = tuple[Considered, PlannedSplit | None]


def decide_planner_splits(
    wanted: Mapping[str, WantedSplit], view: PlannerSplitView, settings: Settings
) -> list[Answer]:
    """Return the verdict on every request, with the split if granted; those most above their level come first."""
    round_ = _PlannerRound(view, settings)
    order = sorted(wanted, key=lambda bundle: (-wanted[bundle].alone / wanted[bundle].level, bundle))
    return [round_.decide(bundle, wanted[bundle]) for bundle in order]


class _PlannerRound:
    """The requests one after the other; each sees the budgets used by the earlier ones."""

    def __init__(self, view: PlannerSplitView, settings: Settings) -> None:
        self._view, self._settings = view, settings
        self._splits, self._added = view.splits, Counter(view.added)

    def decide(self, bundle: str, wanted: WantedSplit) -> Answer:
        """Return the verdict, and the split if it is granted."""
        owner = self._view.owners.get(bundle)
        row = FOR_PLACEMENT.about_bundle(
            bundle,
            owner,
            setting="evenkeelPlannerStopAtPercent" if wanted.is_stuck else "evenkeelPlannerActAbovePercent",
            measured=wanted.alone,
            threshold=wanted.level,
            unit="fraction",
            numbers={"is_stuck": float(wanted.is_stuck)},
        )
        rule = self._why_not(bundle, owner)
        if rule is not None:
            return rule.about_bundle(bundle, owner), None
        load = load_of(self._view.figures[bundle], wanted.resource, self._view.message_bytes)
        if load <= wanted.room:
            return COOLED.about_bundle(bundle, owner, measured=load, threshold=wanted.room, unit="byte/s"), None
        if bundle not in self._view.heavy:
            return OTHERS_FIRST.about_bundle(bundle, owner), None
        numbers = {**row.numbers, "load": load, "room": wanted.room, "room_part": wanted.room / load}
        return self._by_topics(row._replace(numbers=numbers), wanted)

    def _why_not(self, bundle: str, owner: str | None) -> Rule | None:
        """Return the reason not to look into the bundle, or None."""
        view = self._view
        gone = refusal(bundle, view.boundaries)
        rules = (
            (switched_off(self._settings) is not None, OFF),
            (range_of(bundle).width <= 1, TOO_NARROW),
            (gone is not None or bundle not in view.figures, GONE),
            (bundle in view.requested, LEFT_TO_REQUEST),
            (bundle in view.triggered, TRIGGERED),
            (owner is None, NO_OWNER),
            (bundle in view.unsettled, UNSETTLED),
            (bundle in view.split, SPLIT_LATELY),
            (bundle in view.moved, MOVED_LATELY),
        )
        return next((rule for holds, rule in rules if holds), None)

    def _by_topics(self, row: Considered, wanted: WantedSplit) -> Answer:
        topics = self._view.topics.get(row.subject, NO_TOPICS)
        loads = topic_loads(topics.loads, wanted.resource, self._view.message_bytes)
        whole = math.fsum(loads)
        if not whole > 0:
            return TOPICS_UNKNOWN.instead_of(row), None
        row = row._replace(
            numbers={**row.numbers, "topics": float(len(topics.hashes)), "heaviest_topic": max(loads) / whole}
        )
        placed = self._where_parts_fit(row, wanted, topics, loads)
        most = NEARLY_ALL if placed is None else 1.0 - LIGHTEST_REST
        if len(topics.hashes) < FEWEST_TOPICS or max(loads) >= most * whole:
            return ONE_TOPIC.instead_of(row), None
        if placed is not None:
            row = row._replace(numbers={**row.numbers, **_numbers_of_parts(row, wanted, placed)})
        else:
            placed = self._best_cut(row.subject, topics, loads)
        if placed is None:
            return NOTHING_TO_CUT.instead_of(row), None
        row = row._replace(numbers={**row.numbers, **cut_numbers(placed.cut), "heaviest_part": placed.heaviest / whole})
        return self._within_budgets(row, placed)

    def _bundles_of(self, namespace: str) -> int:
        """Return the number of bundles of a namespace with the splits of this cycle."""
        return len(self._view.boundaries.get(namespace, FULL_BOUNDARIES)) - 1 + self._added[namespace]

    def _within_budgets(self, row: Considered, placed: PlacedCut) -> Answer:
        namespace, settings, cuts = namespace_of(row.subject), self._settings, placed.cut.positions
        after = self._bundles_of(namespace) + len(cuts)
        if after > settings.loadBalancerNamespaceMaximumBundles:
            most = settings.loadBalancerNamespaceMaximumBundles
            return _counted_against(MAXIMUM_BUNDLES, row, MOST_BUNDLES_KEY, after, most), None
        budget = settings.evenkeelMaxSplitsPerCycle
        if settings.evenkeelGuardsEnabled and 0 <= budget <= self._splits:
            return _counted_against(ENOUGH_SPLITS, row, MOST_SPLITS_KEY, self._splits + 1, budget), None
        self._splits += 1
        self._added[namespace] += len(cuts)
        children = tuple(bundle_name(namespace, child) for child in placed.split.children)
        row = row._replace(numbers={**row.numbers, "unload_children": 0.0})
        return row, PlannedSplit(row.subject, row.broker or "", placed.algorithm, cuts, children, False, row)

    def _where_parts_fit(
        self, row: Considered, wanted: WantedSplit, topics: BundleTopics, loads: Sequence[float]
    ) -> PlacedCut | None:
        """Return the cut whose parts can be placed.

        None if the room of brokers is unknown, if they take no positions, or if one part is enough. If only one cut can
        be made, it cuts off a part at one of the ends. Many parts are cut in half, so that both halves can be cut again
        at the same time, if each half can be cut later and go to a broker of its own.
        """
        if wanted.stay is None or wanted.leave is None:
            return None
        if SPECIFIED not in self._settings.supportedNamespaceBundleSplitAlgorithms:
            return None
        bundle, hashes, of_topics = row.subject, topics.loads.hashes, math.fsum(loads) / row.numbers["load"]
        positions = positions_between(hashes, loads, of_topics * wanted.stay, of_topics * wanted.leave)
        free = self._settings.loadBalancerNamespaceMaximumBundles - self._bundles_of(namespace_of(bundle))
        if len(positions) > (1 if self._view.is_extensible else max(1, free)):
            parts = parts_of(hashes, loads, positions)
            if FEWEST_HALVED <= len(parts) <= min(self._view.brokers, free + 1):
                # The cut whose two sides have loads that differ least, the first of equal ones.
                before = accumulate(parts[:-1])
                half = math.fsum(parts) / 2.0
                positions = (min(zip(positions, before, strict=True), key=lambda cut: abs(cut[1] - half))[0],)
            else:
                # The cut that takes off the first part or the last: one with `most` or less, the heavier one of two.
                most = of_topics * wanted.leave
                ends = ((parts[0] <= most, parts[0], positions[0]), (parts[-1] <= most, parts[-1], positions[-1]))
                positions = (max(ends, key=itemgetter(0, 1))[-1],)
        return self._placed_cut(bundle, SPECIFIED, Cut(positions, "specified_positions"), topics, loads)

    def _placed_cut(
        self, bundle: str, algorithm: str, cut: Cut, topics: BundleTopics, loads: Sequence[float]
    ) -> PlacedCut | None:
        """The cut with its parts; None without cuts, and where a side would be left without range."""
        split = _split_at(self._view.boundaries, bundle, range_of(bundle), cut.positions) if cut.positions else None
        if split is None:
            return None
        return PlacedCut(algorithm, cut, split, parts_of(topics.loads.hashes, loads, cut.positions))

    def _best_cut(self, bundle: str, topics: BundleTopics, loads: Sequence[float]) -> PlacedCut | None:
        """Return the best cut of Pulsar's algorithms."""
        cuts = [*self._cuts(bundle, topics, loads)]
        if not cuts:
            return None
        lightest = min(cut.heaviest for cut in cuts)
        return next(cut for cut in cuts if cut.heaviest <= lightest + CLEARLY * math.fsum(loads))

    def _cuts(self, bundle: str, topics: BundleTopics, loads: Sequence[float]) -> Iterator[PlacedCut]:
        """Return the cuts of Pulsar's algorithms that brokers support, the default first, then by name.

        The cuts themselves are requested, as for all splits.
        """
        settings = self._settings
        default = name_in_force("", settings)
        others = sorted({*settings.supportedNamespaceBundleSplitAlgorithms} - {default, SPECIFIED})
        option = option_of(range_of(bundle), settings, topics)
        for name in [default, *others]:
            cut = algorithm_named(name)(option)
            if self._view.is_extensible and len(cut.positions) != 1:
                continue
            placed = self._placed_cut(bundle, name, cut, topics, loads)
            if placed is not None:
                yield placed


def _numbers_of_parts(row: Considered, wanted: WantedSplit, placed: PlacedCut) -> dict[str, float]:
    """Return the numbers of parts that have room, with the parts' sizes as fractions of the bundle's load."""
    load, whole = row.numbers["load"], math.fsum(placed.parts)
    rooms = {"stay_part": (wanted.stay or 0.0) / load, "leave_part": (wanted.leave or 0.0) / load}
    return rooms | {part_name(number): part / whole for number, part in enumerate(placed.parts, start=1)}


def topic_loads(topics: TopicLoads, resource: str, message_bytes: float) -> list[float]:
    """The load of each topic (byte/s). In and out are known together only: for a network, too, they count together."""
    return [
        load_of(
            BundleFigures(flow if math.isfinite(flow) else 0.0, 0.0, rate if math.isfinite(rate) else 0.0),
            "cpu",
            message_bytes,
        )
        for rate, flow in zip(topics.rates, topics.throughputs, strict=True)
    ]


def parts_of(hashes: Sequence[int], loads: Sequence[float], positions: Sequence[int]) -> tuple[float, ...]:
    """The load of each part that ascending cuts make."""
    parts: list[list[float]] = [[] for _ in range(len(positions) + 1)]
    for hash_, load in zip(hashes, loads, strict=True):
        parts[bisect_right(positions, hash_)].append(load)
    return tuple(math.fsum(part) for part in parts)


def _split_at(
    boundaries: Mapping[str, Sequence[int]], bundle: str, edges: BundleRange, positions: Sequence[int]
) -> Split | None:
    """Return the split at these cuts; None if one side would have no range."""
    try:
        return apply_split(boundaries.get(namespace_of(bundle), FULL_BOUNDARIES), edges, positions)
    except BadRange:
        return None


def _counted_against(rule: Rule, row: Considered, setting: str, count: int, most: int) -> Considered:
    """Return the verdict on a bundle that a maximum of bundles or splits keeps whole."""
    return rule.about_bundle(
        row.subject, row.broker, setting=setting, measured=count, threshold=most, unit="count", numbers=row.numbers
    )
