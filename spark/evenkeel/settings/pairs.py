"""Which shedder goes with which placement strategy under which load manager, and what Pulsar runs where they do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.settings.key import Generation, ManagerName
from evenkeel.settings.keys.placement import PLACEMENTS
from evenkeel.settings.keys.shedding import SHEDDERS_OF
from evenkeel.settings.settings import Settings

SHEDDING, PLACEMENT = "loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy"
SHEDDER_AND_PLACEMENT = "AvgShedder"
FALLBACK_PLACEMENT = "LeastLongTermMessageRate"
PLACEMENTS_OF: Mapping[ManagerName, tuple[str, ...]] = {
    "modular": PLACEMENTS,
    "extensible": ("LeastResourceUsageWithWeight",),
}


@dataclass(frozen=True, slots=True)
class StrategyPair:
    """A shedder and a placement strategy by their class names."""

    shedder: str
    placement: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pair cannot be meant: the keys at odds and a message that names what is allowed."""

    keys: tuple[str, ...]
    text: str


def allowed_pairs(manager: ManagerName) -> tuple[StrategyPair, ...]:
    """Every pair that runs as it is configured."""
    return tuple(
        StrategyPair(shedder, placement)
        for shedder in SHEDDERS_OF[manager]
        for placement in PLACEMENTS_OF[manager]
        if placement != SHEDDER_AND_PLACEMENT or shedder == SHEDDER_AND_PLACEMENT
    )


def in_force(pair: StrategyPair, manager: ManagerName, generation: Generation) -> StrategyPair:
    """What a broker runs that is configured with the pair; the pair itself also where a broker would not start."""
    if manager == "extensible":
        return StrategyPair(SHEDDERS_OF[manager][0], PLACEMENTS_OF[manager][0])
    if generation == "5.0" and pair.placement == SHEDDER_AND_PLACEMENT != pair.shedder:
        return StrategyPair(pair.shedder, FALLBACK_PLACEMENT)
    return pair


def refusal(pair: StrategyPair, manager: ManagerName) -> Refusal | None:
    """Why the pair does not run as it is written; None if it does."""
    if pair.shedder not in SHEDDERS_OF[manager]:
        return _other_managers(SHEDDING, pair.shedder, manager, SHEDDERS_OF)
    if pair.placement not in PLACEMENTS_OF[manager]:
        return _other_managers(PLACEMENT, pair.placement, manager, PLACEMENTS_OF)
    if pair in allowed_pairs(manager):
        return None
    others = [found.placement for found in allowed_pairs(manager) if found.shedder == pair.shedder]
    return Refusal(
        (PLACEMENT, SHEDDING),
        f"{PLACEMENT} = {pair.placement} needs {SHEDDING} = {pair.placement}, but it is {pair.shedder}: "
        f"set both to {pair.placement}, or {PLACEMENT} to {_either(others)}",
    )


def _other_managers(
    key: str, value: str, manager: ManagerName, known: Mapping[ManagerName, tuple[str, ...]]
) -> Refusal:
    homes = [name for name, values in known.items() if value in values]
    owner = f"is the {homes[0]} load manager's" if homes else "is no load manager's"
    return Refusal(
        (key, "evenkeelManager", "loadManagerClassName"),
        f"{key} = {value} {owner}, but the manager is {manager}: set {key} to {_either(known[manager])}",
    )


def _either(names: list[str] | tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


# Whether a cluster can be decided on with its settings: whose rules hold, and which strategies go together.


def why_undecidable(settings: Settings, manager: str | None) -> str | None:
    """None if the strategies in force go together; else what is wrong and which settings to change.

    `manager`: the operator's word, else what the brokers run: modular, extensible, mixed or unknown.
    """
    if manager not in SHEDDERS_OF:
        seen = "brokers run different load managers" if manager == "mixed" else "no broker says which load manager runs"
        return f"{seen}: set evenkeelManager to {' or '.join(SHEDDERS_OF)}, whose rules are then used"
    pair = StrategyPair(settings.loadBalancerLoadSheddingStrategy, settings.loadBalancerLoadPlacementStrategy)
    refused = refusal(pair, settings.manager)
    return None if refused is None else f"Pulsar refuses these settings: {refused.text}"
