"""Whether a cluster's settings name strategies that this version decides with, and that Pulsar lets go together."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from evenkeel.decisions.placement import pipeline
from evenkeel.decisions.shedding import shedders
from evenkeel.decisions.splitting import algorithms
from evenkeel.settings import Settings
from evenkeel.settings.pairs import Pair, refusal

MODULAR: Final = "modular"


def why_undecidable(settings: Settings, manager: str | None) -> str | None:
    """None if all strategies in force are at hand and go together; else what is wrong and which settings to change."""
    missing = _missing(settings)
    if settings.evenkeelManager == "auto" and manager != MODULAR:
        others = "".join(f", and {key} to {known}" for key, _, known in missing)
        return (
            f"the cluster runs the {manager} load manager, whose own strategies are not available: to decide by the "
            f"modular manager's rules, set evenkeelManager to modular{others}"
        )
    if settings.evenkeelManager == "extensible":
        return "the extensible manager's strategies are not available: set evenkeelManager to modular"
    for key, value, known in missing:
        return f"{key} is {value}, which is not available: set it to {known}"
    refused = refusal(_pair(settings), settings.manager)
    return None if refused is None else f"Pulsar refuses these settings: {refused.text}"


def _pair(settings: Settings) -> Pair:
    return Pair(settings.loadBalancerLoadSheddingStrategy, settings.loadBalancerLoadPlacementStrategy)


def _missing(settings: Settings) -> list[tuple[str, str, str]]:
    """Key, value in force and what is available instead, of each strategy that is not at hand."""
    beside = [
        name for name in pipeline.IMPLEMENTED if refusal(replace(_pair(settings), placement=name), MODULAR) is None
    ]
    named = (
        ("loadBalancerLoadSheddingStrategy", settings.loadBalancerLoadSheddingStrategy, shedders.IMPLEMENTED),
        (
            "loadBalancerLoadPlacementStrategy",
            settings.loadBalancerLoadPlacementStrategy,
            beside or pipeline.IMPLEMENTED,
        ),
        ("defaultNamespaceBundleSplitAlgorithm", settings.defaultNamespaceBundleSplitAlgorithm, algorithms.IMPLEMENTED),
    )
    return [(key, value, " or ".join(known)) for key, value, known in named if value not in known]
