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
from evenkeel.shed.strategies.transfer_shedder.conditions import TransferPolicies


def transfer_shed(case: dict[str, Any]) -> dict[str, Any]:
    """Run `transfer_shed`; every round gets the recently unloaded brokers and bundles."""
    hits = 0
    rounds = []
    for given in rounds_of(case["rounds"], "brokers", "topBundles"):
        settings = settings_of(case.get("config"), given.get("config"))
        load = _load_of(given, settings)
        policies = policies_of(case)
        filters = BrokerFilters(load, policies, one_owner_each(case.get("ownership") or {}), settings)
        unloaded = {broker: NOW - int(ago) for broker, ago in (given.get("recentlyUnloadedBrokers") or {}).items()}
        transfers = find_bundles_for_unloading(
            load,
            TransferState(hits, unloaded),
            TransferPolicies(filters, PoliciesPresent(policies), settings),
            settings,
            now=NOW,
        )
        hits = transfers.state.hits
        rounds.append(_answer(transfers))
    return {"rounds": rounds}


def topk(case: dict[str, Any]) -> dict[str, Any]:
    """`topk`"""
    stats = {bundle: stats_of(body) for bundle, body in (case.get("stats") or {}).items()}
    bundles = top_bundles(stats, case["k"], PoliciesPresent(policies_of(case)), settings_of(case.get("config")))
    return {"top": [top_bundle.bundle for top_bundle in bundles]}


def _answer(transfers: Transfers) -> dict[str, Any]:
    state: dict[str, Any] = {"hits": transfers.state.hits}
    if transfers.mean is not None:
        state |= {"avg": transfers.mean, "std": transfers.std}
    return {
        "unload": {
            transfer.bundle: {"from": transfer.source, "to": transfer.destination, "reason": transfer.reason}
            for transfer in transfers.transfers
        },
        "notes": list(transfers.notes),
        "recentlyUnloadedBrokers": sorted(transfers.state.recently_unloaded),
        "state": state,
    }


def _load_of(given: Json, settings: Settings) -> ExtensibleLoad:
    brokers = given.get("brokers") or {}
    return ExtensibleLoad(
        brokers={name: _registered(name, body, settings) for name, body in brokers.items() if not body.get("gone")},
        loads=loads_of(brokers),
        top_bundles={
            name: tuple(TopBundle(bundle["bundleName"], stats_of(bundle["stats"])) for bundle in listed)
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
