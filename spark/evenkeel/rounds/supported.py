"""Whether a cluster's settings name strategies that this version decides with."""

from __future__ import annotations

from evenkeel.decisions.placement import pipeline
from evenkeel.decisions.shedding import shedders
from evenkeel.decisions.splitting import algorithms
from evenkeel.settings import Settings

MODULAR = "modular"


def why_undecidable(settings: Settings, manager: str | None) -> str | None:
    """None if all strategies in force are at hand; else what is missing and which setting to change."""
    if settings.evenkeelManager == "auto" and manager != MODULAR:
        return (
            f"the cluster runs the {manager} load manager, whose own strategies are not available: set evenkeelManager "
            "to modular to decide by the modular manager's rules"
        )
    if settings.evenkeelManager == "extensible":
        return "the extensible manager's strategies are not available: set evenkeelManager to modular"
    named = (
        ("loadBalancerLoadSheddingStrategy", settings.loadBalancerLoadSheddingStrategy, shedders.IMPLEMENTED),
        ("loadBalancerLoadPlacementStrategy", settings.loadBalancerLoadPlacementStrategy, pipeline.IMPLEMENTED),
        ("defaultNamespaceBundleSplitAlgorithm", settings.defaultNamespaceBundleSplitAlgorithm, algorithms.IMPLEMENTED),
    )
    for key, value, known in named:
        if value not in known:
            return f"{key} is {value}, which is not available: set it to {' or '.join(known)}"
    return None
