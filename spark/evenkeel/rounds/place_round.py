"""Destinations for the bundles of one cluster that need one (Pulsar: ModularLoadManagerImpl.selectBroker)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from evenkeel.decisions.considered import Alternative, considered
from evenkeel.decisions.load import LoadData, Policies
from evenkeel.decisions.placement.pipeline import Placement, PlacementRound
from evenkeel.handover import ClusterCycle
from evenkeel.rounds import reading, state, wishes
from evenkeel.rounds.loads import load_of
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.reasons import reason_row
from evenkeel.settings import EffectiveSettings, Settings

UNOWNED = "unowned"
WISH = "wish"


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `placement_decisions` (and `strategy_state`): shed bundles, those without owner, then wishes,
    each in name order.

    Shed bundles all see the same candidates, as in Pulsar; a bundle without owner counts for those placed after it.
    A bundle that nobody has owned yet, as far as is known, waits for its first client and is only noted.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    load, policies = load_of(rows), reading.policies(rows)
    strategy = settings.loadBalancerLoadPlacementStrategy
    found = [*_shed(rows, load, policies, settings), *_ownerless(rows, load, policies, settings)]
    placed = [_row(placement, cause, strategy, without) for placement, cause, without in found]
    placed += _wished(rows, load, policies, settings)
    noted = [_waiting(row, strategy) for row in rows["bundle_load"] if _never_owned(row)]
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    decided = [{**row, **stamp} for row in (*placed, *noted)]
    return {"placement_decisions": decided, "strategy_state": _assumed(decided, cycle, settings)}


def _assumed(decided: list[dict[str, Any]], cycle: Row, settings: Settings) -> list[dict[str, Any]]:
    """With evenkeelAssumeUnloadsSucceed, what a dry run would otherwise not remember: the unloads of this cycle."""
    if not settings.evenkeelAssumeUnloadsSucceed:
        return []
    at = datetime.fromisoformat(cycle["cycle_at"])
    gone = [row["subject"] for row in decided if row["cause"] != "no_owner" and row["outcome"] == "placed"]
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    return [{**state.state_row(state.FRAME, bundle, state.ASSUMED_UNLOADED, at=at), **stamp} for bundle in gone]


_Placed = tuple[Placement, str, Placement]


def _shed(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> list[_Placed]:
    """Each shed bundle with its placement, and what it would have been without anti-affinity groups."""
    proposed = sorted((row["subject"], row["broker"]) for row in rows["unload_decisions"] if _is_shed(row))
    actual = PlacementRound(load, policies, settings)
    freely = PlacementRound(load, replace(policies, groups={}), settings)
    return [(actual.place_shed(b, owner), "shed", freely.place_shed(b, owner)) for b, owner in proposed]


def _wished(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> list[dict[str, Any]]:
    """Each bundle that a wish unloads: where the wish says, else where the strategy would have it once it is looked up.

    The bundle leaves its broker even if placement would choose the same one again: that is what was asked for.
    """
    actual = PlacementRound(load, policies, settings)
    freely = PlacementRound(load, replace(policies, groups={}), settings)
    made = []
    for row in sorted(rows["unload_decisions"], key=lambda row: str(row["subject"])):
        if row["strategy"] != wishes.STRATEGY or row["outcome"] != "unload":
            continue
        named = [one["name"] for one in row["alternatives"] if one["verdict"] == "best"]
        rounds = (actual, freely)
        found, without = (_as_wished(row, named[0]) if named else _by_strategy(row, one) for one in rounds)
        made.append(_row(found, WISH, wishes.STRATEGY, without) | {"wish_id": row["wish_id"]})
    return made


def _as_wished(row: Row, destination: str) -> Placement:
    named = (Alternative(destination, "best", "wish_with_destination"),)
    verdict = considered(row["subject"], "bundle", row["broker"], "placed", "wish_with_destination", alternatives=named)
    return Placement(row["subject"], destination, (destination,), named, verdict)


def _by_strategy(row: Row, around: PlacementRound) -> Placement:
    found = around.place_shed(row["subject"], row["broker"])
    if found.destination is None:
        return found
    return replace(found, considered=replace(found.considered, outcome="placed", rule="wish"))


def _ownerless(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> list[_Placed]:
    bundles = [row["bundle"] for row in rows["bundle_load"] if _lost_its_owner(row)]
    actual = PlacementRound(load, policies, settings).place_ownerless(bundles)
    freely = PlacementRound(load, replace(policies, groups={}), settings).place_ownerless(bundles)
    return [(one, "no_owner", other) for one, other in zip(actual, freely, strict=True)]


def _is_shed(row: Row) -> bool:
    is_wish = row["strategy"] == wishes.STRATEGY
    return bool(row["subject_kind"] == "bundle" and row["outcome"] == "unload" and not is_wish)


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


def assumes_success(cycle: ClusterCycle) -> bool:
    """Whether this cycle's unloads are to be remembered although nothing is sent."""
    return EffectiveSettings.from_json(cycle.settings or "").settings.evenkeelAssumeUnloadsSucceed
