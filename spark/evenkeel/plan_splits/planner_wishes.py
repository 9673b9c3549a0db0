"""The splits that Evenkeel's own planner wanted in the cycle before, from rows to verdicts; none unless it decides. And
whether it decides where the children of any split go."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from evenkeel.cycle import reading
from evenkeel.cycle.memo import once
from evenkeel.cycle.reading import Row, Rows
from evenkeel.manual_requests.drain import drained
from evenkeel.manual_requests.round import granted_unloads, unloaded_by
from evenkeel.model.bundles import namespace_of
from evenkeel.model.past_commands import Act, unsettled_bundles
from evenkeel.model.split_algorithms import SPECIFIED
from evenkeel.model.split_algorithms.split_option import BundleTopics, Cut, PlannedSplit, cut_numbers
from evenkeel.plan_splits.rules.bundle_splitter_task import FEWEST_TOPICS
from evenkeel.plan_splits.rules.planner_splits import HEAVY, Answer, PlannerSplitView, decide_planner_splits
from evenkeel.planner.memory import WantedSplit
from evenkeel.planner.round import ON, has_fallen_back, wanted_splits_of
from evenkeel.planner.view import BundleFigures
from evenkeel.planner.view_from_rows import bundle_figures
from evenkeel.planner.wanted_splits import is_splittable, open_wishes
from evenkeel.settings import Settings

_NOTHING_DONE = frozenset({"withheld", "dry_run", "stale"})
"""Outcomes of commands that never reached a broker: they may be asked again at once."""


def looks_at_topics(settings: Settings) -> bool:
    """Return True if the planner's requests are decided, which needs the topics of their bundles."""
    return settings.evenkeelPlanner == ON


def places_children(rows: Rows) -> bool:
    """Return True if the planner decides where the children of a split go: it is on, may shed, and is trusted."""
    settings = reading.settings_of(rows)
    decides = settings.evenkeelPlanner == ON and settings.evenkeelSheddingEnabled
    return decides and not has_fallen_back(rows.get("state", ()))


def answers(
    rows: Rows, topics: Mapping[str, BundleTopics], triggered: Iterable[PlannedSplit], requested: Iterable[PlannedSplit]
) -> list[Answer]:
    """Return the verdict on each request, after this cycle's splits by Pulsar's own rule and by manual requests."""
    wanted, message_bytes = _wanted(rows)
    if not wanted:
        return []
    view = _view(rows, topics, message_bytes, wanted, [*triggered], [*requested])
    return decide_planner_splits(wanted, view, reading.settings_of(rows))


def cut_for_planner(
    rows: Rows,
    topics: Mapping[str, BundleTopics],
    triggered: Mapping[str, PlannedSplit],
    requested: Iterable[PlannedSplit],
) -> dict[str, PlannedSplit]:
    """Cut bundles that Pulsar's rule and the planner both split where parts can be placed; others are left out."""
    every, message_bytes = _wanted(rows)
    wanted = {bundle: wish for bundle, wish in every.items() if bundle in triggered}
    if not wanted:
        return {}
    others = [split for bundle, split in triggered.items() if bundle not in wanted]
    view = _view(rows, topics, message_bytes, wanted, others, [*requested])
    cuts = {}
    for verdict, split in decide_planner_splits(wanted, view, reading.settings_of(rows)):
        if split is not None and split.algorithm == SPECIFIED:
            trigger = triggered[split.bundle]
            numbers = {**verdict.numbers, **trigger.reason.numbers, **cut_numbers(Cut(split.cuts, ""))}
            reason = trigger.reason._replace(numbers=numbers)
            cuts[split.bundle] = replace(split, unload=trigger.unload, reason=reason)
    return cuts


def bundles_to_look_into(rows: Rows) -> dict[str, str | None]:
    """Return the bundles whose topics the requests need, with their owners."""
    wanted, _ = _wanted(rows)
    return {bundle: owner for bundle, owner in _heavy(rows).items() if bundle in wanted} if wanted else {}


def bundles_of_any_wish(rows: Rows) -> dict[str, str | None]:
    """Return all bundles that a request may look into, with their owners, whatever is remembered."""
    if not looks_at_topics(reading.settings_of(rows)):
        return {}
    return {bundle: owner for bundle, owner in _heavy(rows).items() if is_splittable(namespace_of(bundle))}


def _wanted(rows: Rows) -> tuple[dict[str, WantedSplit], float]:
    if not looks_at_topics(reading.settings_of(rows)):
        return {}, 0.0
    splits, message_bytes = wanted_splits_of(rows.get("state", ()))
    return open_wishes(splits), message_bytes


@once
def _heavy(rows: Rows) -> dict[str, str]:
    """The bundles with a fair part of their broker's traffic or messages, and topics to part, with their owners."""
    bundles_of: dict[str, list[tuple[Row, BundleFigures]]] = {}
    for row in rows["bundle_load"]:
        if row["owner"] is not None:
            bundles_of.setdefault(row["owner"], []).append((row, bundle_figures(row)))
    heavy = {}
    for owner, bundles in bundles_of.items():
        traffic = HEAVY * math.fsum(figures.traffic for _, figures in bundles)
        messages = HEAVY * math.fsum(figures.messages for _, figures in bundles)
        for row, figures in bundles:
            is_heavy = 0 < figures.traffic >= traffic or 0 < figures.messages >= messages
            if is_heavy and (row["topics"] or 0) >= FEWEST_TOPICS:
                heavy[row["bundle"]] = owner
    return heavy


def _view(
    rows: Rows,
    topics: Mapping[str, BundleTopics],
    message_bytes: float,
    wanted: Collection[str],
    triggered: list[PlannedSplit],
    requested: list[PlannedSplit],
) -> PlannerSplitView:
    cycle, settings = reading.the_cycle(rows), reading.settings_of(rows)
    at, acts = datetime.fromisoformat(cycle["cycle_at"]), reading.acts_before(cycle)
    known = {row["bundle"]: row for row in rows["bundle_load"] if row["bundle"] in wanted}
    clear = {b: row["owner"] for b, row in known.items() if row["owner"] and row["ownership"] not in reading.UNCLEAR}
    window = timedelta(minutes=settings.evenkeelPlannerReturnWindowMinutes)
    lately = [act for act in acts if at - window < act.cycle_at < at and act.outcome not in _NOTHING_DONE]
    before_shedding: dict[str, Any] = {**rows, "split_decisions": ()}
    asked = unloaded_by(granted_unloads(before_shedding))
    return PlannerSplitView(
        boundaries=reading.boundaries(rows),
        figures={bundle: bundle_figures(row) for bundle, row in known.items()},
        owners=clear,
        topics=topics,
        message_bytes=message_bytes,
        heavy=_heavy(rows).keys(),
        requested={
            *(asked | drained(before_shedding, settings, asked).leaving),
            *(split.bundle for split in requested),
        },
        triggered={split.bundle for split in triggered},
        unsettled=unsettled_bundles(acts, at, settings).keys(),
        moved=set(_of_kind(lately, "unload")),
        split=set(_of_kind(lately, "split")),
        splits=len(triggered) + len(requested),
        added=_added([*triggered, *requested]),
        is_extensible=cycle["manager"] == reading.EXTENSIBLE,
        brokers=len(rows["broker_load"]),
    )


def _of_kind(acts: Iterable[Act], kind: str) -> Iterator[str]:
    return (act.bundle for act in acts if act.kind == kind)


def _added(splits: Iterable[PlannedSplit]) -> Counter[str]:
    added: Counter[str] = Counter()
    for split in splits:
        added[namespace_of(split.bundle)] += len(split.cuts)
    return added
