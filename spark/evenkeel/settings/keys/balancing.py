"""Keys of splitting, shedding and placement, for both load managers, and those of the retired SimpleLoadManager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.settings.key import ManagerName, idle, key

SPLIT_ALGORITHMS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)


@dataclass(frozen=True)
class SplittingKeys:
    """Pulsar's keys of when a bundle is split, where it is cut, and how its children are treated."""

    loadBalancerAutoBundleSplitEnabled: bool = key(
        True, unit="switch", meaning="Whether the brokers split by themselves; never a switch of Evenkeel's."
    )
    loadBalancerAutoUnloadSplitBundlesEnabled: bool = key(
        True, unit="switch", manager="modular", meaning="Whether the children of a split are unloaded at once."
    )
    loadBalancerNamespaceBundleMaxTopics: int = key(
        1_000, lowest=0, unit="topics", meaning="A bundle with more loaded topics is split."
    )
    loadBalancerNamespaceBundleMaxSessions: int = key(
        1_000,
        lowest=-1,
        unit="sessions",
        meaning="A bundle with more producers and consumers is split; 0 or less switches the check off.",
    )
    loadBalancerNamespaceBundleMaxMsgRate: int = key(
        30_000, lowest=0, unit="msg/s", meaning="A bundle with a higher message rate in and out is split."
    )
    loadBalancerNamespaceBundleMaxBandwidthMbytes: int = key(
        100,
        lowest=0,
        highest=2_047,
        unit="MiB/s",
        meaning="A bundle with a higher throughput in and out is split; from 2048 on Pulsar's product overflows.",
    )
    loadBalancerNamespaceMaximumBundles: int = key(
        128, lowest=1, unit="bundles", meaning="No automatic split in a namespace that has as many bundles."
    )
    supportedNamespaceBundleSplitAlgorithms: tuple[str, ...] = key(
        SPLIT_ALGORITHMS,
        choices=SPLIT_ALGORITHMS,
        unit="algorithm names",
        meaning="Split algorithms that the admin API accepts.",
    )
    defaultNamespaceBundleSplitAlgorithm: str = key(
        "range_equally_divide",
        choices=SPLIT_ALGORITHMS,
        unit="algorithm name",
        meaning="The algorithm of automatic splits and of manual ones that name none.",
    )
    flowOrQpsDifferenceThresholdPercentage: int = key(
        10, lowest=0, unit="%", meaning="How far above a limit a bundle must be before flow_or_qps_equally_divide cuts."
    )
    loadBalancerSplitIntervalMinutes: int = idle(
        1, lowest=1, unit="min", manager="extensible", dynamic=False, meaning="Time between two split rounds."
    )
    loadBalancerMaxNumberOfBundlesToSplitPerCycle: int = key(
        10,
        lowest=0,
        unit="bundles",
        manager="extensible",
        meaning="Most splits a broker decides in one round; 0 sets no limit.",
    )
    loadBalancerNamespaceBundleSplitConditionHitCountThreshold: int = key(
        3,
        lowest=0,
        unit="rounds",
        manager="extensible",
        meaning="A bundle is split once over a limit in more rounds in a row.",
    )


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
        defaults={"5.0": "AvgShedder"},
        kind="class",
        restart=True,
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
        defaults={"5.0": 0.5},
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
        defaults={"5.0": "AvgShedder"},
        kind="class",
        choices=PLACEMENTS,
        unit="class",
        dynamic=False,
        meaning="The strategy that picks among the candidates.",
    )
    loadBalancerDistributeBundlesEvenlyEnabled: bool = key(
        True,
        defaults={"5.0": False},
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


@dataclass(frozen=True)
class ExtensibleKeys:
    """Pulsar's keys of TransferShedder, of the ownership channel, and of SimpleLoadManagerImpl (not decided with)."""

    loadBalancerDebugModeEnabled: bool = key(
        False, unit="switch", manager="extensible", meaning="More log lines; also changes what TransferShedder decides."
    )
    loadBalancerBrokerLoadTargetStd: float = key(
        0.25, lowest=0.0, unit="fraction", manager="extensible", meaning="Standard deviation of load that is aimed at."
    )
    loadBalancerSheddingConditionHitCountThreshold: int = key(
        3,
        lowest=0,
        unit="rounds",
        manager="extensible",
        meaning="TransferShedder acts in the round after so many in a row that called for it.",
    )
    loadBalancerTransferEnabled: bool = key(
        True, unit="switch", manager="extensible", meaning="Whether a shed bundle goes straight to a named broker."
    )
    loadBalancerMaxNumberOfBrokerSheddingPerCycle: int = key(
        3, lowest=0, unit="brokers", manager="extensible", meaning="Most pairs of brokers evened out in one round."
    )
    loadBalanceSheddingDelayInSeconds: int = key(
        180,
        lowest=0,
        unit="s",
        manager="extensible",
        meaning="Nothing is transferred until a broker that gave bundles has load data so much younger.",
    )
    loadBalancerBrokerLoadDataTTLInSeconds: int = key(
        1_800, lowest=0, unit="s", manager="extensible", meaning="Load data older than this does not count."
    )
    loadBalancerSheddingBundlesWithPoliciesEnabled: bool = key(
        False,
        unit="switch",
        manager="extensible",
        meaning="Whether bundles under isolation policies or anti-affinity groups may be transferred.",
    )
    loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds: int = idle(
        3_600, lowest=0, unit="s", manager="extensible", dynamic=False, meaning="When ownership records are cleared."
    )
    loadBalancerInFlightServiceUnitStateWaitingTimeInMillis: int = idle(
        30_000, lowest=0, unit="ms", manager="extensible", dynamic=False, meaning="Longest wait for a change of owner."
    )
    loadBalancerServiceUnitStateMonitorIntervalInSeconds: int = idle(
        60, lowest=1, unit="s", manager="extensible", dynamic=False, meaning="Time between two looks at stuck changes."
    )
    loadBalancerServiceUnitStateMaxConcurrentOverrides: int = idle(
        64, lowest=1, unit="bundles", manager="extensible", meaning="Most ownership records repaired at once."
    )
    loadBalancerMultiPhaseBundleUnload: bool = idle(
        True,
        unit="switch",
        manager="extensible",
        dynamic=False,
        meaning="If true, clients get the new owner's address before the old one closes a topic.",
    )
    loadManagerServiceUnitStateTableViewClassName: str = idle(
        "ServiceUnitStateTableViewImpl",
        kind="class",
        choices=("ServiceUnitStateTableViewImpl", "ServiceUnitStateMetadataStoreTableViewImpl"),
        unit="class",
        manager="extensible",
        dynamic=False,
        meaning="Where ownership records lie: a topic or the metadata store.",
    )
    loadBalancerServiceUnitTableViewSyncer: str = idle(
        "None",
        choices=("None", "MetadataStoreToSystemTopicSyncer", "SystemTopicToMetadataStoreSyncer"),
        unit="name",
        manager="extensible",
        meaning="Which way ownership records are copied during a migration.",
    )
    loadBalancerPlacementStrategy: str = idle(
        "leastLoadedServer",
        choices=("leastLoadedServer", "weightedRandomSelection"),
        unit="name",
        manager="none",
        dynamic=False,
        meaning="Deprecated; read by SimpleLoadManagerImpl alone.",
    )
    loadBalancerBrokerUnderloadedThresholdPercentage: int = idle(
        50,
        lowest=0,
        highest=100,
        unit="%",
        manager="none",
        dynamic=False,
        meaning="Deprecated; read by SimpleLoadManagerImpl alone.",
    )
    loadBalancerBrokerComfortLoadLevelPercentage: int = idle(
        65,
        lowest=0,
        highest=100,
        unit="%",
        manager="none",
        dynamic=False,
        meaning="Deprecated; read by SimpleLoadManagerImpl alone.",
    )
