"""Keys about the cluster as a whole: load manager, namespaces, failure domains, timeouts."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.settings.key import key


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
    topicBundleAssignmentStrategy: str = key(
        "ConsistentHashingTopicBundleAssigner",
        kind="class",
        unit="class",
        choices=("ConsistentHashingTopicBundleAssigner",),
        dynamic=False,
        meaning="How a topic finds its bundle: by the CRC32 of its full name.",
    )
    defaultNumberOfNamespaceBundles: int = key(
        4, default_5_0=32, lowest=1, unit="bundles", meaning="Bundles of a namespace that is created without a number."
    )
    failureDomainsEnabled: bool = key(
        False, unit="switch", meaning="Whether anti-affinity groups are spread over failure domains first."
    )
    namespaceBundleUnloadingTimeoutMs: int = key(
        60_000, lowest=0, unit="ms", meaning="How long a broker waits for the topics of a bundle to close."
    )
    exposeBundlesMetricsInPrometheus: bool = key(
        False, unit="switch", meaning="Whether brokers show figures per bundle among their metrics."
    )
