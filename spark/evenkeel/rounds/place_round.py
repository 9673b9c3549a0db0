"""Destinations for the bundles of one cluster that need one (Pulsar: ModularLoadManagerImpl.selectBroker)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from evenkeel.decisions.considered import considered
from evenkeel.decisions.load import LoadData, Policies
from evenkeel.decisions.placement.choice import PlacementState
from evenkeel.decisions.placement.pipeline import Placement, PlacementRound
from evenkeel.decisions.shedding.order import in_pulsars_order
from evenkeel.handover import ClusterCycle
from evenkeel.rounds import reading, state
from evenkeel.rounds.loads import load_of
from evenkeel.rounds.placement_state import placement_rows, placement_state, remembers
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.reasons import reason_row
from evenkeel.settings import EffectiveSettings, Settings

UNOWNED = "unowned"


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `placement_decisions` (and `strategy_state`): shed bundles in Pulsar's order, ownerless ones by name.

    Shed bundles all see the same candidates, as in Pulsar; a bundle without owner counts for those placed after it.
    A bundle that nobody has owned yet, as far as is known, waits for its first client and is only noted. `state` holds
    the predecessor's rows; what placement remembers of them is moved on, or handed on where nothing was placed.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    load, policies = load_of(rows), reading.policies(rows)
    strategy = settings.loadBalancerLoadPlacementStrategy
    shed, before = _shed(rows, load, policies, settings)
    ownerless, after = _ownerless(rows, load, policies, settings, before)
    placed = [_row(placement, cause, strategy, without) for placement, cause, without in (*shed, *ownerless)]
    noted = [_waiting(row, strategy) for row in rows["bundle_load"] if _never_owned(row)]
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    decided = [{**row, **stamp} for row in (*placed, *noted)]
    kept = [*_assumed(decided, cycle, settings), *({**row, **stamp} for row in placement_rows(after))]
    return {"placement_decisions": decided, "strategy_state": kept}


def _assumed(decided: list[dict[str, Any]], cycle: Row, settings: Settings) -> list[dict[str, Any]]:
    """With evenkeelAssumeUnloadsSucceed, what a dry run would otherwise not remember: the unloads of this cycle."""
    if not settings.evenkeelAssumeUnloadsSucceed:
        return []
    at = datetime.fromisoformat(cycle["cycle_at"])
    gone = [row["subject"] for row in decided if row["cause"] == "shed" and row["outcome"] == "placed"]
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    return [{**state.state_row(state.FRAME, bundle, state.ASSUMED_UNLOADED, at=at), **stamp} for bundle in gone]


_Placed = tuple[Placement, str, Placement]


def _shed(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> tuple[list[_Placed], PlacementState]:
    """Each shed bundle with its placement, and what it would have been without anti-affinity groups."""
    chosen = sorted((row for row in rows["unload_decisions"] if _is_unload(row)), key=_selection)
    proposed = in_pulsars_order((row["subject"], row["broker"]) for row in chosen)
    remembered = placement_state(rows["state"])
    actual = PlacementRound(load, policies, settings, state=remembered)
    found = [actual.place_shed(bundle, owner) for bundle, owner in proposed]
    if not policies.groups:
        return [(placed, "shed", placed) for placed in found], actual.state
    freely = PlacementRound(load, replace(policies, groups={}), settings, state=remembered)
    others = [freely.place_shed(bundle, owner) for bundle, owner in proposed]
    return [(placed, "shed", other) for placed, other in zip(found, others, strict=True)], actual.state


def _ownerless(
    rows: Rows, load: LoadData, policies: Policies, settings: Settings, remembered: PlacementState
) -> tuple[list[_Placed], PlacementState]:
    bundles = [row["bundle"] for row in rows["bundle_load"] if _lost_its_owner(row)]
    actual = PlacementRound(load, policies, settings, state=remembered)
    found = actual.place_ownerless(bundles)
    if not policies.groups:
        return [(placed, "no_owner", placed) for placed in found], actual.state
    freely = PlacementRound(load, replace(policies, groups={}), settings, state=remembered)
    others = freely.place_ownerless(bundles)
    return [(placed, "no_owner", other) for placed, other in zip(found, others, strict=True)], actual.state


def _selection(row: Row) -> tuple[float, str]:
    """A bundle's place among those that its broker sheds."""
    return row["numbers"].get("rank", 0.0), row["subject"]


def _is_unload(row: Row) -> bool:
    return bool(row["subject_kind"] == "bundle" and row["outcome"] == "unload")


def _lost_its_owner(row: Row) -> bool:
    return bool(row["ownership"] == UNOWNED and row["last_owner"] is not None)


def _never_owned(row: Row) -> bool:
    return bool(row["ownership"] == UNOWNED and row["last_owner"] is None)


def _row(placement: Placement, cause: str, strategy: str, without: Placement) -> dict[str, Any]:
    return {
        **reason_row(placement.considered, strategy),
        "cause": cause,
        "destination": placement.destination,
        "best": list(placement.best),
        "candidates": [
            {"broker": c.name, "removed_by": c.rule if c.verdict == "removed" else None, "score": c.measured}
            for c in placement.candidates
        ],
        "without_anti_affinity": without.destination,
        "changed_by_anti_affinity": placement.destination != without.destination,
    }


def _waiting(row: Row, strategy: str) -> dict[str, Any]:
    verdict = considered(row["bundle"], "bundle", None, "skipped", "never_owned")
    nothing = Placement(row["bundle"], None, (), (), verdict)
    return _row(nothing, "no_owner", strategy, nothing)


def keeps_state(cycle: ClusterCycle) -> bool:
    """Whether placing in this cycle leaves anything to remember: assumed unloads, or what a strategy keeps."""
    settings = EffectiveSettings.from_json(cycle.settings or "").settings
    return settings.evenkeelAssumeUnloadsSucceed or remembers(settings)
