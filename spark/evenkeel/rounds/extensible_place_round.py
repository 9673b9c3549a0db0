"""Destinations for the bundles of one cluster that need one (Pulsar: ExtensibleLoadManagerImpl.selectAsync)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from evenkeel.decisions.considered import Alternative, considered
from evenkeel.decisions.placement.chooser import EXCLUDED
from evenkeel.decisions.placement.extensible.pipeline import ExtensiblePlacementRound
from evenkeel.decisions.placement.pipeline import Placement
from evenkeel.decisions.placement.round_robin import Turn, state_of, turn_of
from evenkeel.rounds import reading
from evenkeel.rounds.extensible_loads import SHEDDER, see
from evenkeel.rounds.placement_rows import (
    assumed_rows,
    is_unload,
    lost_bundles,
    placement_row,
    waiting_rows,
)
from evenkeel.rounds.placement_state import placement_rows, placement_state
from evenkeel.rounds.reading import Row, Rows
from evenkeel.rounds.state import shedder_state
from evenkeel.rounds.wished_places import is_wished, wished_rows
from evenkeel.settings import Settings

STRATEGY = "LeastResourceUsageWithWeight"


def decide(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows of `placement_decisions` (and `strategy_state`): transferred bundles, freed ones, then those without owner.

    `state` holds the predecessor's rows, as in this cycle's shedding. A transferred bundle goes where the shedder said;
    a freed one (transfers off) is placed as if it were looked up at once. Brokers that cannot be decided on are no
    candidates. Whose turn it is among brokers for excluded namespaces is handed on.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    shed = {
        row["subject"]: row
        for row in sorted(rows["unload_decisions"], key=_subject)
        if is_unload(row) and not is_wished(row)
    }
    gone = {bundle: _destination(row) for bundle, row in shed.items()}
    around = _Around(rows, gone, settings)
    leaving = {bundle: str(shed[bundle]["broker"]) for bundle, destination in gone.items() if destination is None}
    lost = lost_bundles(rows)
    actual, after = _place(around.round(), leaving, lost)
    freely = _place(around.round(freely=True), leaving, lost)[0] if around.policies.groups else actual
    placed = [
        placement_row(one, "shed", SHEDDER, one) for one in (_transferred(shed[b], to) for b, to in gone.items() if to)
    ]
    placed += [
        placement_row(one, "shed" if one.bundle in leaving else "no_owner", STRATEGY, other)
        for one, other in zip(actual, freely, strict=True)
    ]
    wished = wished_rows(rows, around.place_alone, partial(around.place_alone, freely=True))
    noted = waiting_rows(rows, STRATEGY)
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    decided = [{**row, **stamp} for row in (*placed, *wished, *noted)]
    turns = ({**row, **stamp} for row in placement_rows(state_of(after, EXCLUDED)))
    return {"placement_decisions": decided, "strategy_state": [*assumed_rows(decided, cycle, settings), *turns]}


class _Around:
    """The brokers that can be decided on, with this cycle's transfers done (`gone`: bundle -> destination, if any)."""

    def __init__(self, rows: Rows, gone: Mapping[str, str | None], settings: Settings) -> None:
        before = rows.get("state", ())
        seen = see(rows, shedder_state(before, SHEDDER), settings)
        known = {broker: seen.load.brokers[broker] for broker in seen.load.loads if broker in seen.load.brokers}
        self.policies = reading.policies(rows)
        self._load = replace(seen.load, brokers=known)
        self._owners, self._gone, self._settings = seen.owners, gone, settings
        self._turn = turn_of(placement_state(before), EXCLUDED)

    def round(self, *, freely: bool = False, leaves: str | None = None) -> ExtensiblePlacementRound:
        """A round of placing, with `freely` without regard to anti-affinity groups. `leaves`: one more bundle gone."""
        policies = replace(self.policies, groups={}) if freely else self.policies
        gone = self._gone if leaves is None else {**self._gone, leaves: None}
        owners = _owners_after(self._owners, gone)
        return ExtensiblePlacementRound(self._load, policies, owners, self._settings, turn=self._turn)

    def place_alone(self, bundle: str, broker: str, *, freely: bool = False) -> Placement:
        """Where a bundle that a wish unloads would go, as if it alone left."""
        return self.round(freely=freely, leaves=bundle).assign(bundle, broker)


def _place(
    around: ExtensiblePlacementRound, leaving: Mapping[str, str], lost: list[str]
) -> tuple[list[Placement], Turn]:
    """Freed bundles, then lost ones, each in name order and each counting for those after it; and the turn after."""
    freed = [_unless_back(around.assign(bundle, owner), owner) for bundle, owner in sorted(leaving.items())]
    return [*freed, *around.place(lost)], around.turn


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
    return replace(placement, considered=placement.considered._replace(outcome="kept", rule="already_best"))


def _destination(row: Row) -> str | None:
    return next((str(one["name"]) for one in row["alternatives"] if one["verdict"] == "best"), None)


def _subject(row: Row) -> str:
    return str(row["subject"])
