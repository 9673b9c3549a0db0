"""Keys about splitting bundles."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.settings.key import key

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
    loadBalancerSplitIntervalMinutes: int = key(
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
