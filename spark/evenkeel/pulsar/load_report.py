"""`/broker-stats/load-report`: the modular manager's `LocalBrokerData` of the broker asked, computed when asked."""

from __future__ import annotations

from typing import Any

from evenkeel.pulsar.members import Members
from evenkeel.pulsar.reading import Rejection
from evenkeel.pulsar.view import Row

_RESOURCES = {
    "cpu": "cpu",
    "memory": "memory",
    "direct_memory": "directMemory",
    "bandwidth_in": "bandwidthIn",
    "bandwidth_out": "bandwidthOut",
}


def report_figures(body: dict[str, Any], table: str, place: str, rejections: list[Rejection]) -> Row:
    """Columns of broker_reports; what has none is in `rest`, but for the bundles' figures (bundle_ownership)."""
    report = Members(body, table, f"{place} load-report", rejections)
    report.used.add("lastStats")
    figures: Row = {
        "load_manager_class": report.text("loadManagerClassName"),
        "report_at": report.moment("lastUpdate"),
        "started_at": report.moment("startTimestamp"),
        "resource_origin": "load_report",
        **rates(report),
        "topics": report.count("numTopics"),
        "consumers": report.count("numConsumers"),
        "producers": report.count("numProducers"),
        "bundles": report.names("bundles"),
        "persistent_topics_enabled": report.flag("persistentTopicsEnabled"),
        "non_persistent_topics_enabled": report.flag("nonPersistentTopicsEnabled"),
        "pulsar_version": report.text("brokerVersionString"),
    }
    for column, name in _RESOURCES.items():
        pair = report.inside(name)
        figures |= {f"{column}_usage": pair.number("usage"), f"{column}_limit": pair.number("limit")}
    return figures | {"rest": report.rest()}


def bundle_figures(stats: Members) -> Row:
    """Columns of bundle_ownership from one bundle's `NamespaceBundleStats`."""
    return {
        **rates(stats),
        "topics": stats.count("topics"),
        "consumers": stats.count("consumerCount"),
        "producers": stats.count("producerCount"),
        "cache_size": stats.count("cacheSize"),
    }


def rates(members: Members) -> Row:
    """msg/s and byte/s, in and out."""
    return {
        "msg_rate_in": members.number("msgRateIn"),
        "msg_rate_out": members.number("msgRateOut"),
        "msg_throughput_in": members.number("msgThroughputIn"),
        "msg_throughput_out": members.number("msgThroughputOut"),
    }
