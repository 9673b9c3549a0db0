"""Promised gains of moves, and the check of them; a planner that misses too often is not trusted for a day."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from evenkeel.planner.figures import PlannerFigures
from evenkeel.planner.memory import PlannerMemory, Promise
from evenkeel.planner.reconciler import PlannedStep
from evenkeel.planner.usage_model import SATURATED
from evenkeel.planner.view import PlannerBundle, PlannerView

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
        resource = _busiest(figures, broker)
        load = math.fsum(figures.load(bundle, resource) for bundle in moved)
        line, carried = figures.models[resource][broker].line, figures.loads[resource][broker]
        promises[broker] = Promise(view.at, resource, line.slope * load, line.usage(carried), carried - load)
    return promises


def _busiest(figures: PlannerFigures, broker: str) -> str:
    """The resource that a broker has least of."""
    return max(figures.resources, key=lambda r: figures.models[r][broker].line.usage(figures.loads[r][broker]))


def promises_checked(
    view: PlannerView,
    figures: PlannerFigures,
    memory: PlannerMemory,
    latest: Mapping[str, Mapping[str, float]],
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
