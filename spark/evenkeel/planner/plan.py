"""The planner: from the state of a cluster to its desired placement and the steps of this cycle.

Keys: evenkeelPlannerActAbovePercent, evenkeelPlannerActAtOnceAbovePercent, evenkeelPlannerStopAtPercent,
evenkeelPlannerLeastGainPoints. Three levels of usage count. Each is a distance above the evenly used cluster that the
placement rules allow. Above the first level, the planner acts after two settled cycles. Above the second it acts at
once, as it does for a new or nearly idle broker. The third is the level that it brings brokers down to.

A first look moves nothing if the steadiness of the load is unknown. Cycles that split a bundle are the exception, since
figures have to settle after a split anyway. Every cycle makes the plan again from the current owners: the loads
(`loads`), the desired placement (`target_placement`), and the steps of this cycle (`reconciler`). Ties break by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evenkeel.planner.figures import PlannerFigures
from evenkeel.planner.limits import CycleBudget
from evenkeel.planner.loads import SeenLoads, waits_for_steady_load
from evenkeel.planner.memory import PlannerMemory, WantedSplit
from evenkeel.planner.placement_search import DesiredMove, DesiredPlacement, OwnedBundle
from evenkeel.planner.promises import promises_checked, promises_of
from evenkeel.planner.reconciler import NO_ROOM_YET, BeyondBudget, PlannedStep, Reconciler, loads_after
from evenkeel.planner.target_placement import desired_placement
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
    """Return why the cluster is at rest or not; steps are due with `acts` alone. `is_known`: the steadiness of the load
    is known."""
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
            curves,
            owned,
            figures.stop,
            slack,
            idle=idle,
            even=figures.even,
            may_go_together=may_go_together,
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
