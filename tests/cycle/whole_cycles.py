"""Cycles of a cluster in trouble, and settings with which every strategy acts on it."""

import random
from datetime import datetime, timedelta
from typing import Any

from evenkeel.replay.closed_loop import Size, scenario
from evenkeel.replay.modelled_cluster import Cluster
from evenkeel.settings import EffectiveSettings

EAGER = {
    "loadBalancerSheddingIntervalMinutes": 1,
    "evenkeelAssumeUnloadsSucceed": True,
    "loadBalancerNamespaceBundleMaxTopics": 8,
    "loadBalancerBrokerThresholdShedderPercentage": 5,
    "loadBalancerBrokerOverloadedThresholdPercentage": 50,
    "loadBalancerMsgRateDifferenceShedderThreshold": 10,
    "loadBalancerAvgShedderLowThreshold": 5,
    "loadBalancerAvgShedderHitCountLowThreshold": 1,
    "loadBalancerAvgShedderHitCountHighThreshold": 1,
    "loadBalancerSheddingConditionHitCountThreshold": 0,
    "loadBalancerBrokerLoadTargetStd": 0.02,
    "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 1,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "ThresholdShedder": {"loadBalancerLoadPlacementStrategy": "LeastResourceUsageWithWeight"},
    "OverloadShedder": {"loadBalancerLoadPlacementStrategy": "RoundRobinBrokerSelector"},
    "UniformLoadShedder": {},
    "AvgShedder": {"loadBalancerLoadPlacementStrategy": "AvgShedder"},
    "TransferShedder": {"evenkeelManager": "extensible"},
}


def cycles(settings: EffectiveSettings, seed: int) -> list[tuple[datetime, dict[str, Any]]]:
    """Some cycles of a cluster that a broker leaves, with topics so unevenly spread that some bundles are too large."""
    played = scenario("broker-loss", Size(brokers=3, bundles=18, cycles=6), seed)
    drawn = random.Random(seed)
    topics = [*played.topics, *(drawn.choice(played.topics[:20]) for _ in range(60))]
    cluster = Cluster(
        "lab", played.fits, topics, dict(played.boundaries), dict(played.owners), settings.settings.manager
    )
    found = []
    for n, at in enumerate(played.moments):
        flows = [drawn.paretovariate(1.2) * 1e5 for _ in topics]
        cluster.observe(at, flows, played.down(n), settings.settings)
        found.append((at + timedelta(0), cluster.rows(settings.settings)))
    return found
