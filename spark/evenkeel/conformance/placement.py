"""Operations about placement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evenkeel.conformance import extensible_placement
from evenkeel.conformance.reading import Json, load_of, policies_of, rounds_of, settings_of
from evenkeel.decisions.bundles import namespace_of
from evenkeel.decisions.placement import candidates, least_long_term_message_rate, round_robin
from evenkeel.decisions.placement.anti_affinity import AntiAffinity
from evenkeel.decisions.placement.isolation import Isolation
from evenkeel.decisions.placement.ownership import Ownership
from evenkeel.decisions.placement.standing import standings
from evenkeel.errors import BadInput, NotImplementedStrategy

NOT_YET = ("LeastResourceUsageWithWeight",)


def select(case: dict[str, Any]) -> dict[str, Any]:
    """`select`"""
    strategy = case["strategy"]
    if case["manager"] == "extensible":
        return extensible_placement.select(case)
    if strategy in NOT_YET:
        raise NotImplementedStrategy(f"{case['manager']} {strategy} is not implemented")
    turn = round_robin.Turn()
    answers: list[dict[str, Any]] = []
    for call in rounds_of(case["calls"], "brokers"):
        wanted = sorted(call.get("candidates") or ())
        if strategy == "LeastLongTermMessageRate":
            settings = settings_of(case.get("config"), call.get("config"))
            standing = standings(load_of(call.get("brokers"), None), settings)
            best = list(least_long_term_message_rate.select(wanted, standing, settings).brokers)
        elif strategy == "RoundRobinBrokerSelector":
            taken, turn = round_robin.select(wanted, turn)
            best = [taken] if taken else []
        else:
            raise BadInput(f"unknown placement strategy {strategy!r}")
        answers.append({"best": best})
    return {"calls": answers}


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
        "hasGroup": modular.has_group(namespace),
        "modularCounts": modular.counts(namespace),
        "extensibleCounts": extensible.counts(namespace),
    }
    if "currentBroker" in case:
        answer["shouldUnload"] = modular.should_unload(namespace, case["currentBroker"], case["candidates"])
    return answer


def candidate_filters(case: dict[str, Any]) -> dict[str, Any]:
    """`candidates`: each filter on what the one before left; even distribution always runs here."""
    settings, bundle = settings_of(case.get("config")), case["bundle"]
    flagged = frozenset([bundle]) if case.get("nonPersistent") else frozenset()
    policies = replace(policies_of(case), non_persistent_bundles=flagged)
    load = load_of(case["brokers"], None)
    ownership = Ownership(case.get("ownership") or {})
    around = candidates.Surroundings(
        brokers=load.brokers,
        isolation=Isolation(policies, load.brokers, settings),
        anti_affinity=AntiAffinity(policies, ownership, settings),
        ownership=ownership,
        standing=standings(load, settings),
        settings=settings,
    )
    isolation = around.isolation.allowed(bundle).brokers
    topics = candidates.few_topics(bundle, isolation, around).brokers
    group = candidates.least_of_group(bundle, topics, around).brokers
    even = candidates.fewest_bundles(bundle, group, around).brokers
    return {
        "isolation": list(isolation),
        "topicCount": list(topics),
        "antiAffinity": list(group),
        "even": list(even),
    }


def one_owner_each(owned: Json) -> dict[str, list[str]]:
    """Each bundle with its last owner by name: the extensible manager knows one owner only."""
    owner = {bundle: broker for broker, bundles in sorted(owned.items()) for bundle in bundles}
    found: dict[str, list[str]] = {}
    for bundle, broker in owner.items():
        found.setdefault(broker, []).append(bundle)
    return found


OPERATIONS = {"select": select, "anti_affinity": anti_affinity, "candidates": candidate_filters}
