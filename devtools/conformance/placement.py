"""Operations about placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from devtools.conformance import extensible_placement
from devtools.conformance.reading import Json, load_of, policies_of, rounds_of, settings_of
from evenkeel.errors import BadInput
from evenkeel.model.bundles import namespace_of
from evenkeel.model.filters.anti_affinity import AntiAffinity
from evenkeel.model.load import Ownership
from evenkeel.place import modular_placement as candidates
from evenkeel.place.strategies import least_long_term_message_rate
from evenkeel.place.strategies import least_resource_usage_with_weight as least_usage
from evenkeel.place.strategies import round_robin_broker_selector as round_robin
from evenkeel.place.strategy import BrokerFigures, PlacementState, broker_figures
from evenkeel.settings import Settings

Answered = tuple[dict[str, Any], PlacementState]


def select(case: dict[str, Any]) -> dict[str, Any]:
    """`select`"""
    if case["manager"] == "extensible":
        return extensible_placement.select(case)
    if case["strategy"] not in MODULAR:
        raise BadInput(f"unknown placement strategy {case['strategy']!r}")
    state: PlacementState = {}
    answers: list[dict[str, Any]] = []
    for call in rounds_of(case["calls"], "brokers"):
        settings = settings_of(case.get("config"), call.get("config"))
        if "activeBrokers" in call:
            state = least_usage.without_gone(state, call["activeBrokers"])
        figures = broker_figures(load_of(call.get("brokers"), None), settings)
        wanted = sorted(call.get("candidates") or ())
        answer, state = MODULAR[case["strategy"]](wanted, figures, state, settings)
        answers.append(answer)
    return {"calls": answers}


def _least_rate(
    wanted: list[str], figures: Mapping[str, BrokerFigures], state: PlacementState, settings: Settings
) -> Answered:
    return {"best": list(least_long_term_message_rate.select(wanted, figures, settings).brokers)}, state


def _least_usage(
    wanted: list[str], figures: Mapping[str, BrokerFigures], state: PlacementState, settings: Settings
) -> Answered:
    best = least_usage.select(wanted, figures, state, settings)
    after = best.after(state)
    return {"best": list(best.brokers), "state": {"usage": dict(after[least_usage.USAGE_AVERAGE])}}, after


def _in_turns(
    wanted: list[str], figures: Mapping[str, BrokerFigures], state: PlacementState, settings: Settings
) -> Answered:
    taken, turn = round_robin.select(wanted, round_robin.turn_of(state))
    return {"best": [taken] if taken else []}, round_robin.state_of(turn)


MODULAR: Mapping[str, Callable[..., Answered]] = {
    "LeastLongTermMessageRate": _least_rate,
    "LeastResourceUsageWithWeight": _least_usage,
    "RoundRobinBrokerSelector": _in_turns,
}


def anti_affinity(case: dict[str, Any]) -> dict[str, Any]:
    """`anti_affinity`; the extensible manager knows one owner per bundle, the last by name where two are given."""
    settings, policies = settings_of(case.get("config")), policies_of(case)
    namespace = namespace_of(case["bundle"])
    owned = case.get("ownership") or {}
    modular = AntiAffinity(policies, Ownership(owned), settings)
    extensible = AntiAffinity(policies, Ownership(one_owner_each(owned)), settings, counts_bundles=True)
    answer = {
        "modular": list(modular.keep_least(namespace, case["candidates"]).brokers),
        "extensible": list(extensible.keep_least(namespace, case["candidates"]).brokers),
        "hasGroup": modular.group_of(namespace) is not None,
        "modularCounts": modular.counts(namespace),
        "extensibleCounts": extensible.counts(namespace),
    }
    if "currentBroker" in case:
        answer["shouldUnload"] = modular.should_unload(namespace, case["currentBroker"], case["candidates"])
    return answer


def candidate_filters(case: dict[str, Any]) -> dict[str, Any]:
    """Run `candidates`: each filter on the brokers that the previous one left; even distribution always runs."""
    settings, bundle = settings_of(case.get("config")), case["bundle"]
    flagged = frozenset([bundle]) if case.get("nonPersistent") else frozenset()
    policies = replace(policies_of(case), non_persistent_bundles=flagged)
    ownership = Ownership(case.get("ownership") or {})
    view = candidates.PlacementView.of(load_of(case["brokers"], None), policies, ownership, settings)
    isolation = view.isolation.allowed(bundle).brokers
    topics = candidates.few_topics(bundle, isolation, view).brokers
    group = candidates.least_of_group(bundle, topics, view).brokers
    even = candidates.fewest_bundles(bundle, group, view).brokers
    return {
        "isolation": list(isolation),
        "topicCount": list(topics),
        "antiAffinity": list(group),
        "even": list(even),
    }


def one_owner_each(owned: Json) -> dict[str, list[str]]:
    """Each bundle with its last owner by name: the extensible manager knows one owner only."""
    owner = {bundle: broker for broker, bundles in sorted(owned.items()) for bundle in bundles}
    owners: dict[str, list[str]] = {}
    for bundle, broker in owner.items():
        owners.setdefault(broker, []).append(bundle)
    return owners


OPERATIONS = {"select": select, "anti_affinity": anti_affinity, "candidates": candidate_filters}
