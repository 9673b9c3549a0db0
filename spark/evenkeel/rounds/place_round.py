"""Destinations for the bundles of one cluster that need one (Pulsar: ModularLoadManagerImpl.selectBroker)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evenkeel.decisions.considered import considered
from evenkeel.decisions.load import LoadData, Policies
from evenkeel.decisions.placement.pipeline import Placement, PlacementRound
from evenkeel.rounds import reading
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.reasons import reason_row
from evenkeel.settings import Settings

UNOWNED = "unowned"


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `placement_decisions`: shed bundles first, then those without owner, each in name order.

    Shed bundles all see the same candidates, as in Pulsar; a bundle without owner counts for those placed after it.
    A bundle that nobody has owned yet, as far as is known, waits for its first client and is only noted.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    load, policies = load_of(rows), reading.policies(rows)
    strategy = settings.loadBalancerLoadPlacementStrategy
    placed = [
        _row(placement, cause, strategy, without)
        for placement, cause, without in (*_shed(rows, load, policies, settings), *_ownerless(rows, load, policies, settings))
    ]
    noted = [_waiting(row, strategy) for row in rows["bundle_load"] if _never_owned(row)]
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    return {"placement_decisions": [{**row, **stamp} for row in (*placed, *noted)]}


def load_of(rows: Rows) -> LoadData:
    """The load as placement and shedding see it: bundles chosen for a split have lost their history."""
    brokers = reading.broker_reports(rows)
    gone = {row["subject"] for row in rows["split_decisions"] if row["outcome"] == "split"}
    known = {bundle: history for bundle, history in reading.histories(rows).items() if bundle not in gone}
    return LoadData(brokers=brokers, histories=known, averages=reading.averages_of(brokers, known))


_Placed = tuple[Placement, str, Placement]


def _shed(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> list[_Placed]:
    """Each shed bundle with its placement, and what it would have been without anti-affinity groups."""
    proposed = sorted((row["subject"], row["broker"]) for row in rows["unload_decisions"] if _is_unload(row))
    actual = PlacementRound(load, policies, settings)
    freely = PlacementRound(load, replace(policies, groups={}), settings)
    return [(actual.place_shed(b, owner), "shed", freely.place_shed(b, owner)) for b, owner in proposed]


def _ownerless(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> list[_Placed]:
    bundles = [row["bundle"] for row in rows["bundle_load"] if _lost_its_owner(row)]
    actual = PlacementRound(load, policies, settings).place_ownerless(bundles)
    freely = PlacementRound(load, replace(policies, groups={}), settings).place_ownerless(bundles)
    return [(one, "no_owner", other) for one, other in zip(actual, freely, strict=True)]


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
