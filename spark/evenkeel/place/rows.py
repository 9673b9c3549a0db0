"""Rows of `placement_decisions`, the bundles that need a broker, and the state of placement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from evenkeel.cycle.fold import ASSUMED_UNLOADED, FRAME, state_row
from evenkeel.cycle.memo import acts_only, once
from evenkeel.cycle.reading import Row, Rows
from evenkeel.cycle.reasons import reason_row
from evenkeel.manual_requests.round import BY_REQUEST
from evenkeel.model.consideration import Rule
from evenkeel.place.placement import Placement, placed, settled
from evenkeel.place.strategies import MODULAR
from evenkeel.place.strategy import PlacementState
from evenkeel.settings import Settings

UNOWNED = "unowned"

NEVER_OWNED = Rule(
    "skipped",
    "never_owned",
    lambda row: f"{row.subject} has no known earlier owner: Pulsar assigns it when a client first looks it up.",
)
REQUESTED = Rule("placed", "wish", placed("a manual request unloads it, and placement expects it there"))
REQUESTED_WITH_DESTINATION = Rule("placed", "wish_with_destination", placed("a manual request names that broker"))


def is_unload(row: Row) -> bool:
    """Return True if a row of `unload_decisions` unloads a bundle from its broker."""
    return bool(row["subject_kind"] == "bundle" and row["outcome"] == "unload")


def lost_its_owner(row: Row) -> bool:
    """Return True if a bundle had an owner once and has none now."""
    return bool(row["ownership"] == UNOWNED and row["last_owner"] is not None)


def never_owned(row: Row) -> bool:
    """Return True if a bundle has had no owner as far as is known."""
    return bool(row["ownership"] == UNOWNED and row["last_owner"] is None)


def placement_row(placement: Placement, cause: str, strategy: str, without: Placement) -> dict[str, Any]:
    """Return the row of a placement; `without`: the placement without anti-affinity groups."""
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


@once
def lost_bundles(rows: Rows) -> list[str]:
    """The bundles that had an owner once and have none now."""
    return [row["bundle"] for row in rows["bundle_load"] if lost_its_owner(row)]


def waiting_rows(rows: Rows, strategy: str) -> list[dict[str, Any]]:
    """Return a row for each bundle that waits for its first client; it has no act."""
    if acts_only(rows):
        return []
    return [waiting_row(row, strategy) for row in rows["bundle_load"] if never_owned(row)]


def waiting_row(row: Row, strategy: str) -> dict[str, Any]:
    """A bundle that waits for its first client."""
    verdict = NEVER_OWNED.about_bundle(row["bundle"], None)
    nothing = Placement(row["bundle"], None, (), (), verdict)
    return placement_row(nothing, "no_owner", strategy, nothing)


def assumed_rows(decided: list[dict[str, Any]], cycle: Row, settings: Settings) -> list[dict[str, Any]]:
    """Return the unloads of this cycle, which a dry run would otherwise not remember (evenkeelAssumeUnloadsSucceed)."""
    if not settings.evenkeelAssumeUnloadsSucceed:
        return []
    at = datetime.fromisoformat(cycle["cycle_at"])
    gone = [row["subject"] for row in decided if row["cause"] == "shed" and row["outcome"] == "placed"]
    stamp = {"cluster": cycle["cluster"], "cycle_at": cycle["cycle_at"]}
    return [{**state_row(FRAME, bundle, ASSUMED_UNLOADED, at=at), **stamp} for bundle in gone]


Place = Callable[[str, str], Placement]
"""Function from (bundle, broker that it leaves) to its placement."""


def is_wished(row: Row) -> bool:
    """Return True if a row of `unload_decisions` is a manual request that is carried out."""
    return bool(row["strategy"] == BY_REQUEST and is_unload(row))


def wished_rows(rows: Rows, place: Place, freely: Place) -> list[dict[str, Any]]:
    """Return rows of `placement_decisions`, by bundle: the request's destination, else that of a look-up.

    The bundle leaves its broker even if placement would choose the same one again, since the request was to unload it.
    `freely` places without regard to anti-affinity groups.
    """
    placed = []
    for row in sorted(filter(is_wished, rows["unload_decisions"]), key=lambda row: str(row["subject"])):
        named = next(
            (alternative["name"] for alternative in row["alternatives"] if alternative["verdict"] == "best"), None
        )
        placement, without = (_placed(row, named, rule) for rule in (place, freely))
        placed.append(placement_row(placement, BY_REQUEST, BY_REQUEST, without) | {"wish_id": row["wish_id"]})
    return placed


def _placed(row: Row, destination: str | None, place: Place) -> Placement:
    if destination is None:
        placement = place(row["subject"], row["broker"])
        if placement.destination is None:
            return placement
        return replace(placement, considered=REQUESTED.instead_of(placement.considered))
    return settled(row["subject"], destination, REQUESTED_WITH_DESTINATION, row["broker"])


# The state of placement as rows of `strategy_state`.
#
# Each figure belongs to the strategy that keeps it. The state of a strategy that is not in force is neither read nor
# handed on, as a broker that starts with a strategy has no past.

KEEPERS: Mapping[str, str] = {figure: strategy.name for strategy in MODULAR.values() for figure in strategy.remembers}
"""Name of a figure to the strategy it belongs to."""


def placement_state(rows: Iterable[Row]) -> PlacementState:
    """The state that `placement_rows` wrote down; rows of other strategies and figures are passed over."""
    state: dict[str, dict[str, float]] = {}
    for row in rows:
        if KEEPERS.get(row["name"]) == row["strategy"]:
            state.setdefault(row["name"], {})[row["subject"]] = row["value"]
    return state


def placement_rows(state: PlacementState) -> list[dict[str, Any]]:
    """Return one row per figure, by strategy, name and subject, for the next cycle."""
    kept = sorted((KEEPERS[name], name, subject) for name, values in state.items() for subject in values)
    return [dict(state_row(strategy, subject, name, value=state[name][subject])) for strategy, name, subject in kept]


def remembers(settings: Settings) -> bool:
    """Return True if placement with these settings keeps any state.

    The extensible manager's LeastResourceUsageWithWeight keeps none: it uses the brokers' averages.
    """
    keeper = settings.manager == "modular" and settings.loadBalancerLoadPlacementStrategy in KEEPERS.values()
    return bool(keeper or settings.loadBalancerSheddingExcludedNamespaces)
