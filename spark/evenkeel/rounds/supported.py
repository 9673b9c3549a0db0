"""Whether a cluster can be decided on with its settings: whose rules hold, and which strategies go together."""

from __future__ import annotations

from evenkeel.settings.pairs import SHEDDERS_OF, Pair, refusal
from evenkeel.settings.settings import Settings


def why_undecidable(settings: Settings, manager: str | None) -> str | None:
    """None if the strategies in force go together; else what is wrong and which settings to change.

    `manager`: the operator's word, else what the brokers run: modular, extensible, mixed or unknown.
    """
    if manager not in SHEDDERS_OF:
        seen = "brokers run different load managers" if manager == "mixed" else "no broker says which load manager runs"
        return f"{seen}: set evenkeelManager to {' or '.join(SHEDDERS_OF)}, whose rules are then used"
    pair = Pair(settings.loadBalancerLoadSheddingStrategy, settings.loadBalancerLoadPlacementStrategy)
    refused = refusal(pair, settings.manager)
    return None if refused is None else f"Pulsar refuses these settings: {refused.text}"
