"""Operations of the extensible load manager."""

from __future__ import annotations

from typing import Any

from devtools.conformance.extensible_placement import NOW, loads_of
from devtools.conformance.placement import one_owner_each
from devtools.conformance.reading import Json, policies_of, rounds_of, settings_of, stats_of
from evenkeel.cycle.top_lists import top_bundles
from evenkeel.model.filters.broker_filters import BrokerFilters
from evenkeel.model.filters.isolation import PoliciesPresent
from evenkeel.model.load import BrokerReport, ExtensibleLoad, TopBundle
from evenkeel.settings import Settings, simple_class_name
from evenkeel.shed.strategies.transfer_shedder import Transfers, TransferState, find_bundles_for_unloading
from evenkeel.shed.strategies.transfer_shedder.gates import TransferPolicies


def transfer_shed(case: dict[str, Any]) -> dict[str, Any]:
    """`transfer_shed`; every round tells again which brokers and bundles were unloaded lately."""
    hits = 0
    rounds = []
    for given in rounds_of(case["rounds"], "brokers", "topBundles"):
        settings = settings_of(case.get("config"), given.get("config"))
        load = _load_of(given, settings)
        policies = policies_of(case)
        filters = BrokerFilters(load, policies, one_owner_each(case.get("ownership") or {}), settings)
        unloaded = {broker: NOW - int(ago) for broker, ago in (given.get("recentlyUnloadedBrokers") or {}).items()}
        found = find_bundles_for_unloading(
            load,
            TransferState(hits, unloaded),
            TransferPolicies(filters, PoliciesPresent(policies), settings),
            settings,
            now=NOW,
        )
        hits = found.state.hits
        rounds.append(_answer(found))
    return {"rounds": rounds}


def topk(case: dict[str, Any]) -> dict[str, Any]:
    """`topk`"""
    stats = {bundle: stats_of(body) for bundle, body in (case.get("stats") or {}).items()}
    found = top_bundles(stats, case["k"], PoliciesPresent(policies_of(case)), settings_of(case.get("config")))
    return {"top": [one.bundle for one in found]}


def _answer(found: Transfers) -> dict[str, Any]:
    state: dict[str, Any] = {"hits": found.state.hits}
    if found.mean is not None:
        state |= {"avg": found.mean, "std": found.std}
    return {
        "unload": {
            one.bundle: {"from": one.source, "to": one.destination, "reason": one.reason} for one in found.transfers
        },
        "notes": list(found.notes),
        "recentlyUnloadedBrokers": sorted(found.state.recently_unloaded),
        "state": state,
    }


def _load_of(given: Json, settings: Settings) -> ExtensibleLoad:
    brokers = given.get("brokers") or {}
    return ExtensibleLoad(
        brokers={name: _registered(name, body, settings) for name, body in brokers.items() if not body.get("gone")},
        loads=loads_of(brokers),
        top_bundles={
            name: tuple(TopBundle(one["bundleName"], stats_of(one["stats"])) for one in listed)
            for name, listed in (given.get("topBundles") or {}).items()
        },
        not_owned=frozenset(given.get("notOwned") or ()),
        recently_unloaded=dict.fromkeys(given.get("recentlyUnloadedBundles") or (), 0),
    )


def _registered(name: str, body: Json, settings: Settings) -> BrokerReport:
    return BrokerReport(
        broker=name,
        version=body.get("brokerVersion", "4.2.4"),
        load_manager=simple_class_name(body.get("loadManagerClassName", settings.loadManagerClassName)),
        persistent_topics=body.get("persistentTopicsEnabled", True),
        non_persistent_topics=body.get("nonPersistentTopicsEnabled", True),
    )


OPERATIONS = {"transfer_shed": transfer_shed, "topk": topk}
