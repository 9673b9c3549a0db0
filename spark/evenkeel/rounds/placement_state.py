"""What placement remembers from one cycle to the next, as rows of `strategy_state`.

Each figure belongs to the strategy that keeps it. What another strategy than the one in force left behind is neither
read nor handed on, as a broker that starts with a strategy knows nothing of the past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evenkeel.decisions.placement.choice import PlacementState
from evenkeel.decisions.placement.chooser import EXCLUDED
from evenkeel.decisions.placement.least_resource_usage_with_weight import USAGE_AVERAGE
from evenkeel.decisions.placement.round_robin import PLACE_IN_TURNS, TURN
from evenkeel.rounds import state as rows_of_state
from evenkeel.rounds.reading import Row
from evenkeel.settings import Settings

IN_TURNS = "RoundRobinBrokerSelector"
KEEPERS: Mapping[str, str] = {
    USAGE_AVERAGE: "LeastResourceUsageWithWeight",
    TURN: IN_TURNS,
    PLACE_IN_TURNS: IN_TURNS,
    EXCLUDED + TURN: IN_TURNS,
    EXCLUDED + PLACE_IN_TURNS: IN_TURNS,
}
"""Name of a figure to the strategy it belongs to."""


def placement_state(rows: Iterable[Row]) -> PlacementState:
    """The state that `placement_rows` wrote down; rows of other strategies and figures are passed over."""
    state: dict[str, dict[str, float]] = {}
    for row in rows:
        if KEEPERS.get(row["name"]) == row["strategy"]:
            state.setdefault(row["name"], {})[row["subject"]] = row["value"]
    return state


def placement_rows(state: PlacementState) -> list[dict[str, Any]]:
    """One row per figure, by strategy, name and subject; to be read by the next cycle."""
    kept = sorted((KEEPERS[name], name, subject) for name, values in state.items() for subject in values)
    return [
        dict(rows_of_state.state_row(strategy, subject, name, value=state[name][subject]))
        for strategy, name, subject in kept
    ]


def remembers(settings: Settings) -> bool:
    """Whether placement with these settings has anything to remember at all.

    The extensible manager's LeastResourceUsageWithWeight keeps nothing of its own: it goes by the brokers' averages.
    """
    keeper = settings.manager == "modular" and settings.loadBalancerLoadPlacementStrategy in KEEPERS.values()
    return bool(keeper or settings.loadBalancerSheddingExcludedNamespaces)
