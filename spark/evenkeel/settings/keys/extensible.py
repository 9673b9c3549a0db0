"""Keys that only the extensible load manager reads, and those of the retired SimpleLoadManager."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.settings.key import key


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
    loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds: int = key(
        3_600, lowest=0, unit="s", manager="extensible", dynamic=False, meaning="When ownership records are cleared."
    )
    loadBalancerInFlightServiceUnitStateWaitingTimeInMillis: int = key(
        30_000, lowest=0, unit="ms", manager="extensible", dynamic=False, meaning="Longest wait for a change of owner."
    )
    loadBalancerServiceUnitStateMonitorIntervalInSeconds: int = key(
        60, lowest=1, unit="s", manager="extensible", dynamic=False, meaning="Time between two looks at stuck changes."
    )
    loadBalancerServiceUnitStateMaxConcurrentOverrides: int = key(
        64, lowest=1, unit="bundles", manager="extensible", meaning="Most ownership records repaired at once."
    )
    loadBalancerMultiPhaseBundleUnload: bool = key(
        True,
        unit="switch",
        manager="extensible",
        dynamic=False,
        meaning="If true, clients get the new owner's address before the old one closes a topic.",
    )
    loadManagerServiceUnitStateTableViewClassName: str = key(
        "ServiceUnitStateTableViewImpl",
        kind="class",
        choices=("ServiceUnitStateTableViewImpl", "ServiceUnitStateMetadataStoreTableViewImpl"),
        unit="class",
        manager="extensible",
        dynamic=False,
        meaning="Where ownership records lie: a topic or the metadata store.",
    )
    loadBalancerServiceUnitTableViewSyncer: str = key(
        "None",
        choices=("None", "MetadataStoreToSystemTopicSyncer", "SystemTopicToMetadataStoreSyncer"),
        unit="name",
        manager="extensible",
        meaning="Which way ownership records are copied during a migration.",
    )
    loadBalancerPlacementStrategy: str = key(
        "leastLoadedServer",
        choices=("leastLoadedServer", "weightedRandomSelection"),
        unit="name",
        manager="none",
        dynamic=False,
        meaning="Deprecated; read by SimpleLoadManagerImpl alone.",
    )
    loadBalancerBrokerUnderloadedThresholdPercentage: int = key(
        50,
        lowest=0,
        highest=100,
        unit="%",
        manager="none",
        meaning="Deprecated; read by SimpleLoadManagerImpl alone.",
    )
    loadBalancerBrokerComfortLoadLevelPercentage: int = key(
        65,
        lowest=0,
        highest=100,
        unit="%",
        manager="none",
        meaning="Deprecated; read by SimpleLoadManagerImpl alone.",
    )
