"""Keys about which broker a bundle goes to."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.settings.key import key

PLACEMENTS = ("LeastLongTermMessageRate", "LeastResourceUsageWithWeight", "RoundRobinBrokerSelector", "AvgShedder")
"""The placement strategies that an operator may name; all are the modular load manager's."""


@dataclass(frozen=True)
class PlacementKeys:
    """Pulsar's keys of the candidate filters and of the placement strategies."""

    loadBalancerLoadPlacementStrategy: str = key(
        "LeastLongTermMessageRate",
        default_5_0="AvgShedder",
        kind="class",
        choices=PLACEMENTS,
        unit="class",
        dynamic=False,
        meaning="The strategy that picks among the candidates.",
    )
    loadBalancerDistributeBundlesEvenlyEnabled: bool = key(
        True,
        default_5_0=False,
        unit="switch",
        manager="modular",
        meaning="Whether only brokers with the fewest bundles of the namespace are candidates.",
    )
    loadBalancerBrokerMaxTopics: int = key(
        50_000,
        lowest=0,
        unit="topics",
        meaning="A broker with more is no candidate while another one is; extensible: one with as many never is.",
    )
    preferLaterVersions: bool = key(
        False, unit="switch", meaning="Whether only brokers of the newest version are candidates."
    )
    loadBalancerAverageResourceUsageDifferenceThresholdPercentage: int = key(
        10,
        lowest=0,
        highest=100,
        unit="percentage points",
        meaning="LeastResourceUsageWithWeight prefers brokers so far below the mean of the candidates.",
    )
