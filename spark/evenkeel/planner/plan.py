"""The planner: from what is known of a cluster to the placement that it is to come to, and the steps of this cycle.

Keys: evenkeelPlannerActAbovePercent, evenkeelPlannerActAtOnceAbovePercent, evenkeelPlannerStopAtPercent,
evenkeelPlannerLeastGainPoints, the weights of costs, and the guards' budgets. Three levels of usage count, each so much
above the evenly used cluster that the placement rules allow: above the first the planner acts, once it was seen in two
settled cycles; above the second at once, as for a broker that is new or nearly idle; the third is what it brings
brokers down to. The plan is made anew in every cycle from where the bundles are. Moves of the fullest broker come
first, of those the ones with most gain for their cost; what has no room in a budget waits. Where load swings to and fro
from cycle to cycle, it is planned with what is to be expected next: the average of the last samples, and of what the
latest cycle has above or below it the part that is usually still there in the next. Ties break by name.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from evenkeel.planner.desired import desired_placement
from evenkeel.planner.figures import ALWAYS_HELD, PlannerFigures, planned_load
from evenkeel.planner.floor import floor_of
from evenkeel.planner.limits import MOVED_TRAFFIC, CycleBudget
from evenkeel.planner.memory import BrokerMemory, PlannerMemory, Promise, WantedSplit
from evenkeel.planner.placement_search import DesiredMove, DesiredPlacement, OwnedBundle
from evenkeel.planner.target import Target, UsageLine, kinds_of, target_of
from evenkeel.planner.usage_model import SATURATED, BrokerModel, UsageSums, by_traffic, models_of
from evenkeel.planner.view import RESOURCES, PlannerBroker, PlannerBundle, PlannerView, Spent
from evenkeel.planner.wanted_splits import open_wishes, remembered, stuck, too_hot, with_rooms
from evenkeel.settings import Settings

CYCLES_ABOVE = 2
UNSETTLED_PART = 0.1
"""While the figures of more than this part of the brokers are blurred, nothing is moved; else what they have no part in
is."""
COUNTS_FROM = 0.25
"""A resource counts where its busiest broker has at least so much of the busiest broker's usage of any resource."""
NEARLY_IDLE = 0.25
"""A broker is nearly idle with less than so much of what it carries in the evenly used cluster."""
UNSTEADY, MOST_UNSTEADY = 0.1, 3
"""Where load changed by more than this part since the cycle before, the planner waits, so many cycles at most."""
SWINGING, SWINGS_FROM, STEADIER = 0.12, 0.03, 0.9
"""Load swings where its change is undone in the next cycle by at least the first part, and is at least the second part
of it; the third is what counts of the cycle before."""
NO_ROOM_YET, SPLIT_NOW, SPLIT_NEXT = "no_room_yet", "split_now", "split_next"
KEPT_PART, MOST_MISSES, LEAST_JUDGED = 0.5, 3, 0.02
"""A promise of at least the third (a fraction of usage) is kept if this part of it came; so many in a row are too many
that are not."""
DISTRUSTED_FOR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A bundle that is to move; `source` None: it has no owner and is placed.

    `gain`: usage (fraction) that it takes off its broker. `cost`: see the weights. `loads`: by resource that counts.
    `bound`: what keeps it from moving now, "" where it is due.
    """

    bundle: str
    source: str | None
    destination: str
    gain: float
    cost: float
    loads: tuple[float, ...]
    bound: str = ""


@dataclass(frozen=True, slots=True)
class BeyondBudget:
    """Moves that go together, and never do: they need `needed` of the budget `key`, more than all of it. `source`: the
    broker of the first of the `bundles`."""

    bundles: tuple[str, ...]
    source: str
    key: str
    needed: float


@dataclass(frozen=True, slots=True)
class PlannerPlan:
    """The plan of a cycle. `rule`: what decided whether steps are due. `over`: brokers that stay above the level
    `stop` also with all steps taken; `nowhere`: bundles that no broker may own. `wanted`: those that are too hot, or
    stuck, and are to be split first. `beyond`: moves that no cycle has the budget for."""

    rule: str
    memory: PlannerMemory
    figures: PlannerFigures | None = None
    steps: Sequence[PlannedStep] = ()
    over: Sequence[str] = ()
    nowhere: Sequence[str] = ()
    wanted: Mapping[str, WantedSplit] = field(default_factory=dict)
    beyond: Sequence[BeyondBudget] = ()

    @property
    def due(self) -> list[PlannedStep]:
        """The moves of this cycle."""
        return [step for step in self.steps if not step.bound and step.source is not None]


def plan(view: PlannerView, memory: PlannerMemory, settings: Settings) -> PlannerPlan:
    """What is to be done in this cycle, and what is remembered of it."""
    if not view.brokers:
        return PlannerPlan("nothing_known", replace(memory, at=view.at))
    seen = _Seen(view, memory, settings)
    figures = seen.figures()
    after = _counted(view, figures, _promises_checked(view, figures, seen.after, seen.latest))
    idle = seen.idle(figures)
    rule = _verdict(view, figures, after, idle)
    acts = rule == "acts"
    wanted = _too_hot(view, figures, after, settings, rule)
    first = open_wishes(remembered(wanted, memory.splits, view))
    desired = _desired(view, figures, settings, idle, moves=rule != "within_band", split_first=first)
    reconciler = _Reconciler(view, figures, settings)
    steps = reconciler.run(desired.moves, "" if acts else rule)
    beyond = reconciler.beyond(desired.moves)
    possible = _possible(steps, beyond) if acts else []
    loads = loads_after(possible, figures)
    if acts:
        moving = {step.bundle for step in possible}
        wanted |= stuck(view, figures, loads, moving, settings)
    wanted = with_rooms(wanted, view, figures, loads)
    splits = remembered(wanted, memory.splits, view)
    waiting = _owners_of_first_asked(view, splits, memory.splits) if acts else frozenset()
    if waiting:
        steps = _Reconciler(view, figures, settings, waiting).run(desired.moves, "")
    due = [step for step in steps if not step.bound and step.source is not None]
    is_acting = any(step.bound for step in steps) if acts else after.is_acting and rule != "within_band"
    promises = {**after.promises, **_promises(view, figures, due)}
    after = replace(after, is_acting=is_acting, promises=promises, splits=splits)
    return PlannerPlan(rule, after, figures, steps, desired.over, desired.nowhere, wanted, beyond)


def _too_hot(
    view: PlannerView, figures: PlannerFigures, memory: PlannerMemory, settings: Settings, rule: str
) -> dict[str, WantedSplit]:
    """The bundles to be split first; while figures settle, those that it was before. None where nothing may move."""
    if rule == "fell_back" or view.stopped is not None:
        return {}
    if not _is_settled(view) or _waits_for_steady_load(memory):
        return {**memory.splits}
    return too_hot(view, figures, memory.splits, settings)


def _owners_of_first_asked(
    view: PlannerView, splits: Mapping[str, WantedSplit], before: Mapping[str, WantedSplit]
) -> frozenset[str]:
    """The brokers with a bundle whose split is asked for in this cycle, and was not before: what they give away goes in
    the next cycle, with the split or without it. A bundle that is split in this cycle is not waited for."""
    asked = open_wishes(splits).keys() - before.keys()
    if not asked:
        return frozenset()
    return frozenset(one.owner or "" for one in view.bundles if one.name in asked and one.held != "split")


def _possible(steps: Sequence[PlannedStep], beyond: Iterable[BeyondBudget]) -> list[PlannedStep]:
    """The steps that are due now or in a later cycle: not those that no cycle has the budget for, nor others of which
    all wait for the room that those would leave."""
    never = {bundle for one in beyond for bundle in one.bundles}
    left = [step for step in steps if step.bundle not in never]
    if any(step.source is not None and step.bound != NO_ROOM_YET for step in left):
        return left
    return [step for step in left if step.source is None]


def loads_after(
    steps: Iterable[PlannedStep], figures: PlannerFigures, *, only_due: bool = False
) -> dict[str, dict[str, float]]:
    """Broker -> resource -> load with the steps taken."""
    loads = {broker: {r: figures.loads[r][broker] for r in figures.resources} for broker in figures.usage}
    for step in steps:
        if only_due and step.bound:
            continue
        for n, r in enumerate(figures.resources):
            if step.source in loads:
                loads[step.source][r] -= step.loads[n]
            loads[step.destination][r] += step.loads[n]
    return loads


class _Seen:
    """The cluster's loads and usages of this cycle, and the memory with them."""

    def __init__(self, view: PlannerView, memory: PlannerMemory, settings: Settings) -> None:
        self._view, self._settings = view, settings
        self.message_bytes = _message_bytes(view.bundles, memory.message_bytes)
        if self.message_bytes != memory.message_bytes:
            memory = replace(memory, sums={}, brokers={})
        self._resources = _resources(view.brokers.values())
        every = self._resources or ("cpu",)
        loads = {r: self._of_bundles(r, 1.0) for r in every}
        self.latest = latest = {r: self._of_brokers(own, is_now=True) for r, own in loads.items()}
        by = next(iter(latest))
        counts = dict.fromkeys(view.brokers, 0)
        for one in view.bundles:
            owner = one.owner if one.part == 0 else one.carried_by
            if owner in counts and one.part <= 1:
                counts[owner] += 1
        self.after = self._remembered(memory, latest, latest[by], counts)
        self.latest_part = part = _latest_part(self.after)
        self._bundle_loads = loads = {r: self._of_bundles(r, part) for r in every} if part < 1.0 else loads
        self._carried = {r: self._of_brokers(loads[r], is_now=True) for r in every} if part < 1.0 else latest
        self._planned = {r: self._of_brokers(loads[r], is_now=False) for r in every}

    def _of_bundles(self, resource: str, latest_part: float) -> dict[str, float]:
        """Bundle -> load."""
        return {one.name: planned_load(one, resource, self.message_bytes, latest_part) for one in self._view.bundles}

    def _of_brokers(self, bundle_loads: Mapping[str, float], *, is_now: bool) -> dict[str, float]:
        """Broker -> load of its bundles, now or once the parts of splits have left that are to leave."""
        own: dict[str, list[float]] = {broker: [] for broker in sorted(self._view.brokers)}
        for one in self._view.bundles:
            owner = one.carried_by if is_now and one.part else one.owner
            if owner in own:
                own[owner].append(bundle_loads[one.name])
        return {broker: math.fsum(loads) for broker, loads in own.items()}

    def _remembered(
        self,
        memory: PlannerMemory,
        latest: Mapping[str, Mapping[str, float]],
        load: Mapping[str, float],
        counts: Mapping[str, int],
    ) -> PlannerMemory:
        at = self._view.at
        minutes = 0.0 if memory.at is None else (at - memory.at) / timedelta(minutes=1)
        brokers, undone, changed = {}, [], []
        for name in sorted(self._view.brokers):
            before = memory.brokers.get(name)
            if before is None:
                since = None if not memory.brokers else at
                brokers[name] = BrokerMemory(counts[name], load[name], 0.0, since)
                continue
            if before.bundles != counts[name]:
                brokers[name] = BrokerMemory(counts[name], load[name], 0.0, at)
                continue
            if not self._view.brokers[name].is_settled or before.load <= 0:
                # What is assumed of parts of a split, say, is no change of load.
                known = load[name] if self._view.brokers[name].is_settled else 0.0
                brokers[name] = BrokerMemory(counts[name], known, 0.0, before.since)
                continue
            scale = max(before.load, load[name])
            change = (load[name] - before.load) / scale if scale > 0 else 0.0
            undone.append(change * before.change)
            changed.append(change * change)
            brokers[name] = BrokerMemory(counts[name], load[name], change, before.since)
        after = replace(
            memory,
            at=at,
            message_bytes=self.message_bytes,
            reversals=STEADIER * memory.reversals + _mean(undone),
            changes=STEADIER * memory.changes + _mean(changed),
            unsteady=memory.unsteady + 1 if _mean(changed) > UNSTEADY * UNSTEADY else 0,
            brokers=brokers,
        )
        return replace(after, sums=self._sums(memory, after, latest, minutes))

    def _sums(
        self, memory: PlannerMemory, after: PlannerMemory, latest: Mapping[str, Mapping[str, float]], minutes: float
    ) -> dict[tuple[str, str], UsageSums]:
        """What fits rest on, with the usages of brokers whose figures have settled."""
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
        for resource in self._resources:
            usages = {n: b.usages[resource] for n, b in self._view.brokers.items() if resource in b.usages}
            sums = {name: self.after.sums[resource, name] for name in self._view.brokers}
            found = models_of(usages, self._carried[resource], sums)
            if any(model.line.slope > 0 for model in found.values()):
                models[resource] = found
        is_by_traffic = not models
        if is_by_traffic:
            own = next(iter(self._planned))
            models = {own: by_traffic(self._planned[own])}
        loads = {resource: self._planned[resource] for resource in models}
        usage = {
            name: max(models[r][name].line.usage(loads[r][name]) for r in models) for name in sorted(self._view.brokers)
        }
        targets = {r: self._target(r, {name: one.line for name, one in models[r].items()}) for r in models}

        def level(percent: float, atoms: float = 1.0) -> float:
            part = 1.0 + percent / 100.0
            return max(max(part * one.even, part * one.ruled, atoms * one.atomic) for one in targets.values())

        settings = self._settings
        stop = level(settings.evenkeelPlannerStopAtPercent)
        floors = [floor_of({name: one.line for name, one in models[r].items()}, loads[r], stop) for r in models]
        return PlannerFigures(
            tuple(models),
            models,
            loads,
            self._bundle_loads,
            usage,
            max(one.even for one in targets.values()),
            max(stop, level(settings.evenkeelPlannerActAbovePercent)),
            max(stop, level(settings.evenkeelPlannerActAtOnceAbovePercent)),
            stop,
            level(settings.evenkeelPlannerStopAtPercent, atoms=0.0),
            level(settings.evenkeelPlannerActAbovePercent, atoms=0.0),
            targets,
            max(floors, key=lambda one: one.share),
            self.message_bytes,
            self.latest_part,
            is_by_traffic,
        )

    def _target(self, resource: str, curves: Mapping[str, UsageLine]) -> Target:
        kinds = kinds_of(
            (
                frozenset({one.owner or ""}) if one.held in ALWAYS_HELD and one.owner in curves else one.brokers,
                self._bundle_loads[resource][one.name],
                False,
            )
            for one in self._view.bundles
        )
        return target_of(curves, kinds, 1.0)

    def idle(self, figures: PlannerFigures) -> tuple[str, ...]:
        """The brokers that are nearly idle, as new ones are, and may have some of the bundles."""
        wanted = frozenset().union(*{one.brokers for one in self._view.bundles if one.held is None})
        found = []
        for name in sorted(wanted & self._view.brokers.keys() if figures.even > 0 else ()):
            share = max(
                figures.loads[r][name] / room if (room := figures.models[r][name].line.load_within(figures.even)) > 0
                else 1.0
                for r in figures.resources
            )  # fmt: skip
            if share < NEARLY_IDLE:
                found.append(name)
        return tuple(found)


def _message_bytes(bundles: Iterable[PlannerBundle], known: float) -> float:
    """What a message counts as: bytes of a message of the cluster on average, as it was first found unless it has
    become twice or half as much."""
    every = [*bundles]
    messages = math.fsum(one.figures.messages for one in every)
    found = math.fsum(one.figures.traffic for one in every) / messages if messages > 0 else 0.0
    return known if known > 0 and 0.5 * known <= found <= 2.0 * known else found


def _resources(brokers: Iterable[PlannerBroker]) -> tuple[str, ...]:
    """The resources that count, in a fixed order."""
    busiest: dict[str, float] = {}
    for broker in brokers:
        for resource, usage in broker.usages.items():
            busiest[resource] = max(usage, busiest.get(resource, 0.0))
    most = max(busiest.values(), default=0.0)
    return tuple(r for r in RESOURCES if busiest.get(r, 0.0) > 0 and busiest[r] >= COUNTS_FROM * most)


def _swings(memory: PlannerMemory) -> bool:
    """Whether load goes to and fro from cycle to cycle, so that an average tells more than the latest figures."""
    least = SWINGS_FROM * SWINGS_FROM / (1.0 - STEADIER)
    return memory.reversals < -SWINGING * memory.changes and memory.changes > least


def _latest_part(memory: PlannerMemory) -> float:
    """How much of what the latest figures have above or below their average is to be expected in the next cycle.

    All where load does not swing. Where it goes on and off by chance, half of each change is undone in the next, and
    nothing of it is to be expected; where it comes back slowly, the less is undone, the more.
    """
    return max(0.0, 1.0 + 2.0 * memory.reversals / memory.changes) if _swings(memory) else 1.0


def _waits_for_steady_load(memory: PlannerMemory) -> bool:
    """Whether load has just changed so much that the next cycle may be another again."""
    return 0 < memory.unsteady <= MOST_UNSTEADY and not _swings(memory)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _counted(view: PlannerView, figures: PlannerFigures, memory: PlannerMemory) -> PlannerMemory:
    """The memory with the count of settled cycles above the level `act`."""
    if not _is_settled(view) or _waits_for_steady_load(memory):
        return memory
    above = memory.above + 1 if max(figures.usage.values()) > figures.act else 0
    return replace(memory, above=min(above, CYCLES_ABOVE))


def _verdict(view: PlannerView, figures: PlannerFigures, memory: PlannerMemory, idle: Collection[str]) -> str:
    """Why the cluster is at rest or not: steps are due with `acts` alone."""
    if memory.fell_back is not None:
        return "fell_back"
    if view.stopped is not None:
        return view.stopped
    busiest = max(figures.usage.values())
    if (busiest <= figures.stop and not idle) or figures.even <= 0:
        return "within_band"
    acts_at_once = memory.is_acting or busiest > figures.at_once or bool(idle)
    if not acts_at_once and busiest <= figures.act:
        return "within_band"
    if not _is_settled(view):
        return "settling"
    if _waits_for_steady_load(memory):
        return "unsteady"
    return "acts" if acts_at_once or memory.above >= CYCLES_ABOVE else "seen_once"


def _is_settled(view: PlannerView) -> bool:
    """Whether the figures of nearly all brokers can be trusted; those of which nobody knows until when they cannot are
    not waited for."""
    waiting = sum(not broker.is_settled and not broker.waits_until_known for broker in view.brokers.values())
    return waiting <= UNSETTLED_PART * len(view.brokers)


def _desired(
    view: PlannerView,
    figures: PlannerFigures,
    settings: Settings,
    idle: Collection[str],
    *,
    moves: bool,
    split_first: Collection[str],
) -> DesiredPlacement:
    """The placement to come to. Bundles go back where they were within the day only if the level is not reached
    without; `moves`: else bundles without owner alone are placed. Those to `split_first` stay."""
    curves = {
        broker: tuple(figures.models[r][broker].line for r in figures.resources) for broker in sorted(view.brokers)
    }
    slack = min(settings.evenkeelPlannerLeastGainPoints / 100.0, figures.act - figures.stop)
    traffic = {one.name: one.figures.traffic for one in view.bundles}
    budget = CycleBudget(Spent(), view.traffic, settings)

    def may_go_together(moves: Sequence[DesiredMove]) -> bool:
        return not budget.full([(one.source or "", one.destination, traffic[one.bundle]) for one in moves])

    def placed(*, may_return: bool) -> DesiredPlacement:
        owned = [
            OwnedBundle(
                one.name,
                one.owner,
                tuple(figures.load(one, r) for r in figures.resources),
                _places(one, may_return=may_return),
                one.owner is not None and (one.held is not None or not moves or one.name in split_first),
            )
            for one in view.bundles
        ]
        return desired_placement(
            curves,
            owned,
            figures.stop,
            slack,
            idle=idle,
            even=figures.even,
            may_go_together=may_go_together,
        )

    found = placed(may_return=False)
    if not found.over or not moves or not any(one.left_today for one in view.bundles):
        return found
    other = placed(may_return=True)
    return other if len(other.over) < len(found.over) else found


def _places(one: PlannerBundle, *, may_return: bool) -> frozenset[str]:
    """Where a bundle may be: where it is, and where it may go."""
    if one.owner is None:
        return one.brokers
    left = one.left if may_return else one.left | one.left_today
    if not left and one.owner in one.brokers:
        return one.brokers
    return (one.brokers - left) | {one.owner}


class _Reconciler:
    """From where the bundles are towards the desired placement, as far as this cycle may go. `waiting`: brokers that
    give nothing away before the next."""

    def __init__(
        self, view: PlannerView, figures: PlannerFigures, settings: Settings, waiting: Collection[str] = ()
    ) -> None:
        self._view, self._figures, self._waiting = view, figures, waiting
        self._bundles = {one.name: one for one in view.bundles}
        self._loads = {broker: [figures.loads[r][broker] for r in figures.resources] for broker in view.brokers}
        every = view.bundles
        weights = (
            (settings.evenkeelPlannerSessionsWeight, math.fsum(one.sessions for one in every)),
            (settings.evenkeelPlannerTopicsWeight, math.fsum(one.topics for one in every)),
            (settings.evenkeelPlannerTrafficWeight, math.fsum(one.figures.traffic for one in every)),
        )
        whole = math.fsum(weight for weight, _ in weights)
        self._per_unit = [weight / whole / total if whole > 0 and total > 0 else 0.0 for weight, total in weights]
        self._budget = CycleBudget(view.spent, view.traffic, settings)
        self._groups: set[str] = set()

    def run(self, moves: Sequence[DesiredMove], bound: str) -> list[PlannedStep]:
        placed = [self._step(move, "") for move in moves if move.source is None and not self._bundles[move.bundle].part]
        for move in moves:
            if move.source is None:
                self._carry(move)
        units = self._units([move for move in moves if move.source is not None])
        if bound:
            return placed + [self._step(move, bound) for unit in units for move in unit]
        due: list[PlannedStep] = []
        waiting: list[PlannedStep] = []
        left: Iterable[tuple[DesiredMove, ...]] = self._fullest_first(units)
        while left:
            no_room: list[tuple[DesiredMove, ...]] = []
            before = len(due)
            for unit in left:
                why = self._why_not(unit)
                if why == MOVED_TRAFFIC and len(unit) == 1 and not due and self._budget.may_go_alone():
                    why = ""
                if not why and any(move.source in self._waiting for move in unit):
                    why = SPLIT_NEXT
                if why == NO_ROOM_YET:
                    no_room.append(unit)
                elif why:
                    waiting += [self._step(move, why) for move in unit]
                else:
                    due += [self._step(move, "") for move in unit]
                    for move in unit:
                        self._take(move)
            # What left may have made room.
            left = no_room if len(due) > before else []
            waiting += [] if left else [self._step(move, NO_ROOM_YET) for unit in no_room for move in unit]
        return placed + due + waiting

    def beyond(self, moves: Sequence[DesiredMove]) -> list[BeyondBudget]:
        """Moves that go together and for which no cycle has the budget; one that goes alone may exceed its traffic."""
        found = []
        for unit in self._units([move for move in moves if move.unit and move.source is not None]):
            key, needed = self._budget.beyond(self._of_budget(unit))
            if key:
                bundles = tuple(move.bundle for move in unit)
                found.append(BeyondBudget(bundles, unit[0].source or "", key, needed))
        return found

    def _of_budget(self, unit: Sequence[DesiredMove]) -> list[tuple[str, str, float]]:
        """The moves as budgets count them."""
        return [(move.source or "", move.destination, self._bundles[move.bundle].figures.traffic) for move in unit]

    def _units(self, moves: Sequence[DesiredMove]) -> list[tuple[DesiredMove, ...]]:
        """Moves that go together, and those that go alone, in the order of their first."""
        found: dict[tuple[int, str], list[DesiredMove]] = {}
        for move in moves:
            found.setdefault((move.unit, "" if move.unit else move.bundle), []).append(move)
        return [tuple(unit) for unit in found.values()]

    def _fullest_first(self, units: Sequence[tuple[DesiredMove, ...]]) -> Iterable[tuple[DesiredMove, ...]]:
        """Of the broker that is fullest by then, the unit with most gain for its cost."""
        of_giver: dict[str, list[tuple[DesiredMove, ...]]] = {}
        for unit in units:
            of_giver.setdefault(unit[0].source or "", []).append(unit)
        for own in of_giver.values():
            own.sort(key=self._worth)
        fullest = [(-self._usage(broker), broker) for broker in of_giver]
        heapq.heapify(fullest)
        while fullest:
            giver = heapq.heappop(fullest)[1]
            yield of_giver[giver].pop()
            if of_giver[giver]:
                heapq.heappush(fullest, (-self._usage(giver), giver))

    def _worth(self, unit: tuple[DesiredMove, ...]) -> tuple[float, float, str]:
        gain = self._gain(unit[0]) - math.fsum(self._gain(move) for move in unit[1:])
        cost = math.fsum(self._cost(move) for move in unit)
        return (gain / cost if cost > 0 else math.inf, gain, unit[0].bundle)

    def _why_not(self, unit: tuple[DesiredMove, ...]) -> str:
        """What keeps moves from going now, "" where nothing does."""
        for move in unit:
            ends = [self._view.brokers.get(broker or "") for broker in (move.source, move.destination)]
            if any(broker is not None and not broker.is_settled for broker in ends):
                return "settling"
            if self._bundles[move.bundle].part:
                return SPLIT_NOW
            group = self._bundles[move.bundle].group
            if group is not None and group in self._groups:
                return "group_moves_once"
        if len(unit) == 1 and self._usage(unit[0].destination, unit[0]) > self._figures.act:
            return NO_ROOM_YET
        return self._budget.full(self._of_budget(unit))

    def _take(self, move: DesiredMove) -> None:
        one = self._bundles[move.bundle]
        if one.group is not None:
            self._groups.add(one.group)
        self._budget.take(move.source or "", move.destination, one.figures.traffic)
        self._carry(move)

    def _carry(self, move: DesiredMove) -> None:
        for n, load in enumerate(self._load(move)):
            if move.source in self._loads:
                self._loads[move.source][n] -= load
            self._loads[move.destination][n] += load

    def _load(self, move: DesiredMove) -> list[float]:
        return [self._figures.load(self._bundles[move.bundle], r) for r in self._figures.resources]

    def _usage(self, broker: str, given: DesiredMove | None = None) -> float:
        """The usage of a broker by then, with one more bundle if one is given; 1 of a broker that is emptied."""
        if broker not in self._loads:
            return 1.0
        more = self._load(given) if given is not None else [0.0] * len(self._figures.resources)
        return max(
            self._figures.models[r][broker].line.usage(self._loads[broker][n] + more[n])
            for n, r in enumerate(self._figures.resources)
        )

    def _gain(self, move: DesiredMove) -> float:
        """What the move takes off the usage of the broker that gives, as it stands now."""
        figures, source = self._figures, move.source
        if source is None or source not in figures.usage:
            return 0.0
        load = self._load(move)
        left = max(
            figures.models[r][source].line.usage(figures.loads[r][source] - load[n])
            for n, r in enumerate(figures.resources)
        )
        return max(0.0, figures.usage[source] - left)

    def _cost(self, move: DesiredMove) -> float:
        one = self._bundles[move.bundle]
        return math.fsum(
            part * amount
            for part, amount in zip(self._per_unit, (one.sessions, one.topics, one.figures.traffic), strict=True)
        )

    def _step(self, move: DesiredMove, bound: str) -> PlannedStep:
        gain, cost, loads = self._gain(move), self._cost(move), tuple(self._load(move))
        return PlannedStep(move.bundle, move.source, move.destination, gain, cost, loads, bound)


# What was promised, and what came of it.


def _promises(view: PlannerView, figures: PlannerFigures, due: Iterable[PlannedStep]) -> dict[str, Promise]:
    """What this cycle's moves promise of the brokers that give, each in the resource that is its busiest."""
    bundles = {one.name: one for one in view.bundles}
    given: dict[str, list[PlannerBundle]] = {}
    for step in due:
        if step.source in view.brokers:
            given.setdefault(step.source or "", []).append(bundles[step.bundle])
    found = {}
    for broker, moved in sorted(given.items()):
        resource = _busiest(figures, broker)
        load = math.fsum(figures.load(one, resource) for one in moved)
        line, carried = figures.models[resource][broker].line, figures.loads[resource][broker]
        found[broker] = Promise(view.at, resource, line.slope * load, line.usage(carried), carried - load)
    return found


def _busiest(figures: PlannerFigures, broker: str) -> str:
    """The resource that a broker has least of."""
    return max(figures.resources, key=lambda r: figures.models[r][broker].line.usage(figures.loads[r][broker]))


def _promises_checked(
    view: PlannerView,
    figures: PlannerFigures,
    memory: PlannerMemory,
    latest: Mapping[str, Mapping[str, float]],
) -> PlannerMemory:
    """The memory after a look at what came of the promises of the cycle that acted last, once all has settled.

    What came is how far usage fell, with the change of traffic since then taken out of it: of the `latest` loads
    (resource -> broker -> byte/s), which are those that usage is of, also where averages are planned with. A promise
    whose moves were not carried out, or of a broker that is gone or was full, is dropped.
    """
    if memory.fell_back is not None and view.at - memory.fell_back >= DISTRUSTED_FOR:
        memory = replace(memory, fell_back=None, misses=0)
    if not memory.promises or not _is_settled(view):
        return memory
    promised, came = [], []
    for broker, one in sorted(memory.promises.items()):
        if (one.at, broker) not in view.moved or broker not in view.brokers or one.before >= SATURATED:
            continue
        now = view.brokers[broker].usages.get(one.resource)
        if one.resource not in figures.models or now is None or now >= SATURATED:
            continue
        slope = figures.models[one.resource][broker].line.slope
        promised.append(one.gain)
        came.append(one.before - now + slope * (latest[one.resource][broker] - one.load))
    misses = memory.misses
    if math.fsum(promised) >= LEAST_JUDGED:
        misses = misses + 1 if math.fsum(came) < KEPT_PART * math.fsum(promised) else 0
    fell_back = view.at if misses >= MOST_MISSES and memory.fell_back is None else memory.fell_back
    return replace(memory, promises={}, misses=misses, fell_back=fell_back)
