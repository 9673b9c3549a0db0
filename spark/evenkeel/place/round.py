"""Destinations for the bundles of one cluster that need one (Pulsar: selectBroker, selectAsync)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from evenkeel.cycle import reading
from evenkeel.cycle.fold import PLANNER, REMEMBERED, STATE, Round, fold, shedder_state
from evenkeel.cycle.loads import SHEDDER, load_of, owned_of, see
from evenkeel.cycle.memo import SharedRows
from evenkeel.cycle.reading import EXTENSIBLE, Decided, Row, Rows
from evenkeel.model.consideration import PLANNED, REPORTED_TWICE
from evenkeel.model.load import LoadData, Policies
from evenkeel.place.drained_bundles import drained_rows, is_drained
from evenkeel.place.extensible_placement import ExtensiblePlacementRound
from evenkeel.place.modular_placement import PlacementRound, in_pulsars_order, strategy_in_force
from evenkeel.place.placement import BY_PLAN, TRANSFERRED, Placement, settled
from evenkeel.place.rows import (
    assumed_rows,
    is_unload,
    is_wished,
    lost_bundles,
    placement_row,
    placement_rows,
    placement_state,
    remembers,
    waiting_rows,
    wished_rows,
)
from evenkeel.place.strategies.round_robin_broker_selector import EXCLUDED, Turn, state_of, turn_of
from evenkeel.place.strategy import PlacementState
from evenkeel.planner.round import TARGETS, decides
from evenkeel.settings import Settings


def decide(key: Row, rows: Rows) -> Decided:
    """Rows of `placement_decisions` and `strategy_state`."""
    return reading.by_manager(rows, decide_modular, decide_extensible)(key, rows)


def decide_cycles(key: Row, rows: Rows) -> Decided:
    """Place in every cycle of a cluster (`fold`)."""
    return fold((PLACE,), key, rows)


def decide_remembering(key: Row, rows: SharedRows) -> Decided:
    """Return the result of `decide`, with only the state that its settings need and keep."""
    keeps = keeps_state(reading.settings_of(rows))
    is_asked = keeps or reading.the_cycle(rows)["manager"] == EXTENSIBLE
    decided = decide(key, rows if is_asked else rows.having({STATE: ()}))
    return decided if keeps else {**decided, REMEMBERED: []}


def decide_modular(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Return rows of `placement_decisions` (and `strategy_state`): shed bundles in Pulsar's order, others by name.

    All shed bundles see the same candidates, as in Pulsar; a bundle without owner counts for those placed after it. A
    bundle that no broker has owned yet waits for its first client and is only noted. `state` holds the predecessor's
    rows; placement's state is updated, or handed on unchanged if nothing was placed.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    load, policies = load_of(rows), reading.policies(rows)
    strategy = strategy_in_force(settings)
    shed, before = _shed(rows, load, policies, settings)
    by_plan = _by_plan(rows, settings)
    ownerless, after = _ownerless(rows, load, policies, settings, before)
    placed = [placement_row(placement, cause, strategy, without) for placement, cause, without in (*shed, *ownerless)]
    placed += by_plan
    noted = waiting_rows(rows, strategy)
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    wished = _wished(rows, load, policies, settings)
    drained = drained_rows(
        rows, lambda freely: _round(rows, load, replace(policies, groups={}) if freely else policies, settings, {})
    )
    decided = [{**row, **stamp} for row in (*placed, *wished, *drained, *noted)]
    kept = [*assumed_rows(decided, cycle, settings), *({**row, **stamp} for row in placement_rows(after))]
    return {"placement_decisions": decided, "strategy_state": kept}


_Placed = tuple[Placement, str, Placement]


def _shed(rows: Rows, load: LoadData, policies: Policies, settings: Settings) -> tuple[list[_Placed], PlacementState]:
    """Return each shed bundle with its placement, and the placement without anti-affinity groups."""
    chosen = sorted((row for row in rows["unload_decisions"] if _is_shed(row) and not _is_planned(row)), key=_selection)
    proposed = in_pulsars_order((row["subject"], row["broker"]) for row in chosen)
    remembered = placement_state(rows["state"])
    actual = _round(rows, load, policies, settings, remembered)
    placements = [actual.place_shed(bundle, owner) for bundle, owner in proposed]
    last = {
        placement.bundle: placement.considered.broker
        for placement in placements
        if placement.considered.outcome == "placed"
    }
    placements = [_once(placement, last.get(placement.bundle)) for placement in placements]
    if not policies.groups:
        return [(placed, "shed", placed) for placed in placements], actual.state
    freely = _round(rows, load, replace(policies, groups={}), settings, remembered)
    others = [freely.place_shed(bundle, owner) for bundle, owner in proposed]
    return [(placed, "shed", other) for placed, other in zip(placements, others, strict=True)], actual.state


def _once(placement: Placement, acted_on: str | None) -> Placement:
    """Return the placement, without destination if the bundle is unloaded from another broker: Pulsar asks twice."""
    verdict = placement.considered
    if verdict.outcome != "placed" or verdict.broker == acted_on:
        return placement
    return replace(placement, destination=None, considered=REPORTED_TWICE.instead_of(verdict))


def _ownerless(
    rows: Rows, load: LoadData, policies: Policies, settings: Settings, remembered: PlacementState
) -> tuple[list[_Placed], PlacementState]:
    bundles = _left_to_strategy(rows, settings)
    actual = _round(rows, load, policies, settings, remembered)
    placements = actual.place_ownerless(bundles)
    if not policies.groups:
        return [(placed, "no_owner", placed) for placed in placements], actual.state
    freely = _round(rows, load, replace(policies, groups={}), settings, remembered)
    others = freely.place_ownerless(bundles)
    return [(placed, "no_owner", other) for placed, other in zip(placements, others, strict=True)], actual.state


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
    """Return a round of placing that has the shedder's plans."""
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
    """Return True if placing with these settings keeps state: assumed unloads, or a strategy's state."""
    return settings.evenkeelAssumeUnloadsSucceed or remembers(settings)


# Destinations for the bundles of one cluster that need one (Pulsar: ExtensibleLoadManagerImpl.selectAsync).

STRATEGY = "LeastResourceUsageWithWeight"


def decide_extensible(key: Row, rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Return rows of `placement_decisions` (and `strategy_state`): transferred bundles, freed ones, then ownerless
    ones.

    `state` holds the predecessor's rows, as in this cycle's shedding. A transferred bundle goes to the broker that the
    shedder chose. A freed one (transfers off) is placed as if it were looked up at once. Brokers that cannot be decided
    on are no candidates. The next turn among brokers for excluded namespaces is handed on.
    """
    settings, cycle = reading.settings_of(rows), reading.the_cycle(rows)
    shed = {row["subject"]: row for row in sorted(rows["unload_decisions"], key=_subject) if _is_shed(row)}
    gone = {bundle: _destination(row) for bundle, row in shed.items()}
    drained = {row["subject"]: None for row in rows["unload_decisions"] if is_drained(row)}
    view = _View(rows, gone, settings)
    leaving = {bundle: str(shed[bundle]["broker"]) for bundle, destination in gone.items() if destination is None}
    lost = _left_to_strategy(rows, settings)
    actual, after = _place(view.round(), leaving, lost)
    freely = _place(view.round(freely=True), leaving, lost)[0] if view.policies.groups else actual
    placed = [
        placement_row(one, "shed", SHEDDER, one)
        for one in (
            settled(bundle, to, TRANSFERRED, shed[bundle]["broker"])
            for bundle, to in gone.items()
            if to and not _is_planned(shed[bundle])
        )
    ]
    placed += _by_plan(rows, settings)
    placed += [
        placement_row(placement, "shed" if placement.bundle in leaving else "no_owner", STRATEGY, other)
        for placement, other in zip(actual, freely, strict=True)
    ]
    wished = wished_rows(rows, view.place_alone, partial(view.place_alone, freely=True))
    noted = waiting_rows(rows, STRATEGY)
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    without_drained = _View(rows, {**gone, **drained}, settings) if drained else view
    spread = drained_rows(rows, lambda freely: without_drained.round(freely=freely))
    decided = [{**row, **stamp} for row in (*placed, *wished, *spread, *noted)]
    turns = ({**row, **stamp} for row in placement_rows(state_of(after, EXCLUDED)))
    return {"placement_decisions": decided, "strategy_state": [*assumed_rows(decided, cycle, settings), *turns]}


class _View:
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
        owners = {
            broker: [bundle for bundle in bundles if bundle not in gone] for broker, bundles in self._owners.items()
        }
        for bundle, destination in gone.items():
            if destination is not None:
                owners.setdefault(destination, []).append(bundle)
        return ExtensiblePlacementRound(self._load, policies, owners, self._settings, turn=self._turn)

    def place_alone(self, bundle: str, broker: str, *, freely: bool = False) -> Placement:
        """Return the placement of a bundle that a manual request unloads, as if it alone left."""
        return self.round(freely=freely, leaves=bundle).assign(bundle, broker)


def _place(
    placing: ExtensiblePlacementRound, leaving: Mapping[str, str], lost: list[str]
) -> tuple[list[Placement], Turn]:
    """Place freed bundles, then lost ones, in name order; each counts for those after it. Return also the next turn."""
    freed = [placing.assign(bundle, owner).kept_by(owner) for bundle, owner in sorted(leaving.items())]
    return [*freed, *placing.place(lost)], placing.turn


def _destination(row: Row) -> str | None:
    return next(
        (str(alternative["name"]) for alternative in row["alternatives"] if alternative["verdict"] == "best"), None
    )


def _subject(row: Row) -> str:
    return str(row["subject"])


def _is_planned(row: Row) -> bool:
    """Return True if the planner unloads the bundle, to the broker that it names."""
    return bool(row["strategy"] == PLANNER)


def _by_plan(rows: Rows, settings: Settings) -> list[dict[str, Any]]:
    """Rows for the bundles that the planner unloads, in its order, and those without owner that it has a broker for."""
    if not decides(rows, settings):
        return []
    shed = [row for row in rows["unload_decisions"] if _is_shed(row) and _is_planned(row)]
    placements = [
        (settled(row["subject"], _destination(row) or "", BY_PLAN, row["broker"]), "shed")
        for row in sorted(shed, key=_selection)
    ]
    places, lost = planned_places(rows), lost_bundles(rows)
    placements += [
        (settled(bundle, places[bundle]["destination"], BY_PLAN), "no_owner") for bundle in lost if bundle in places
    ]
    return [placement_row(placement, cause, PLANNER, placement) for placement, cause in placements]


def _left_to_strategy(rows: Rows, settings: Settings) -> list[str]:
    """The bundles without owner that the planner has no broker for."""
    places = planned_places(rows) if decides(rows, settings) else {}
    return [bundle for bundle in lost_bundles(rows) if bundle not in places]


def planned_places(rows: Rows) -> dict[str, Row]:
    """Bundle without owner -> its row of the planner's targets."""
    return {row["subject"]: row for row in rows.get(TARGETS, ()) if row["outcome"] == "placed"}


def _is_shed(row: Row) -> bool:
    """Return True if the strategy in force unloads the bundle, and no operator."""
    return is_unload(row) and not is_wished(row) and not is_drained(row)


PLACE = Round(decide_remembering, ("placement_decisions",))
