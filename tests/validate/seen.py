"""What the cross-table rules look at, from a built cluster and without Spark."""

from collections import defaultdict
from typing import Any

from evenkeel.model.load import RATES
from evenkeel.settings import resolve
from evenkeel.validate.facts import ClusterFacts
from tests.builders import ClusterBuilder


def seen(cluster: ClusterBuilder) -> ClusterFacts:
    """The facts of a cluster none of whose rows breaks an expectation."""
    rows = cluster.rows()
    policies = rows["cluster_policies"]
    return ClusterFacts(
        cluster=cluster.name,
        settings=resolve(observed=None, overrides=cluster.overrides).settings,
        policies=policies[0] if policies else {},
        brokers=tuple(rows["broker_reports"]),
        namespaces=tuple(rows["namespace_bundles"]),
        claims=tuple(rows["bundle_ownership"]),
        topics=tuple(_summed(rows["topic_stats"])),
    )


def _summed(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for topic in topics:
        groups[topic["namespace"], topic["bundle_range"], topic["broker"]].append(topic)
    return [
        {
            "namespace": namespace,
            "bundle_range": part,
            "broker": broker,
            "rows": len(found),
            "loaded": sum(topic["observation"] == "loaded" for topic in found),
            "without_rate": sum(
                topic["observation"] == "loaded" and any(topic[rate] is None for rate in RATES) for topic in found
            ),
            "lowest_hash": min(topic["hash"] for topic in found),
            "highest_hash": max(topic["hash"] for topic in found),
            "msg_rate_in": sum(topic["msg_rate_in"] or 0.0 for topic in found),
            "msg_rate_out": sum(topic["msg_rate_out"] or 0.0 for topic in found),
        }
        for (namespace, part, broker), found in groups.items()
    ]
