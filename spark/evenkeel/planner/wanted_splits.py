"""Bundles that the planner wants split, so that their parts can be placed within the target.

Keys: evenkeelSplitEnabled, evenkeelPlannerActAbovePercent. The planner wants a bundle split in two cases. The bundle
alone would bring every allowed broker above the level at which the planner acts. Or its broker stays above that level
after all steps, the bundle is among the heaviest there, and another broker has room for a part of it only.

The request is remembered, and plan_splits decides on it in the next cycle (`plan_splits.rules.planner_splits`). It is
forgotten when the bundle is gone or cool again. A refused request is repeated after `ASKED_AGAIN_AFTER` at the
earliest. Bundles of one topic, bundles whose parts could not leave, and recently moved bundles are not requested.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from evenkeel.model.bundles import is_heartbeat_or_sla, is_system, namespace_of
from evenkeel.planner.figures import ALWAYS_HELD, AloneOnBest, PlannerFigures
from evenkeel.planner.memory import WantedSplit
from evenkeel.planner.reconciler import PlannedStep, loads_after
from evenkeel.planner.view import PlannerBundle, PlannerView
from evenkeel.settings import Settings

ASKED_AGAIN_AFTER = timedelta(hours=1)
MAY_BE_SPLIT = frozenset({None, "split", "bundle_too_heavy"})
"""Holds that do not keep a bundle from being split: none, its own split, and being too heavy to move."""
_STAYS_ANYWAY = ALWAYS_HELD | {"no_other_broker", "bundle_too_heavy", None}
FEWEST_TOPICS = 2
FAIR_PART = 0.25
"""A bundle is heavy enough to be split with this part of its broker's load above the level to reach."""
MOST_PARTS = 16
"""So many parts of a bundle leave at most."""
FAR_FEWER = 1 / 3
"""With so few of a broker's moves, or fewer, more parts are worth it."""
WITH_UNEVEN_PARTS = 1.1
"""The room that parts of several topics take, which are never quite even."""
SMALLEST_PART = 0.125
"""Part of a bundle for which another broker needs room: three splits make such parts."""
Loads = Mapping[str, Mapping[str, float]]
"""Broker -> resource -> load."""


def is_splittable(namespace: str) -> bool:
    """Return True if bundles of a namespace may be split at all: never those of brokers and of Pulsar itself."""
    is_brokers = is_heartbeat_or_sla(namespace) or is_heartbeat_or_sla(namespace, three_part=True)
    return not is_brokers and not is_system(namespace)


def too_hot(
    view: PlannerView, figures: PlannerFigures, before: Mapping[str, WantedSplit], settings: Settings
) -> dict[str, WantedSplit]:
    """Return the bundles that fit on no allowed broker, with the room of the best one.

    If a bundle is split in this cycle and nothing is predicted of its parts, all its children are requested: the hot
    one is not known yet. `before`: the earlier requests, which stay until the bundle's figures have settled.
    """
    if not settings.evenkeelSplitEnabled or figures.even <= 0:
        return {}
    on_best = AloneOnBest(figures)
    wishes = {
        bundle.name: before[bundle.name]
        for bundle in view.bundles
        if bundle.held == "unsettled" and bundle.name in before
    }
    for bundle in view.bundles:
        if on_best.may_be_hot(bundle) and _may_be_split(bundle, figures):
            wanted = _on_best(bundle, view.at, figures)
            if wanted is not None:
                wishes |= dict.fromkeys(bundle.children or (bundle.name,), wanted)
    return wishes


def stuck(
    view: PlannerView, figures: PlannerFigures, loads: Loads, moving: Collection[str], settings: Settings
) -> dict[str, WantedSplit]:
    """Return the heaviest bundles, of each broker that stays too busy, that fit nowhere while a part does.

    `loads`: with the possible steps taken. `moving`: bundles with such a step.
    """
    if not settings.evenkeelSplitEnabled or figures.even <= 0:
        return {}
    bundles_of: dict[str, list[PlannerBundle]] = {
        broker: [] for broker in figures.usage if figures.usage_at(broker, loads[broker]) > figures.levels[broker].act
    }
    for bundle in view.bundles:
        if bundle.owner in bundles_of and bundle.name not in moving:
            bundles_of[bundle.owner].append(bundle)
    wishes: dict[str, WantedSplit] = {}
    for broker, bundles in sorted(bundles_of.items()):
        # Bundles that are held for a while, or split now, may leave later, and make the split needless.
        if all(bundle.held in _STAYS_ANYWAY and not bundle.part for bundle in bundles):
            wishes |= _stuck_on(broker, bundles, view.at, figures, loads)
    return wishes


def _stuck_on(
    broker: str, bundles: Sequence[PlannerBundle], at: datetime, figures: PlannerFigures, loads: Loads
) -> dict[str, WantedSplit]:
    """The heaviest bundles of a broker, until half of each would bring it down."""
    taken = {bundle.name: _taken(bundle, figures, loads[broker]) for bundle in bundles}
    excess = figures.usage_at(broker, loads[broker]) - figures.levels[broker].stop
    wishes: dict[str, WantedSplit] = {}
    for bundle in sorted(bundles, key=lambda bundle: (-taken[bundle.name], bundle.name)):
        if 0.5 * sum(taken[name] for name in wishes) >= excess or taken[bundle.name] < FAIR_PART * excess:
            break
        wanted = _with_room_for_part(bundle, at, figures, loads) if _may_be_split(bundle, figures) else None
        if wanted is not None:
            wishes[bundle.name] = wanted
    return wishes


def with_rooms(
    wanted: Mapping[str, WantedSplit],
    view: PlannerView,
    figures: PlannerFigures,
    steps: Sequence[PlannedStep],
    loads: Loads,
) -> dict[str, WantedSplit]:
    """Return the requests with the most load of their parts, so that brokers reach the level `spread`.

    `steps`: those that can be taken; `loads`: with all of them taken.
    """
    if not wanted:
        return {}
    bundles = {planner_bundle.name: planner_bundle for planner_bundle in view.bundles if planner_bundle.name in wanted}
    parts = _PartRooms(bundles.values(), view, figures, steps, loads)
    return {bundle: parts.told(wish, bundles[bundle]) if bundle in bundles else wish for bundle, wish in wanted.items()}


class _PartRooms:
    """The most load of a bundle's parts: the part that stays with its owner, and the parts that leave it."""

    def __init__(
        self,
        wanted: Iterable[PlannerBundle],
        view: PlannerView,
        figures: PlannerFigures,
        steps: Sequence[PlannedStep],
        loads: Loads,
    ) -> None:
        self._figures, self._steps, self._loads = figures, steps, loads
        self._given = Counter(step.source for step in steps)
        owned: dict[str | None, list[PlannerBundle]] = {bundle.owner: [] for bundle in wanted}
        for bundle in view.bundles:
            if bundle.owner in owned and bundle.held is None:
                owned[bundle.owner].append(bundle)
        self._owned = owned

    def told(self, wish: WantedSplit, bundle: PlannerBundle) -> WantedSplit:
        """Return the request with the most load of the bundle's parts, as far as its traffic is known."""
        figures, owner = self._figures, bundle.owner or ""
        loads = {r: load for r in figures.resources if (load := figures.load(bundle, r)) > 0}
        others = sorted((bundle.brokers - {owner}) & figures.usage.keys())
        if wish.resource not in loads or owner not in figures.usage or not others:
            return wish
        stay, leave = self._far_fewer_moves(bundle, loads, others) or self._largest(owner, loads, others)
        return wish._replace(stay=stay * loads[wish.resource], leave=leave * loads[wish.resource])

    def _largest(self, owner: str, bundle_loads: Mapping[str, float], others: Sequence[str]) -> tuple[float, float]:
        """The largest fractions of a bundle that its owner and another broker have room for with all steps taken.

        `bundle_loads`: its loads by resource; `others`: the brokers that may have it beside its owner.
        """
        loads = self._loads
        best = max(self._room(broker, bundle_loads, loads[broker]) for broker in others)
        leave = min(1.0, max(SMALLEST_PART, best))
        without = {r: loads[owner][r] - bundle_loads[r] for r in bundle_loads}
        return min(1.0, max(leave, self._room(owner, bundle_loads, without))), leave

    def _far_fewer_moves(
        self, bundle: PlannerBundle, bundle_loads: Mapping[str, float], others: Sequence[str]
    ) -> tuple[float, float] | None:
        """Return the fraction of a bundle that stays, and of each part that leaves, with the fewest bundles leaving the
        owner.

        Each part that leaves goes to a broker of its own. The heaviest other bundles leave too, to make room for the
        part that stays. None if more bundles leave than `FAR_FEWER` of the owner's steps: few parts are better than few
        moves, since two bundles never become one. None also if there is no room for the bundle cut into `MOST_PARTS`.
        """
        owner, figures = bundle.owner or "", self._figures
        most = math.floor(FAR_FEWER * self._given[owner])
        if not most:
            return None
        # The bundles that the owner itself gives away are chosen in this function.
        loads = loads_after((step for step in self._steps if step.source != owner), figures)
        rooms = sorted((self._room(broker, bundle_loads, loads[broker]) for broker in others), reverse=True)
        beside = [
            {r: figures.load(other, r) for r in bundle_loads}
            for other in self._owned[owner]
            if other.name != bundle.name
        ]
        beside.sort(key=lambda loads: -max(loads[r] / bundle_loads[r] for r in bundle_loads))
        carried = {r: loads[owner][r] - bundle_loads[r] for r in bundle_loads}
        options: list[tuple[int, int, float, float]] = []
        for moved, leaving in enumerate([dict.fromkeys(bundle_loads, 0.0), *beside[:most]]):
            carried = {r: carried[r] - leaving[r] for r in bundle_loads}
            stay = self._room(owner, bundle_loads, carried)
            left = WITH_UNEVEN_PARTS * (1.0 - stay)
            roomiest = rooms[: min(MOST_PARTS, most - moved)]
            parts = next((n for n, room in enumerate(roomiest, start=1) if n * room >= left), 0)
            if parts and 0.0 <= stay < 1.0:
                options.append((moved + parts, parts, stay, min(1.0, rooms[parts - 1])))
        return min(options)[2:] if options else None

    def _room(self, broker: str, loads: Mapping[str, float], carried: Mapping[str, float]) -> float:
        """Return which fraction of a bundle a broker with this load has room for, up to the level `spread`."""
        return _least_room(broker, loads, carried, self._figures, self._figures.open_levels[broker].stop)[0]


def remembered(
    wanted: Mapping[str, WantedSplit], before: Mapping[str, WantedSplit], view: PlannerView
) -> dict[str, WantedSplit]:
    """Return the requests to keep: the bundles wanted now, since when, and when each was last refused.

    A refused request is kept until it may be repeated, even if the bundle is cool by then.
    """
    if not wanted and not before:
        return {}
    names = {name for planner_bundle in view.bundles for name in (planner_bundle.name, *planner_bundle.children)}
    kept_wishes = {}
    for bundle in sorted({*wanted, *before} & names):
        known = before.get(bundle)
        refused_at = view.at if bundle in view.refused_splits else known and known.refused_at
        if refused_at is not None and view.at - refused_at >= ASKED_AGAIN_AFTER:
            known = refused_at = None
        latest = wanted.get(bundle) or (known if refused_at is not None else None)
        if latest is not None:
            since = latest.since if known is None else known.since
            kept_wishes[bundle] = latest._replace(since=since, refused_at=refused_at)
    return kept_wishes


def open_wishes(splits: Mapping[str, WantedSplit]) -> dict[str, WantedSplit]:
    """Return the wanted splits that plan_splits has to decide on."""
    return {bundle: split for bundle, split in splits.items() if split.refused_at is None}


def _may_be_split(bundle: PlannerBundle, figures: PlannerFigures) -> bool:
    if bundle.part or bundle.held not in MAY_BE_SPLIT or bundle.topics < FEWEST_TOPICS or bundle.left:
        return False
    return bundle.owner in bundle.brokers and bundle.owner in figures.usage and is_splittable(namespace_of(bundle.name))


def _on_best(bundle: PlannerBundle, at: datetime, figures: PlannerFigures) -> WantedSplit | None:
    """The bundle alone on the broker that it makes least busy, where even that is above the band."""
    loads = {r: figures.load(bundle, r) for r in figures.resources}
    best: tuple[float, float, str, float] | None = None
    for broker in sorted(bundle.brokers & figures.usage.keys()):
        lines = {r: figures.models[r][broker].line for r in figures.resources}
        alone, resource = max((lines[r].usage(loads[r]), r) for r in figures.resources)
        band = figures.open_levels[broker].act
        if best is None or alone < best[0]:
            best = alone, lines[resource].load_within(band), resource, band
        if alone <= band:
            return None
    if best is None:
        return None
    alone, room, resource, band = best
    return WantedSplit(at, resource, room, alone, band)


def _taken(bundle: PlannerBundle, figures: PlannerFigures, loads: Mapping[str, float]) -> float:
    """Return the fall of its broker's usage without the bundle, at these loads."""
    owner = bundle.owner or ""
    without = {r: loads[r] - figures.load(bundle, r) for r in figures.resources}
    return figures.usage_at(owner, loads) - figures.usage_at(owner, without)


def _with_room_for_part(
    bundle: PlannerBundle, at: datetime, figures: PlannerFigures, loads: Loads
) -> WantedSplit | None:
    """The bundle, where no other broker has room for it, but for a part."""
    owner = bundle.owner or ""
    usage = figures.usage_at(owner, loads[owner])
    rooms = [*_rooms(bundle, figures, loads)]
    if bundle.held != "bundle_too_heavy" and any(part >= 1.0 for part, _, _ in rooms):
        return None
    part, resource, room = max(rooms, default=(0.0, "", 0.0))
    level = figures.levels[owner].stop
    return WantedSplit(at, resource, room, usage, level, is_stuck=True) if part >= SMALLEST_PART else None


def _rooms(bundle: PlannerBundle, figures: PlannerFigures, loads: Loads) -> Iterator[tuple[float, str, float]]:
    """Return what part of the bundle fits each other allowed broker up to `stop`, and its scarcest room (byte/s)."""
    bundle_loads = {r: load for r in figures.resources if (load := figures.load(bundle, r)) > 0}
    if not bundle_loads:
        return
    for broker in sorted((bundle.brokers - {bundle.owner or ""} - bundle.left_today) & figures.usage.keys()):
        yield _least_room(broker, bundle_loads, loads[broker], figures, figures.levels[broker].stop)


def _least_room(
    broker: str, loads: Mapping[str, float], carried: Mapping[str, float], figures: PlannerFigures, level: float
) -> tuple[float, str, float]:
    """Return the part of a bundle for which a broker has room, the resource with least room, and that room (byte/s).

    `loads`, `carried`: loads of the bundle and of the broker (byte/s). `level`: the usage that the broker may reach.
    """
    left = {r: figures.models[r][broker].line.load_within(level) - carried[r] for r in loads}
    resource = min(sorted(left), key=lambda r: left[r] / loads[r])
    return left[resource] / loads[resource], resource, left[resource]
