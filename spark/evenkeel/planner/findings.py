"""Findings: problems that no plan solves, with their figures."""

from __future__ import annotations

import math
from collections.abc import Iterator

from evenkeel.model.bundles import namespace_of
from evenkeel.model.consideration import Considered, Rule, measured, number, threshold
from evenkeel.planner.figures import AloneOnBest, PlannerFigures
from evenkeel.planner.plan import DISTRUSTED_FOR, MOST_MISSES, PlannerPlan
from evenkeel.planner.reconciler import MOVED_TRAFFIC, loads_after
from evenkeel.planner.usage_model import load_of
from evenkeel.planner.view import OWN_NAMESPACE, PlannerView
from evenkeel.settings import Settings

FULL = 0.85
"""An evenly used cluster above this is too small."""
FEW_BUNDLES = 2.0
"""A namespace has too few bundles where one of them has, on average, more than 1 / this of a broker's share."""
MANY_BUNDLES_PER_BROKER = 64
_SMALL = 0.01

HOT_BUNDLE = Rule(
    "kept",
    "hotter_than_a_broker",
    lambda row: (
        f"{row.subject} alone takes {number(row, 'alone', 'fraction')} of the best broker that may have it, above the "
        f"{number(row, 'stop', 'fraction')} that brokers are to come to: split it, so that its parts can be apart."
    ),
    "above",
)
HOT_TOPIC = Rule(
    "kept",
    "topic_is_the_bundle",
    lambda row: (
        f"{row.subject} has one topic, which alone takes {number(row, 'alone', 'fraction')} of the best broker "
        f"that may have it, above the {number(row, 'stop', 'fraction')} that brokers are to come to: partition it."
    ),
    "above",
)
TOO_SMALL = Rule(
    "kept",
    "cluster_too_small",
    lambda row: (
        f"Evenly used, the brokers would be at {number(row, 'even', 'fraction')}, and the limit is "
        f"{number(row, 'full', 'fraction')}: of brokers like these {number(row, 'brokers_wanted')} would do, and there "
        f"are {number(row, 'brokers')}."
    ),
    "above",
)
BASE_ABOVE = Rule(
    "kept",
    "base_above_target",
    lambda row: (
        f"{row.subject} has a usage of {number(row, 'base', 'fraction')} without any bundle, above the "
        f"{number(row, 'stop', 'fraction')} that brokers are to come to: its load is not from bundles."
    ),
    "above",
)
FEW = Rule(
    "kept",
    "too_few_bundles",
    lambda row: (
        f"{number(row, 'namespace_bundles')} bundles of the namespace of {row.subject} have "
        f"{number(row, 'share', 'fraction')} of the load, more than {number(row, 'brokers_filled')} brokers are to "
        f"carry: {number(row, 'bundles_wanted')} would do."
    ),
)
MANY = Rule(
    "kept",
    "too_many_bundles",
    lambda row: (
        f"The namespace of {row.subject} has {number(row, 'namespace_bundles')} bundles with "
        f"{number(row, 'share', 'fraction')} of the load: far more than placing needs."
    ),
)
BROKEN_PROMISE = Rule(
    "kept",
    "promises_not_kept",
    lambda row: (
        f"{number(row, 'misses')} plans in a row brought less than half of what was promised: the strategy in force "
        f"decides for {number(row, 'hours')} hours, and the planner's targets are on record only."
    ),
)
TOO_LITTLE_USAGE = Rule(
    "kept",
    "usage_below_load",
    lambda row: (
        f"{row.subject} reports {measured(row)} for its load. Others need more, and its network does not show a larger "
        f"machine: it counts as {threshold(row)}. Check how it measures its CPU, and its limits."
    ),
    "below",
)
DEAF = Rule(
    "kept",
    "does_not_answer_to_load",
    lambda row: (
        f"{row.subject} got load, and the usage that it reports rose by less than a quarter of what it should: for "
        f"{number(row, 'hours')} hours it gets no more. Check how it measures its usage, and its limits."
    ),
)
OVER = Rule(
    "kept",
    "stays_above_target",
    lambda row: (
        f"{row.subject} stays at {number(row, 'usage', 'fraction')}, above the {number(row, 'stop', 'fraction')} that "
        "brokers are to come to: what it keeps fits nowhere else within rules and return window."
    ),
    "above",
)
BEYOND_BUDGET = Rule(
    "kept",
    "moves_above_budget",
    lambda row: (
        f"{row.subject} and {number(row, 'others')} more only move together, as one needs the room that the others "
        f"leave, and no cycle may: they need {measured(row)} of {row.setting}, which is "
        f"{threshold(row)}. Raise it, or their brokers stay as they are."
    ),
    "above",
)


def findings(view: PlannerView, plan: PlannerPlan, settings: Settings) -> list[Considered]:
    """All findings, by subject and rule; each subject has one of each rule at most."""
    figures = plan.figures
    rows: list[Considered] = []
    if plan.memory.fell_back is not None:
        numbers = {"misses": float(plan.memory.misses), "hours": DISTRUSTED_FOR.total_seconds() / 3_600}
        rows.append(
            BROKEN_PROMISE.about_cluster(
                measured=plan.memory.misses, threshold=MOST_MISSES, unit="count", numbers=numbers
            )
        )
    if figures is not None:
        rows += _of_cluster(view, figures)
        rows += _of_brokers(plan, figures)
        rows += _of_bundles(view, plan, figures)
        rows += _of_budgets(plan, settings)
        rows += _of_namespaces(view, plan, figures)
    return sorted(rows, key=lambda finding: (finding.subject_kind, finding.subject, finding.rule))


def _of_cluster(view: PlannerView, figures: PlannerFigures) -> Iterator[Considered]:
    if figures.is_by_traffic or figures.even <= FULL:
        return
    wanted = len(view.brokers)
    for resource, even in figures.evens.items():
        lines = [model.line for model in figures.models[resource].values()]
        each = math.fsum(min(line.load_within(FULL), 1e300) for line in lines) / len(lines)
        load = math.fsum(figures.loads[resource].values())
        if even > FULL:
            wanted = max(wanted, math.ceil(load / each) if each > 0 else wanted)
    yield TOO_SMALL.about_cluster(
        measured=figures.even,
        threshold=FULL,
        unit="fraction",
        numbers={
            "even": figures.even,
            "full": FULL,
            "brokers": float(len(view.brokers)),
            "brokers_wanted": float(wanted),
        },
    )


def _of_brokers(plan: PlannerPlan, figures: PlannerFigures) -> Iterator[Considered]:
    for broker in sorted(figures.usage):
        base = max(figures.models[r][broker].line.usage(0.0) for r in figures.resources)
        level = figures.levels[broker].even
        if base > level > 0:
            yield BASE_ABOVE.about_broker(
                broker,
                measured=base,
                threshold=level,
                unit="fraction",
                numbers={"base": base, "stop": level},
            )
        for resource in figures.resources:
            model = figures.models[resource][broker]
            if model.reported is not None:
                counted = model.line.usage(figures.loads[resource][broker])
                yield TOO_LITTLE_USAGE.about_broker(broker, measured=model.reported, threshold=counted, unit="fraction")
                break
    for broker in sorted(plan.memory.deaf.keys() & figures.usage.keys()):
        yield DEAF.about_broker(broker, numbers={"hours": DISTRUSTED_FOR.total_seconds() / 3_600})
    after = loads_after(plan.steps, figures)
    for broker in plan.over:
        usage, stop = figures.usage_at(broker, after[broker]), figures.levels[broker].stop
        yield OVER.about_broker(
            broker, measured=usage, threshold=stop, unit="fraction", numbers={"usage": usage, "stop": stop}
        )


def _of_bundles(view: PlannerView, plan: PlannerPlan, figures: PlannerFigures) -> Iterator[Considered]:
    """Bundles that alone bring every broker above the level that the other bundles could reach."""
    limit = min((levels.even for levels in figures.open_levels.values()), default=0.0)
    on_best = AloneOnBest(figures)
    for bundle in view.bundles:
        if bundle.owner is None or bundle.held == OWN_NAMESPACE or not on_best.may_be_hot(bundle):
            continue
        alone = on_best.usage(bundle)
        if alone is None or not on_best.is_too_hot(bundle):
            continue
        rule = HOT_TOPIC if bundle.topics == 1 else HOT_BUNDLE
        yield rule.about_bundle(
            bundle.name,
            bundle.owner,
            measured=alone,
            threshold=limit,
            unit="fraction",
            numbers={"alone": alone, "stop": limit, "topics": float(bundle.topics)},
        )


def _of_budgets(plan: PlannerPlan, settings: Settings) -> Iterator[Considered]:
    """Moves for which no cycle has the budget."""
    for group in plan.beyond:
        yield BEYOND_BUDGET.about_bundle(
            group.bundles[0],
            group.source,
            setting=group.key,
            measured=group.needed,
            threshold=float(getattr(settings, group.key)),
            unit="percent" if group.key == MOVED_TRAFFIC else "count",
            numbers={"others": float(len(group.bundles) - 1)},
        )


def _of_namespaces(view: PlannerView, plan: PlannerPlan, figures: PlannerFigures) -> Iterator[Considered]:
    """Namespaces whose bundles are too few to be spread, or far too many; named by their first bundle."""
    resource, brokers = figures.resources[0], len(view.brokers)
    bundles_of: dict[str, list[tuple[str, float]]] = {}
    for bundle in view.bundles:
        load = load_of(bundle.figures, resource, plan.memory.message_bytes)
        bundles_of.setdefault(namespace_of(bundle.name), []).append((bundle.name, load))
    total = math.fsum(load for bundles in bundles_of.values() for _, load in bundles)
    if total <= 0:
        return
    for _, bundles in sorted(bundles_of.items()):
        share = math.fsum(load for _, load in bundles) / total
        numbers = {
            "namespace_bundles": float(len(bundles)),
            "share": share,
            "brokers_filled": float(math.floor(share * brokers)),
            "bundles_wanted": float(math.ceil(FEW_BUNDLES * share * brokers)),
        }
        first = min(name for name, _ in bundles)
        if share * brokers > 1.0 and len(bundles) < min(FEW_BUNDLES * share * brokers, brokers):
            yield FEW.about_bundle(first, None, numbers=numbers)
        elif len(bundles) > MANY_BUNDLES_PER_BROKER * brokers and share < _SMALL:
            yield MANY.about_bundle(first, None, numbers=numbers)
