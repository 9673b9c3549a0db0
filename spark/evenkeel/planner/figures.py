"""The planner's figures of a cluster: loads by broker and bundle, models of usage, levels, and the memory with them.

Keys: evenkeelPlannerActAbovePercent, evenkeelPlannerActAtOnceAbovePercent, evenkeelPlannerStopAtPercent,
evenkeelPlannerReturnWindowMinutes. If load swings, the planner uses the load expected for as long as a moved bundle
cannot come back. That is the average of the last samples, plus a part of the latest cycle's difference from it. The
part is how much of the difference lasts over that time, on average.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenkeel.planner.memory import BrokerMemory, PlannerMemory
from evenkeel.planner.target import BrokerLevel, BundleKind, Floor, UsageLine, even_usage, floor_of, kinds_of, levels_of
from evenkeel.planner.usage_model import (
    BrokerModel,
    UsageSums,
    by_traffic,
    load_of,
    models_of,
    sizes_of,
    with_least_usage,
)
from evenkeel.planner.view import (
    ISOLATION,
    NETWORK,
    OWN_NAMESPACE,
    RESOURCES,
    PlannerBroker,
    PlannerBundle,
    PlannerView,
)
from evenkeel.settings import Settings

ALWAYS_HELD = frozenset({"frozen", OWN_NAMESPACE, "excluded_namespace"})
"""Rules by which an operator, or Pulsar, holds a bundle for good."""
STAYS = ALWAYS_HELD | {"no_other_broker", "anti_affinity_even"}
"""Rules by which a bundle stays where it is, and lifts the level of its own broker only. Other rules hold it for a
while."""

_Floats = npt.NDArray[np.float64]


class Levels(NamedTuple):
    """Usages (fraction) of a broker: steps are due above `act`, at once above `at_once`, and bring it down to `stop`.

    `even`: the level `stop` without what has to stay on the broker.
    """

    act: float
    at_once: float
    stop: float
    even: float


@dataclass(frozen=True, slots=True)
class PlannerFigures:
    """The planner's figures of one cluster. Usages are fractions; `floor` is that of the levels `stop`.

    `models`: resource -> broker -> model; `loads`: resource -> broker -> load (byte/s); `bundle_loads`: resource ->
    bundle -> load (byte/s); `usage`: broker -> the usage of its busiest resource by the models. `evens`: resource ->
    usage of the evenly used cluster; `even`: the highest of them. `levels`: of each broker, `open_levels`: if every
    bundle could be split. `message_bytes`: bytes that a message counts as. `latest_part`: weight of the latest figures
    beside averages, 1 if load does not swing.
    """

    resources: Sequence[str]
    models: Mapping[str, Mapping[str, BrokerModel]]
    loads: Mapping[str, Mapping[str, float]]
    bundle_loads: Mapping[str, Mapping[str, float]]
    usage: Mapping[str, float]
    even: float
    evens: Mapping[str, float]
    levels: Mapping[str, Levels]
    open_levels: Mapping[str, Levels]
    floor: Floor
    message_bytes: float
    latest_part: float = 1.0
    is_by_traffic: bool = False

    @property
    def stops(self) -> dict[str, float]:
        """Broker -> the level `stop`."""
        return {broker: levels.stop for broker, levels in self.levels.items()}

    @property
    def fullest(self) -> str:
        """The broker that is furthest above its level, as a part of it."""
        return max(sorted(self.usage), key=lambda b: self.usage[b] / max(self.levels[b].act, 1e-300))

    def is_above(self, level: str) -> bool:
        """Return True if a broker is above its level `act`, `at_once` or `stop`."""
        return any(usage > getattr(self.levels[broker], level) for broker, usage in self.usage.items())

    @property
    def is_swinging(self) -> bool:
        """Return True if load goes to and fro from cycle to cycle, so that averages are planned with."""
        return self.latest_part < 1.0

    def load(self, bundle: PlannerBundle, resource: str) -> float:
        """The load of a bundle that is planned with (byte/s)."""
        return self.bundle_loads[resource][bundle.name]

    def usage_at(self, broker: str, loads: Mapping[str, float]) -> float:
        """The usage of a broker's busiest resource with these loads, by resource."""
        return max(self.models[r][broker].line.usage(loads[r]) for r in self.resources)


def planned_load(bundle: PlannerBundle, resource: str, message_bytes: float, latest_part: float) -> float:
    """The load of a bundle (byte/s) between its average and its latest figures; `latest_part`: 1 for the latest."""
    latest = load_of(bundle.figures, resource, message_bytes)
    if latest_part >= 1.0:
        return latest
    average = load_of(bundle.average, resource, message_bytes)
    return average + latest_part * (latest - average)


class AloneOnBest:
    """Usage of the best allowed broker with one bundle alone on it, for many bundles.

    Many bundles may go to the same brokers, often to all. Their models are gathered once and evaluated together.
    """

    def __init__(self, figures: PlannerFigures) -> None:
        self._figures = figures
        self._lines: dict[frozenset[str], tuple[_Floats, _Floats]] = {}
        lines = [model.line for models in figures.models.values() for model in models.values()]
        self._worst = UsageLine(max(line.base for line in lines), max(line.slope for line in lines))
        self._least = min(
            min(level.even, open_level.even)
            for level, open_level in zip(figures.levels.values(), figures.open_levels.values(), strict=True)
        )

    def may_be_hot(self, bundle: PlannerBundle) -> bool:
        """Return False if no broker could come above a level with the bundle alone; for most bundles one look does."""
        heaviest = max(self._figures.load(bundle, r) for r in self._figures.resources)
        return self._worst.usage(heaviest) > self._least

    def usage(self, bundle: PlannerBundle) -> float | None:
        """The usage of the best broker that may have the bundle, alone; None where none may."""
        return min(self.usages(bundle).values(), default=None)

    def is_too_hot(self, bundle: PlannerBundle) -> bool:
        """Return True if the bundle alone brings every broker that may have it above what others could come to."""
        levels, usages = self._figures.open_levels, self.usages(bundle)
        return bool(usages) and all(usage > levels[broker].even for broker, usage in usages.items())

    def usages(self, bundle: PlannerBundle) -> dict[str, float]:
        """Return the usage of each broker that may have the bundle, alone, and of its owner; of a bundle that is held
        for good, its owner's only."""
        figures, owner = self._figures, bundle.owner or ""
        loads = {r: figures.load(bundle, r) for r in figures.resources}
        of_owner = {owner: figures.usage_at(owner, loads)} if owner in figures.usage else {}
        if of_owner and bundle.held in ALWAYS_HELD:
            return of_owner
        base, slope = self._lines_of(bundle.brokers)
        with np.errstate(over="ignore"):
            alone = (base + slope * np.array([*loads.values()])).max(axis=1)
        places = sorted(bundle.brokers & figures.usage.keys())
        return dict(zip(places, alone.tolist(), strict=True)) | of_owner

    def _lines_of(self, brokers: frozenset[str]) -> tuple[_Floats, _Floats]:
        """Base and slope of the models of these brokers, a row for each broker, a column for each resource."""
        if brokers not in self._lines:
            models = [self._figures.models[r] for r in self._figures.resources]
            lines = [
                [model_of[broker].line for model_of in models]
                for broker in sorted(brokers & self._figures.usage.keys())
            ]
            shape = len(lines), len(models)
            self._lines[brokers] = (
                np.array([[line.base for line in model_of] for model_of in lines]).reshape(shape),
                np.array([[line.slope for line in model_of] for model_of in lines]).reshape(shape),
            )
        return self._lines[brokers]


MUCH_BETTER = 0.9
"""A bundle that is too hot for every broker goes to a broker where it causes at most this part of the usage."""


class HotPlace(NamedTuple):
    """The broker that is left to a bundle that is too hot for every broker, and its usage with the bundle `alone`."""

    broker: str
    alone: float
    is_splittable: bool


def _homes(
    figures: PlannerFigures, bundles: Iterable[PlannerBundle], known: Collection[str], settings: Settings
) -> dict[str, HotPlace]:
    """Return the bundles that alone bring every allowed broker above its level, each with the broker that is left to
    it: its owner, or one where it is much better off. One that cannot be split lifts no other broker's level."""
    alone, homes = AloneOnBest(figures), dict[str, HotPlace]()
    for bundle in bundles:
        owner = bundle.owner or ""
        if bundle.name in known or bundle.held in STAYS or not alone.may_be_hot(bundle):
            continue
        usages = alone.usages(bundle)
        if bundle.breach is not None and owner not in bundle.brokers:
            usages.pop(owner, None)
        if not usages or any(usage <= figures.levels[broker].stop for broker, usage in usages.items()):
            continue
        best = min(usages, key=lambda broker: (usages[broker], broker))
        home = owner if usages.get(owner, math.inf) * MUCH_BETTER <= usages[best] else best
        is_splittable = settings.evenkeelSplitEnabled and bundle.topics > 1
        homes[bundle.name] = HotPlace(home, usages[home], is_splittable)
    return homes


COUNTS_FROM = 0.25
"""A resource counts where its busiest broker has at least so much of the busiest broker's usage of any resource."""
NEARLY_IDLE = 0.25
"""A broker is nearly idle below this part of its load in the evenly used cluster."""
UNSTEADY, MOST_UNSTEADY = 0.1, 3
"""If load changed by more than this part since the previous cycle, the planner waits, for at most so many cycles."""
SWINGS_FROM, MOST_OF_A_CYCLE, STEADIER = 0.03, 0.12, 0.95
"""Load swings if it changes by more than the first part from cycle to cycle. A larger change than the second part
counts as the second part, since one jump is no swing. The third part is the weight of the previous cycle."""
GOES_ON, MOST_THAT_STAYS = 0.1, 0.75
"""Growing or falling load does not swing: at least the first part of a change repeats in the next cycle. A difference
from the average is assumed to fade so fast that at most the second part remains in the next cycle."""
NARROWER = 0.8
"""Factor of the settings' percents if load swings: an average above the band is stronger evidence than one cycle."""
SHORTEST_CYCLE = timedelta(minutes=1)
"""Cycles that follow each other faster are taken for so far apart."""


class SeenLoads:
    """The cluster's loads and usages of this cycle, and the memory with them."""

    def __init__(self, view: PlannerView, memory: PlannerMemory, settings: Settings) -> None:
        self._view, self._settings = view, settings
        self.message_bytes = _message_bytes(view.bundles, memory.message_bytes)
        if self.message_bytes != memory.message_bytes:
            memory = replace(memory, sums={}, brokers={})
        self._resources = _resources(view.brokers.values())
        every = self._resources or ("cpu",)
        loads = {r: self._of_bundles(r, 1.0) for r in every}
        self.latest = latest = {r: self._of_brokers(bundle_loads, is_now=True) for r, bundle_loads in loads.items()}
        by = next(iter(latest))
        counts = dict.fromkeys(view.brokers, 0)
        for bundle in view.bundles:
            owner = bundle.owner if bundle.part == 0 else bundle.carried_by
            if owner in counts and bundle.part <= 1:
                counts[owner] += 1
        since = timedelta() if memory.at is None else view.at - memory.at
        self.after = self._remembered(memory, since, latest, latest[by], counts)
        window = timedelta(minutes=settings.evenkeelPlannerReturnWindowMinutes)
        self.latest_part = part = _latest_part(self.after, max(1, round(window / max(SHORTEST_CYCLE, since))))
        self._bundle_loads = loads = {r: self._of_bundles(r, part) for r in every} if part < 1.0 else loads
        self._carried = {r: self._of_brokers(loads[r], is_now=True) for r in every} if part < 1.0 else latest
        self._planned = {r: self._of_brokers(loads[r], is_now=False) for r in every}

    @property
    def is_steady(self) -> bool:
        """Return True if averages show that load did not change much recently."""
        if not self._view.has_averages:
            return False
        resource = next(iter(self.latest))
        averages = {bundle.name: load_of(bundle.average, resource, self.message_bytes) for bundle in self._view.bundles}
        average, latest = self._of_brokers(averages, is_now=True), self.latest[resource]
        pairs = [(average[broker], latest[broker]) for broker in average if max(average[broker], latest[broker]) > 0]
        changes = [_change(before, now) for before, now in pairs]
        return not _is_much([change * change for change in changes])

    def _of_bundles(self, resource: str, latest_part: float) -> dict[str, float]:
        """Bundle -> load."""
        return {
            bundle.name: planned_load(bundle, resource, self.message_bytes, latest_part)
            for bundle in self._view.bundles
        }

    def _of_brokers(self, bundle_loads: Mapping[str, float], *, is_now: bool) -> dict[str, float]:
        """Broker -> load of its bundles, now or once the parts of splits have left that are to leave."""
        loads_of: dict[str, list[float]] = {broker: [] for broker in sorted(self._view.brokers)}
        for bundle in self._view.bundles:
            owner = bundle.carried_by if is_now and bundle.part else bundle.owner
            if owner in loads_of:
                loads_of[owner].append(bundle_loads[bundle.name])
        return {broker: math.fsum(loads) for broker, loads in loads_of.items()}

    def _remembered(
        self,
        memory: PlannerMemory,
        since: timedelta,
        latest: Mapping[str, Mapping[str, float]],
        load: Mapping[str, float],
        counts: Mapping[str, int],
    ) -> PlannerMemory:
        at = self._view.at
        brokers, undone, changed = {}, [], []
        for name in sorted(self._view.brokers):
            before = memory.brokers.get(name)
            if before is None:
                brokers[name] = BrokerMemory(counts[name], load[name], 0.0, at if memory.brokers else None)
                continue
            if before.bundles != counts[name]:
                brokers[name] = BrokerMemory(counts[name], load[name], 0.0, at)
                continue
            if not self._view.brokers[name].is_settled or before.load <= 0:
                # An assumed load, for example of parts of a split, is not a change of load.
                known = load[name] if self._view.brokers[name].is_settled else 0.0
                brokers[name] = BrokerMemory(counts[name], known, 0.0, before.since)
                continue
            change = _change(before.load, load[name])
            undone.append(change * before.change)
            changed.append(change * change)
            brokers[name] = BrokerMemory(counts[name], load[name], change, before.since)
        most = MOST_OF_A_CYCLE * MOST_OF_A_CYCLE
        counted = most / max(most, _mean(changed))
        after = replace(
            memory,
            at=at,
            message_bytes=self.message_bytes,
            reversals=STEADIER * memory.reversals + counted * _mean(undone),
            changes=STEADIER * memory.changes + counted * _mean(changed),
            unsteady=memory.unsteady + 1 if _is_much(changed) else 0,
            brokers=brokers,
        )
        return replace(after, sums=self._sums(memory, after, latest, since / timedelta(minutes=1)))

    def _sums(
        self, memory: PlannerMemory, after: PlannerMemory, latest: Mapping[str, Mapping[str, float]], minutes: float
    ) -> dict[tuple[str, str], UsageSums]:
        """Return the sums that fits use, with the usages of brokers whose figures have settled."""
        sums = {}
        wait = timedelta(minutes=self._view.usage_settles_minutes)
        for resource in self._resources:
            for name, broker in sorted(self._view.brokers.items()):
                kept = memory.sums.get((resource, name), UsageSums()).decayed(minutes)
                since, usage = after.brokers[name].since, broker.usages.get(resource)
                if broker.is_settled and usage is not None and (since is None or self._view.at - since >= wait):
                    kept = kept.with_sample(latest[resource][name], usage, is_swinging=_swings(after))
                sums[resource, name] = kept
        return sums

    def figures(self) -> PlannerFigures:
        """Models, the evenly used cluster and its levels."""
        models: dict[str, Mapping[str, BrokerModel]] = {}
        sizes = self._sizes()
        for resource in self._resources:
            usages = {n: b.usages[resource] for n, b in self._view.brokers.items() if resource in b.usages}
            sums = {name: self.after.sums[resource, name] for name in self._view.brokers}
            fitted = models_of(usages, self._carried[resource], sums)
            if resource not in NETWORK:
                fitted = with_least_usage(fitted, self._carried[resource], sizes)
            if any(model.line.slope > 0 for model in fitted.values()):
                models[resource] = fitted
        is_by_traffic = not models
        if is_by_traffic:
            first = next(iter(self._planned))
            models = {first: by_traffic(self._planned[first])}
        loads = {resource: self._planned[resource] for resource in models}
        usage = {
            name: max(models[r][name].line.usage(loads[r][name]) for r in models) for name in sorted(self._view.brokers)
        }
        lines = {r: {name: one.line for name, one in models[r].items()} for r in models}
        evens = {r: even_usage(lines[r].values(), math.fsum(self._bundle_loads[r].values())) for r in models}
        open_levels = self._levels(lines, {})
        figures = PlannerFigures(
            resources=tuple(models),
            models=models,
            loads=loads,
            bundle_loads=self._bundle_loads,
            usage=usage,
            even=max(evens.values()),
            evens=evens,
            levels=open_levels,
            open_levels=open_levels,
            floor=Floor(0.0, 0.0, {}),
            message_bytes=self.message_bytes,
            latest_part=self.latest_part,
            is_by_traffic=is_by_traffic,
        )
        homes: dict[str, HotPlace] = {}
        while hot := _homes(figures, self._view.bundles, homes, self._settings):
            homes |= hot
            figures = replace(figures, levels=self._levels(lines, homes))
        floors = [floor_of(lines[r], loads[r], figures.stops) for r in models]
        return replace(figures, floor=max(floors, key=lambda floor: floor.share))

    def _sizes(self) -> dict[str, float]:
        """Broker -> network usage per byte as a part of the usual one; of both directions the larger."""
        sizes: dict[str, float] = {}
        for resource in NETWORK:
            usages = {n: b.usages[resource] for n, b in self._view.brokers.items() if resource in b.usages}
            loads = self._of_brokers(self._of_bundles(resource, 1.0), is_now=True) if usages else {}
            for broker, size in sizes_of(usages, loads).items():
                sizes[broker] = max(size, sizes.get(broker, 0.0))
        return sizes

    def _levels(self, lines: Mapping[str, Mapping[str, UsageLine]], homes: Mapping[str, HotPlace]) -> dict[str, Levels]:
        """Return the levels of each broker; `homes`: of the bundles that are too hot for every broker."""
        settings, narrower = self._settings, NARROWER if self.latest_part < 1.0 else 1.0
        percents = (
            settings.evenkeelPlannerActAbovePercent,
            settings.evenkeelPlannerActAtOnceAbovePercent,
            settings.evenkeelPlannerStopAtPercent,
        )
        act, at_once, stop = (1.0 + narrower * percent / 100.0 for percent in percents)
        of_resource = [levels_of(lines[r], self._kinds(r, lines[r], homes)) for r in lines]
        found, alone = {}, dict[str, float]()
        for home in homes.values():
            alone[home.broker] = max(home.alone, alone.get(home.broker, 0.0))
        for broker in sorted(self._view.brokers):
            level = BrokerLevel(*(max(x) for x in zip(*(levels[broker] for levels in of_resource), strict=True)))
            least = max(stop * level.even, level.stays, alone.get(broker, 0.0))
            # A broker that is left to a hot bundle is to have nothing else.
            stays = 0.0 if broker in alone else level.stays
            above = [max(least, part * level.even, part / stop * stays) for part in (act, at_once)]
            found[broker] = Levels(above[0], above[1], least, stop * level.even)
        return found

    def _kinds(self, resource: str, brokers: Collection[str], homes: Mapping[str, HotPlace]) -> tuple[BundleKind, ...]:
        def places(bundle: PlannerBundle) -> frozenset[str]:
            owner = bundle.owner or ""
            home = homes.get(bundle.name)
            if home is not None and not home.is_splittable:
                return frozenset({home.broker})
            if bundle.held in STAYS and owner in brokers:
                return frozenset({owner})
            allowed = bundle.allowed or bundle.brokers
            return allowed | {owner} if owner in brokers and bundle.breach != ISOLATION else allowed

        loads = self._bundle_loads[resource]
        return kinds_of((places(bundle), loads[bundle.name]) for bundle in self._view.bundles)

    def idle(self, figures: PlannerFigures) -> tuple[str, ...]:
        """The brokers that are nearly idle, as new ones are, and may have some of the bundles."""
        wanted = frozenset().union(*{bundle.brokers for bundle in self._view.bundles if bundle.held is None})
        brokers = []
        for name in sorted(wanted & self._view.brokers.keys() if figures.even > 0 else ()):
            share = max(
                figures.loads[r][name] / room if (room := figures.models[r][name].line.load_within(figures.even)) > 0
                else 1.0
                for r in figures.resources
            )  # fmt: skip
            if share < NEARLY_IDLE:
                brokers.append(name)
        return tuple(brokers)


def _message_bytes(bundles: Iterable[PlannerBundle], known: float) -> float:
    """Return how many bytes a message counts as: the cluster's mean bytes per message, as first measured.

    The first value stays until the mean is twice or half of it.
    """
    every = [*bundles]
    messages = math.fsum(bundle.figures.messages for bundle in every)
    mean = math.fsum(bundle.figures.traffic for bundle in every) / messages if messages > 0 else 0.0
    return known if known > 0 and 0.5 * known <= mean <= 2.0 * known else mean


def _resources(brokers: Iterable[PlannerBroker]) -> tuple[str, ...]:
    """The resources that count, in a fixed order."""
    busiest: dict[str, float] = {}
    for broker in brokers:
        for resource, usage in broker.usages.items():
            busiest[resource] = max(usage, busiest.get(resource, 0.0))
    most = max(busiest.values(), default=0.0)
    return tuple(r for r in RESOURCES if busiest.get(r, 0.0) > 0 and busiest[r] >= COUNTS_FROM * most)


def _change(before: float, now: float) -> float:
    """Return the part by which a load has changed; one of the two is not 0."""
    return (now - before) / max(before, now)


def _is_much(squares: Sequence[float]) -> bool:
    """Return True if load has changed much, given the squares of brokers' changes."""
    return _mean(squares) > UNSTEADY * UNSTEADY


def _swings(memory: PlannerMemory) -> bool:
    """Return True if load changes much both ways from cycle to cycle: averages then predict better."""
    least = SWINGS_FROM * SWINGS_FROM / (1.0 - STEADIER)
    return memory.reversals < GOES_ON * memory.changes and memory.changes > least


def _latest_part(memory: PlannerMemory, cycles: int) -> float:
    """Return which part of the latest difference from the average will last for so many cycles, on average.

    1 if load does not swing. If load goes on and off by chance, half of each change is undone in the next cycle, and
    nothing of the difference is expected to last. If it comes back slowly, less is undone, and more lasts. The part
    that is left shrinks by the same factor in each further cycle.
    """
    if not _swings(memory):
        return 1.0
    stays = min(MOST_THAT_STAYS, max(0.0, 1.0 + 2.0 * memory.reversals / memory.changes))
    left, whole = 1.0, 0.0
    for _ in range(cycles):
        left *= stays
        whole += left
    return whole / cycles


def waits_for_steady_load(memory: PlannerMemory) -> bool:
    """Return True if load has just changed so much that the next cycle may be another again."""
    return 0 < memory.unsteady <= MOST_UNSTEADY and not _swings(memory)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
