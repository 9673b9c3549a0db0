"""Destinations for the bundles of one cluster that need one (Pulsar: ModularLoadManagerImpl.selectBroker)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evenkeel.decisions.considered import PLANNED
from evenkeel.decisions.load import LoadData, Policies
from evenkeel.decisions.placement.choice import PlacementState
from evenkeel.decisions.placement.pipeline import Placement, PlacementRound, strategy_in_force
from evenkeel.decisions.shedding.order import in_pulsars_order
from evenkeel.rounds import reading
from evenkeel.rounds.loads import load_of, owned_of
from evenkeel.rounds.placement_rows import (
    assumed_rows,
    is_unload,
    lost_bundles,
    placement_row,
    waiting_rows,
)
from evenkeel.rounds.placement_state import placement_rows, placement_state, remembers
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.wished_places import is_wished, wished_rows
from evenkeel.settings import Settings


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `placement_decisions` (and `strategy_state`): shed bundles in Pulsar's order, others by name.

    Shed bundles all see the same candidates, as in Pulsar; a bundle without owner counts for those placed after it.
    A bundle that nobody has owned yet, as far as is known, waits for its first client and is only noted. `state` holds
    the predecessor's rows; what placement remembers of them is moved on, or handed on where nothing was placed.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    load, policies = load_of(rows), reading.policies(rows)
    strategy = strategy_in_force(settings)
    shed, before = _shed(rows, load, policies, settings)
    ownerless, after = _ownerless(rows, load, policies, settings, before)
    placed = [placement_row(placement, cause, strategy, without) for placement, cause, without in (*shed, *ownerless)]
    noted = waiting_rows(rows, strategy)
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    wished = _wished(rows, load, policies, settings)
    decided = [{**row, **stamp} for row in (*placed, *wished, *noted)]
    kept = [*assumed_rows(decided, cycle, settings), *({**row, **stamp} for row in placement_rows(after))]
    return {"placement_decisions": decided, "strategy_state": kept}


_Placed = tuple[Placement, str, Placement]


def _shed(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> tuple[list[_Placed], PlacementState]:
    """Each shed bundle with its placement, and what it would have been without anti-affinity groups."""
    chosen = sorted((row for row in rows["unload_decisions"] if is_unload(row) and not is_wished(row)), key=_selection)
    proposed = in_pulsars_order((row["subject"], row["broker"]) for row in chosen)
    remembered = placement_state(rows["state"])
    actual = _round(rows, load, policies, settings, remembered)
    found = [actual.place_shed(bundle, owner) for bundle, owner in proposed]
    last = {one.bundle: one.considered.broker for one in found if one.considered.outcome == "placed"}
    found = [_once(one, last.get(one.bundle)) for one in found]
    if not policies.groups:
        return [(placed, "shed", placed) for placed in found], actual.state
    freely = _round(rows, load, replace(policies, groups={}), settings, remembered)
    others = [freely.place_shed(bundle, owner) for bundle, owner in proposed]
    return [(placed, "shed", other) for placed, other in zip(found, others, strict=True)], actual.state


def _once(placement: Placement, acted_on: str | None) -> Placement:
    """A bundle that two brokers shed is unloaded once: as Pulsar, which asks twice, leaves it in the end."""
    verdict = placement.considered
    if verdict.outcome != "placed" or verdict.broker == acted_on:
        return placement
    row = verdict._replace(outcome="skipped", rule="reported_by_two_brokers")
    return replace(placement, destination=None, considered=row)


def _ownerless(
    rows: Rows, load: LoadData, policies: Policies, settings: Settings, remembered: PlacementState
) -> tuple[list[_Placed], PlacementState]:
    bundles = lost_bundles(rows)
    actual = _round(rows, load, policies, settings, remembered)
    found = actual.place_ownerless(bundles)
    if not policies.groups:
        return [(placed, "no_owner", placed) for placed in found], actual.state
    freely = _round(rows, load, replace(policies, groups={}), settings, remembered)
    others = freely.place_ownerless(bundles)
    return [(placed, "no_owner", other) for placed, other in zip(found, others, strict=True)], actual.state


def _wished(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> list[dict[str, Any]]:
    if not any(is_wished(row) for row in rows["unload_decisions"]):
        return []
    remembered = placement_state(rows["state"])
    actual = _round(rows, load, policies, settings, remembered)
    freely = _round(rows, load, replace(policies, groups={}), settings, remembered)
    return wished_rows(rows, actual.place_shed, freely.place_shed)


def _round(
    rows: Rows, load: LoadData, policies: Policies, settings: Settings, remembered: PlacementState
) -> PlacementRound:
    """A round of placing that knows what the shedder has planned."""
    placing = PlacementRound(load, policies, settings, state=remembered, owned=owned_of(rows, load))
    placing.plan(planned_destinations(rows["unload_decisions"]))
    return placing


def _selection(row: Row) -> tuple[float, str]:
    """A bundle's place among those that its broker sheds."""
    return row["numbers"].get("rank", 0.0), row["subject"]


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


def keeps_state(settings: Settings) -> bool:
    """Whether placing with these settings leaves anything to remember: assumed unloads, or what a strategy keeps."""
    return settings.evenkeelAssumeUnloadsSucceed or remembers(settings)
