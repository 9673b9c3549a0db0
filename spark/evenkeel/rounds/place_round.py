"""Destinations for the bundles of one cluster that need one (Pulsar: ModularLoadManagerImpl.selectBroker)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evenkeel.decisions.load import LoadData, Policies
from evenkeel.decisions.placement.pipeline import Placement, PlacementRound, strategy_in_force
from evenkeel.decisions.shedding.fitting import PLANNED
from evenkeel.handover import ClusterCycle
from evenkeel.rounds import reading
from evenkeel.rounds.loads import load_of
from evenkeel.rounds.placement_rows import (
    assumed_rows,
    is_unload,
    lost_its_owner,
    never_owned,
    placement_row,
    waiting_row,
)
from evenkeel.rounds.reading import Row, Rows
from evenkeel.settings import EffectiveSettings, Settings


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `placement_decisions` (and `strategy_state`): shed bundles, then those without owner, each in name order.

    Shed bundles all see the same candidates, as in Pulsar; a bundle without owner counts for those placed after it.
    A bundle that nobody has owned yet, as far as is known, waits for its first client and is only noted.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    load, policies = load_of(rows), reading.policies(rows)
    strategy = strategy_in_force(settings)
    found = [*_shed(rows, load, policies, settings), *_ownerless(rows, load, policies, settings)]
    placed = [placement_row(placement, cause, strategy, without) for placement, cause, without in found]
    noted = [waiting_row(row, strategy) for row in rows["bundle_load"] if never_owned(row)]
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    decided = [{**row, **stamp} for row in (*placed, *noted)]
    return {"placement_decisions": decided, "strategy_state": assumed_rows(decided, cycle, settings)}


_Placed = tuple[Placement, str, Placement]


def _shed(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> list[_Placed]:
    """Each shed bundle with its placement, and what it would have been without anti-affinity groups."""
    proposed = sorted((row["subject"], row["broker"]) for row in rows["unload_decisions"] if is_unload(row))
    actual = _round(rows, load, policies, settings)
    freely = _round(rows, load, replace(policies, groups={}), settings)
    found = [(actual.place_shed(b, owner), "shed", freely.place_shed(b, owner)) for b, owner in proposed]
    last = {one.bundle: one.considered.broker for one, _, _ in found if one.considered.outcome == "placed"}
    return [(_once(one, last.get(one.bundle)), cause, other) for one, cause, other in found]


def _once(placement: Placement, acted_on: str | None) -> Placement:
    """A bundle that two brokers shed is unloaded once: as Pulsar, which asks twice, leaves it in the end."""
    verdict = placement.considered
    if verdict.outcome != "placed" or verdict.broker == acted_on:
        return placement
    row = replace(verdict, outcome="skipped", rule="reported_by_two_brokers")
    return replace(placement, destination=None, considered=row)


def _ownerless(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> list[_Placed]:
    bundles = [row["bundle"] for row in rows["bundle_load"] if lost_its_owner(row)]
    actual = _round(rows, load, policies, settings).place_ownerless(bundles)
    freely = _round(rows, load, replace(policies, groups={}), settings).place_ownerless(bundles)
    return [(one, "no_owner", other) for one, other in zip(actual, freely, strict=True)]


def _round(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> PlacementRound:
    """A round of placing that knows what the shedder has planned."""
    placing = PlacementRound(load, policies, settings)
    placing.plan(planned_destinations(rows["unload_decisions"]))
    return placing


def planned_destinations(unloads: Sequence[Row]) -> dict[str, str]:
    """Bundle -> broker, in the order in which the shedder chose, also for bundles that a gate then kept."""
    plans = [
        (row["numbers"].get("pair", 0.0), row["numbers"].get("rank", 0.0), row["subject"], other["name"])
        for row in unloads
        if row["subject_kind"] == "bundle"
        for other in row["alternatives"]
        if other["rule"] == PLANNED
    ]
    last = {bundle: (pair, rank, bundle, broker) for pair, rank, bundle, broker in sorted(plans)}
    return {bundle: broker for _, _, bundle, broker in sorted(last.values())}


def assumes_success(cycle: ClusterCycle) -> bool:
    """Whether this cycle's unloads are to be remembered although nothing is sent."""
    return EffectiveSettings.from_json(cycle.settings or "").settings.evenkeelAssumeUnloadsSucceed
