"""Writes moments of a generated cluster as snapshots, as the admin API of Pulsar 4.2 would have answered.

Figures fit together: every topic is in the bundle of its hash, every bundle has one owner at most, the owner's report
sums its topics. A moment with settings shows them as the brokers' configuration; snapshots after it borrow that.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.synthetic_snapshot import configuration

TAKES = timedelta(seconds=3)
NIC_KBIT = 1e7
_RATES = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
_OWNED = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
_VERSION = "4.2.4"
_MANAGER = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
_TEXT_LEVEL = 6


@dataclass(frozen=True, slots=True)
class GeneratedMoment:
    """The content of a snapshot.

    Owners, byte/s in and out per topic, usage (fraction) per available broker, the boundaries of each namespace, the
    topics of each bundle, and settings if the brokers' configuration is shown.
    """

    number: int
    at: datetime
    owners: Mapping[str, str]
    traffic: Mapping[str, float]
    usage: Mapping[str, float]
    boundaries: Mapping[str, Sequence[str]]
    bundles: Mapping[str, Sequence[str]]
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Teller:
    """The source of answers: the cluster's name, a note on the origin of the figures, message size in bytes, packing (1
    to 9)."""

    cluster: str
    note: str
    message_bytes: float
    packed: int = _TEXT_LEVEL

    def write(self, folder: Path, moments: Iterator[GeneratedMoment]) -> list[Path]:
        """A recording, a file per moment."""
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for moment in moments:
            file = folder / f"{moment.number:04d}.json.gz"
            body = json.dumps(self.document(moment), separators=(",", ":")) + "\n"
            file.write_bytes(gzip.compress(body.encode(), self.packed, mtime=0))
            files.append(file)
        return files

    def document(self, moment: GeneratedMoment) -> dict[str, Any]:
        """Return one document of a recording (`evenkeel.sources.recordings`)."""
        begun = moment.at - TAKES
        requests = [
            _request(broker, path, body, begun + timedelta(milliseconds=20 * n))
            for n, (broker, path, body) in enumerate(self._answers(moment))
        ]
        header = {"format": 1, "n": moment.number, "started_at": _z(begun), "finished_at": _z(moment.at)}
        return {**header, "note": self.note, "requests": requests}

    def _answers(self, moment: GeneratedMoment) -> Iterator[tuple[str, str, str | None]]:
        """(broker asked, path, body or None for 404)."""
        brokers = [*moment.usage]
        entry, cluster = brokers[0], f"/admin/v2/clusters/{self.cluster}"
        tenants = list(dict.fromkeys(namespace.partition("/")[0] for namespace in moment.boundaries))
        yield entry, "/admin/v2/brokers", _text(brokers)
        yield entry, "/admin/v2/brokers/leaderBroker", _text({"serviceUrl": f"http://{entry}", "brokerId": entry})
        yield entry, "/admin/v2/clusters", _text([self.cluster])
        yield entry, f"{cluster}/failureDomains", "{}"
        yield entry, f"{cluster}/namespaceIsolationPolicies", None
        yield entry, "/admin/v2/tenants", _text(tenants)
        for tenant in tenants:
            namespaces = [namespace for namespace in moment.boundaries if namespace.startswith(f"{tenant}/")]
            yield entry, f"/admin/v2/namespaces/{tenant}", _text(namespaces)
        for namespace, edges in moment.boundaries.items():
            bundles = {"boundaries": [*edges], "numBundles": len(edges) - 1}
            policies = {"replication_clusters": [self.cluster], "bundles": bundles, "deleted": False}
            topics = sorted(t for b, named in moment.bundles.items() if b.startswith(f"{namespace}/") for t in named)
            yield entry, f"/admin/v2/namespaces/{namespace}", _text(policies)
            yield entry, f"/admin/v2/namespaces/{namespace}/bundles", _text(bundles)
            yield entry, f"/admin/v2/namespaces/{namespace}/antiAffinity", ""
            yield entry, f"/admin/v2/persistent/{namespace}", _text(topics)
        for broker in brokers:
            yield from self._told_by(broker, moment)

    def _told_by(self, broker: str, moment: GeneratedMoment) -> Iterator[tuple[str, str, str | None]]:
        owned = [bundle for bundle in sorted(moment.bundles) if moment.owners.get(bundle) == broker]
        topics = {
            bundle: {topic: self._topic(moment.traffic[topic]) for topic in moment.bundles[bundle]} for bundle in owned
        }
        by_namespace: dict[str, dict[str, Any]] = {}
        for bundle in owned:
            namespace, _, edges = bundle.rpartition("/")
            by_namespace.setdefault(namespace, {})[edges] = {"persistent": topics[bundle]}
        yield broker, "/admin/v2/broker-stats/load-report", _text(_report(broker, moment, topics))
        yield broker, "/admin/v2/broker-stats/topics", _text(by_namespace)
        yield broker, "/admin/v2/brokers/version", _VERSION
        yield broker, f"/admin/v2/brokers/{self.cluster}/{broker}/ownedNamespaces", _text(dict.fromkeys(owned, _OWNED))
        if moment.settings is not None:
            shown = configuration(self.cluster, moment.settings)
            yield broker, "/admin/v2/brokers/configuration/runtime", _text(shown)

    def _topic(self, byte_rate: float) -> dict[str, Any]:
        """A topic with one producer and one consumer that reads everything; half of the traffic goes in, half out."""
        half = byte_rate / 2
        rate, flow = round(half / self.message_bytes, 3), round(half, 3)
        consumer = {"consumerName": "c", "msgRateOut": rate}
        return {
            "publishers": [],
            "replication": {},
            "subscriptions": {"work": {"consumers": [consumer], "msgBacklog": 0, "type": "Shared"}},
            "producerCount": 1,
            "averageMsgSize": self.message_bytes,
            **dict(zip(_RATES, (rate, flow, rate, flow), strict=True)),
            "storageSize": 0,
            "backlogSize": 0,
        }


def _request(broker: str, path: str, body: str | None, at: datetime) -> dict[str, Any]:
    return {
        "broker": broker,
        "method": "GET",
        "path": path,
        "status": 404 if body is None else 200,
        "at": _z(at),
        "elapsed_ms": 5.0,
        "location": None,
        "body": '{"reason":"does not exist"}' if body is None else body,
    }


def _report(broker: str, moment: GeneratedMoment, topics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The load report: CPU as the moment has it, the rest summed over the topics."""
    stats = {bundle: _bundle_stats(bundle_topics) for bundle, bundle_topics in topics.items()}
    sums = {name: round(sum(each[name] for each in stats.values()), 3) for name in (*_RATES, "topics")}
    kbit = {way: sums[f"msgThroughput{way}"] * 8 / 1000 for way in ("In", "Out")}
    return {
        "webServiceUrl": f"http://{broker}",
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        "cpu": {"usage": round(800.0 * moment.usage[broker], 2), "limit": 800.0},
        "memory": {"usage": 2_048.0, "limit": 8_192.0},
        "directMemory": {"usage": 1_024.0, "limit": 8_192.0},
        "bandwidthIn": {"usage": round(kbit["In"], 1), "limit": NIC_KBIT},
        "bandwidthOut": {"usage": round(kbit["Out"], 1), "limit": NIC_KBIT},
        **{name: sums[name] for name in _RATES},
        "lastUpdate": int((moment.at - timedelta(seconds=4)).timestamp() * 1000),
        "lastStats": stats,
        "numTopics": sums["topics"],
        "numBundles": len(topics),
        "numConsumers": sums["topics"],
        "numProducers": sums["topics"],
        "bundles": [*topics],
        "brokerVersionString": _VERSION,
        "loadManagerClassName": _MANAGER,
        "startTimestamp": int((moment.at - timedelta(days=1)).timestamp() * 1000),
        "loadReportType": "LocalBrokerData",
    }


def _bundle_stats(topics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    sums = {name: round(sum(topic[name] for topic in topics.values()), 3) for name in _RATES}
    return {**sums, "consumerCount": len(topics), "producerCount": len(topics), "topics": len(topics), "cacheSize": 0}


def _text(body: Any) -> str:
    return json.dumps(body, separators=(",", ":"))


def _z(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
