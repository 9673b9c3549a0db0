"""Destinations for the bundles of one cluster that need one (Pulsar: ExtensibleLoadManagerImpl.selectAsync)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evenkeel.decisions.considered import Alternative, considered
from evenkeel.decisions.load import Policies
from evenkeel.decisions.placement.extensible.pipeline import ExtensiblePlacementRound
from evenkeel.decisions.placement.pipeline import Placement
from evenkeel.rounds import reading
from evenkeel.rounds.extensible_loads import SHEDDER, Seen, remembered, see
from evenkeel.rounds.placement_rows import (
    assumed_rows,
    is_unload,
    lost_its_owner,
    never_owned,
    placement_row,
    waiting_row,
)
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.wished_places import Place, is_wished, wished_rows
from evenkeel.settings import Settings

STRATEGY = "LeastResourceUsageWithWeight"


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `placement_decisions` (and `strategy_state`): transferred bundles, freed ones, then those without owner.

    `state` holds the rows that this cycle's shedding left, or the predecessor's. A transferred bundle goes where the
    shedder said; a freed one (transfers off) is placed as if it were looked up at once. Brokers that cannot be decided
    on are no candidates.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    shed = {
        row["subject"]: row
        for row in sorted(rows["unload_decisions"], key=_subject)
        if is_unload(row) and not is_wished(row)
    }
    gone = {bundle: _destination(row) for bundle, row in shed.items()}
    lost = [row["bundle"] for row in rows["bundle_load"] if lost_its_owner(row)]
    leaving = {bundle: str(shed[bundle]["broker"]) for bundle, destination in gone.items() if destination is None}
    seen, policies = see(rows, remembered(rows.get("state", ())), settings), reading.policies(rows)
    actual = _place(seen, policies, gone, leaving, lost, settings)
    freely = _place(seen, replace(policies, groups={}), gone, leaving, lost, settings)
    placed = [
        placement_row(one, "shed", SHEDDER, one) for one in (_transferred(shed[b], to) for b, to in gone.items() if to)
    ]
    placed += [
        placement_row(one, "shed" if one.bundle in leaving else "no_owner", STRATEGY, other)
        for one, other in zip(actual, freely, strict=True)
    ]
    placed += _wished(rows, seen, policies, gone, settings)
    noted = [waiting_row(row, STRATEGY) for row in rows["bundle_load"] if never_owned(row)]
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    decided = [{**row, **stamp} for row in (*placed, *noted)]
    return {"placement_decisions": decided, "strategy_state": assumed_rows(decided, cycle, settings)}


def _wished(
    rows: Rows, seen: Seen, policies: Policies, gone: Mapping[str, str | None], settings: Settings
) -> list[dict[str, Any]]:
    """Bundles that a wish unloads: each is placed as if it alone left."""
    if not any(is_wished(row) for row in rows["unload_decisions"]):
        return []

    def rule(by: Policies) -> Place:
        return lambda bundle, broker: _around(seen, by, gone, settings).assign(bundle, broker)

    return wished_rows(rows, rule(policies), rule(replace(policies, groups={})))


def _place(
    seen: Seen,
    policies: Policies,
    gone: Mapping[str, str | None],
    leaving: Mapping[str, str],
    lost: list[str],
    settings: Settings,
) -> list[Placement]:
    """Freed bundles, then lost ones, each in name order and each counting for those after it."""
    around = _around(seen, policies, gone, settings)
    freed = [_unless_back(around.assign(bundle, owner), owner) for bundle, owner in sorted(leaving.items())]
    return [*freed, *around.place(lost)]


def _around(
    seen: Seen, policies: Policies, gone: Mapping[str, str | None], settings: Settings
) -> ExtensiblePlacementRound:
    """A round of placing among the brokers that can be decided on, with the transfers done."""
    load = replace(seen.load, brokers={b: seen.load.brokers[b] for b in seen.load.loads if b in seen.load.brokers})
    return ExtensiblePlacementRound(load, policies, _owners_after(seen.owners, gone), settings)


def _owners_after(owners: Mapping[str, tuple[str, ...]], gone: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Broker -> its bundles once those that leave have left and the transferred ones have arrived."""
    after = {broker: [bundle for bundle in bundles if bundle not in gone] for broker, bundles in owners.items()}
    for bundle, destination in gone.items():
        if destination is not None:
            after.setdefault(destination, []).append(bundle)
    return after


def _transferred(row: Row, destination: str) -> Placement:
    alternatives = (Alternative(destination, "best", "transferred"),)
    verdict = considered(row["subject"], "bundle", row["broker"], "placed", "transferred", alternatives=alternatives)
    return Placement(row["subject"], destination, (destination,), alternatives, verdict)


def _unless_back(placement: Placement, owner: str) -> Placement:
    """A freed bundle that would come back to its broker need not leave it."""
    if placement.destination != owner:
        return placement
    return replace(placement, considered=replace(placement.considered, outcome="kept", rule="already_best"))


def _destination(row: Row) -> str | None:
    return next((str(one["name"]) for one in row["alternatives"] if one["verdict"] == "best"), None)


def _subject(row: Row) -> str:
    return str(row["subject"])
