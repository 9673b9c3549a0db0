"""Keys about the cluster as a whole: load manager, namespaces, failure domains, timeouts, and the brokers' reports."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.settings.key import idle, key


@dataclass(frozen=True)
class GeneralKeys:
    """Pulsar's keys that are about neither splitting, shedding, placement nor reports alone."""

    loadBalancerEnabled: bool = key(
        True,
        unit="switch",
        dynamic=False,
        meaning="Whether the brokers run a load manager at all; never a switch of Evenkeel's.",
    )
    loadManagerClassName: str = key(
        "ModularLoadManagerImpl",
        kind="class",
        unit="class",
        choices=("ModularLoadManagerImpl", "ExtensibleLoadManagerImpl", "SimpleLoadManagerImpl", "NoopLoadManager"),
        meaning="The load manager that the brokers run; brokers with another one than the leader's get no bundles.",
    )
    topicBundleAssignmentStrategy: str = idle(
        "ConsistentHashingTopicBundleAssigner",
        kind="class",
        unit="class",
        choices=("ConsistentHashingTopicBundleAssigner",),
        dynamic=False,
        meaning="How a topic finds its bundle: by the CRC32 of its full name.",
    )
    defaultNumberOfNamespaceBundles: int = idle(
        4,
        defaults={"5.0": 32},
        lowest=1,
        unit="bundles",
        meaning="Bundles of a namespace that is created without a number.",
    )
    failureDomainsEnabled: bool = key(
        False, unit="switch", meaning="Whether anti-affinity groups are spread over failure domains first."
    )
    namespaceBundleUnloadingTimeoutMs: int = idle(
        60_000, lowest=0, unit="ms", meaning="How long a broker waits for the topics of a bundle to close."
    )
    exposeBundlesMetricsInPrometheus: bool = idle(
        False, unit="switch", meaning="Whether brokers show figures per bundle among their metrics."
    )


# Keys of the brokers' measurements and reports.


@dataclass(frozen=True)
class ReportKeys:
    """Pulsar's keys of load reports: sampling, writing, and the weight of each resource."""

    loadBalancerReportUpdateThresholdPercentage: int = idle(
        10, lowest=0, unit="%", meaning="Change of a broker's figures that makes it write a new report."
    )
    loadBalancerReportUpdateMinIntervalMillis: int = idle(
        5_000, lowest=1, unit="ms", restart=True, meaning="Shortest time between two looks at whether a report is due."
    )
    loadBalancerReportUpdateMaxIntervalMinutes: int = idle(
        15, lowest=1, unit="min", meaning="Longest time without a new report."
    )
    loadBalancerHostUsageCheckIntervalMinutes: int = key(
        1, lowest=1, unit="min", restart=True, meaning="Time between two measurements of CPU, memory and network."
    )
    loadBalancerResourceQuotaUpdateIntervalMinutes: int = idle(
        15, lowest=1, unit="min", dynamic=False, meaning="Time between two flushes of bundle averages by the leader."
    )
    statsUpdateFrequencyInSecs: int = key(
        60, lowest=1, unit="s", dynamic=False, meaning="Time between two refreshes of topic and bundle rates."
    )
    statsUpdateInitialDelayInSecs: int = idle(
        60, lowest=0, unit="s", dynamic=False, meaning="Time from a broker's start to its first rates."
    )
    loadBalancerMaxNumberOfBundlesInBundleLoadReport: int = key(
        10,
        lowest=-1,
        unit="bundles",
        meaning="Bundles per broker whose load is kept or published; 0 or less: all (modular), none (extensible).",
    )
    loadBalancerOverrideBrokerNicSpeedGbps: float | None = idle(
        None, lowest=0.0, unit="Gbit/s per NIC", dynamic=False, meaning="Speed of each network card, if not measured."
    )
    loadBalancerOverrideBrokerNics: tuple[str, ...] = idle(
        (), unit="interface names", dynamic=False, meaning="Network cards that count, if not all physical ones."
    )
    loadBalancerCPUResourceWeight: float = key(
        1.0, lowest=0.0, unit="factor", meaning="Weight of CPU in a broker's usage."
    )
    loadBalancerBandwidthInResourceWeight: float = key(
        1.0, lowest=0.0, unit="factor", meaning="Weight of inbound bandwidth in a broker's usage."
    )
    loadBalancerBandwidthOutResourceWeight: float = key(
        1.0, lowest=0.0, unit="factor", meaning="Weight of outbound bandwidth in a broker's usage."
    )
    loadBalancerBandwithInResourceWeight: float = key(
        1.0,
        lowest=0.0,
        unit="factor",
        deprecated_alias_of="loadBalancerBandwidthInResourceWeight",
        meaning="Old spelling; used if the new key is 1.0.",
    )
    loadBalancerBandwithOutResourceWeight: float = key(
        1.0,
        lowest=0.0,
        unit="factor",
        deprecated_alias_of="loadBalancerBandwidthOutResourceWeight",
        meaning="Old spelling; used if the new key is 1.0.",
    )
    loadBalancerDirectMemoryResourceWeight: float = key(
        0.0, defaults={"3.0": 1.0}, lowest=0.0, unit="factor", meaning="Weight of direct memory in a broker's usage."
    )
    loadBalancerMemoryResourceWeight: float = key(
        0.0,
        defaults={"3.0": 1.0, "3.3": 1.0},
        lowest=0.0,
        unit="factor",
        manager="extensible",
        meaning="Weight of heap memory in a broker's usage; deprecated, the modular manager never looks at it.",
    )
