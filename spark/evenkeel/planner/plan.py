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

MENDS, WITHIN_BAND = "mends", "within_band"
CYCLES_ABOVE = 2
"""Settled cycles in a row above the level `act` until steps are due."""


@dataclass(frozen=True, slots=True)
class PlannerPlan:
    """The plan of a cycle.

    `rule`: the rule that decided if steps are due. `over`: brokers that stay above the level `stop` after all steps,
    and of which no bundle may leave and fits elsewhere;
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
    deaf = {broker: since for broker, since in memory.deaf.items() if view.at - since < DISTRUSTED_FOR}
    memory, view = replace(memory, deaf=deaf), without(view, deaf)
    seen = SeenLoads(view, memory, settings)
    figures = seen.figures()
    checked = promises_checked(view, figures, seen.after, seen.latest)
    if checked.deaf.keys() - memory.deaf.keys():
        view = without(view, checked.deaf)
        figures = SeenLoads(view, memory, settings).figures()
    after = _counted(view, figures, checked)
    idle = seen.idle(figures)
    is_known = memory.at is not None or seen.is_steady
    rule = _verdict(view, figures, after, idle, is_known=is_known)
    acts = rule in ("acts", MENDS)
    wanted = _too_hot(view, figures, after, settings, rule)
    first = open_wishes(remembered(wanted, memory.splits, view))
    desired = _desired(view, figures, settings, idle, moves=rule not in (MENDS, WITHIN_BAND), split_first=first)
    reconciler = Reconciler(view, figures, settings)
    steps = reconciler.run(desired.moves, "" if acts else rule)
    beyond = reconciler.beyond(desired.moves)
    possible = _possible(steps, beyond) if rule in ("acts", "first_look") else []
    loads = loads_after(possible, figures)
    if rule in ("acts", "first_look"):
        moving = {step.bundle for step in possible}
        wanted |= stuck(view, figures, loads, moving, settings)
    wanted = with_rooms(wanted, view, figures, possible, loads)
    splits = remembered(wanted, memory.splits, view)
    due = [step for step in steps if not step.bound and step.source is not None]
    is_acting = after.is_acting and rule not in (MENDS, WITHIN_BAND)
    if rule == "acts":
        is_acting = any(step.bound for step in steps)
    promises = {**after.promises, **promises_of(view, figures, due)}
    after = replace(after, is_acting=is_acting, promises=promises, splits=splits)
    over = fits_nowhere(view, figures, steps, settings)
    return PlannerPlan(rule, after, figures, steps, over, desired.nowhere, wanted, beyond)


def slacks(figures: PlannerFigures, settings: Settings) -> dict[str, float]:
    """Broker -> how far above the level `stop` it gives nothing away (fraction of usage)."""
    gain = settings.evenkeelPlannerLeastGainPoints / 100.0
    return {broker: min(gain, levels.act - levels.stop) for broker, levels in figures.levels.items()}


def fits_nowhere(
    view: PlannerView, figures: PlannerFigures, steps: Sequence[PlannedStep], settings: Settings
) -> list[str]:
    """Return the brokers above their level with all steps taken of which no bundle may leave, or has room elsewhere.

    A bundle that is held counts as one that may not leave. It has room where it brings a broker above no level `stop`.
    """
    loads, slack = loads_after(steps, figures), slacks(figures, settings)
    usages = {broker: figures.usage_at(broker, loads[broker]) for broker in sorted(figures.usage)}
    over = {broker for broker, usage in usages.items() if usage > figures.levels[broker].stop + slack[broker]}
    moved = {step.bundle: step.destination for step in steps}
    for bundle in view.bundles if over else ():
        owner = moved.get(bundle.name, bundle.owner)
        if owner not in over or (bundle.held is not None and bundle.name not in moved):
            continue
        bundle_loads = {r: figures.load(bundle, r) for r in figures.resources}
        if not any(bundle_loads.values()):
            continue
        for broker in (bundle.brokers - bundle.left - {owner}) & usages.keys():
            with_it = {r: loads[broker][r] + load for r, load in bundle_loads.items()}
            if figures.usage_at(broker, with_it) <= figures.levels[broker].stop:
                over.discard(owner)
                break
    return sorted(over)


def without(view: PlannerView, deaf: Collection[str]) -> PlannerView:
    """Return the view in which these brokers get no bundle that has an owner."""
    if not deaf:
        return view
    bundles = [
        bundle
        if bundle.owner is None
        else replace(bundle, brokers=bundle.brokers - {*deaf}, allowed=bundle.allowed - {*deaf})
        for bundle in view.bundles
    ]
    return replace(view, bundles=bundles)


def _too_hot(
    view: PlannerView, figures: PlannerFigures, memory: PlannerMemory, settings: Settings, rule: str
) -> dict[str, WantedSplit]:
    """Return the bundles to be split first; while figures settle, the earlier ones. Empty if nothing may move."""
    if rule == "fell_back" or view.stopped is not None:
        return {}
    if not view.is_settled or waits_for_steady_load(memory):
        return {**memory.splits}
    return too_hot(view, figures, memory.splits, settings)


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
    above = memory.above + 1 if figures.is_above("act") else 0
    return replace(memory, above=min(above, CYCLES_ABOVE))


def _verdict(
    view: PlannerView, figures: PlannerFigures, memory: PlannerMemory, idle: Collection[str], *, is_known: bool
) -> str:
    """Return why the cluster is at rest, or which steps are due: all (`acts`), or those that mend a breach (`mends`).

    `is_known`: whether load is steady.
    """
    if memory.fell_back is not None:
        return "fell_back"
    if view.stopped is not None:
        return view.stopped
    rule = _verdict_on_usage(view, figures, memory, idle, is_known=is_known)
    mends = any(bundle.breach and bundle.held is None for bundle in view.bundles)
    return rule if rule in ("acts", "settling") or not mends else MENDS if view.is_settled else "settling"


def _verdict_on_usage(
    view: PlannerView, figures: PlannerFigures, memory: PlannerMemory, idle: Collection[str], *, is_known: bool
) -> str:
    if (not figures.is_above("stop") and not idle) or figures.even <= 0:
        return WITHIN_BAND
    acts_at_once = memory.is_acting or figures.is_above("at_once") or bool(idle)
    if not acts_at_once and not figures.is_above("act"):
        return WITHIN_BAND
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
    slack = slacks(figures, settings)
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
                bundle.owner is not None
                and (bundle.held is not None or bundle.name in split_first or not (moves or bundle.breach)),
            )
            for bundle in view.bundles
        ]
        return desired_placement(
            curves, owned, figures.stops, slack, idle=idle, even=figures.even, may_go_together=may_go_together
        )

    placement = placed(may_return=False)
    if not placement.over or not any(bundle.left_today for bundle in view.bundles):
        return placement
    other = placed(may_return=True)
    return other if len(other.over) < len(placement.over) else placement


def _places(bundle: PlannerBundle, *, may_return: bool) -> frozenset[str]:
    """Return the brokers that may have a bundle: those that it may go to, and its owner unless that breaks a rule."""
    if bundle.owner is None:
        return bundle.brokers
    left = bundle.left if may_return else bundle.left | bundle.left_today
    if not left and bundle.owner in bundle.brokers:
        return bundle.brokers
    places = bundle.brokers - left
    return places if bundle.breach and places else places | {bundle.owner}


KEPT_PART, MOST_MISSES, LEAST_JUDGED = 0.5, 3, 0.02
"""A promise of at least the third (a fraction of usage) is kept if this part of it came; so many in a row are too many
that are not."""
ANSWERED_PART, LEAST_ASKED = 0.25, 0.05
"""A broker answers to load where this part of the promised rise came, which was at least the second (fraction)."""
DISTRUSTED_FOR = timedelta(days=1)


def promises_of(view: PlannerView, figures: PlannerFigures, due: Sequence[PlannedStep]) -> dict[str, Promise]:
    """Return this cycle's promise for each broker that gives bundles away or gets some, in its busiest resource."""
    after = loads_after(due, figures)
    promises = {}
    concerned = {broker for step in due for broker in (step.source or "", step.destination)}
    for broker in sorted(concerned & figures.usage.keys()):
        lines = {r: figures.models[r][broker].line for r in figures.resources}
        resource = max(lines, key=lambda r: lines[r].usage(figures.loads[r][broker]))
        line, carried, load = lines[resource], figures.loads[resource][broker], after[broker][resource]
        reported = figures.models[resource][broker].reported
        before = line.usage(carried) if reported is None else reported
        promises[broker] = Promise(view.at, resource, line.slope * (carried - load), before, load)
    return promises


def promises_checked(
    view: PlannerView, figures: PlannerFigures, memory: PlannerMemory, latest: Mapping[str, Mapping[str, float]]
) -> PlannerMemory:
    """Return the memory after checking the promises of the last cycle that acted, once all figures have settled.

    The gain is the fall of usage, corrected for the change of traffic since then. It is computed from the `latest`
    loads (resource -> broker -> byte/s), which match the usage, even if the plan uses averages. A promise is dropped if
    its moves were not carried out, or if its broker is gone or was full. A broker that got load, and whose usage rose
    by less than a quarter of what was promised, is `deaf` for a day.
    """
    if memory.fell_back is not None and view.at - memory.fell_back >= DISTRUSTED_FOR:
        memory = replace(memory, fell_back=None, misses=0)
    if not memory.promises or not view.is_settled:
        return memory
    promised, came, deaf = [], [], {**memory.deaf}
    for broker, promise in sorted(memory.promises.items()):
        if (promise.at, broker) not in view.moved or broker not in view.brokers or promise.before >= SATURATED:
            continue
        now = view.brokers[broker].usages.get(promise.resource)
        if promise.resource not in figures.models or now is None or now >= SATURATED:
            continue
        slope = figures.models[promise.resource][broker].line.slope
        gain = promise.before - now + slope * (latest[promise.resource][broker] - promise.load)
        if promise.gain > 0:
            promised.append(promise.gain)
            came.append(gain)
        elif promise.gain <= -LEAST_ASKED and gain > ANSWERED_PART * promise.gain:
            deaf[broker] = view.at
    misses = memory.misses
    if math.fsum(promised) >= LEAST_JUDGED:
        misses = misses + 1 if math.fsum(came) < KEPT_PART * math.fsum(promised) else 0
    fell_back = view.at if misses >= MOST_MISSES and memory.fell_back is None else memory.fell_back
    return replace(memory, promises={}, misses=misses, fell_back=fell_back, deaf=deaf)
