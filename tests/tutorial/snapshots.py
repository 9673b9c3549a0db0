"""Writes the moments of the tutorial's cluster as snapshots, as the admin API of Pulsar 4.2 would have answered.

Figures fit together: every topic lies in the bundle of its hash, every bundle has one owner, the owner's report sums
its topics. The brokers' configuration is in the first snapshot and in the first one after the change: others borrow it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.synthetic_snapshot import configuration
from tests.tutorial.thrash import BROKERS, CHANGED_AT, CLUSTER, MESSAGE_BYTES, NAMESPACES, Moment, boundaries, course
from tests.tutorial.thrash import topics_of as topics_of_bundles

TENANT = "shop"
TAKES = timedelta(seconds=3)
NIC_KBIT = 1e7
NOTE = "generated: tests/tutorial/thrash.py"
_RATES = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
_OWNED = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
_VERSION = "4.2.4"
_MANAGER = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"


def write(folder: Path) -> list[Path]:
    """The recording, a file per moment."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for moment in course():
        file = folder / f"{moment.number:04d}.json.gz"
        body = json.dumps(snapshot(moment), separators=(",", ":")) + "\n"
        file.write_bytes(gzip.compress(body.encode(), 9, mtime=0))
        files.append(file)
    return files


def snapshot(moment: Moment) -> dict[str, Any]:
    """One document of a recording (`evenkeel.sources.recordings`)."""
    begun = moment.at - TAKES
    requests = [
        _request(broker, path, body, begun + timedelta(milliseconds=20 * n))
        for n, (broker, path, body) in enumerate(_answers(moment))
    ]
    header = {"format": 1, "n": moment.number, "started_at": _z(begun), "finished_at": _z(moment.at), "note": NOTE}
    return {**header, "requests": requests}


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


def _answers(moment: Moment) -> Iterator[tuple[str, str, str | None]]:
    """(broker asked, path, body or None for 404)."""
    entry, known = BROKERS[0], topics_of_bundles()
    cluster = f"/admin/v2/clusters/{CLUSTER}"
    yield entry, "/admin/v2/brokers", _text([*BROKERS])
    yield entry, "/admin/v2/brokers/leaderBroker", _text({"serviceUrl": f"http://{entry}", "brokerId": entry})
    yield entry, "/admin/v2/clusters", _text([CLUSTER])
    yield entry, f"{cluster}/failureDomains", "{}"
    yield entry, f"{cluster}/namespaceIsolationPolicies", None
    yield entry, "/admin/v2/tenants", _text([TENANT])
    yield entry, f"/admin/v2/namespaces/{TENANT}", _text([*NAMESPACES])
    for namespace in NAMESPACES:
        bundles = {"boundaries": boundaries(), "numBundles": len(boundaries()) - 1}
        policies = {"replication_clusters": [CLUSTER], "bundles": bundles, "deleted": False}
        own = sorted(t for bundle, topics in known.items() if bundle.startswith(f"{namespace}/") for t in topics)
        yield entry, f"/admin/v2/namespaces/{namespace}", _text(policies)
        yield entry, f"/admin/v2/namespaces/{namespace}/bundles", _text(bundles)
        yield entry, f"/admin/v2/namespaces/{namespace}/antiAffinity", ""
        yield entry, f"/admin/v2/persistent/{namespace}", _text(own)
    for broker in BROKERS:
        yield from _told_by(broker, moment, known)


def _told_by(broker: str, moment: Moment, known: Mapping[str, list[str]]) -> Iterator[tuple[str, str, str | None]]:
    owned = [bundle for bundle in sorted(known) if moment.owners[bundle] == broker]
    topics = {bundle: {topic: _topic(moment.traffic[topic]) for topic in known[bundle]} for bundle in owned}
    by_namespace: dict[str, dict[str, Any]] = {}
    for bundle in owned:
        namespace, _, edges = bundle.rpartition("/")
        by_namespace.setdefault(namespace, {})[edges] = {"persistent": topics[bundle]}
    yield broker, "/admin/v2/broker-stats/load-report", _text(_report(broker, moment, topics))
    yield broker, "/admin/v2/broker-stats/topics", _text(by_namespace)
    yield broker, "/admin/v2/brokers/version", _VERSION
    yield broker, f"/admin/v2/brokers/{CLUSTER}/{broker}/ownedNamespaces", _text(dict.fromkeys(owned, _OWNED))
    if moment.number in (0, CHANGED_AT):
        yield broker, "/admin/v2/brokers/configuration/runtime", _text(configuration(CLUSTER, moment.settings))


def _topic(byte_rate: float) -> dict[str, Any]:
    """A topic with one producer and one consumer that reads everything; half of the traffic goes in, half out."""
    half = byte_rate / 2
    rate, flow = round(half / MESSAGE_BYTES, 3), round(half, 3)
    consumer = {"consumerName": "c", "msgRateOut": rate}
    return {
        "publishers": [],
        "replication": {},
        "subscriptions": {"work": {"consumers": [consumer], "msgBacklog": 0, "type": "Shared"}},
        "producerCount": 1,
        "averageMsgSize": MESSAGE_BYTES,
        **dict(zip(_RATES, (rate, flow, rate, flow), strict=True)),
        "storageSize": 0,
        "backlogSize": 0,
    }


def _report(broker: str, moment: Moment, topics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The load report: CPU as the moment has it, the rest summed over the topics."""
    stats = {bundle: _bundle_stats(own) for bundle, own in topics.items()}
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
