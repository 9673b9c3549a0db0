"""Keys of shedding and placement: which bundles leave a broker, and which broker a bundle goes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.settings.key import ManagerName, key

SHEDDERS_OF: Mapping[ManagerName, tuple[str, ...]] = {
    "modular": ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder"),
    "extensible": ("TransferShedder",),
}
"""Shedders that an operator may name, by load manager."""
SHEDDERS = (*SHEDDERS_OF["modular"], *SHEDDERS_OF["extensible"])


@dataclass(frozen=True)
class SheddingKeys:
    """Pulsar's keys of when and what to shed, for the modular manager's strategies."""

    loadBalancerSheddingEnabled: bool = key(
        True, unit="switch", meaning="Whether the brokers shed by themselves; never a switch of Evenkeel's."
    )
    loadBalancerLoadSheddingStrategy: str = key(
        "ThresholdShedder",
        default_5_0="AvgShedder",
        kind="class",
        choices=SHEDDERS,
        unit="class",
        meaning="The strategy that says which bundles leave which broker.",
    )
    loadBalancerSheddingIntervalMinutes: int = key(
        1, lowest=0, unit="min", meaning="Time between two rounds of shedding."
    )
    loadBalancerSheddingGracePeriodMinutes: int = key(
        30, lowest=0, unit="min", meaning="A bundle that was unloaded is left alone for so long."
    )
    loadBalancerSheddingExcludedNamespaces: frozenset[str] = key(
        frozenset(), unit="tenant/namespace", meaning="Namespaces whose bundles are never shed and placed in turns."
    )
    loadBalancerBrokerOverloadedThresholdPercentage: int = key(
        85,
        lowest=0,
        highest=100,
        unit="%",
        meaning="A broker at this usage is overloaded: OverloadShedder sheds at it, placement avoids what is above.",
    )
    loadBalancerBrokerThresholdShedderPercentage: int = key(
        10,
        lowest=0,
        highest=100,
        unit="percentage points",
        manager="modular",
        meaning="ThresholdShedder sheds from a broker whose average usage is so far above the mean of all.",
    )
    lowerBoundarySheddingEnabled: bool = key(
        False,
        unit="switch",
        manager="modular",
        dynamic=False,
        meaning="Whether ThresholdShedder also feeds a broker that is far below the mean.",
    )
    loadBalancerBundleUnloadMinThroughputThreshold: float = key(
        10.0,
        lowest=0.0,
        unit="MiB/s",
        manager="modular",
        meaning="ThresholdShedder does nothing for less throughput than this.",
    )
    loadBalancerHistoryResourcePercentage: float = key(
        0.9,
        lowest=0.0,
        highest=1.0,
        unit="fraction",
        meaning="Weight of the past in a broker's average usage.",
    )
    loadBalancerMsgRateDifferenceShedderThreshold: float = key(
        50.0, unit="%", manager="modular", meaning="Rate difference at which UniformLoadShedder sheds; 0 or less: off."
    )
    loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold: float = key(
        4.0,
        unit="ratio",
        manager="modular",
        meaning="Throughput ratio at which UniformLoadShedder sheds; 0 or less: off.",
    )
    minUnloadMessage: int = key(
        1_000, lowest=0, unit="msg/s", manager="modular", meaning="Least rate worth moving (Uniform, AvgShedder)."
    )
    minUnloadMessageThroughput: int = key(
        1_048_576, lowest=0, unit="byte/s", manager="modular", meaning="Least throughput worth moving (Uniform, Avg)."
    )
    maxUnloadPercentage: float = key(
        0.2,
        default_5_0=0.5,
        lowest=0.0,
        highest=1.0,
        unit="fraction",
        manager="modular",
        meaning="Share of the difference between two brokers that is moved (a fraction in spite of its name).",
    )
    maxUnloadBundleNumPerShedding: int = key(
        -1, lowest=-1, unit="bundles", manager="modular", meaning="Most bundles UniformLoadShedder sheds; -1: no limit."
    )
    loadBalancerAvgShedderLowThreshold: int = key(
        15, lowest=0, highest=100, unit="score points", manager="modular", meaning="AvgShedder's lower difference."
    )
    loadBalancerAvgShedderHighThreshold: int = key(
        40, lowest=0, highest=100, unit="score points", manager="modular", meaning="AvgShedder's higher difference."
    )
    loadBalancerAvgShedderHitCountLowThreshold: int = key(
        8, lowest=0, unit="rounds", manager="modular", meaning="Rounds above the lower difference before it acts."
    )
    loadBalancerAvgShedderHitCountHighThreshold: int = key(
        2, lowest=0, unit="rounds", manager="modular", meaning="Rounds above the higher difference before it acts."
    )


# Keys of placement: the broker that a bundle goes to.

PLACEMENTS = ("LeastLongTermMessageRate", "LeastResourceUsageWithWeight", "RoundRobinBrokerSelector", "AvgShedder")


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
        meaning="A broker with more is not a candidate while another one is; extensible: one with as many never is.",
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
