"""The planner: from the state of a cluster to its desired placement and the steps of this cycle.

Keys: evenkeelPlannerActAbovePercent, evenkeelPlannerActAtOnceAbovePercent, evenkeelPlannerStopAtPercent,
evenkeelPlannerLeastGainPoints. Three levels of usage count. Each is a distance above the evenly used cluster that the
placement rules allow. Above the first level, the planner acts after two settled cycles. Above the second it acts at
once, as it does for a new or nearly idle broker. The third is the level that it brings brokers down to.

A first look moves nothing if the steadiness of the load is unknown. Cycles that split a bundle are the exception, since
figures have to settle after a split anyway. Every cycle makes the plan again from the current owners: the loads
(`figures`), the desired placement (`target_placement`), and the steps of this cycle (`reconciler`). Ties break by name.
The gains that a plan promises are checked later; a planner that misses too often is not trusted for a day.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from evenkeel.planner.figures import PlannerFigures, SeenLoads, waits_for_steady_load
from evenkeel.planner.memory import PlannerMemory, Promise, WantedSplit
from evenkeel.planner.placement_search import DesiredMove, DesiredPlacement, OwnedBundle
from evenkeel.planner.reconciler import NO_ROOM_YET, BeyondBudget, CycleBudget, PlannedStep, Reconciler, loads_after
from evenkeel.planner.target_placement import desired_placement
from evenkeel.planner.usage_model import SATURATED
from evenkeel.planner.view import PlannerBundle, PlannerView, Spent
from evenkeel.planner.wanted_splits import open_wishes, remembered, stuck, too_hot, with_rooms
from evenkeel.settings import Settings

CYCLES_ABOVE = 2
"""Settled cycles in a row above the level `act` until steps are due."""


@dataclass(frozen=True, slots=True)
class PlannerPlan:
    """The plan of a cycle.

    `rule`: the rule that decided if steps are due. `over`: brokers that stay above the level `stop` after all steps;
    `nowhere`: bundles that no broker may own. `wanted`: bundles that are too hot, or stuck, and are to be split first.
    `beyond`: moves that exceed every cycle's budget.
    """

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
    """Return the steps of this cycle and the memory for the next one."""
    if not view.brokers:
        return PlannerPlan("nothing_known", replace(memory, at=view.at))
    seen = SeenLoads(view, memory, settings)
    figures = seen.figures()
    after = _counted(view, figures, promises_checked(view, figures, seen.after, seen.latest))
    idle = seen.idle(figures)
    is_known = memory.at is not None or seen.is_steady
    rule = _verdict(view, figures, after, idle, is_known=is_known)
    acts = rule == "acts"
    wanted = _too_hot(view, figures, after, settings, rule)
    first = open_wishes(remembered(wanted, memory.splits, view))
    desired = _desired(view, figures, settings, idle, moves=rule != "within_band", split_first=first)
    reconciler = Reconciler(view, figures, settings)
    steps = reconciler.run(desired.moves, "" if acts else rule)
    beyond = reconciler.beyond(desired.moves)
    foresees = acts or rule == "first_look"
    possible = _possible(steps, beyond) if foresees else []
    loads = loads_after(possible, figures)
    if foresees:
        moving = {step.bundle for step in possible}
        wanted |= stuck(view, figures, loads, moving, settings)
    wanted = with_rooms(wanted, view, figures, possible, loads)
    splits = remembered(wanted, memory.splits, view)
    waiting = _owners_of_first_asked(view, splits, memory.splits) if acts else frozenset()
    if waiting:
        steps = Reconciler(view, figures, settings, waiting).run(desired.moves, "")
    due = [step for step in steps if not step.bound and step.source is not None]
    is_acting = any(step.bound for step in steps) if acts else after.is_acting and rule != "within_band"
    promises = {**after.promises, **promises_of(view, figures, due)}
    after = replace(after, is_acting=is_acting, promises=promises, splits=splits)
    return PlannerPlan(rule, after, figures, steps, desired.over, desired.nowhere, wanted, beyond)


def _too_hot(
    view: PlannerView, figures: PlannerFigures, memory: PlannerMemory, settings: Settings, rule: str
) -> dict[str, WantedSplit]:
    """Return the bundles to be split first; while figures settle, the earlier ones. Empty if nothing may move."""
    if rule == "fell_back" or view.stopped is not None:
        return {}
    if not view.is_settled or waits_for_steady_load(memory):
        return {**memory.splits}
    return too_hot(view, figures, memory.splits, settings)


def _owners_of_first_asked(
    view: PlannerView, splits: Mapping[str, WantedSplit], before: Mapping[str, WantedSplit]
) -> frozenset[str]:
    """Return the brokers with a bundle whose split is requested in this cycle for the first time.

    Their moves go in the next cycle, with the split or without it. A bundle that is split in this cycle is not waited
    for.
    """
    asked = open_wishes(splits).keys() - before.keys()
    if not asked:
        return frozenset()
    return frozenset(bundle.owner or "" for bundle in view.bundles if bundle.name in asked and bundle.held != "split")


def _possible(steps: Sequence[PlannedStep], beyond: Iterable[BeyondBudget]) -> list[PlannedStep]:
    """Return the steps that are due now or in a later cycle.

    Left out are steps that exceed every cycle's budget, and steps that wait only for the room of such steps.
    """
    never = {bundle for group in beyond for bundle in group.bundles}
    left = [step for step in steps if step.bundle not in never]
    if any(step.source is not None and step.bound != NO_ROOM_YET for step in left):
        return left
    return [step for step in left if step.source is None]


def _counted(view: PlannerView, figures: PlannerFigures, memory: PlannerMemory) -> PlannerMemory:
    """The memory with the count of settled cycles above the level `act`."""
    if not view.is_settled or waits_for_steady_load(memory):
        return memory
    above = memory.above + 1 if max(figures.usage.values()) > figures.act else 0
    return replace(memory, above=min(above, CYCLES_ABOVE))


def _verdict(
    view: PlannerView, figures: PlannerFigures, memory: PlannerMemory, idle: Collection[str], *, is_known: bool
) -> str:
    """Return why the cluster is at rest; steps are due with `acts` alone. `is_known`: whether load is steady."""
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
    if not view.is_settled:
        return "settling"
    if waits_for_steady_load(memory):
        return "unsteady"
    if not is_known and not any(bundle.part or bundle.held == "split" for bundle in view.bundles):
        return "first_look"
    return "acts" if acts_at_once or memory.above >= CYCLES_ABOVE else "seen_once"


def _desired(
    view: PlannerView,
    figures: PlannerFigures,
    settings: Settings,
    idle: Collection[str],
    *,
    moves: bool,
    split_first: Collection[str],
) -> DesiredPlacement:
    """Return the desired placement.

    Bundles return to a broker that they left within the day only if the level is not reached otherwise; `moves`: if
    not, only bundles without owner are placed. Bundles to `split_first` stay.
    """
    curves = {
        broker: tuple(figures.models[r][broker].line for r in figures.resources) for broker in sorted(view.brokers)
    }
    slack = min(settings.evenkeelPlannerLeastGainPoints / 100.0, figures.act - figures.stop)
    traffic = {bundle.name: bundle.figures.traffic for bundle in view.bundles}
    budget = CycleBudget(Spent(), view.traffic, settings)

    def may_go_together(moves: Sequence[DesiredMove]) -> bool:
        return not budget.full([(move.source or "", move.destination, traffic[move.bundle]) for move in moves])

    def placed(*, may_return: bool) -> DesiredPlacement:
        owned = [
            OwnedBundle(
                bundle.name,
                bundle.owner,
                tuple(figures.load(bundle, r) for r in figures.resources),
                _places(bundle, may_return=may_return),
                bundle.owner is not None and (bundle.held is not None or not moves or bundle.name in split_first),
            )
            for bundle in view.bundles
        ]
        return desired_placement(
            curves, owned, figures.stop, slack, idle=idle, even=figures.even, may_go_together=may_go_together
        )

    placement = placed(may_return=False)
    if not placement.over or not moves or not any(bundle.left_today for bundle in view.bundles):
        return placement
    other = placed(may_return=True)
    return other if len(other.over) < len(placement.over) else placement


def _places(bundle: PlannerBundle, *, may_return: bool) -> frozenset[str]:
    """Return the brokers that may have a bundle: its owner, and those that it may go to."""
    if bundle.owner is None:
        return bundle.brokers
    left = bundle.left if may_return else bundle.left | bundle.left_today
    if not left and bundle.owner in bundle.brokers:
        return bundle.brokers
    return (bundle.brokers - left) | {bundle.owner}


KEPT_PART, MOST_MISSES, LEAST_JUDGED = 0.5, 3, 0.02
"""A promise of at least the third (a fraction of usage) is kept if this part of it came; so many in a row are too many
that are not."""
DISTRUSTED_FOR = timedelta(days=1)


def promises_of(view: PlannerView, figures: PlannerFigures, due: Iterable[PlannedStep]) -> dict[str, Promise]:
    """Return this cycle's promise for each broker that gives bundles away, in its busiest resource."""
    bundles = {bundle.name: bundle for bundle in view.bundles}
    given: dict[str, list[PlannerBundle]] = {}
    for step in due:
        if step.source in view.brokers:
            given.setdefault(step.source or "", []).append(bundles[step.bundle])
    promises = {}
    for broker, moved in sorted(given.items()):
        usages = {r: figures.models[r][broker].line.usage(figures.loads[r][broker]) for r in figures.resources}
        resource = max(usages, key=lambda r: usages[r])
        load = math.fsum(figures.load(bundle, resource) for bundle in moved)
        line, carried = figures.models[resource][broker].line, figures.loads[resource][broker]
        promises[broker] = Promise(view.at, resource, line.slope * load, line.usage(carried), carried - load)
    return promises


def promises_checked(
    view: PlannerView, figures: PlannerFigures, memory: PlannerMemory, latest: Mapping[str, Mapping[str, float]]
) -> PlannerMemory:
    """Return the memory after checking the promises of the last cycle that acted, once all figures have settled.

    The gain is the fall of usage, corrected for the change of traffic since then. It is computed from the `latest`
    loads (resource -> broker -> byte/s), which match the usage, even if the plan uses averages. A promise is dropped if
    its moves were not carried out, or if its broker is gone or was full.
    """
    if memory.fell_back is not None and view.at - memory.fell_back >= DISTRUSTED_FOR:
        memory = replace(memory, fell_back=None, misses=0)
    if not memory.promises or not view.is_settled:
        return memory
    promised, came = [], []
    for broker, promise in sorted(memory.promises.items()):
        if (promise.at, broker) not in view.moved or broker not in view.brokers or promise.before >= SATURATED:
            continue
        now = view.brokers[broker].usages.get(promise.resource)
        if promise.resource not in figures.models or now is None or now >= SATURATED:
            continue
        slope = figures.models[promise.resource][broker].line.slope
        promised.append(promise.gain)
        came.append(promise.before - now + slope * (latest[promise.resource][broker] - promise.load))
    misses = memory.misses
    if math.fsum(promised) >= LEAST_JUDGED:
        misses = misses + 1 if math.fsum(came) < KEPT_PART * math.fsum(promised) else 0
    fell_back = view.at if misses >= MOST_MISSES and memory.fell_back is None else memory.fell_back
    return replace(memory, promises={}, misses=misses, fell_back=fell_back)
