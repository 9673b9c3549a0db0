"""The leader's whole round: sample, split check, shedding with placement, look-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from devtools.conformance.reading import Json, load_of, policies_of, rounds_of, settings_of
from evenkeel.model.averages import broker_averages, default_history, update_histories
from evenkeel.model.bundles import parse_boundaries
from evenkeel.model.filters.broker_filters import unload_gates
from evenkeel.model.load import BrokerReport, BundleHistory, LoadData, Policies
from evenkeel.place.modular_placement import PlacementRound, hash_order, in_pulsars_order
from evenkeel.place.strategy import PlacementState
from evenkeel.plan_splits.rules.apply_splits import refusal, unloads_children
from evenkeel.plan_splits.rules.bundle_splitter_task import SplitPlan, decide_splits
from evenkeel.settings import Settings
from evenkeel.shed.schedule import run_shedding
from evenkeel.shed.shedder import ModularShedder, ShedderState
from evenkeel.shed.strategies import avg_shedder, shedder_named

NOW = 1_000_000_000_000


@dataclass(slots=True)
class _Leader:
    """The leader's state from round to round."""

    settings: Settings
    policies: Policies
    boundaries: Mapping[str, tuple[int, ...]]
    histories: dict[str, BundleHistory] = field(default_factory=dict)
    unloaded: dict[str, int] = field(default_factory=dict)
    state: ShedderState = field(default_factory=dict)
    most_brokers: int = 0
    placed: PlacementState = field(default_factory=dict)
    now: int = NOW


def cycle(case: dict[str, Any]) -> dict[str, Any]:
    """`cycle`"""
    config = {
        **(case.get("config") or {}),
        "loadBalancerLoadSheddingStrategy": case["shedder"],
        "loadBalancerLoadPlacementStrategy": case["placement"],
    }
    boundaries = {namespace: parse_boundaries(texts) for namespace, texts in (case.get("boundaries") or {}).items()}
    leader = _Leader(settings_of(config), policies_of(case), boundaries)
    return {"rounds": [_round(leader, given) for given in rounds_of(case["rounds"], "brokers")]}


def _round(leader: _Leader, given: Json) -> dict[str, Any]:
    leader.now += given.get("minutes", 0) * 60_000 + 1
    reports = {name: _with_totals(report) for name, report in load_of(given["brokers"], None).brokers.items()}
    if given.get("sample", True):
        leader.histories = update_histories(leader.histories, reports)
    load = LoadData(
        brokers=reports,
        histories=leader.histories,
        recently_unloaded=leader.unloaded,
        averages={name: broker_averages(report.stats, leader.histories) for name, report in reports.items()},
    )
    answer: dict[str, Any] = {}
    if given.get("split", True):
        answer["split"] = _split(leader, load)
        load = replace(load, histories=leader.histories)
    placing = PlacementRound(load, leader.policies, leader.settings, state=leader.placed)
    if given.get("shed", True):
        answer["unload"] = _shed(leader, load, placing)
    if "place" in given:
        answer["place"] = {bundle: placing.assign(bundle).destination for bundle in given["place"]}
        for bundle in given["place"]:
            leader.histories.setdefault(bundle, default_history())
    leader.placed = placing.state
    return {
        **answer,
        "recentlyUnloaded": sorted(leader.unloaded),
        "state": {
            "longTermMsgRate": {name: averages.long_term_rate for name, averages in load.averages.items()},
            "bundles": len(leader.histories),
        },
    }


def _split(leader: _Leader, load: LoadData) -> dict[str, bool]:
    counts = {namespace: len(boundaries) - 1 for namespace, boundaries in leader.boundaries.items()}
    plan = decide_splits(load.brokers, load.histories, counts, leader.settings)
    gates = unload_gates(load, leader.policies, leader.settings)
    leader.histories = histories_after_splits(leader.histories, plan, leader.boundaries)
    return {
        bundle: unloads_children(bundle, broker, gates, leader.settings)
        for bundle, broker in plan.splits.items()
        if refusal(bundle, leader.boundaries) is None
    }


def histories_after_splits(
    histories: Mapping[str, BundleHistory], plan: SplitPlan, boundaries: Mapping[str, Sequence[int]]
) -> dict[str, BundleHistory]:
    """The histories that remain once those of the bundles to be split are forgotten (Pulsar 4.x).

    Shedding in the same cycle looks at these, so that no bundle is split and unloaded at once. Evenkeel forgets them by
    rows (`cycle.loads.forgets_history`).
    """
    gone = {bundle for bundle in plan.splits if refusal(bundle, boundaries) is None}
    return {bundle: history for bundle, history in histories.items() if bundle not in gone}


def _shed(leader: _Leader, load: LoadData, placing: PlacementRound) -> dict[str, str]:
    leader.most_brokers = max(leader.most_brokers, len(load.brokers))
    done = run_shedding(
        load,
        leader.state,
        unload_gates(load, leader.policies, leader.settings),
        leader.settings,
        now=leader.now,
        last_shed_at=None,
        shedder=_shedder(leader),
    )
    leader.state, leader.unloaded = done.state, dict(done.recently_unloaded)
    placing.plan(done.destinations)
    unloaded = {}
    for bundle, broker in in_pulsars_order(done.unloads):
        destination = placing.place_shed(bundle, broker).destination
        if destination is not None and destination != broker:
            unloaded[bundle] = destination
            leader.unloaded[bundle] = leader.now
    return unloaded


def _shedder(leader: _Leader) -> ModularShedder:
    """Return the shedder of the settings; for AvgShedder with ties broken as in the origin of the answers.

    Evenkeel breaks ties by name, and the cases do so too, but this AvgShedder sorts its scores out of a HashMap.
    """
    if leader.settings.loadBalancerLoadSheddingStrategy == "AvgShedder":
        return replace(
            avg_shedder.SHEDDER, shed=partial(avg_shedder.shed, ties=partial(hash_order, most=leader.most_brokers))
        )
    return shedder_named(leader.settings.loadBalancerLoadSheddingStrategy)


def _with_totals(report: BrokerReport) -> BrokerReport:
    """The report as the broker itself computes it: sums over its bundles' stats."""
    stats = [report.stats[bundle] for bundle in sorted(report.stats)]
    return replace(
        report,
        msg_rate_in=sum(s.msg_rate_in for s in stats),
        msg_rate_out=sum(s.msg_rate_out for s in stats),
        msg_throughput_in=sum(s.msg_throughput_in for s in stats),
        msg_throughput_out=sum(s.msg_throughput_out for s in stats),
        topics=sum(s.topics for s in stats),
        bundles=frozenset(report.stats),
    )


OPERATIONS = {"cycle": cycle}
